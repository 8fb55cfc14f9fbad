"""An account for a part of the records: its file is made by a command, and only runs on that file are charged to it."""

from __future__ import annotations

import stat
from typing import Any

import pytest


@pytest.fixture
def divided(empty_workplace: Any) -> Any:
    """More letters than the usual, in two parts."""
    place = empty_workplace
    place.keyring.init()
    more = [{**one, "text": f"{one['text']} {copy}"} for one in place.records() for copy in range(4)]
    place.write_records([{**one, "id": f"r{number}"} for number, one in enumerate(more)])
    account = ("--relation", "zero-out", "--unit", "record", "--epsilon", "4", "--delta", "0.001")
    for index in (1, 2):
        opened = place.command("ledger", "init", "--dataset", f"letters-{index}", *account, "--part", f"{index}/2")
        assert f"part {index}/2 of the records" in opened.err, opened.err
    return place


def _use(place: Any, name: str, file: str, size: int) -> None:
    text = place.run_file.read_text(encoding="utf-8")
    for key, value in (("name", f'"{name}"'), ("path", f'"{file}"'), ("size", size)):
        section, _, rest = text.partition("[data]\n")
        lines = rest.split("\n")
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{key} ="))
        lines[at] = f"{key} = {value}"
        text = f"{section}[data]\n" + "\n".join(lines)
    place.run_file.write_text(text, encoding="utf-8")


def test_parts_are_charged_apart_and_take_their_own_records_only(divided: Any) -> None:
    place, sizes = divided, {}
    for index in (1, 2):
        out = place.folder / f"part-{index}.jsonl"
        made = place.command("ledger", "part", f"letters-{index}", place.data, "-o", out)
        assert made.code == 0, made.err
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        sizes[index] = len(out.read_bytes().splitlines())
        again = place.command("ledger", "part", f"letters-{index}", place.data, "-o", out)
        assert (again.code, "exists by now" in again.err) == (2, True)
    files = [(place.folder / f"part-{index}.jsonl").read_bytes().splitlines() for index in (1, 2)]
    assert sorted(files[0] + files[1]) == sorted(place.data.read_bytes().splitlines())
    assert min(sizes.values()) > 0
    _use(place, "letters-1", "train.jsonl", sum(sizes.values()))
    refused = place.certify()
    assert (refused.code, "some of these records belong to another part" in refused.err) == (4, True)
    _use(place, "letters-1", "part-2.jsonl", sizes[2])
    refused = place.certify()
    assert (refused.code, "belong to another part" in refused.err) == (4, True)


def test_a_run_on_a_part_is_charged_to_its_account(divided: Any) -> None:
    place = divided
    out = place.folder / "part-1.jsonl"
    assert place.command("ledger", "part", "letters-1", place.data, "-o", out).code == 0
    _use(place, "letters-1", "part-1.jsonl", len(out.read_bytes().splitlines()))
    certified = place.certify()
    assert certified.code == 0, certified.err
    done = place.generate()
    assert done.code == 0, done.err
    shown = {account["dataset"]: account for account in place.command("ledger", "show", "--json").json}
    assert [(shown[name]["part"], len(shown[name]["reservations"])) for name in ("letters-1", "letters-2")] == [
        ("1/2", 1),
        ("2/2", 0),
    ]
