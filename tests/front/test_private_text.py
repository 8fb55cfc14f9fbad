"""Strings planted in the data, searched for in everything that any command writes or prints, errors included.

The toy model copies from its prompt, so that unprotected text does hold the planted strings while an
audit runs: what is tested is that nothing of it comes out.
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import pytest

from affidavit.audits.experiments.registry import AttackName

SIZE = 24
FORMATS = ("json", "junit", "sarif", "sarif-all", "markdown")
# Long enough that keys, signatures and digests, fresh in every run, do not hold one by chance: below 1e-7 a run.
CANARY = re.compile(
    rb"zq(?:lantern|keeper|vaulted|doorway|identity|mailbox|labelled)"
    rb"|(?<![\da-f])(?:\+?1)?.?206.{0,2}555.{0,2}01\d\d(?![\da-f])|4111.?1111.?1111",
    re.IGNORECASE,
)
AUDIT = "members = 6\nnon_members = 6\n"


def _record(number: int, *, name: str = "") -> dict[str, str]:
    tag = f"{name}{number:02d}"
    label = "north" if number % 2 else "south"
    return {
        "id": f"zqidentity-{tag}",
        "text": f"zqlantern{tag} of the {label}: write to zqkeeper{tag}@zqvaulted{tag}.example, "
        f"call (206) 555-01{number:02d}, see https://zqvaulted{tag}.example/zqdoorway{tag} or pay 4111 1111 1111 1111",
        "label": label,
        "mailbox": f"zqmailbox-{number // 3}",
    }


def _lines(records: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


@dataclass
class Watched:
    """A workplace whose every output is kept; ``inputs`` are the files that hold the planted strings."""

    place: Any
    printed: list[tuple[str, str]] = field(default_factory=list)
    inputs: set[Path] = field(default_factory=set)

    def give(self, name: str, content: str | bytes) -> Path:
        """An input file."""
        path = self.place.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.inputs.add(path)
        return path

    def __call__(self, *arguments: object) -> Any:
        done = self.place.command(*arguments)
        self.printed.append((" ".join(map(str, arguments)), done.out + done.err))
        return done

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """(where, what) of all that was printed and written, signed payloads decoded."""
        for command, text in self.printed:
            yield f"printed by: {command}", text.encode()
        for path in sorted(self.place.folder.rglob("*")):
            yield f"the name of {path}", path.name.encode()
            if path.is_file() and path not in self.inputs:
                content = path.read_bytes()
                yield str(path), content
                if b'"payload"' in content:
                    yield f"payload of {path}", base64.b64decode(json.loads(content)["payload"])


@pytest.fixture
def watched(empty_workplace, monkeypatch, caplog) -> Iterator[Watched]:
    """Planted data, an account and keys; at the end nothing of what was planted may have come out."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(empty_workplace.folder / "summary.md"))
    monkeypatch.delenv("CI", raising=False)
    watched = Watched(empty_workplace)
    watched.give("train.jsonl", _lines([_record(number) for number in range(SIZE)]))
    watched.give("held_out.jsonl", _lines([_record(number, name="held") for number in range(50, 60)]))
    empty_workplace.edit("max_record_tokens = 12", "max_record_tokens = 80")
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="40", delta="0.5")
    yield watched
    leaks = [where for where, content in watched.everything() if CANARY.search(content)]
    leaks += [f"log: {record.name}" for record in caplog.records if CANARY.search(record.getMessage().encode())]
    assert leaks == []
    assert len(watched.printed) >= 3


def test_the_planted_strings_would_be_found(watched: Watched) -> None:
    for path in watched.inputs:
        for line in path.read_bytes().splitlines():
            assert len(CANARY.findall(line)) >= 8
    for arguments in (("plan", watched.place.run_file), ("ledger", "show"), ("keys", "show")):
        assert watched(*arguments).code == 0


def test_certify_generate_check_report(watched: Watched) -> None:
    place = watched.place
    certificate = place.certificate
    assert watched("certify", place.run_file, "-o", certificate).code == 0
    assert watched("verify", certificate, "--recompute", "--json").code == 0
    assert watched("generate", place.run_file, "--certificate", certificate, "-o", place.out).code == 0
    assert watched("ledger", "show", "letters", "--json").code == 0
    for form in ("table", *FORMATS):
        done = watched("check-trace", place.out / "trace.jsonl", "--certificate", certificate, "--format", form,
                       "-o", place.folder / "checked")  # fmt: skip
        assert done.code in (0, 5), done.err
    assert watched("report", place.folder, "--recompute").code == 0
    assert (place.folder / "report.html").stat().st_size > 50_000


def test_a_search_that_finds_everything_tells_nothing(watched: Watched) -> None:
    place = watched.place
    assert watched("certify", place.run_file, "-o", place.certificate).code == 0
    echo = [{"id": f"e{n}", "label": "north", "text": _record(n)["text"]} for n in range(SIZE)]
    watched.give("echo.jsonl", _lines(echo))
    audit = place.folder / "audit.toml"
    audit.write_text(
        'attack = "released-text"\nreleased = "echo.jsonl"\nheld_out = "held_out.jsonl"\n'
        'kinds = ["email", "phone", "url", "account"]\nuser = "mailbox"\n',
        encoding="utf-8",
    )
    out = place.folder / "audits" / "released"
    for form in ("table", *FORMATS):
        done = watched("audit", audit, "--certificate", place.certificate, "-o", out, "--format", form)
        assert done.code == 1, done.err
    (item,) = json.loads((out / "findings.json").read_text(encoding="utf-8"))["items"]
    assert item["leakage"]["leaked"] == 3 * SIZE, "an address, a phone and a page each; the card stands on both sides"
    assert item["overlap"]["verbatim"] == SIZE
    assert {(each["unit"], each["leaked"]) for each in item["leakage"]["exposures"] if each["kind"] == "any"} == {
        ("identifier", 3 * SIZE), ("record", SIZE), ("user", SIZE // 3)}  # fmt: skip
    for form in FORMATS:
        assert watched("report", place.folder, "--format", form).code == 0
    assert watched("report", place.folder).code == 0
    assert "leaked" in (place.folder / "summary.md").read_text(encoding="utf-8")


def test_every_attack_tells_nothing(watched: Watched) -> None:
    place = watched.place
    assert watched("certify", place.run_file, "-o", place.certificate).code == 0
    tried = 0
    for attack in get_args(AttackName):
        if attack == "released-text":
            continue
        extra = 'prompt = "chat"\nmax_tokens = 120\n' if attack == "extraction" else ""
        audit = place.folder / f"audit-{attack}.toml"
        audit.write_text(f'attack = "{attack}"\n{AUDIT}{extra}', encoding="utf-8")
        done = watched("audit", audit, "--certificate", place.certificate, "-o", place.folder / attack)
        assert done.code in (0, 1, 2, 5), done.err
        tried += done.code != 2
    assert tried >= 4
    unprotected = [
        item
        for item in json.loads((place.folder / "extraction" / "findings.json").read_text(encoding="utf-8"))["items"]
        if item["target"] == "unprotected"
    ]
    assert unprotected[0]["leakage"]["leaked"] > 0, "the toy model does give addresses away"
    assert watched("report", place.folder).code == 0


BROKEN = {
    "not JSON": _lines([_record(0)]) + "zqlantern99 {",
    "not an object": json.dumps(["zqlantern99"]) + "\n",
    "not UTF-8": b'{"id": "zqidentity-1", "text": "zqlantern \xff", "label": "north"}\n',
    "an id twice": _lines([_record(1), _record(1)]),
    "a number for a text": json.dumps(_record(1) | {"text": 5}) + "\n",
    "a text missing": json.dumps({"id": "zqidentity-1", "label": "zqlabelled"}) + "\n",
    "an empty text": json.dumps(_record(1) | {"text": " "}) + "\n",
    "a key twice": '{"id": "zqidentity-1", "id": "zqidentity-2", "text": "zqlantern", "label": "zqlabelled"}\n',
    "too few": _lines([_record(1)]),
    "an unknown label": _lines([_record(n) | {"label": "zqlabelled"} for n in range(SIZE)]),
    "nothing": "",
}


def test_errors_in_the_data_tell_nothing(watched: Watched) -> None:
    place = watched.place
    assert watched("certify", place.run_file, "-o", place.certificate).code == 0
    watched.give("data.csv", b"id,text,label\n" + b"zqidentity-1,zqlantern,zqlabelled,zqdoorway\n\xff")
    extract, search = place.folder / "extract.toml", place.folder / "search.toml"
    extract.write_text(f'attack = "extraction"\nprompt = "plain"\n{AUDIT}', encoding="utf-8")
    search.write_text(
        'attack = "released-text"\nreleased = "broken.jsonl"\nheld_out = "broken.jsonl"\n', encoding="utf-8"
    )
    certified = ("--certificate", place.certificate, "-o", place.out)
    for fault, content in BROKEN.items():
        watched.give("train.jsonl", content)
        watched.give("broken.jsonl", content)
        assert watched("generate", place.run_file, *certified).code != 0, fault
        for audit in (extract, search):
            assert watched("audit", audit, *certified).code != 0, fault
        for name in ("train.jsonl", "data.csv"):
            flags = ("--relation", "zero-out", "--size", "2", "--label", "north", "--label", "south")
            watched("init", place.folder / name, "-o", place.folder / f"{name}.toml", *flags)
        watched.inputs |= set(place.folder.glob("*.records.jsonl"))  # private, and readable by their owner only
    watched("certify", place.run_file, "-o", place.folder / "second.json")


def _table(delimiter: str, *, header: bool, rows: int = 6) -> str:
    """A canary in every cell, in the header too if there is one."""
    first = delimiter.join(f"zqidentity-{name}" for name in ("id", "text", "label", "more"))
    cells = [
        delimiter.join((f"zqidentity-{n}", f'"zqlantern, {n}\nwrites"', f"zqlabelled{n % 2}", "zqdoorway"))
        for n in range(rows)
    ]
    return "\n".join([first] * header + cells) + "\n"


def _objects(rows: int = 6) -> list[dict[str, Any]]:
    return [
        {"zqidentity": f"zqidentity-{n}", "zqlantern": f"zqlantern {n}", "zqlabelled": f"zqlabelled{n % 2}"}
        for n in range(rows)
    ]


FOREIGN: dict[str, str | bytes] = {
    "comma.csv": _table(",", header=True),
    "bare.csv": _table(",", header=False),
    "semicolon.csv": _table(";", header=False).encode("utf-16"),
    "tab.tsv": _table("\t", header=True).encode("cp1252"),
    "bar.txt": _table("|", header=False),
    "ragged.csv": _table(",", header=True) + "zqlantern,zqlabelled\n",
    "unclosed.csv": _table(",", header=True) + '"zqlantern,zqlabelled\n',
    "bytes.csv": _table(",", header=True).encode() + b"\xff\xfe\x81zqlantern\n",
    "lines.jsonl": _lines(_objects()),
    "array.json": json.dumps(_objects()),
    "lists.json": json.dumps([[f"zqlantern {n}", f"zqlabelled{n % 2}"] for n in range(6)]),
    "parts.json": json.dumps({"zqdoorway": _objects(), "zqvaulted": _objects(2)}, indent=1),
    "object.json": json.dumps({"zqlantern": {"zqlabelled": 1}}, indent=1),
    "half.jsonl": _lines(_objects()) + "zqlantern {\n",
    "nested.json": json.dumps([{"text": "zqlantern", "label": ["zqlabelled"]} for _ in range(4)]),
    "plain.txt": "zqlantern of the north.\n" * 4,
    "broken.parquet": b"PAR1zqlantern",
    "sheet.xlsx": b"PK\x03\x04zqlantern",
}
CALLS = (
    (),
    ("--declare-public", "--text-column", "zq", "--label-column", "9"),
    ("--size", "6", "--label", "north", "--no-header", "--text-column", "2", "--label-column", "3"),
    ("--size", "6", "--label", "north", "--header", "--text-column", "2", "--label-column", "3", "--id-column", "4"),
    ("--size", "7", "--label", "north", "--text-column", "1", "--label-column", "2", "--drop-incomplete"),
    ("--encoding", "utf-8", "--delimiter", ",", "--member", "1"),
    ("--encoding", "ascii"),
    ("--one-label", "north", "--text-column", "1"),
    ("--account-epsilon", "0.1", "--one-label", "north", "--declare-public", "--text-column", "1", "--header"),
)


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_of_any_kind_tells_nothing(watched: Watched, name: str) -> None:
    source = watched.give(name, FOREIGN[name])
    for number, flags in enumerate(CALLS):
        out = watched.place.folder / f"{number}.toml"
        done = watched("init", source, "--relation", "zero-out", "--model", "toy", *flags, "-o", out)
        assert done.code in (0, 2, 4), done.err
        assert done.code == 0 or done.err.strip().count("\n") >= 1, "a refusal without a remedy"
    for number, flags in enumerate(((), ("--one-label", "north", "--text-column", "1", "--no-header"))):
        target = watched.place.folder / f"{number}.records.jsonl"
        watched("init", source, "--records-only", "--records", target, *flags)
    watched.inputs |= set(watched.place.folder.glob("*.records.jsonl"))


def test_labels_that_were_not_declared_are_told_by_no_command(watched: Watched) -> None:
    """Of two labels one is declared: the other, and whoever misspells one, is never named."""
    place = watched.place
    watched.give("train.jsonl", _lines([_record(n) | ({"label": "zqlabelled"} if n % 2 else {}) for n in range(SIZE)]))
    assert watched("plan", place.run_file).code == 0
    assert watched("certify", place.run_file, "-o", place.certificate).code == 0
    done = watched("generate", place.run_file, "--certificate", place.certificate, "-o", place.out)
    assert done.code == 0, done.err
    assert "WARNING: 0 of 24 records have the label 'north'" in done.err
    place.edit('["north", "south"]', '["ZQ Labelled"]')
    for command in (("plan", place.run_file), ("certify", place.run_file, "-o", place.folder / "second.json")):
        assert "only in case or blanks" in watched(*command).err.replace("\n", " ")


def test_data_given_in_place_of_another_file_is_not_shown(watched: Watched) -> None:
    place, data = watched.place, watched.place.data
    assert watched("certify", place.run_file, "-o", place.certificate).code == 0
    out = place.folder / "wrong"
    watched.give("data.toml", data.read_bytes())
    watched.give("one.json", json.dumps(_record(1) | {"type": _record(1)["text"], "properties": _record(2)}))
    watched.give("rows.csv", "".join(f"zqlabelled{n},zqlantern\n" for n in range(SIZE)))
    for arguments in (
        ("epsilon", data),
        ("delta", data, "--epsilon", "1"),
        ("calibrate", data, "--epsilon", "1"),
        ("plan", data),
        ("certify", data, "-o", out),
        ("verify", data),
        ("verify", place.certificate, "--trust", data),
        ("keys", "trust", data),
        ("generate", place.run_file, "--certificate", data, "-o", out),
        ("audit", data, "--certificate", place.certificate, "-o", out),
        ("check-trace", data, "--certificate", place.certificate, "-o", out),
        ("experiment", data, "-o", out),
        ("icl", data, "--task", "ag-news", "--model", "toy", "--demonstrations", data, "--limit", "2"),
        ("icl", data, "--labels-file", data, "--model", "toy"),
        ("icl", data, "--task", place.folder / "data.toml", "--model", "toy"),
        ("icl", data, "--task", "wikimovies", "--schema", place.folder / "one.json", "--model", "toy"),
        ("init", data, "--relation", "zero-out", "--labels-file", data, "--size", SIZE, "-o", out),
        ("init", data, "--relation", "zero-out", "--labels-file", place.folder / "rows.csv", "--size", SIZE, "-o", out),
    ):
        watched(*arguments)
    shown = place.folder / "shown"
    shown.mkdir()
    for name in ("certificate.json", "receipt.json", "findings.json"):
        shown.joinpath(name).write_bytes(data.read_bytes())
        watched.inputs.add(shown / name)
        assert watched("report", shown, "--certificate", place.certificate).code in (0, 2, 3)
        assert watched("report", shown).code != 0


def test_a_crash_tells_nothing(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError(_record(3)["text"])

    place = watched.place
    assert watched("certify", place.run_file, "-o", place.certificate).code == 0
    monkeypatch.setattr("affidavit.generation.models.toy.ToyModel.start", crash, raising=False)
    monkeypatch.setattr("affidavit.synthesis.parse_records", crash, raising=False)
    monkeypatch.setattr("affidavit.auditing.load_records", crash)
    assert watched("generate", place.run_file, "--certificate", place.certificate, "-o", place.out).code == 70
    audit = place.folder / "audit.toml"
    audit.write_text(f'attack = "extraction"\n{AUDIT}', encoding="utf-8")
    assert watched("audit", audit, "--certificate", place.certificate, "-o", place.folder / "a").code == 70
    assert watched("ledger", "show").code == 0
