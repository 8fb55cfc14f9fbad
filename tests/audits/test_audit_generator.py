"""A generator with half its noise, audited in one step on chosen logits: PRISM itself, not only its mechanism.

A model with two tokens shows the generator its worst neighbours. The record's row has logits as far apart as
the clip allows, and the public row leans half as far to the other side, so that the loss is ±η/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from affidavit.accountant.release.randomness import NoiseSource, SeededNoise
from affidavit.audits.certified import Certified
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.joint import violation_test
from affidavit.generation import prism
from affidavit.generation.dataset import Record
from affidavit.generation.models.base import Decoding, Frame, Logits, Template, TokenModel
from affidavit.trial import TrialPermit

CLIP = 4.0
ALPHA = 0.05
TRIALS = 1000
CONFIG = prism.PrismConfig(
    labels=["x"], batch_size=1, max_tokens=1, max_record_tokens=4, minibatch_rows=1, clip=CLIP, temperature=CLIP
)
PLAN = prism.plan(CONFIG, relation="zero-out", size=1)
MARK = ord("\x05")


class ChosenLogits(TokenModel):
    """Far to the first token where the row holds the record, half as far to the second elsewhere."""

    name = "chosen"
    digest = "00" * 32
    vocabulary_size = 2
    stop_tokens = frozenset()
    context_length = 10_000
    versions: dict[str, str] = {}  # noqa: RUF012 (as TokenModel declares it)

    def frame(self, template: Template) -> Frame:  # noqa: ARG002
        return "", ""

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:  # noqa: ARG002
        return [ord(letter) for letter in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join("AB"[token] for token in tokens)

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:  # noqa: ARG002
        return _Chosen(np.asarray([[100.0, 0.0] if MARK in row else [0.0, CLIP] for row in rows], dtype=np.float32))


@dataclass
class _Chosen:
    logits: Logits

    def append(self, tokens: Sequence[int]) -> None:
        raise NotImplementedError


def _hits(records: Sequence[Record], noise: NoiseSource) -> int:
    model = ChosenLogits()
    texts = (
        prism.run(TrialPermit(PLAN, "zero-out", noise), CONFIG, records, model, size=1).samples[0].text  # type: ignore[arg-type]
        for _ in range(TRIALS)
    )
    return sum(text == "A" for text in texts)


def _violated(certified: Certified, noise: NoiseSource) -> bool:
    """Both directions, half the level each, thresholds fixed: the first token says "in"."""
    hits, alarms = _hits([Record("id", chr(MARK), "x")], noise), _hits([], noise)
    sides = (Counts(hits, TRIALS, alarms, TRIALS), Counts(TRIALS - hits, TRIALS, TRIALS - alarms, TRIALS))
    return any(violation_test(counts, certified.curve, alpha=ALPHA / 2).violated for counts in sides)


@pytest.fixture(scope="module")
def certified() -> Certified:
    """Range c/(sτ) = 1 for the one token."""
    return Certified.of_plan(PLAN, relation="zero-out", delta=1e-5)


def _halve_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores twice as large at the certified temperature: nothing that a permit sees."""
    scores = prism.token_scores
    monkeypatch.setattr(prism, "token_scores", lambda *given: 2 * scores(*given))


def test_the_chosen_logits_are_the_worst_that_the_certificate_admits(certified: Certified) -> None:
    noise = SeededNoise(3)
    shares = [_hits(records, noise) / TRIALS for records in ([Record("id", chr(MARK), "x")], [])]
    assert certified.epsilon == pytest.approx(1.0, abs=0.01)
    expected = 1.0 / (1.0 + np.exp(-0.5))  # losses ±1/2
    assert shares == pytest.approx([expected, 1.0 - expected], abs=4 * 0.5 / np.sqrt(TRIALS))


def test_the_generator_is_consistent_and_half_its_noise_is_caught(
    certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not _violated(certified, SeededNoise(1))
    _halve_the_noise(monkeypatch)
    assert _violated(certified, SeededNoise(1))


@pytest.mark.slow
def test_half_its_noise_is_caught_in_at_least_95_of_100_runs(
    certified: Certified, monkeypatch: pytest.MonkeyPatch
) -> None:
    _halve_the_noise(monkeypatch)
    noise = SeededNoise(5)
    assert sum(_violated(certified, noise) for _ in range(100)) >= 95
