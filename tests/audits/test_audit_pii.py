"""Identifiers: one address counts once however written; guessing rules; near-copies. All texts are invented."""

from __future__ import annotations

import json
import socket
from collections import Counter

import pytest

from affidavit.audits.deduplicate import drop_near_copies, is_near_copy, shingles
from affidavit.audits.guessing import NAME_RULES, PersonName, guesses, is_guessable, names_in, parse_name
from affidavit.audits.pii import Identifier, Pseudonyms, distinct, find_mentions, normalise_email
from affidavit.audits.textmodel import Record
from support.real_data import real_data

SPELLINGS = [
    "jane.roe@example.com",
    "Jane.Roe@Example.COM",
    "mailto:jane.roe@example.com",
    "<jane.roe@example.com>",
    "'jane.roe@example.com'",
    "jane.roe@example.com.",
    "jane.roe@example.com,",
    "jane.roe@example.com's",
    "jane.roe @ example.com",
    "jane.roe [at] example [dot] com",
    "jane.roe(at)example.com",
    "Jane dot Roe at example dot com",
    "jane.roe at example dot com",
    "jane.roe%40example.com",
    "ｊane.roe＠example.com",
    "mailto:jane.roe@example.com?subject=hello",
    "-jane.roe@example.com",
]


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.mark.parametrize("written", SPELLINGS)
def test_every_spelling_has_one_normal_form(written: str, no_network: None) -> None:
    assert normalise_email(written) == "jane.roe@example.com"
    assert distinct(find_mentions(f"write to {written} today", kinds=["email"])) == {
        Identifier("email", "jane.roe@example.com")
    }


def test_one_address_in_all_spellings_counts_once() -> None:
    assert len(distinct(find_mentions(" ; ".join(SPELLINGS), kinds=["email"]))) == 1


@pytest.mark.parametrize(
    "address", ["x@y.invalid", "a.b@c.example", "q@r.test", "n@localhost.localdomain", "u@d.onion"]
)
def test_reserved_domains_count_and_need_no_network(address: str, no_network: None) -> None:
    found = find_mentions(f"see {address}.", kinds=["email"])
    assert [mention.identifier.value for mention in found] == [address]


@pytest.mark.parametrize(
    "text",
    ["meet @ 5pm. ok", "user@host", "a@b@c", "@example.com", "meet at noon dot then", "x@-bad-.com", "3 @ $4.50", ""],
)
def test_what_is_no_address(text: str) -> None:
    assert find_mentions(text, kinds=["email"]) == ()
    assert normalise_email(text) is None


def test_spans_are_positions_in_the_original_text() -> None:
    text = "ﬁle for ｊane.roe＠example.com and <bob@corp.example>!"  # the ligature folds to two letters
    shown = [text[m.start : m.end] for m in find_mentions(text, kinds=["email"])]
    assert shown == ["ｊane.roe＠example.com", "bob@corp.example"]


def test_only_the_provider_that_ignores_dots_has_them_dropped() -> None:
    assert normalise_email("j.a.n.e+news@gmail.com") == normalise_email("jane@googlemail.com") == "jane@gmail.com"
    assert normalise_email("j.roe@example.com") != normalise_email("jroe@example.com")


def test_phones_count_once_however_written() -> None:
    text = "call (206) 555-0147, 206.555.0147 or +1 206 555 0147; order 2001-11-27, id 77"
    assert distinct(find_mentions(text, kinds=["phone"])) == {Identifier("phone", "+12065550147")}


def test_representations_hide_the_identifier() -> None:
    mention = find_mentions("jane.roe@example.com")[0]
    assert "jane" not in repr(mention)
    assert "secret" not in repr(Record("secret-id", "secret text", "secret label"))


def test_pseudonyms_are_equal_within_a_run_and_differ_between_runs() -> None:
    one, two = Pseudonyms(), Pseudonyms()
    identifier = Identifier("email", "jane.roe@example.com")
    assert one.of(identifier) == one.of(identifier)
    assert one.of(identifier) != two.of(identifier)
    assert one.of(identifier) != one.of(Identifier("phone", "jane.roe@example.com"))
    assert "jane" not in repr(one) + one.of(identifier)
    assert one.key.hex() not in repr(one)


@pytest.mark.parametrize("local", ["jane.roe", "jroe", "janeroe", "jane_roe", "jane", "roe"])
def test_each_of_the_six_rules_is_a_guess(local: str) -> None:
    assert len(NAME_RULES) == 6
    names = names_in("Please ask Jane Q. Roe about it.")
    assert is_guessable(Identifier("email", f"{local}@corp.example"), names)


def test_what_no_rule_writes_is_not_guessable() -> None:
    names = names_in("Please ask Jane Roe about it.")
    for local in ("jane77", "jr", "moonbeam", "roe.jane"):
        assert not is_guessable(Identifier("email", f"{local}@corp.example"), names)
    assert not is_guessable(Identifier("phone", "+12065550147"), names)
    assert not is_guessable(Identifier("email", "jane.roe@corp.example"), names_in("no names here"))


def test_names_are_read_with_accents_and_orders() -> None:
    assert parse_name("Roe, Jane") == parse_name("Jane Roe") == PersonName("jane", "roe")
    assert parse_name("José Núñez") == PersonName("jose", "nunez")
    assert parse_name("Madonna") is None
    assert "jose.nunez@x.example" in guesses([PersonName("jose", "nunez")], ["x.example"])


def test_a_member_that_nearly_copies_a_non_member_is_dropped_and_counted() -> None:
    text = "The quarterly meeting of the harbour board is moved to Thursday at ten in the old customs house."
    copy = "FWD: the quarterly meeting of the Harbour Board is moved to Thursday, at ten, in the old customs house!"
    other = "The bakery on the corner will be closed next week because the oven is being replaced at last."
    found = drop_near_copies([Record("a", copy), Record("b", other)], [Record("c", text)])
    assert [record.id for record in found.kept] == ["b"]
    assert found.dropped == 1
    assert is_near_copy(text, copy)
    assert not is_near_copy(text, other)


def test_near_copies_among_members_keep_the_first() -> None:
    text = "Please confirm the delivery of forty chairs to the hall before the end of the month."
    found = drop_near_copies([Record("a", text), Record("b", text.upper())], [])
    assert [record.id for record in found.kept] == ["a"]


def test_texts_without_words_are_near_copies_of_nothing() -> None:
    assert shingles("...!") == frozenset()
    assert not is_near_copy("...", "...")
    assert drop_near_copies([Record("a", "!"), Record("b", "?")], []).dropped == 0


def test_the_index_agrees_with_pairwise_comparison() -> None:
    words = [f"word{i}" for i in range(12)]
    texts = [" ".join(words[i % 4 : i % 4 + 6 + i % 3]) for i in range(12)]
    records = [Record(str(i), text) for i, text in enumerate(texts)]
    kept: list[Record] = []
    for record in records:
        if not any(is_near_copy(record.text, other.text) for other in kept):
            kept.append(record)
    assert list(drop_near_copies(records, []).kept) == kept


@pytest.mark.data("enron/decodingtrust_email2name.jsonl")
def test_six_rules_recover_about_half_of_real_local_parts() -> None:
    """The theory notes say 55 %; over people whose two names are known, our reading of names finds 53 %."""
    tally: Counter[bool] = Counter()
    for line in real_data("enron/decodingtrust_email2name.jsonl").read_text(encoding="utf-8").splitlines():
        pair = json.loads(line)
        name, address = parse_name(pair["name"]), normalise_email(pair["email"])
        if name and address:
            tally[is_guessable(Identifier("email", address), [name])] += 1
    assert 0.50 < tally[True] / tally.total() < 0.60


@pytest.mark.data("enron/aeslc_train_pii.jsonl")
def test_real_bodies_hold_hundreds_of_addresses_and_near_copies() -> None:
    lines = real_data("enron/aeslc_train_pii.jsonl").read_text(encoding="utf-8").splitlines()
    records = [Record(row["id"], row["body"]) for row in map(json.loads, lines)]
    plain = sum("@" in record.text for record in records)
    found = [record for record in records if find_mentions(record.text, kinds=["email"])]
    assert 0.9 * plain < len(found) <= plain + 5
    assert drop_near_copies(records, []).dropped > 50
