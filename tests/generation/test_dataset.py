"""Private data: what is refused, where, and that no refusal repeats a value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from affidavit.accountant.errors import DataError
from affidavit.generation.dataset import load_records, parse_records

GOOD = {"id": "a", "text": "secret words", "label": "World"}


def _line(**changes: object) -> str:
    return json.dumps({key: value for key, value in (GOOD | changes).items() if value is not ...})


def test_reads_records_and_ignores_other_fields(tmp_path: Path) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text("\ufeff" + _line(extra=3) + "\r\n" + _line(id="b", text="çédille 漢字 🙂") + "\n", encoding="utf-8")
    first, second = load_records(path, size=2)
    assert (first.id, first.text, first.label) == ("a", "secret words", "World")
    assert second.text == "çédille 漢字 🙂"


@pytest.mark.parametrize(
    ("line", "where"),
    [
        (_line(text=...), "line 2, text: missing"),
        (_line(id=...), "line 2, id: missing"),
        (_line(label=...), "line 2, label: missing"),
        (_line(label=""), "line 2, label: empty"),
        (_line(label="  "), "line 2, label: empty"),
        (_line(text=""), "line 2, text: empty"),
        (_line(id=""), "line 2, id: empty"),
        (_line(id=7), "line 2, id: not a string"),
        (_line(text=["secret words"]), "line 2, text: not a string"),
        (_line(label=None), "line 2, label: not a string"),
        (_line(), "line 2, id: the same id as in line 1"),
        ("", "line 2: empty"),
        ("secret words", "line 2: not one JSON object"),
        ('["secret words"]', "line 2: not a JSON object"),
        ('{"id": "b", "text": "secret words", "label": NaN}', "line 2: not one JSON object"),
        ('{"id": "b", "id": "c", "text": "secret words", "label": "World"}', "line 2: not one JSON object"),
        ("[" * 100_000, "line 2: not one JSON object"),
    ],
)
def test_a_refusal_names_line_and_field_and_never_the_text(line: str, where: str) -> None:
    with pytest.raises(DataError) as refusal:
        parse_records(f"{_line()}\n{line}\n".encode(), size=2)
    assert where in str(refusal.value)
    assert refusal.value.hint
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_bytes_that_are_not_utf8_are_refused() -> None:
    with pytest.raises(DataError, match="line 1: not UTF-8"):
        parse_records(b'{"id": "a", "text": "secret \xff", "label": "World"}\n', size=1)


@pytest.mark.parametrize("size", [1, 3])
def test_fewer_or_more_records_than_declared_are_refused(size: int) -> None:
    with pytest.raises(DataError, match=f"holds 2 records, .* declares {size}"):
        parse_records(f"{_line()}\n{_line(id='b')}\n".encode(), size=size)


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load_records(tmp_path / "absent.jsonl", size=1)


def test_a_lone_surrogate_becomes_a_replacement_character() -> None:
    (record,) = parse_records(rb'{"id": "a\ud800", "text": "x \udc00 y", "label": "World"}', size=1)
    assert (record.id, record.text) == ("a\ufffd", "x \ufffd y")


def test_a_record_does_not_print_itself() -> None:
    (record,) = parse_records(_line().encode(), size=1)
    assert repr(record) == "Record()"
