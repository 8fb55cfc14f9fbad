"""Overlap with private records: exact, symmetric, and never the words themselves. All texts are invented."""

from __future__ import annotations

import random
from itertools import product

import pytest

from affidavit.accountant.errors import DataError
from affidavit.audits import findings as files
from affidavit.audits.finding import SearchFinding
from affidavit.audits.leaks import Leakage, Overlap
from affidavit.audits.overlap import SharedRun, closest_rouge_l, measure_overlap, shared_runs
from affidavit.audits.pii import Pseudonyms
from affidavit.audits.textmodel import Record
from affidavit.audits.words import Words

VOCABULARY = [f"word{i}" for i in range(400)]


def _records(name: str, count: int, *, seed: int, words: int = 60) -> list[Record]:
    chooser = random.Random(seed)
    return [Record(f"{name}-{i}", " ".join(chooser.choices(VOCABULARY, k=words))) for i in range(count)]


MEMBERS, HELD_OUT = _records("member", 12, seed=1), _records("other", 12, seed=2)


def _measure(texts: list[str], **changes: object) -> Overlap:
    arguments = {"members": MEMBERS, "held_out": HELD_OUT, "alpha": 0.05, "pseudonyms": Pseudonyms()} | changes
    return measure_overlap(texts, **arguments)  # type: ignore[arg-type]


def _passage(record: Record, first: int, count: int) -> str:
    return " ".join(record.text.split()[first : first + count])


def test_an_echo_of_the_members_is_all_verbatim_and_all_rouge() -> None:
    found = _measure([record.text for record in MEMBERS])
    assert (found.texts, found.verbatim, found.held_out_verbatim) == (12, 12, 0)
    assert found.longest == 60
    assert found.rouge_l == found.highest_rouge_l == 1.0
    assert found.margin is not None
    assert found.margin > 0.5
    assert found.margin_interval is not None
    assert found.margin_interval[0] > 0.0
    assert {(span.output, span.words, span.held_out) for span in found.spans} == {(i, 60, False) for i in range(12)}


def test_an_echo_of_held_out_records_is_the_counterfactual() -> None:
    found = _measure([record.text for record in HELD_OUT])
    assert (found.verbatim, found.held_out_verbatim) == (0, 12)
    assert found.longest == 0
    assert found.held_out_longest == 60
    assert found.margin is not None
    assert found.margin < -0.5


def test_fresh_text_shares_nothing() -> None:
    found = _measure([record.text for record in _records("fresh", 8, seed=3)])
    assert (found.verbatim, found.held_out_verbatim, found.spans) == (0, 0, ())
    assert found.margin_interval is not None
    assert found.margin_interval[0] < 0.0 < found.margin_interval[1]


@pytest.mark.parametrize(("words", "caught"), [(19, 0), (20, 1), (35, 1)])
def test_twenty_words_count_and_nineteen_do_not(words: int, caught: int) -> None:
    text = f"new {_passage(MEMBERS[4], 7, words)} end " + " ".join(f"own{i}" for i in range(20))
    found = _measure([text])
    assert found.verbatim == caught
    assert found.longest == (words if caught else 0)


def test_case_punctuation_and_compatibility_forms_do_not_hide_a_passage() -> None:
    words = _passage(MEMBERS[2], 0, 22).upper().split()
    text = "«" + " — ".join(words[:11]) + "…\n" + ", ".join(words[11:]).replace("WORD", "ＷＯＲＤ", 1) + "»"
    found = _measure([text])
    (span,) = found.spans
    assert text[span.start : span.end] == text[1:-1]
    assert span.words == 22


def test_what_both_sides_hold_is_evidence_of_neither() -> None:
    footer = " ".join(f"footer{i}" for i in range(25))
    members = [*MEMBERS, Record("m", f"{MEMBERS[0].text[::-1]} {footer} tail")]
    held_out = [*HELD_OUT, Record("h", f"{HELD_OUT[0].text[::-1]} {footer}")]
    found = _measure([f"greetings {footer}", f"{footer} tail"], members=members, held_out=held_out)
    assert found.verbatim == 1  # "… tail" is the member's alone
    assert found.held_out_verbatim == 0
    assert [(span.output, span.words) for span in found.spans] == [(1, 20)]


def test_a_passage_that_held_out_records_cover_together_is_theirs_too() -> None:
    words = [f"covered{i}" for i in range(40)]
    first, second = " ".join(words[:34]), " ".join(words[15:])
    pads = ["lorem " * 30, "ipsum " * 30, "dolor " * 60]
    found = _measure(
        [" ".join(words)],
        members=[Record("m", f"{pads[2]} {' '.join(words)} {' '.join(f'x{i}' for i in range(90))}")],
        held_out=[Record("a", f"{pads[0]} {first} {' '.join(f'y{i}' for i in range(90))}"),
                  Record("b", f"{pads[1]} {second} {' '.join(f'z{i}' for i in range(90))}")],
    )  # fmt: skip
    assert (found.verbatim, found.held_out_verbatim) == (0, 0)


def test_a_member_that_nearly_copies_a_held_out_record_is_dropped_and_counted() -> None:
    copied = Record("copy", f"Fwd: {HELD_OUT[3].text}!")
    found = _measure([copied.text], members=[*MEMBERS, copied])
    assert found.dropped_near_copies == 1
    assert found.members == len(MEMBERS)
    assert found.verbatim == 0


def test_shared_runs_agree_with_brute_force() -> None:
    chooser = random.Random(5)
    texts = [Words.of(" ".join(chooser.choices("abc", k=14))) for _ in range(6)]
    records = [Words.of(" ".join(chooser.choices("abc", k=14))) for _ in range(6)]
    wanted = set()
    for (t, text), (r, record) in product(enumerate(texts), enumerate(records)):
        a, b = text.words, record.words
        for i, j in product(range(len(a)), range(len(b))):
            if i and j and a[i - 1] == b[j - 1]:
                continue
            length = 0
            while i + length < len(a) and j + length < len(b) and a[i + length] == b[j + length]:
                length += 1
            if length >= 4:
                wanted.add(SharedRun(t, r, i, length))
    assert wanted
    assert set(shared_runs(texts, records, words=4)) == wanted


def _subsequence(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    row = [0] * (len(b) + 1)
    for x in a:
        before = list(row)
        for j, y in enumerate(b, start=1):
            row[j] = before[j - 1] + 1 if x == y else max(before[j], row[j - 1])
    return row[-1]


def test_the_closest_record_is_the_closest_of_all() -> None:
    chooser = random.Random(6)
    texts = [Words.of(" ".join(chooser.choices("abcdefgh é", k=30))) for _ in range(10)]
    records = [Words.of(" ".join(chooser.choices("abcdefgh é", k=chooser.randint(5, 60)))) for _ in range(30)]
    wanted = [max(2.0 * _subsequence(t.words, r.words) / (len(t.words) + len(r.words)) for r in records) for t in texts]
    assert closest_rouge_l(texts, records) == pytest.approx(wanted, abs=1e-12)
    assert closest_rouge_l([Words.of("...")], records) == [0.0]


def test_rouge_l_is_the_library_s() -> None:
    from rouge_score.rouge_scorer import RougeScorer

    chooser = random.Random(7)
    texts, records = (
        [" ".join(chooser.choices("abcdefgh", k=chooser.randint(3, 40))) for _ in range(12)] for _ in "ab"
    )
    scorer = RougeScorer(["rougeL"])
    wanted = [max(scorer.score(record, text)["rougeL"].fmeasure for record in records) for text in texts]
    assert closest_rouge_l(list(map(Words.of, texts)), list(map(Words.of, records))) == pytest.approx(wanted, abs=1e-12)


def test_words_of_any_script_count() -> None:
    (found,) = closest_rouge_l([Words.of("Größe ñandú 東京")], [Words.of("größe ÑANDÚ 東京 extra")])
    assert found == pytest.approx(6 / 7)


def test_nothing_to_compare_with_is_refused() -> None:
    with pytest.raises(DataError, match="held-out"):
        _measure(["text"], held_out=[])


def test_no_text_at_all_is_no_evidence() -> None:
    found = _measure(["", "..."])
    assert (found.texts, found.verbatim, found.rouge_l, found.margin_interval, found.verbatim_interval) == (
        0, 0, None, None, None)  # fmt: skip


def test_an_overlap_holds_no_word_and_no_record_id() -> None:
    finding = SearchFinding(
        attack="released-text", verdict="COUNTED", members=12, held_out=12, texts=12, alpha=0.05,
        leakage=Leakage(at_risk=0, leaked=0, guessable=0, held_out_leaked=0),
        overlap=_measure([record.text for record in MEMBERS]),
    )  # fmt: skip
    written = files.Findings(certificate_sha256=None, items=(finding,)).to_json()
    assert not any(word in written for word in (*VOCABULARY, "member-0", "other-0"))
