"""The same records under another account's name: found exactly in small sets, by estimate in large ones."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError
from affidavit.accountant.ledger import Ledger, book
from affidavit.accountant.ledger.book import read_rows
from affidavit.accountant.ledger.sketch import SIZE, digest, merge, place, share, sketch
from affidavit.accountant.unit import RECORD

KEY = bytes(range(32))


def _records(first: int, last: int) -> list[str]:
    return [f"letter number {n} about the harbour" for n in range(first, last)]


def _reserve(ledger: Ledger, name: str, records: list[str]) -> str:
    facts: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": "0.1", "delta": 0}
    return ledger.reserve(name, **facts, certificate_sha256="a" * 64, records=sketch(records, key=KEY))


@pytest.fixture
def books(ledger: Ledger) -> Ledger:
    for name in ("letters", "post"):
        ledger.init_account(name, relation="zero-out", unit=RECORD, epsilon=100, delta=1)
    return ledger


def test_a_new_name_is_no_new_budget(books: Ledger) -> None:
    _reserve(books, "letters", _records(0, 200))
    for again in (_records(0, 200), _records(0, 200)[::-1], _records(150, 400), _records(0, 30)):
        with pytest.raises(BudgetError, match="charged to the account letters before") as refusal:
            _reserve(books, "post", again)
        assert '`data.name = "letters"`' in refusal.value.hint
    assert books.balance("post").runs == 0
    _reserve(books, "letters", _records(0, 230))
    _reserve(books, "post", _records(300, 500))


@pytest.mark.parametrize(
    "spelled",
    [
        str.upper,
        lambda text: f"  {text}\n",
        lambda text: f"*{text.replace(' ', ', ')}!",
        lambda text: text.replace("l", "\uff4c").replace("o", "\uff2f"),
        lambda text: text.replace("e", "e\u200b\u00ad"),
        lambda text: unicodedata.normalize("NFD", text),
    ],
    ids=["case", "blanks", "signs", "width", "invisible", "composition"],
)
def test_the_same_words_spelled_otherwise_are_the_same(books: Ledger, spelled: Callable[[str], str]) -> None:
    texts = [f"Señor number {text}" for text in _records(0, 200)]
    _reserve(books, "letters", texts)
    with pytest.raises(BudgetError, match="100% of these records"):
        _reserve(books, "post", list(map(spelled, texts)))


def test_texts_without_a_letter_are_told_apart() -> None:
    assert len(sketch(["!", "?", "\N{GRINNING FACE}", "\N{GRINNING FACE} ", ""], key=KEY)) == 5


def test_newer_versions_of_the_data_are_remembered_beside_the_older(books: Ledger) -> None:
    _reserve(books, "letters", _records(0, 100))
    _reserve(books, "letters", _records(100, 200))
    for part in (_records(0, 100), _records(100, 200)):
        with pytest.raises(BudgetError):
            _reserve(books, "post", part)


def test_a_few_common_records_are_no_common_data(books: Ledger) -> None:
    _reserve(books, "letters", _records(0, 200))
    _reserve(books, "post", _records(190, 400))


def test_sketches_stand_in_checkpoints_and_are_written_once(books: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 8)
    for _ in range(20):
        _reserve(books, "letters", _records(0, 50))
    with pytest.raises(BudgetError):
        _reserve(books, "post", _records(0, 50))
    assert books.verify() > 20
    with books._verified(write=False, whole=True) as found:
        rows = read_rows(found.connection, 1)
    digest = sketch(_records(0, 50), key=KEY)[0]
    assert sum(digest in row.body and '"kind":"reserve"' in row.body for row in rows) == 1


@pytest.mark.parametrize(("size", "inside"), [(5_000, 5_000), (20_000, 2_000), (3_000, 300)])
def test_a_part_of_a_large_set_is_found(size: int, inside: int) -> None:
    whole, part = _records(0, size), random.Random(1).sample(_records(0, size), inside)
    assert share(sketch(part, key=KEY), sketch(whole, key=KEY)) > 0.9


def test_disjoint_large_sets_share_nothing_and_half_is_about_half() -> None:
    first = sketch(_records(0, 5_000), key=KEY)
    assert share(first, sketch(_records(5_000, 10_000), key=KEY)) == 0.0
    assert 0.35 < share(first, sketch(_records(2_500, 7_500), key=KEY)) < 0.65


def test_merging_is_sketching_the_union() -> None:
    first, second = _records(0, 700), _records(400, 1_500)
    both = sketch(first + second, key=KEY)
    assert merge(sketch(first, key=KEY), sketch(second, key=KEY)) == both[:SIZE]
    assert SIZE < len(both) <= SIZE + 2


def test_a_sketch_holds_the_first_and_the_last_place() -> None:
    for size in (1, SIZE, SIZE + 1, 3 * SIZE):
        digests = sorted(digest(text, key=KEY) for text in _records(0, size))
        found = sketch(_records(0, size), key=KEY)
        assert found[:SIZE] == tuple(digests[:SIZE])
        assert {min(digests, key=place), max(digests, key=place)} <= set(found)
        assert len(found) <= SIZE + 2


def test_without_the_key_the_digests_say_nothing() -> None:
    assert not set(sketch(_records(0, 50), key=KEY)) & set(sketch(_records(0, 50), key=bytes(32)))


def test_the_same_file_has_no_second_budget_on_another_ledger(
    ledger: Ledger, keyring: Keyring, new_url: Callable[[], str]
) -> None:
    """As where an address was forgotten; not so where the other one was an experiment's, or was given up."""
    other, trial = (Ledger(keyring=keyring, url=new_url(), apart=apart) for apart in (False, True))
    facts: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": "0.1", "delta": 0}
    run = {**facts, "certificate_sha256": "a" * 64, "data": "d" * 64}
    for each in (ledger, other, trial):
        each.init_account("letters", **facts | {"epsilon": 1})
    trial.reserve("letters", **run)
    ledger.reserve("letters", **run)
    for action in (lambda: other.reserve("letters", **run), lambda: other.check("letters", **facts, data="d" * 64)):
        with pytest.raises(BudgetError, match="charged on another ledger") as refusal:
            action()
        assert ledger.url in refusal.value.hint
    trial.reserve("letters", **run)
    ledger.reserve("letters", **run)
    other.reserve("letters", **run | {"data": "e" * 64})
    assert other.balance("letters").runs == 1
    with other._verified(write=False) as found:
        kept = found.history.identity
    for path in (keyring.home / "anchors").iterdir():
        if path.stem != kept:
            path.unlink()
    other.reserve("letters", **run)
