"""What the core does alone, and how the rest refuses: run by the Python that affidavit is installed in.

    python tests/wheel/check_core.py

Every distribution outside the core's requirements is hidden first, so that this checks the same where all
extras are installed as in an environment that holds the wheel alone. Needs no pytest. Exit code 1, with
what went wrong, if a core command fails, or if another does not refuse with the command that helps.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
import time
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

PLAN = {"relation": "add-remove", "delta": 1e-5, "plan": {"kind": "gaussian", "noise_multiplier": 4.0}}
NEWS = (("World", "the government of the country"), ("Sports", "the team and the match"), ("Business", "a profit"))
GRID = """\
title = "one cell"
relation = "zero-out"
delta = 1e-3
epsilon = [8.0]
seeds = [0]
[model]
name = "toy"
[icl]
shots = [1]
test = 3
[[datasets]]
name = "news"
task = "ag-news"
path = "news.jsonl"
size = 3
test = "test.jsonl"
[[methods]]
name = "real"
baseline = "real"
"""
ONE_STEP = 'attack = "one-step"\ntarget = "protected"\nmembers = 500\nnon_members = 500\nalpha = 1e-6\n'
LOSS = 'attack = "loss"\ntarget = "null"\nmembers = 4\nnon_members = 4\n'
EXTRACTION = 'attack = "extraction"\ntarget = "protected"\nmembers = 4\nnon_members = 4\n'
NAMES = EXTRACTION + 'kinds = ["name"]\n'
RELEASED = 'attack = "released-text"\nreleased = "out/synthetic.jsonl"\nheld_out = "train.jsonl"\n'

CORE: tuple[tuple[str, set[int]], ...] = (
    ("sigma --epsilon 1 --delta 1e-5 --steps 1000 --rate 0.01 --relation add-remove", {0}),
    ("epsilon plan.json", {0}),
    ("epsilon --noise 1.1 --records 60000 --batch 256 --epochs 2 --delta 1e-5 --relation add-remove", {0}),
    ("delta plan.json --epsilon 1", {0}),
    ("calibrate plan.json --epsilon 1", {0}),
    ("claims", {0}),
    ("data list", {0}),
    ("init train.jsonl --relation zero-out --declare-public --model toy --epsilon 4 --delta 1e-3", {0}),
    ("plan run.toml", {0}),
    ("calibrate run.toml --epsilon 2", {0}),
    ("keys show", {0}),
    ("ledger show", {0}),
    ("certify run.toml -o certificate.json", {0}),
    ("verify certificate.json", {0}),
    ("verify certificate.json --recompute", {0}),
    ("generate run.toml --certificate certificate.json -o out", {0}),
    ("ledger verify", {0}),
    ("check-trace out/trace.jsonl --certificate certificate.json", {0}),
    ("audit one-step.toml --certificate certificate.json -o out/audit", {0, 5}),
    ("audit loss.toml --certificate certificate.json -o out/loss", {0, 5}),
    ("report out --certificate certificate.json --format junit", {0, 5}),
    ("report out --certificate certificate.json --format sarif", {0, 5}),
    ("report out --certificate certificate.json --format markdown", {0, 5}),
    ("icl test.jsonl --task ag-news --model toy", {0}),
)
"""A command, and the exit codes that are right. Every one works on what those before it have left."""

REFUSED: tuple[tuple[str, str], ...] = (
    ("report out --certificate certificate.json", "audit"),
    ("audit extraction.toml --certificate certificate.json -o no", "audit"),
    ("audit released.toml --certificate certificate.json -o no", "audit"),
    ("audit names.toml --certificate certificate.json -o no", "names"),
    ("icl news.jsonl --task medical --model toy", "icl"),
    ("icl films.jsonl --task wikimovies --model toy", "icl"),
    ("icl films.jsonl --task wikimovies --model toy --schema schema.json", "icl"),
    ("experiment grid.toml -o no", "icl"),
    ("icl test.jsonl --task ag-news --model ./folder", "llm"),
    ("icl test.jsonl --task ag-news --model http://localhost:1/v1 --model-id m", "server"),
    ("certify wheel.toml -o no", "demo"),
    ("demo --out no", "demo"),
    ("demo --out no --model toy", "audit"),
    ("epsilon plan.json --second-opinion", "opinions"),
    ("init winds.parquet --relation zero-out -o no", "parquet"),
    ("AFFIDAVIT_LEDGER=postgresql://nobody@localhost/none ledger show", "postgres"),
)
"""A command, and the extra that it must ask for."""


def core_distributions() -> set[str]:
    """affidavit, and whatever it needs without extras."""
    found: set[str] = set()
    waiting = ["affidavit"]
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        try:
            lines = metadata.requires(name) or ()
        except metadata.PackageNotFoundError:
            continue  # for another platform
        if name not in found:
            found.add(name)
            waiting += [re.split(r"[^\w.-]", line)[0] for line in lines if not re.search(r"\bextra *==", line)]
    return found


def hide_the_rest() -> list[str]:
    """Import nothing from distributions outside the core; pip, which remedies are made for, is left."""
    core = core_distributions() | {"pip"}
    providers = {
        module: {re.sub(r"[-_.]+", "-", name).lower() for name in names}
        for module, names in metadata.packages_distributions().items()
    }
    hidden = {module for module, names in providers.items() if not names & core}

    class Hiding(PathFinder):
        @classmethod
        def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> Any:
            return None if fullname.partition(".")[0] in hidden else super().find_spec(fullname, path, target)

    sys.meta_path[:] = [Hiding if finder is PathFinder else finder for finder in sys.meta_path]
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[name]
    return sorted({name for names in providers.values() for name in names} - core)


def write_inputs(folder: Path) -> None:
    def lines(name: str, objects: list[dict[str, Any]]) -> None:
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")

    labels = ("north", "south")
    lines("train.jsonl", [{"id": f"r{n}", "text": f"wind {n} of the day", "label": labels[n % 2]} for n in range(24)])
    lines("test.jsonl", [{"text": text, "label": label} for label, text in NEWS])
    lines("news.jsonl", [{"id": label, "text": text, "label": label} for label, text in NEWS])
    lines("films.jsonl", [{"text": "A film.", "title": "A", "year": 1999, "label": "Drama"}])
    for name, text in (
        ("plan.json", json.dumps(PLAN)),
        ("schema.json", '{"type": "object"}'),
        ("grid.toml", GRID),
        ("one-step.toml", ONE_STEP),
        ("loss.toml", LOSS),
        ("extraction.toml", EXTRACTION),
        ("names.toml", NAMES),
        ("released.toml", RELEASED),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "winds.parquet").write_bytes(b"PAR1")
    (folder / "folder").mkdir()
    (folder / "folder" / "config.json").write_text("{}", encoding="utf-8")
    (folder / "folder" / "model.safetensors").write_bytes(b"weights")


def called(command: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process; ``NAME=value`` before it sets a variable."""
    from affidavit.cli import run

    words = command.split(" ")
    variables = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    out, err = io.StringIO(), io.StringIO()
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(words[len(variables) :])
    finally:
        os.environ.clear()
        os.environ.update(before)
    return code, out.getvalue(), err.getvalue()


def every_help() -> list[str]:
    """``--help`` of the program, of each command and of each command in a group."""
    import click

    from affidavit.cli import cli

    def below(command: click.Command, path: str) -> list[str]:
        names = command.list_commands(click.Context(command)) if isinstance(command, click.Group) else []
        found = [f"{path}--help"]
        for name in names:
            inner = command.get_command(click.Context(command), name)  # type: ignore[attr-defined]
            found += below(inner, f"{path}{name} ")
        return found

    return below(cli, "")


def faults() -> list[str]:
    """Runs everything in the current folder; what went wrong, a line each."""
    found = []
    for command, codes in (*((line, {0}) for line in every_help()), *CORE):
        started = time.perf_counter()
        code, out, err = called(command)
        if not command.endswith("--help"):
            print(f"  {time.perf_counter() - started:5.1f} s  {command}", flush=True)
        if code not in codes or not out.strip() + err.strip():
            found.append(f"affidavit {command}: exit code {code}\n{err}")
    run_file = Path("run.toml")
    if run_file.exists():
        Path("wheel.toml").write_text(run_file.read_text(encoding="utf-8").replace('"toy"', '"smollm2-135m"'), "utf-8")
    for command, extra in REFUSED:
        code, _, err = called(command)
        remedy = err.strip().splitlines()[-1] if err.strip() else ""
        helps = re.search(rf"`.*{re.escape(sys.executable)}.* 'affidavit\[{extra}\]'`$", remedy)
        if code != 2 or not helps or Path("no").exists():
            found.append(f"affidavit {command}: exit code {code}, not a refusal that names affidavit[{extra}]\n{err}")
        else:
            print(f"  refused  {command}: {remedy}", flush=True)
    return found


def main() -> int:
    hidden = hide_the_rest()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        os.environ.pop("AFFIDAVIT_LEDGER", None)
        os.environ.update(AFFIDAVIT_HOME=str(Path(place, "home")), AFFIDAVIT_CACHE=str(Path(place, "cache")))
        os.environ.pop("CI", None)
        with contextlib.chdir(place):
            write_inputs(Path(place))
            found = faults()
    print(*found, sep="\n", file=sys.stderr)
    print(
        f"{len(core_distributions())} distributions in the core, {len(hidden)} others hidden; "
        f"{len(CORE)} commands and {len(REFUSED)} refusals in {time.perf_counter() - started:.0f} s: "
        f"{len(found)} faults"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
