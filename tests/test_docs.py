"""What the README and the guide show is accepted: Python, TOML and JSON blocks, make targets, options, tables.

What they tell to type is typed in ``docs/test_blocks.py``, where links lead is seen in ``docs/test_links.py``.
"""

from __future__ import annotations

import importlib
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from click import Command, Context, Group

from affidavit.cli import cli

ROOT = Path(__file__).resolve().parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def _blocks(page: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(page.read_text(encoding="utf-8")) if name == language]


def _all_blocks(language: str) -> list[Any]:
    return [
        pytest.param(page, body, id=f"{page.name}-{number}")
        for page in PAGES
        for number, body in enumerate(_blocks(page, language))
    ]


@pytest.mark.parametrize(("page", "body"), _all_blocks("python"))
def test_python_blocks_run(page, body, tmp_path, monkeypatch, same_entropy):
    monkeypatch.chdir(tmp_path)
    exec(compile(body, page.name, "exec"), {})  # noqa: S102 - our own documentation


def _commands() -> list[Any]:
    """Lines that call affidavit or make, also in blocks that are not run."""
    lines = [
        (page.name, line.removeprefix("$ ").partition("  #")[0].strip())
        for page in PAGES
        for language in ("sh", "console")
        for body in _blocks(page, language)
        for line in body.replace("\\\n", " ").splitlines()
    ]
    return [pytest.param(line, id=f"{name}: {line}") for name, line in lines if re.match(r"(affidavit|make) ", line)]


def _options(command: Command) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("line", _commands())
def test_shell_lines_name_commands_and_options_that_exist(line):
    words = shlex.split(re.split(r" [|>&;]", line)[0], comments=True)
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        assert set(words[1:]) <= set(targets)
        return
    command: Command | None = cli
    rest = words[1:]
    while isinstance(command, Group):
        command = command.get_command(Context(cli), rest.pop(0))
    assert command is not None, line
    for word in rest:
        if word.startswith("-"):
            assert word in _options(command), f"{word} in {line}"


@pytest.mark.parametrize(("page", "body"), _all_blocks("toml"))
def test_toml_blocks_are_accepted(page, body):
    from affidavit.audits.auditfile import parse_audit
    from affidavit.experiments.cells import expand
    from affidavit.experiments.gridfile import parse_grid
    from affidavit.owntask import OwnTask
    from affidavit.runfile import parse_run
    from affidavit.strict import checked

    content = tomllib.loads(body)
    if "attack" in content:
        parse_audit(content)
    elif "methods" in content:
        assert expand(parse_grid(content))
    elif "instruction" in content:
        assert checked(OwnTask, content).task().words
    else:
        assert parse_run(content).plan() is not None


@pytest.mark.parametrize(("page", "body"), _all_blocks("json"))
def test_json_blocks_are_plans_or_records(page, body):
    import json

    import affidavit.mechanisms  # noqa: F401 (registers leaves)
    from affidavit.accountant.plan import parse_envelope

    content = json.loads(body)
    if "plan" in content:
        parse_envelope(content)
    else:
        assert set(content) == {"id", "text", "label"}


def test_the_results_page_shows_what_its_files_say(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    results_page = importlib.import_module("benchmarks.results_page")
    page = results_page.PAGE.read_text(encoding="utf-8")
    found = results_page.tables()
    assert set(re.findall(r"<!-- table: (\w+) -->", page)) == set(found)
    assert results_page.pasted(page, found) == page
    changed = page.replace("| 0.674 ", "| 0.774 ")
    assert changed != page
    assert results_page.pasted(changed, found) == page, "a changed figure would not be seen"


def test_every_command_is_in_the_command_page():
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for name in cli.list_commands(Context(cli)):
        assert f"| `{name}" in text, name
