"""Files of every shape that people have, written here; what is read, and that nothing read is said."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from affidavit.accountant.errors import AffidavitError, DataError, PackageMissing, TableUnclear, UsageError
from affidavit.accountant.extras import install
from affidavit.tables.columns import Wanted, choose
from affidavit.tables.curation import curate
from affidavit.tables.reading import read_table
from affidavit.tables.table import Table

PAIRS = [
    ("Café crème; “gut”, sagt er", "Gruß"),
    ("two\nlines, and a | bar", "Gruß"),
    ('say "hi"', "Rest"),
    ("x", "Rest"),
]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def written(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    return written


def _csv(delimiter: str, *, header: bool = True) -> str:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if set(text) & set(f'"\n{delimiter}') else text

    rows = [("text", "label")] * header + PAIRS
    return "".join(delimiter.join(map(cell, row)) + "\r\n" for row in rows)


def _pairs(table: Table, **wanted: Any) -> list[tuple[str, str]]:
    return [(record.text, record.label) for record in curate(choose(table, Wanted(**wanted))).records]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
@pytest.mark.parametrize("header", [True, False])
def test_every_dialect_in_every_encoding(write, delimiter: str, encoding: str, header: bool) -> None:
    path = write("letters.csv", _csv(delimiter, header=header).encode(encoding))
    wanted = {} if header else {"header": False, "text": "1", "label": "2"}
    assert _pairs(read_table(path), **wanted) == PAIRS


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("text;label\nPříliš žluťoučký kůň úpěl ďábelské ódy;a\nDobrý den;b\n", "cp1250"),
        ("text,label\nПривет мир как дела,а\nспасибо хорошо,б\n", "cp1251"),
        ("text,label\n今日はいい天気ですね,良い\nそうですね,悪い\n", "cp932"),
        ("text;label\nDer Automat hat meine Karte geschluckt;Störung\nGrüße aus Köln;Gruß\n", "cp1252"),
        ("text,label\nit’s fine,a\nnaïve,b\n", "cp1252"),
    ],
)
def test_an_encoding_that_nothing_says_is_guessed_and_said(write, text: str, encoding: str) -> None:
    table = read_table(write("letters.csv", text.encode(encoding)))
    assert f"{encoding} (a guess: nothing in the file says so" in table.how
    assert [row.cells[0] for row in table.rows] == [line[: -len(line[line.rfind(x) :])] for line in text.splitlines()
            for x in (";" if ";" in text else ",",)]  # fmt: skip


def test_utf_16_without_a_mark(write) -> None:
    table = read_table(write("letters.tsv", _csv("\t").encode("utf-16-le")))
    assert _pairs(table) == PAIRS
    assert "UTF-16-LE (a guess" in table.how


def test_an_encoding_that_is_asked_for_is_the_only_one(write) -> None:
    path = write("letters.csv", _csv(",").encode("cp1252"))
    assert _pairs(read_table(path, encoding="windows-1252")) == PAIRS
    with pytest.raises(TableUnclear, match="line 2: the file is not utf-8") as caught:
        read_table(path, encoding="utf-8")
    (way,) = caught.value.ways
    assert _pairs(read_table(path, encoding=way.flags[1])) == PAIRS
    with pytest.raises(UsageError, match="--encoding 'klingon' is not known"):
        read_table(path, encoding="klingon")


def test_quotation_marks_that_quote_nothing_are_text(write) -> None:
    """As in the SMS Spam Collection: a quotation mark begins a text and nothing ends it."""
    lines = ['ham\t"Wen ur lovable', "spam\tcall now", 'ham\tand so it ends"', "ham\tbye"]
    table = read_table(write("sms.tsv", "\n".join(lines) + "\n"))
    assert "quotation marks are part of the text" in table.how
    assert _pairs(table, header=False, text="2", label="1") == [
        (line.split("\t")[1], line.split("\t")[0]) for line in lines
    ]


def test_a_separator_that_is_asked_for(write) -> None:
    path = write("letters.txt", "text^label\na, b^x\nc^y\n")
    assert _pairs(read_table(path, delimiter="^")) == [("a, b", "x"), ("c", "y")]
    assert _pairs(read_table(write("l.txt", "text\tlabel\na\tx\n"), delimiter="tab")) == [("a", "x")]
    with pytest.raises(UsageError, match="not one character"):
        read_table(path, delimiter="--")
    quoted = write("q.csv", 'text;label\n"a, b";x\n"c" d, e;y\n')
    assert read_table(quoted, delimiter=";").rows[1].cells == ('"a, b"', "x")
    with pytest.raises(TableUnclear) as unclear:
        choose(read_table(write("r.csv", "text;label\na;b\n"), delimiter=","), Wanted())
    assert "among 1 column" in unclear.value.message


def test_lines_of_plain_text_are_one_column(write) -> None:
    path = write("letters.txt", "One line, with a comma.\n\nAnother; it has: none.\nThe third\n")
    found = curate(choose(read_table(path), Wanted(text="1", one_label="letter")))
    assert [record.text for record in found.records] == [
        "One line, with a comma.",
        "Another; it has: none.",
        "The third",
    ]
    assert {record.label for record in found.records} == {"letter"}
    assert "Empty lines left out: 1." in found.said


JSON = [{"question": "who?", "answer": "me", "n": 1}, {"question": "why?", "answer": "so", "n": None}]


@pytest.mark.parametrize(
    ("name", "content", "how"),
    [
        ("a.jsonl", "".join(json.dumps(each) + "\n" for each in JSON), "JSON Lines"),
        ("a.json", json.dumps(JSON, indent=1), "a JSON array"),
        ("a.json", json.dumps(JSON), "a JSON array"),
        ("a.json", json.dumps({"rows": JSON, "version": 2}, indent=1), "a JSON array"),
        ("a.txt", "".join(json.dumps(each) + "\n\n" for each in JSON), "JSON Lines"),
    ],
)
def test_json_of_every_shape(write, name: str, content: str, how: str) -> None:
    for encoding in ("utf-8", "utf-16"):
        table = read_table(write(name, content.encode(encoding)))
        assert table.how.startswith(how)
        assert _pairs(table) == [("who?", "me"), ("why?", "so")]


def test_an_object_with_several_arrays_names_the_longest(write) -> None:
    parts = {"test": [["a", "x"]], "train": [["b", "x"], ["c", "y"], ["d", "x"], ["e", "y"]]}
    path = write("parts.json", json.dumps(parts, indent=1))
    with pytest.raises(TableUnclear) as caught:
        choose(read_table(path), Wanted())
    (way,) = caught.value.ways
    assert way.flags == ("--member", "2", "--text-column", "1", "--label-column", "2")
    for member in ("2", "train"):
        assert _pairs(read_table(path, member=member), text="1", label="2")[0] == ("b", "x")


def test_values_that_are_no_text_become_text_by_one_rule(write) -> None:
    rows = [
        {"text": 7, "label": True},
        {"text": 2.0, "label": False},
        {"text": 0.25, "label": 3},
        {"text": "a", "label": "3"},
    ]
    found = curate(choose(read_table(write("a.json", json.dumps(rows))), Wanted()))
    assert [(one.text, one.label) for one in found.records] == [
        ("7", "true"),
        ("2", "false"),
        ("0.25", "3"),
        ("a", "3"),
    ]
    assert "3 values of the text are numbers or true and false; they are kept as text." in found.said
    assert found.changed


def test_what_is_missing_is_refused_by_its_place_and_dropped_if_asked(write) -> None:
    rows: list[Any] = [
        {"text": "a", "label": "x"}, {"text": " ", "label": "x"}, {"text": "c"}, {"text": "d", "label": ["x", "y"]},
        {"text": float("nan"), "label": "x"}, "no record", {"text": "g", "label": "y"},
    ]  # fmt: skip
    table = choose(read_table(write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows) + "{\n")), Wanted())
    with pytest.raises(TableUnclear) as caught:
        curate(table)
    assert caught.value.message.endswith(
        "records are not whole: 2 broken: another number of cells, or no record at all (lines 6 and 8); "
        "2 without a text (lines 2 and 5); 1 without a label (line 3); 1 with a list or a table for the label (line 4)"
    )
    assert caught.value.ways[0].flags == ("--drop-incomplete",)
    found = curate(table, drop_incomplete=True)
    assert [one.text for one in found.records] == ["a", "g"]
    assert any(line.startswith("Dropped, as asked: 2 broken") for line in found.said)


def test_rows_with_another_number_of_cells(write) -> None:
    table = choose(read_table(write("a.csv", "text,label\n" + "a,x\n" * 30 + "b,x,more\nc\n")), Wanted())
    with pytest.raises(TableUnclear, match=r"2 broken: .*\(lines 32 and 33\)"):
        curate(table)


def test_ids_are_kept_if_each_record_has_its_own(write) -> None:
    def ids(*given: object, **wanted: Any) -> tuple[list[str], tuple[str, ...]]:
        lines = [json.dumps({"id": each, "text": f"t{n}", "label": "x"}) for n, each in enumerate(given)]
        found = curate(choose(read_table(write("a.jsonl", "\n".join(lines))), Wanted(**wanted)))
        return [one.id for one in found.records], found.said

    assert ids("a", "b")[0] == ["a", "b"]
    assert ids(1, 2)[0] == ["1", "2"]
    made, said = ids("a", "a")
    assert len(set(made)) == 2
    assert "Column 1 (`id`) is not the id: it is missing or repeated in some records." in said
    with pytest.raises(TableUnclear, match="1 are missing, 1 repeat another"):
        ids("a", "a", None, id="id")


def test_extra_and_double_columns_and_double_texts_are_said(write) -> None:
    content = "text,label,when,WHEN\nsame,x,1,2\nsame,y,3,4\nother,x,5,6\n"
    found = curate(choose(read_table(write("a.csv", content)), Wanted()))
    assert "Not used: columns 3 and 4." in found.said
    assert "2 columns share a name with another." in found.said
    assert any(line.startswith("2 records have a text that another has too (1 different)") for line in found.said)
    twice = curate(choose(read_table(write("a.jsonl", '{"text": "a", "label": "x", "label": "y"}\n')), Wanted()))
    assert "In 1 records a key stands twice; the last value counts." in twice.said


def test_parquet_with_numbers_that_its_metadata_name(tmp_path: Path) -> None:
    names = {"info": {"features": {"label": {"names": ["calm", "storm"], "_type": "ClassLabel"}}}}
    winds = pyarrow.table({"text": ["a", "b", "c"], "label": [0, 1, 0]}, metadata={"huggingface": json.dumps(names)})
    parquet.write_table(winds, tmp_path / "winds.parquet")
    found = curate(choose(read_table(tmp_path / "winds.parquet"), Wanted()))
    assert [(one.text, one.label) for one in found.records] == [("a", "calm"), ("b", "storm"), ("c", "calm")]
    assert "3 labels are numbers; the file's own metadata name them." in found.said


@pytest.mark.parametrize("features", [["label"], "label", None, {"label": ["calm"]}, {"label": {"names": [1, 2]}}])
def test_parquet_whose_metadata_are_of_another_shape(features: object, tmp_path: Path) -> None:
    about = {"huggingface": json.dumps({"info": {"features": features}})}
    parquet.write_table(pyarrow.table({"text": ["a", "b"], "label": [0, 1]}, metadata=about), tmp_path / "a.parquet")
    found = curate(choose(read_table(tmp_path / "a.parquet"), Wanted()))
    assert [(one.text, one.label) for one in found.records] == [("a", "0"), ("b", "1")]


def test_parquet_without_its_reader_says_what_to_install(write, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyarrow" else real(name))
    with pytest.raises(PackageMissing, match="pyarrow") as caught:
        read_table(write("a.parquet", b"PAR1zqlantern"))
    assert caught.value.hint == f"Run `{install('parquet')}`"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", b""), ("a.csv", b"\n\n"), ("a.jsonl", b""), ("a.json", b"[]"), ("a.json", b'{\n"zqlantern": 1}'),
        ("a.json", b"[1, 2"), ("a.parquet", b"PAR1zqlantern"), ("a.xlsx", b"PK\x03\x04zqlantern"),
        ("a.gz", b"\x1f\x8bzq"),
        ("a.csv", b"\xff\xfez"), ("a.csv", b"text,label\n"),
    ],
)  # fmt: skip
def test_what_holds_no_records_is_refused(write, name: str, content: bytes) -> None:
    with pytest.raises(AffidavitError) as caught:
        curate(choose(read_table(write(name, content)), Wanted()))
    assert caught.value.hint
    assert "zqlantern" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        read_table(tmp_path / "no.csv")
