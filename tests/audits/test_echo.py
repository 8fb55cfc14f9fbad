"""The canary's echo: guesses from released text alone, against the claim and against "nothing was learnt"."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from affidavit.accountant.errors import DataError, UsageError
from affidavit.accountant.plan import Exponential, Repeat
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.attacks.echo import Echo, make_echo_canaries
from affidavit.audits.attacks.ngram import Bigrams
from affidavit.audits.auditfile import parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.echo import EchoTally, echo_finding, guesses_a_run, listen, shown_by_echo
from affidavit.audits.findings import Findings, read, write
from affidavit.audits.given import Material
from affidavit.audits.run import run_audit
from affidavit.audits.sentences import sentence
from affidavit.audits.textmodel import Record
from tests.support.under_test import under_test

WORDS = [f"{a}{b}" for a in ("harbour", "lantern", "meadow", "quarry", "timber") for b in range(40)]


def _records(count: int = 140) -> list[Record]:
    generator = np.random.default_rng(7)
    return [
        Record(f"r{i}", " ".join(generator.choice(WORDS, size=24)), ("north", "south")[i % 2]) for i in range(count)
    ]


def _certified(epsilon: float = 1.0, relation: Any = "zero-out") -> Certified:
    return Certified(
        relation=relation,
        epsilon=epsilon,
        delta=1e-5,
        plan=Repeat(4, Exponential(0.5)),
        curve=PrivacyCurve(((epsilon, 1e-5),)),
        sha256="ab" * 32,
    )


def _run(demonstrate: Any = None, *, epsilon: float = 1.0, relation: Any = "zero-out", **changes: Any) -> Findings:
    content = {"attack": "echo", "members": 30, "non_members": 30, "background": 20, "runs": 4, "seed": 3, **changes}
    material = Material(records=_records())
    return run_audit(parse_audit(content), _certified(epsilon, relation), material, under_test(demonstrate=demonstrate))


def _verbatim(records: Sequence[Record], **_: Any) -> list[Record]:
    return list(records)


def _quiet(records: Sequence[Record], **_: Any) -> list[Record]:
    return [Record("made", "the meadow9 is green and the harbour3 is blue", "north")]


def test_a_bigram_by_hand() -> None:
    """Texts "a b" and "a c", five words: P(a) = (2 + 3/5) / (4 + 3), and after the start (2 + P(a)) / 3."""
    model = Bigrams.of([["a", "b"], ["a", "c"]], vocabulary=5)
    assert model.log_probability(["a"]) == pytest.approx(math.log((2 + (2 + 3 / 5) / 7) / 3))
    unseen = (0 + 3 / 5) / 7  # "d" after "a", of which two continuations are known
    assert model.log_probability(["a", "d"], begin=1) == pytest.approx(math.log(2 * unseen / 4))
    after = [math.exp(model.log_probability(["a", word], begin=1)) for word in "abcde"]
    assert sum(after) == pytest.approx(1.0), "a distribution over the vocabulary"


def test_canaries_begin_like_a_record_and_end_in_a_surprise() -> None:
    records = _records()
    first, *_ = canaries = make_echo_canaries(records, count=10, seed=1)
    assert first.text.split()[:8] == records[0].text.split()[:8]
    assert len(first.text.split()) == 20
    assert canaries == make_echo_canaries(records, count=10, seed=1) != make_echo_canaries(records, count=10, seed=2)
    with pytest.raises(DataError, match="141 canaries"):
        make_echo_canaries(records, count=141, seed=1)


def test_text_that_repeats_its_records_is_refuted() -> None:
    findings = _run(_verbatim)
    protected, control = findings.items
    assert protected.kind == "echo"
    assert (protected.guesses, protected.correct) == (4 * guesses_a_run(60), 4 * guesses_a_run(60))
    assert protected.nothing_learnt == pytest.approx(0.5**120)
    assert (protected.verdict, control.badge) == ("VIOLATION", "LEAKED, AS IT MUST")
    assert protected.epsilon_lower == pytest.approx(protected.ceiling)
    assert 3.0 < protected.epsilon_lower <= -math.log(0.05 ** (-1 / 120) - 1), "with δ = 0: q^120 = .05"
    assert all(test.passed for test in findings.self_tests)
    assert sentence(protected).startswith("From the text alone, 120 of 120 guesses which canaries were in are right;")


@pytest.mark.parametrize("relation", ["zero-out", "substitution"])
def test_text_that_repeats_nothing_is_consistent(relation: Any) -> None:
    findings = _run(_quiet, relation=relation)
    assert findings.items[0].verdict == "CONSISTENT"
    assert "told from chance" in findings.items[0].note
    assert findings.exit_code == 0


def test_an_attack_that_cannot_show_so_much_says_so() -> None:
    assert _run(_quiet, epsilon=6.0).items[0].verdict == "UNDERPOWERED"


def test_other_targets_and_what_is_missing() -> None:
    assert _run(target="unprotected").items[0].verdict == "VIOLATION"
    assert _run(target="null").items[0].verdict == "CONSISTENT"
    with pytest.raises(UsageError, match="makes no demonstrations"):
        _run()
    with pytest.raises(DataError, match="always in") as caught:
        _run(_quiet, background=100)
    assert "`background = 80`" in caught.value.hint


def test_it_is_written_without_a_word_of_the_records(tmp_path: Path) -> None:
    findings = _run(_verbatim)
    write(findings, tmp_path / "findings.json")
    assert read(tmp_path / "findings.json") == findings
    assert not any(word in (tmp_path / "findings.json").read_text() for word in WORDS)


def test_under_nothing_learnt_right_guesses_are_binomial_whatever_the_ranking() -> None:
    """10,000 audits of text that knows no coin, ranked by a score with ties and favourites."""
    canaries = [Record(f"c{i}", f"word{i}") for i in range(12)]

    class Ranked(Echo):
        def scores(self, released: Sequence[str], canaries: Sequence[Record]) -> list[float]:  # noqa: ARG002
            return [float(i % 4) for i in range(12)]

    found = [
        listen(canaries, lambda *_: (), Ranked(()), relation="zero-out", runs=1, seed=seed) for seed in range(10_000)
    ]
    for alpha in (0.4, 0.12, 0.02):
        low = sum(tally.nothing_learnt < alpha for tally in found)
        assert low <= 10_000 * alpha + 4 * math.sqrt(10_000 * alpha * (1 - alpha))
    counts = np.bincount([tally.correct for tally in found], minlength=7) / 10_000
    assert counts == pytest.approx(binom.pmf(range(7), 6, 0.5), abs=0.02)


def test_a_mechanism_at_its_claim_is_rarely_refuted() -> None:
    """Each coin by randomised response at ε = 1, and the best guess: 10,000 audits of 40 guesses at α = .05."""
    generator = np.random.default_rng(5)
    right = generator.binomial(40, 1 / (1 + math.exp(-1)), size=10_000)
    proved = {
        int(count): shown_by_echo(EchoTally(80, 40, 40, int(count), 1), delta=0.0, alpha=0.05) for count in set(right)
    }
    refuted = sum(proved[int(count)] > 1.0 for count in right)
    assert refuted <= 10_000 * 0.05 + 4 * math.sqrt(10_000 * 0.05 * 0.95)
    perfect = echo_finding(EchoTally(80, 40, 40, 40, 1), _certified(), target="protected", alpha=0.05)
    assert perfect.verdict == "VIOLATION"
