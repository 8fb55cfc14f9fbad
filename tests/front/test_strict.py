"""Strict TOML tables: each fault names its key and what is allowed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from affidavit.accountant.errors import RunFileError
from affidavit.strict import StrictTable, checked, read_toml


class Inner(StrictTable):
    size: int
    note: str | None = None


class Outer(StrictTable):
    name: str
    inner: Inner


GOOD = {"name": "a", "inner": {"size": 3}}


@pytest.mark.parametrize(
    ("content", "key", "says"),
    [
        ({"inner": {"size": 3}}, "name", "missing"),
        ({**GOOD, "nmae": "b"}, "nmae", "unknown key; allowed: name, inner"),
        ({**GOOD, "inner": {"size": 3, "sise": 4}}, "inner.sise", "unknown key; allowed: size, note"),
        ({**GOOD, "inner": {"size": "3"}}, "inner.size", "integer"),
        ({**GOOD, "inner": {"size": True}}, "inner.size", "integer"),
        ({**GOOD, "name": 3}, "name", "string"),
    ],
)
def test_names_the_key_and_what_is_allowed(content: dict[str, object], key: str, says: str) -> None:
    with pytest.raises(RunFileError) as caught:
        checked(Outer, content)
    assert caught.value.key == key
    assert says in caught.value.message


def test_suggests_the_near_key_and_lists_the_other_faults() -> None:
    with pytest.raises(RunFileError) as near:
        checked(Outer, {"inner": GOOD["inner"], "nmae": "b"})
    assert "Did you mean `name`?" in near.value.hint
    with pytest.raises(RunFileError) as twice:
        checked(Outer, {**GOOD, "nmae": "b"})
    assert twice.value.hint == "Remove `nmae`: name is there already."
    with pytest.raises(RunFileError) as several:
        checked(Outer, {"inner": {}})
    assert "inner.size" in several.value.hint


def test_a_prefix_says_where_the_table_stands() -> None:
    with pytest.raises(RunFileError) as caught:
        checked(Inner, {"size": 1.5}, prefix="generator.")
    assert caught.value.key == "generator.size"


def test_the_value_itself_is_never_shown() -> None:
    with pytest.raises(RunFileError) as caught:
        checked(Inner, {"size": "jane@example.org"})
    assert "jane" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"a = ", "not TOML"), (b"a = 1\na = 2", "not TOML"), (b"\xff\xfe", "not UTF-8")],
)
def test_a_file_that_is_not_toml(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(RunFileError, match=says):
        read_toml(path)


def test_a_missing_file_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RunFileError) as caught:
        read_toml(tmp_path / "none.toml")
    assert "affidavit init" in caught.value.hint
