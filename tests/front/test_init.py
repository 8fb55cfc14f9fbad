"""``init``: any file of records becomes a run file that certifies as it is, from facts that were declared public."""

from __future__ import annotations

import json
import re
import shlex
import stat
import threading
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from affidavit import scaffold
from affidavit.accountant.errors import UsageError
from affidavit.writing import write_new

BASE = ("--relation", "zero-out", "--model", "toy")
PUBLIC = (*BASE, "--declare-public")


@pytest.fixture
def fresh(empty_workplace, monkeypatch):
    empty_workplace.run_file.unlink()
    monkeypatch.chdir(empty_workplace.folder)
    return empty_workplace


@pytest.fixture
def terminal(monkeypatch) -> Callable[..., list[str]]:
    """Somebody sits there and answers questions, in order; returns the questions."""

    def answering(*answers: bool) -> list[str]:
        asked: list[str] = []
        left = list(answers)

        def confirm(question: str, **_: Any) -> bool:
            asked.append(question)
            return left.pop(0)

        for stream in ("stdin", "stderr"):
            monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
        monkeypatch.setattr("click.confirm", confirm)
        monkeypatch.setattr("click.prompt", lambda *_, **__: "zero-out")
        return asked

    return answering


def remedies(outcome) -> list[list[str]]:
    """The commands that a refusal prints, as they would be typed, without ``affidavit``."""
    return [shlex.split(found)[1:] for found in re.findall(r"`(affidavit [^`]+)`", outcome.err)]


def _certifies(place) -> None:
    done = place.certify()
    assert done.code == 0, done.err


def _files(place) -> set[str]:
    return {str(path.relative_to(place.folder)) for path in place.folder.rglob("*")}


def test_from_records_declared_public(fresh):
    done = fresh.command("init", fresh.data, *PUBLIC)
    assert done.code == 0, done.err
    assert "Of 24 records 24 have a declared label (private, for you only): 'north' 12, 'south' 12." in done.err
    written = fresh.run_file.read_text(encoding="utf-8")
    assert 'labels = ["north", "south"]' in written
    assert 'path = "train.jsonl"' in written
    assert fresh.ledger.account("train").relation == "zero-out"
    _certifies(fresh)
    assert fresh.generate().code == 0


def test_the_relation_is_never_assumed(fresh):
    refused = fresh.command("init", fresh.data, "--declare-public", "--model", "toy")
    assert refused.code == 2
    assert "never assumed" in refused.err
    assert not fresh.run_file.exists()
    commands = remedies(refused)
    assert [command[-1] for command in commands] == ["add-remove", "zero-out", "substitution"]
    assert fresh.command(*commands[0]).code == 0


def test_facts_that_were_not_declared_are_not_used_and_labels_not_shown(fresh):
    before = _files(fresh)
    refused = fresh.command("init", fresh.data, *BASE)
    assert refused.code == 2
    assert "the size and the 2 labels of the data were not declared public" in refused.err
    assert "north" not in refused.out + refused.err
    assert _files(fresh) == before
    (remedy,) = remedies(refused)
    assert fresh.command(*remedy).code == 0
    _certifies(fresh)


def test_on_a_terminal_the_operator_is_asked_and_may_see_the_labels(fresh, terminal):
    asked = terminal(True, True)
    done = fresh.command("init", fresh.data, "--model", "toy")
    assert done.code == 0, done.err
    assert [question.split("?")[0].split(" (")[0] for question in asked] == [
        "Show the labels found",
        "Do you declare them public",
    ]
    assert "'north', 'south'" in done.err


def test_on_a_terminal_a_no_is_a_no(fresh, terminal):
    terminal(False, False)
    refused = fresh.command("init", fresh.data, "--model", "toy")
    assert refused.code == 2
    assert "north" not in refused.err


def test_labels_are_not_shown_where_a_log_is_kept(fresh, terminal, monkeypatch):
    asked = terminal(False)
    monkeypatch.setattr("sys.stderr.isatty", lambda: False, raising=False)
    refused = fresh.command("init", fresh.data, "--model", "toy")
    assert refused.code == 2
    assert len(asked) == 1
    assert "north" not in refused.err


def test_declared_labels_stand_as_they_are_declared(fresh):
    done = fresh.command("init", fresh.data, *BASE, "--size", "24", "--label", "north", "--label", "west, or so")
    assert done.code == 0, done.err
    assert 'labels = ["north", "west, or so"]' in fresh.run_file.read_text(encoding="utf-8")
    assert "WARNING: 0 of 24 records have the label 'west, or so'" in done.err


def test_labels_from_a_file(fresh):
    (fresh.folder / "labels.txt").write_text("north\n\n south \n", encoding="utf-8")
    done = fresh.command("init", fresh.data, *BASE, "--size", "24", "--labels-file", "labels.txt")
    assert done.code == 0, done.err
    assert 'labels = ["north", "south"]' in fresh.run_file.read_text(encoding="utf-8")
    for content, problem in ((b"\n", "holds no labels"), (b"\xff\xfe\xff", "is not UTF-8")):
        (fresh.folder / "labels.txt").write_bytes(content)
        refused = fresh.command("init", fresh.data, *BASE, "--labels-file", "labels.txt", "-o", "b.toml")
        assert refused.code == 2
        assert problem in refused.err


def test_a_label_of_a_file_ends_where_its_line_does(fresh):
    (fresh.folder / "labels.txt").write_bytes("\ufeffnorth\r\nwest\u2028and so\n".encode())
    done = fresh.command("init", fresh.data, *BASE, "--size", "24", "--labels-file", "labels.txt")
    assert done.code == 0, done.err
    assert tomllib.loads(fresh.run_file.read_text())["generator"]["labels"] == ["north", "west\u2028and so"]


def test_labels_that_no_record_has_are_refused_before_anything_is_written(fresh):
    before = _files(fresh)
    refused = fresh.command("init", fresh.data, *BASE, "--size", "24", "--label", "North", "--label", "west")
    assert refused.code == 2
    assert "0 of 24 records have one of the declared labels (2 of them)" in refused.err
    assert "'North' differs from a label of the data only in case or blanks" in refused.err
    assert "north" not in refused.err
    assert _files(fresh) == before
    (remedy,) = remedies(refused)
    assert fresh.command(*remedy).code == 0


def test_a_size_that_the_file_does_not_have(fresh):
    refused = fresh.command("init", fresh.data, *BASE, "--size", "25", "--label", "north", "--label", "south")
    assert refused.code == 2
    (remedy,) = remedies(refused)
    assert fresh.command(*remedy).code == 0


def _csv(count: int = 24, *, header: str = "", gap: str = ",") -> str:
    rows = [
        gap.join((("calm", "storm")[n % 2], f'"a letter, the {n}th"', f"2026-01-{n + 1:02d}")) for n in range(count)
    ]
    return "\n".join([header] * bool(header) + rows) + "\n"


def test_a_csv_file_becomes_records_with_lasting_ids(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text(_csv(header="kind,body,day"), encoding="utf-8")
    done = fresh.command("init", source, *PUBLIC, "--text-column", "body", "--label-column", "kind")
    assert done.code == 0, done.err
    assert "The text is column 2 (`body`), the label column 1 (`kind`); ids are random" in done.err
    written = fresh.folder / "letters.records.jsonl"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    records = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    assert records[3]["text"] == "a letter, the 3th"
    assert len({record["id"] for record in records}) == 24
    assert fresh.ledger.account("letters")
    _certifies(fresh)
    again = fresh.command("init", source, *PUBLIC, "--text-column", "body", "--label-column", "kind", "-o", "b.toml")
    assert again.code == 0, again.err
    assert [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()] == records, "ids stay"


def test_a_file_without_a_header_is_refused_with_what_works_and_shows_nothing(fresh):
    source = fresh.folder / "my letters.csv"
    source.write_text(_csv(), encoding="utf-8")
    before = _files(fresh)
    refused = fresh.command("init", source, *PUBLIC)
    assert refused.code == 2
    assert (
        "which column is the text is not clear among 3 columns (row 1 is not shown: it may be a record)" in refused.err
    )
    for value in ("calm", "storm", "letter, the", "2026"):
        assert value not in refused.err
    assert _files(fresh) == before
    (remedy,) = remedies(refused)
    assert remedy[-5:] == ["--no-header", "--text-column", "2", "--label-column", "1"]
    assert fresh.command(*remedy).code == 0
    _certifies(fresh)


def test_a_header_of_other_names_is_not_shown_either(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text(_csv(header="zqkind,zqbody,zqday"), encoding="utf-8")
    refused = fresh.command("init", source, *PUBLIC)
    assert refused.code == 2
    assert "zq" not in refused.err
    header, record = remedies(refused)
    assert "--no-header" in record
    assert fresh.command(*header).code == 0
    _certifies(fresh)
    assert len((fresh.folder / "letters.records.jsonl").read_text(encoding="utf-8").splitlines()) == 24


def test_columns_by_number_where_row_one_is_certainly_a_record(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text(_csv(gap=";"), encoding="utf-16")
    done = fresh.command("init", source, *PUBLIC, "--text-column", "2", "--label-column", "1")
    assert done.code == 0, done.err
    assert "separated by semicolons, UTF-16; row 1 is a record." in done.err


def test_a_missing_column_is_refused_with_the_ones_that_may_be_meant(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text(_csv(header="kind,body,day"), encoding="utf-8")
    refused = fresh.command("init", source, *PUBLIC, "--text-column", "letter", "--label-column", "kind")
    assert refused.code == 2
    assert "no column 'letter' for the text" in refused.err
    assert fresh.command(*remedies(refused)[0]).code == 0


def test_two_columns_of_one_name(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text(_csv(header="label,text,text"), encoding="utf-8")
    refused = fresh.command("init", source, *PUBLIC, "--text-column", "text")
    assert "2 columns are called 'text'" in refused.err
    assert fresh.command(*remedies(refused)[0]).code in (0, 2)
    header = fresh.command("init", source, *PUBLIC, "--header", "--text-column", "2", "-o", "b.toml")
    assert header.code == 0, header.err


def test_json_lines_with_other_names_are_read_where_they_stand(fresh):
    lines = [{"id": f"q{n}", "utterance": f"say {n}", "intent": "ab"[n % 2]} for n in range(24)]
    source = fresh.folder / "said.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    done = fresh.command("init", source, *PUBLIC)
    assert done.code == 0, done.err
    assert 'fields = {text = "utterance", label = "intent"}' in fresh.run_file.read_text(encoding="utf-8")
    assert not (fresh.folder / "said.records.jsonl").exists()
    _certifies(fresh)
    assert fresh.generate().code == 0


def test_incomplete_records_are_dropped_only_if_asked(fresh):
    lines = [{"text": f"say {n}", "label": "ab"[n % 2] if n else None} for n in range(25)]
    source = fresh.folder / "said.json"
    source.write_text(json.dumps(lines), encoding="utf-8")
    refused = fresh.command("init", source, *PUBLIC)
    assert refused.code == 2
    assert "1 without a label (record 1)" in refused.err
    (remedy,) = remedies(refused)
    assert fresh.command(*remedy).code == 0
    assert "size = 24" in fresh.run_file.read_text(encoding="utf-8")
    _certifies(fresh)


def test_answers_are_no_labels_but_one_label_for_all_is(fresh):
    lines = [{"question": f"what is {n}?", "answer": f"it is {n}, or {n * n}"} for n in range(24)]
    source = fresh.folder / "asked.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    refused = fresh.command("init", source, *PUBLIC)
    assert refused.code == 2
    assert "do not look like labels: 24 different ones in 24 records" in refused.err
    (remedy,) = remedies(refused)
    assert fresh.command(*remedy).code == 0
    _certifies(fresh)


def test_seventy_seven_labels(fresh):
    lines = [{"text": f"say {n}", "label": f"intent {n % 77}"} for n in range(770)]
    fresh.data.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    done = fresh.command("init", fresh.data, *PUBLIC)
    assert done.code == 0, done.err
    assert "71 others 10 to 10 each" in done.err
    _certifies(fresh)


def test_other_records_of_the_same_name_are_not_written_over(fresh):
    source, target = fresh.folder / "letters.csv", fresh.folder / "letters.records.jsonl"
    source.write_text(_csv(header="label,text,day"), encoding="utf-8")
    target.write_text("mine\n", encoding="utf-8")
    refused = fresh.command("init", source, *PUBLIC)
    assert refused.code == 2
    assert not fresh.run_file.exists()
    (remedy,) = remedies(refused)
    assert fresh.command(*remedy).code == 0
    assert target.read_text(encoding="utf-8") == "mine\n"
    assert (fresh.folder / "letters.2.records.jsonl").exists()


def test_records_only(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text(_csv(header="label,text,day"), encoding="utf-8")
    done = fresh.command("init", source, "--records-only")
    assert done.code == 0, done.err
    assert done.out.strip() == str(fresh.folder / "letters.records.jsonl")
    assert "calm" not in done.err
    assert not fresh.run_file.exists()
    assert not fresh.keyring.exists()
    assert fresh.command("init", "--records-only").code == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [("", "holds no records"), ('{"id": "a", "text": "b"}\n', "which column is the label"), ("{\n", "no JSON")],
)
def test_records_that_are_none(fresh, content, says):
    fresh.data.write_text(content, encoding="utf-8")
    before = _files(fresh)
    refused = fresh.command("init", fresh.data, *PUBLIC)
    assert refused.code == 2
    assert says in refused.err
    assert _files(fresh) == before


def test_without_data_a_file_to_fill_in(fresh):
    done = fresh.command("init", "--relation", "substitution", "--name", "later")
    assert done.code == 0, done.err
    shown = fresh.command("plan", fresh.run_file, "--json")
    assert shown.json["fits"] is True


def test_nothing_is_overwritten(fresh):
    fresh.run_file.write_text("mine", encoding="utf-8")
    refused = fresh.command("init", "--relation", "zero-out")
    assert refused.code == 2
    assert fresh.run_file.read_text(encoding="utf-8") == "mine"
    (remedy,) = remedies(refused)
    assert fresh.command(*remedy).code == 0


def test_a_run_file_that_appears_after_the_look_stays(fresh, monkeypatch):
    """Another program's, between the check and the writing."""
    write = scaffold.write_new

    def late(path, content):
        path.write_text("mine", encoding="utf-8")
        write(path, content)

    monkeypatch.setattr(scaffold, "write_new", late)
    before = _files(fresh)
    refused = fresh.command("init", fresh.data, *PUBLIC)
    assert refused.code == 2
    assert "exists by now" in refused.err
    assert fresh.run_file.read_text(encoding="utf-8") == "mine"
    assert _files(fresh) == before | {fresh.run_file.name}


def test_of_many_writers_of_a_new_file_one_wins(tmp_path):
    path, barrier = tmp_path / "run.toml", threading.Barrier(16)

    def write(number: int) -> bool:
        barrier.wait()
        try:
            write_new(path, str(number))
        except UsageError:
            return False
        return path.read_text(encoding="utf-8") == str(number)

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(write, range(16))) == 1
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["renyi", "zcdp", "gdp"])
def test_an_account_for_several_runs_by_another_filter(fresh, name):
    """It is opened for five runs, and five fit in the filter's unit: by the ledger's own count, not one more."""
    done = fresh.command("init", fresh.data, *PUBLIC, "--filter", name)
    assert f"by the {name} filter, for good: it pays for 5 runs like this one." in done.err, done.err
    certified = fresh.certify()
    assert certified.code == 0, certified.err
    assert "5 runs like this one" in certified.err + certified.out
    for number in range(6):
        ended = fresh.command("generate", fresh.run_file, "--certificate", fresh.certificate, "-o", f"out-{number}")
        assert ended.code == (0 if number < 5 else 4), ended.err
    second = fresh.command("init", fresh.data, *PUBLIC, "-o", "b.toml")
    assert second.code == 4
    assert f"by its {name} filter" in second.err


def test_an_account_for_several_runs(fresh):
    done = fresh.command("init", fresh.data, *PUBLIC)
    assert (
        "Opened the account train with (ε, δ) = (5, 0.00005), for good: it pays for 5 runs like this one." in done.err
    )
    _certifies(fresh)
    assert fresh.generate().code == 0
    fresh.run_file.unlink()
    second = fresh.command("init", fresh.data, *PUBLIC, "--epsilon", "2")
    assert second.code == 0, second.err
    assert "The account train exists already" in second.err
    assert "it pays for 2 runs like this one" in second.err


def test_the_same_records_under_another_name_open_no_account(fresh):
    assert fresh.command("init", fresh.data, *PUBLIC).code == 0
    _certifies(fresh)
    assert fresh.generate().code == 0
    before = _files(fresh)
    refused = fresh.command("init", fresh.data, *PUBLIC, "--name", "another", "-o", "b.toml")
    assert refused.code == 4
    assert "were charged to the account train before" in refused.err
    assert _files(fresh) == before


def test_no_more_runs_than_their_deltas_allow(fresh):
    done = fresh.command("init", fresh.data, *PUBLIC, "--delta", "0.02")
    assert "(ε, δ) = (2, 0.04), for good: it pays for 2 runs" in done.err, done.err


def test_an_account_of_ones_own(fresh):
    flags = ("--account-epsilon", "1.5", "--account-delta", "1e-3")
    done = fresh.command("init", fresh.data, *PUBLIC, *flags)
    assert "Opened the account train with (ε, δ) = (1.5, 0.001), for good: it pays for 1 run like this one." in done.err
    assert fresh.command("init", fresh.data, *PUBLIC, *flags, "-o", "same.toml").code == 0
    before = _files(fresh)
    for other, says in (
        (("--account-epsilon", "3"), "exists with epsilon = 1.5, for good, and 3 is asked for"),
        (("--account-delta", "1e-2"), "exists with delta = 0.001"),
        (("--epsilon", "2"), "has (ε, δ) = (1.5, 0.001) left, and a run is to cost (2, 0.00001)"),
        (("--relation", "substitution"), "is for zero-out, not substitution"),
    ):
        refused = fresh.command("init", fresh.data, *PUBLIC, *other, "-o", "other.toml")
        assert refused.code == 4, refused.err
        assert says in refused.err
        assert _files(fresh) == before
    poor = fresh.command("init", fresh.data, *PUBLIC, "--name", "poor", "--account-epsilon", "0.5", "-o", "p.toml")
    assert poor.code == 2
    assert "does not pay for one run of 1" in poor.err
    assert _files(fresh) == before


def test_what_an_account_cannot_pay_is_refused_by_certify_and_before_a_model_is_loaded(fresh, monkeypatch):
    assert fresh.command("init", fresh.data, *PUBLIC, "--account-epsilon", "1.5").code == 0
    _certifies(fresh)
    assert fresh.generate().code == 0
    monkeypatch.setattr("affidavit.synthesis.load_model", lambda *_, **__: pytest.fail("a model was loaded"))
    for refused in (
        fresh.certify(),
        fresh.command("generate", fresh.run_file, "--certificate", fresh.certificate, "-o", "b"),
    ):
        assert refused.code == 4
        assert "left of (1.5," in refused.err
    assert not Path("b").exists()


def test_a_name_that_no_account_can_have(fresh):
    before = _files(fresh)
    refused = fresh.command("init", fresh.data, *PUBLIC, "--name", "a\nb")
    assert refused.code == 2
    assert "--name" in refused.err
    assert _files(fresh) == before


def test_a_ledger_that_cannot_be_made_leaves_no_files(fresh, monkeypatch):
    fresh.keyring.init()
    source = fresh.folder / "letters.csv"
    source.write_text(_csv(header="label,text,day"), encoding="utf-8")
    before = _files(fresh)
    monkeypatch.setenv("AFFIDAVIT_LEDGER", f"sqlite:///{fresh.folder}/train.jsonl/ledger.db")
    refused = fresh.command("init", source, *PUBLIC)
    assert refused.code != 0
    assert {name for name in _files(fresh) - before if not name.startswith("home")} == set()
