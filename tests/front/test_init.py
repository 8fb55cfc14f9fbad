"""``init``: a run file that certifies as it is, from facts that the operator declared public."""

from __future__ import annotations

import json
import stat

import pytest


@pytest.fixture
def fresh(empty_workplace, monkeypatch):
    empty_workplace.run_file.unlink()
    monkeypatch.chdir(empty_workplace.folder)
    return empty_workplace


def _certifies(place) -> None:
    done = place.certify()
    assert done.code == 0, done.err


def test_from_records_declared_public(fresh):
    done = fresh.command("init", fresh.data, "--relation", "zero-out", "--declare-public", "--model", "toy")
    assert done.code == 0, done.err
    assert "public facts" in done.err
    assert 'labels = ["north", "south"]' in fresh.run_file.read_text(encoding="utf-8")
    assert fresh.ledger.account("train").relation == "zero-out"
    _certifies(fresh)
    assert fresh.generate().code == 0


def test_the_relation_is_never_assumed(fresh):
    refused = fresh.command("init", fresh.data, "--declare-public")
    assert refused.code == 2
    assert "never assumed" in refused.err
    assert not fresh.run_file.exists()


def test_facts_that_were_not_declared_are_not_used(fresh):
    refused = fresh.command("init", fresh.data, "--relation", "zero-out")
    assert refused.code == 2
    assert "--declare-public" in refused.err
    assert "--size 24 --labels 'north,south'" in refused.err
    assert not fresh.run_file.exists()


def test_on_a_terminal_the_operator_is_asked(fresh, monkeypatch):
    asked = []

    def confirm(question, **_):
        asked.append(question)
        return True

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("click.confirm", confirm)
    monkeypatch.setattr("click.prompt", lambda *_, **__: "zero-out")
    done = fresh.command("init", fresh.data, "--model", "toy")
    assert done.code == 0, done.err
    assert asked == ["Do you declare them public facts?"]


@pytest.mark.parametrize(
    ("content", "says"), [("", "holds no records"), ('{"id": "a", "text": "b"}\n', "line 1, label"), ("{\n", "line 1")]
)
def test_records_that_are_none(fresh, content, says):
    fresh.data.write_text(content, encoding="utf-8")
    refused = fresh.command("init", fresh.data, "--relation", "zero-out", "--declare-public")
    assert refused.code == 2
    assert says in refused.err


def test_declared_facts_win_over_what_the_file_holds(fresh):
    done = fresh.command(
        "init",
        fresh.data,
        "--relation",
        "add-remove",
        "--size",
        "24",
        "--labels",
        "north, south, west",
        "--model",
        "toy",
    )
    assert done.code == 0, done.err
    assert 'labels = ["north", "south", "west"]' in fresh.run_file.read_text(encoding="utf-8")


def test_a_csv_file_becomes_records_with_lasting_ids(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text('body,kind\n"hello, you",a\n"say ""hi""",b\nbye,a\n"two\nlines",b\n', encoding="utf-8")
    done = fresh.command(
        *("init", source, "--relation", "zero-out", "--declare-public", "--model", "toy"),
        *("--text-column", "body", "--label-column", "kind"),
    )
    assert done.code == 0, done.err
    written = fresh.folder / "letters.jsonl"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    records = [json.loads(line) for line in written.read_text(encoding="utf-8").splitlines()]
    assert [(record["text"], record["label"]) for record in records] == [
        ("hello, you", "a"),
        ('say "hi"', "b"),
        ("bye", "a"),
        ("two\nlines", "b"),
    ]
    assert len({record["id"] for record in records}) == 4
    _certifies(fresh)


def test_a_missing_column_is_named(fresh):
    source = fresh.folder / "letters.csv"
    source.write_text("body,kind\nx,a\n", encoding="utf-8")
    refused = fresh.command("init", source, "--relation", "zero-out", "--declare-public")
    assert refused.code == 2
    assert "--text-column" in refused.err
    assert "body, kind" in refused.err


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


def test_a_second_run_file_keeps_keys_and_account(fresh):
    for name in ("a.toml", "b.toml"):
        done = fresh.command("init", fresh.data, "--relation", "zero-out", "--declare-public", "-o", name)
        assert done.code == 0, done.err
    assert "exists already; its budget is fixed" in done.err
