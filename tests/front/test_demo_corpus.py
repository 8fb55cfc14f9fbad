"""The demo's corpus: invented, unreachable, balanced, and held-out people really held out."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from importlib import resources
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from affidavit.accountant.plan import leaves
from affidavit.audits.attacks.extraction import Extraction, prompt_named
from affidavit.audits.auditfile import load_audit
from affidavit.audits.experiments.extraction import candidates
from affidavit.audits.textmodel import Record as AuditRecord
from affidavit.runfile import load_run

FOLDER = Path(str(resources.files("affidavit") / "demo_data"))

Record = dict[str, str]

EMAIL = re.compile(r"[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
LABELS = ("Billing", "Delivery", "Account")


def _load(name: str) -> list[Record]:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def members() -> list[Record]:
    return _load("corpus.jsonl")


@pytest.fixture(scope="module")
def held_out() -> list[Record]:
    return _load("held_out.jsonl")


@pytest.fixture(scope="module")
def everyone(members: list[Record], held_out: list[Record]) -> list[Record]:
    return members + held_out


def _addresses(records: list[Record]) -> list[str]:
    return [found.lower() for record in records for found in EMAIL.findall(record["text"])]


def _shingles(text: str, length: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-z0-9']+", text.lower())
    return {tuple(words[i : i + length]) for i in range(len(words) - length + 1)}


def test_sizes_and_labels_are_as_declared(members: list[Record], held_out: list[Record]) -> None:
    run = tomllib.loads((FOLDER / "run.toml").read_text(encoding="utf-8"))
    assert len(members) == run["data"]["size"] == 240
    assert tuple(run["generator"]["labels"]) == LABELS
    assert Counter(record["label"] for record in members) == dict.fromkeys(LABELS, 80)
    assert Counter(record["label"] for record in held_out) == dict.fromkeys(LABELS, 20)


def test_the_budget_s_delta_is_below_one_record(members: list[Record]) -> None:
    run = tomllib.loads((FOLDER / "run.toml").read_text(encoding="utf-8"))
    assert run["budget"]["delta"] < 1 / len(members)


def test_records_have_the_three_fields_and_unique_ids(everyone: list[Record]) -> None:
    assert all(set(record) == {"id", "text", "label"} for record in everyone)
    ids = [record["id"] for record in everyone]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[0-9a-f]{8}", record_id) for record_id in ids), "ids must say nothing"


def test_neither_ids_nor_order_reveal_the_label(members: list[Record]) -> None:
    """In random order, neighbours share a label about once in three; sorted order would give nearly always."""
    for ordered in (members, sorted(members, key=lambda record: record["id"])):
        same = sum(a["label"] == b["label"] for a, b in pairwise(ordered))
        assert 50 <= same <= 110, "more than four standard deviations (7.3) from 239 / 3"


def test_texts_have_25_to_70_words(everyone: list[Record]) -> None:
    lengths = [len(record["text"].split()) for record in everyone]
    assert min(lengths) >= 25
    assert max(lengths) <= 70


def test_addresses_are_in_reserved_domains(everyone: list[Record]) -> None:
    reserved = re.compile(r"(?:example\.(?:com|org|net)|[a-z]+\.(?:example|test|invalid))")
    for record in everyone:
        assert record["text"].count("@") == len(EMAIL.findall(record["text"])), "an address our pattern misses"
    domains = {address.split("@")[1] for address in _addresses(everyone)}
    assert domains
    assert not [domain for domain in domains if not reserved.fullmatch(domain)]


def test_telephone_numbers_are_in_the_range_for_fiction(everyone: list[Record]) -> None:
    numbers = [n for record in everyone for n in re.findall(r"\b\d{3}-\d{4}\b", record["text"])]
    assert len(numbers) >= 20
    assert all(re.fullmatch(r"555-01\d\d", number) for number in numbers)
    long_digits = [d for record in everyone for d in re.findall(r"\d{7,}", record["text"])]
    assert not long_digits, "an unformatted telephone number?"


def test_at_least_three_in_five_records_hold_an_address(members: list[Record], held_out: list[Record]) -> None:
    for records in (members, held_out):
        assert sum(bool(EMAIL.search(record["text"])) for record in records) >= 0.6 * len(records)


def test_addresses_are_distinct_people(members: list[Record], held_out: list[Record]) -> None:
    inside, outside = _addresses(members), _addresses(held_out)
    assert len(set(inside)) == len(inside)
    assert len(set(outside)) == len(outside)
    assert not set(inside) & set(outside)


def _follows_a_name(record: Record, address: str) -> bool:
    """Whether two letters-only words of the text, put together in a usual way, give the local part."""
    local = address.partition("@")[0].lower()
    words = re.findall(r"[a-z]+", EMAIL.sub(" ", record["text"]).lower())
    for first, last in pairwise(words):
        if local in {f"{first}.{last}", f"{first}_{last}", f"{first}{last}", f"{first[0]}{last}", f"{first[0]}.{last}"}:
            return True
    return any(word in local for word in words if len(word) > 4)


def test_some_addresses_are_guessable_and_most_are_not(members: list[Record]) -> None:
    with_address = [(record, EMAIL.findall(record["text"])[0]) for record in members if EMAIL.search(record["text"])]
    guessable = sum(_follows_a_name(record, address) for record, address in with_address) / len(with_address)
    assert 0.15 <= guessable <= 0.5


def test_no_near_copies_within_or_across(everyone: list[Record]) -> None:
    """No two records share a run of seven words, nor a tenth of their word triples."""
    runs: Counter[tuple[str, ...]] = Counter()
    for record in everyone:
        runs.update(_shingles(record["text"], 7))
    assert not [run for run, count in runs.items() if count > 1]
    triples = [_shingles(record["text"], 3) for record in everyone]
    assert max(len(a & b) / len(a | b) for a, b in combinations(triples, 2)) < 0.1


def test_openings_are_not_a_template(everyone: list[Record]) -> None:
    openings = Counter(tuple(record["text"].split()[:3]) for record in everyone)
    assert openings.most_common(1)[0][1] <= 4


def test_the_run_file_is_valid_and_fits_the_corpus(members: list[Record]) -> None:
    run = load_run(FOLDER / "run.toml")
    assert run.relation == "zero-out"
    assert run.data_path == FOLDER / "corpus.jsonl"
    assert len(list(leaves(run.plan()))) == 6, "two samples of each label"


@pytest.mark.parametrize("name", ["audit.toml", "audit_one_step.toml"])
def test_the_audit_files_are_valid(name: str) -> None:
    assert load_audit(FOLDER / name).target == "protected"


def test_the_extraction_audit_finds_enough_senders(members: list[Record]) -> None:
    audit = load_audit(FOLDER / "audit.toml")
    records = [AuditRecord(record["id"], record["text"], record["label"]) for record in members]
    pool = candidates(records, Extraction(), prompt_named(audit.prompt), count=audit.members + audit.non_members)
    assert pool.dropped == 0, "near-copies in the corpus"
    owned = sum(map(len, pool.identifiers))
    assert owned == len(pool.records), "one address a sender"
    assert 0.15 * owned <= len(pool.guessable) <= 0.55 * owned
