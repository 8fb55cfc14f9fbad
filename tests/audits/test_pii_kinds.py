"""Web addresses, account numbers and names: one each however written, and what is none. All are invented or
published test numbers (the IBAN registry's example, the card networks' test cards, BIP-173's address)."""

from __future__ import annotations

import importlib.util
import json
import re
import socket

import pytest

from affidavit.accountant.errors import NotSupported, PackageMissing
from affidavit.audits.guessing import is_guessable, names_in
from affidavit.audits.pii import KINDS, Held, Identifier, Pseudonyms, census, distinct, find_mentions, normalise_url
from affidavit.audits.pii.folding import fold
from affidavit.audits.pii.name import presidio_names
from support.real_data import real_data

PAGES = [
    "https://example.com/~jane",
    "HTTP://EXAMPLE.com/~jane",
    "http://example.com:80/~jane/",
    "https://www.example.com:443/%7ejane#top",
    "www.example.com/~jane",
    "example.com/~jane",
    "hxxps://example[.]com/~jane",
    "example [dot] com/~jane",
    "<https://example.com/~jane>",
    "(http://example.com/~jane).",
    "ｗｗｗ．example．com/~jane",
]
IBANS = [
    "GB82WEST12345698765432",
    "GB82 WEST 1234 5698 7654 32",
    "gb82-west-1234-5698-7654-32",
    "GB82 WEST 1234 5698 7654 32 now",
]
CARDS = ["4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111"]


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was touched")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def _values(text: str, kind: str) -> list[str]:
    return [mention.identifier.value for mention in find_mentions(text, kinds=[kind])]  # type: ignore[list-item]


@pytest.mark.parametrize("written", PAGES)
def test_one_page_has_one_normal_form(written: str) -> None:
    assert normalise_url(written) == "example.com/~jane"
    assert _values(f"Look at {written} today", "url") == ["example.com/~jane"]


def test_pages_that_differ_stay_apart() -> None:
    written = ["example.com/a", "example.com/A", "example.com/a?b", "example.com:8080/a", "jane@example.com/a",
               "sub.example.com/a", "example.com/a%2Fb", "example.com/a/b"]  # fmt: skip
    forms = {normalise_url(text) for text in ["ftp://example.com/a", *(f"http://{text}" for text in written)]}
    assert len(forms) == len(written) + 1


@pytest.mark.parametrize(
    "written", ["www.page.example/a", "WWW.page.example/a", "page.example/a", "http://page.example/a"]
)
def test_a_host_needs_no_scheme(written: str) -> None:
    text = f"see {written}, please"
    (mention,) = find_mentions(text, kinds=["url"])
    assert mention.identifier.value == "page.example/a"
    assert text[mention.start : mention.end] == written
    assert _values("at www.jane.photography/2001 or xwww.a.photography", "url") == ["jane.photography/2001"]


def test_reserved_and_international_hosts_count() -> None:
    assert _values("see https://vault.invalid/x and https://bücher.example/1", "url") == [
        "vault.invalid/x",
        "xn--bcher-kva.example/1",
    ]


@pytest.mark.parametrize("text", ["e.g. this, i.e. that", "U.S.A. at 10.30", "me@example.com", "mailto:me@example.com",
                                  "a/b and c.d.", "http://", ""])  # fmt: skip
def test_what_is_no_page(text: str) -> None:
    assert _values(text, "url") == []
    assert normalise_url(text) is None


@pytest.mark.parametrize("written", IBANS)
def test_one_iban_has_one_normal_form(written: str) -> None:
    assert _values(f"pay to {written}.", "account") == ["iban:GB82WEST12345698765432"]


@pytest.mark.parametrize("written", CARDS)
def test_one_card_has_one_normal_form(written: str) -> None:
    assert _values(f"card {written}, thanks", "account") == ["card:4111111111111111"]
    assert find_mentions(written, kinds=["phone"]) == ()


@pytest.mark.parametrize("card", ["5555555555554444", "378282246310005", "6011111111111117", "30569309025904",
                                  "3530111333300000", "2223003122003222"])  # fmt: skip
def test_the_networks_test_cards_are_cards(card: str) -> None:
    assert _values(card, "account") == [f"card:{card}"]


def test_social_security_numbers_and_wallets() -> None:
    wallet = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
    assert _values(f"ssn 536-90-4399, wallet {wallet}", "account") == ["us-ssn:536904399", f"bitcoin:{wallet}"]


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # the Luhn digit is wrong
        "9111 1111 1111 1110",  # Luhn holds, nobody issues it
        "GB83 WEST 1234 5698 7654 32",  # check digits
        "GB82 WEST 1234 5698 7654",  # too short for its country
        "000-90-4399 and 666-90-4399 and 536-00-4399",  # never issued
        "536904399",  # not in the printed form
        "x4111111111111111 and 1.4111111111111111",  # part of something longer
        "ticket 20011127-0815, 555-12-2001x",
        "",
    ],
)
def test_what_is_no_account(text: str) -> None:
    assert _values(text, "account") == []


def test_spans_are_positions_in_the_text_as_written() -> None:
    text = "ﬁrst hxxps://example[.]com/a then GB82 WEST 1234 5698 7654 32; (206) 555-0147 ok"
    shown = [text[m.start : m.end] for m in find_mentions(text, kinds=["url", "account", "phone"])]
    assert shown == ["hxxps://example[.]com/a", "GB82 WEST 1234 5698 7654 32", "(206) 555-0147"]


def test_a_replacement_keeps_every_position() -> None:
    folded = fold("a[dot]b(dot)c")
    replaced = folded.replace(re.compile(r"[\[(]dot[\])]"), ".").replace(re.compile("b"), "")
    assert replaced.text == "a..c"
    assert replaced.span(1, 2) == (5, 6)  # one character stands for the match's end
    assert replaced.span(0, 4) == (0, 13)


def test_names_need_presidio_and_the_error_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    presidio_names.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(PackageMissing) as refused:
        find_mentions("Jane Roe wrote", kinds=["name"])
    assert "affidavit[names]" in refused.value.hint
    assert "Jane" not in str(refused.value)


def test_presidio_without_a_model_is_not_let_loose_on_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Presidio would download a missing model by itself; an installed Presidio is not even imported."""
    presidio_names.cache_clear()
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: found if name == "presidio_analyzer" else None)
    with pytest.raises(NotSupported, match="needs a model of spaCy") as refused:
        presidio_names()
    assert "spacy download" in refused.value.hint
    with pytest.raises(NotSupported, match="spaCy's: en_core_web_trf"):
        presidio_names("en_core_web_trf")


def test_a_name_counts_once_however_written() -> None:
    def find(text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"Roe, Jane|JANE Q\. ROE|Jané Roe|Jane", text)]

    text = "Roe, Jane and JANE Q. ROE and Jané Roe, known as Jane"
    found = find_mentions(text, kinds=["name"], names=find)
    assert [text[mention.start : mention.end] for mention in found] == ["Roe, Jane", "JANE Q. ROE", "Jané Roe"]
    assert distinct(found) == {Identifier("name", "jane roe")}


def test_only_a_front_page_is_guessed_from_its_domain() -> None:
    names = names_in("Jane Roe wrote this.")
    assert is_guessable(Identifier("url", "example.com"), names)
    assert is_guessable(Identifier("url", "ftp://example.com"), names)
    for kind, value in (("url", "example.com/jane"), ("url", "example.com?id=7"), ("url", "jane@example.com"),
                        ("account", "card:4111111111111111"), ("name", "jane roe")):  # fmt: skip
        assert not is_guessable(Identifier(kind, value), names)  # type: ignore[arg-type]


def test_pseudonyms_keep_kinds_apart_and_hide_every_value() -> None:
    names = Pseudonyms()
    digests = {names.of(Identifier(kind, "same")) for kind in KINDS} | {names.digest("record", "same")}
    assert len(digests) == len(KINDS) + 1
    assert all("same" not in repr(Identifier(kind, "same")) for kind in KINDS)


def test_a_census_counts_identifiers_records_and_users() -> None:
    records = [
        ("ann", "a@x.example and A@X.example, call (206) 555-0101"),
        ("ann", "a@x.example again"),
        ("bob", "call +1 206 555 0101 or (206) 555-0102"),
        ("cyd", "nothing at all"),
    ]
    email, phone, both = census(records, kinds=("email", "phone"))
    assert email == Held(("email",), 1, 2, 1)
    assert phone == Held(("phone",), 2, 2, 2)
    assert both == Held(("email", "phone"), 3, 3, 2)
    assert census(records, kinds=("url",)) == (Held(("url",), 0, 0, 0),)
    assert census([], kinds=("email",)) == (Held(("email",), 0, 0, 0),)


@pytest.mark.slow
@pytest.mark.data("enron/aeslc_train_pii.jsonl")
def test_real_mail_holds_identifiers_in_all_but_seven_of_its_records() -> None:
    """1,051 bodies of 116 mailboxes were selected by a pattern; 7 hold ten digits that are no phone number."""
    text = real_data("enron/aeslc_train_pii.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert (len(rows), len({row["mailbox"] for row in rows})) == (1051, 116)
    *_, both = census([(row["mailbox"], row["body"]) for row in rows], kinds=("email", "phone"))
    assert (both.records, both.users) == (1044, 115)
    shaped = re.compile(r"\(?\d{3}\)?[-. /)]*\d{3}[-. ]+\d{4}")
    empty = [row["body"] for row in rows if not find_mentions(row["body"])]
    assert len(empty) == 7
    assert all(shaped.search(body) and "@" not in body for body in empty)
