"""The private step of keyword-space aggregation: which keywords, given how many answers hold each word.

One object states what the step costs (``cost``) and takes it (``choose``), so that the two cannot drift apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.plan import Compose, Plan

if TYPE_CHECKING:
    from affidavit.generation.recorder import Recorder
    from affidavit.mechanisms.joint_exponential import JointTopK
    from affidavit.mechanisms.noisy_max import ExponentialNoisyMax
    from affidavit.mechanisms.projected_mean import Change
    from affidavit.mechanisms.propose_test_release import TestedTopK

__all__ = ["KeywordChoice", "Mechanism"]

Mechanism: TypeAlias = Literal["joint-exponential", "propose-test-release"]


@dataclass(frozen=True, slots=True)
class KeywordChoice:
    """The step with its noise set so that the ε's are those of ``change``; counts lie in [0, ``ceiling``].

    ``pure``: the draw is charged as pure, where its bounded range says nothing more (``ksa``).
    """

    mechanism: Mechanism
    most_keywords: int
    fewest_keywords: int
    keyword_epsilon: float
    keyword_delta: float
    choice_epsilon: float
    ceiling: int
    change: Change
    pure: bool

    def cost(self, change: Change) -> Plan:
        """What the step costs where one record causes ``change``, no larger than this step's own.

        Raises ``UsageError`` for settings that the mechanisms refuse.
        """
        if self.mechanism == "joint-exponential":
            return self._joint(change).leaf()
        test = self._test.moved(_moves(change))
        if self.fewest_keywords == self.most_keywords:
            return test
        return Compose((self._size(change).leaf(), test))

    def choose(self, recorder: Recorder, path: str, counts: NDArray[np.int64]) -> tuple[int, ...]:
        """Indices of the keywords; none where a test failed. ``path`` leads to the step's plan."""
        from affidavit.mechanisms.propose_test_release import gaps

        held = np.minimum(counts, self.ceiling)
        if self.mechanism == "joint-exponential":
            return recorder.draw(path, self._joint(self.change), held)
        size = self.most_keywords
        if self.fewest_keywords < self.most_keywords:
            weighed = gaps(held)[self.fewest_keywords - 1 : self.most_keywords]
            size = self.fewest_keywords + recorder.draw(f"{path}.parts[0]", self._size(self.change), weighed)
            recorder.note(size=size)
            path = f"{path}.parts[1]"
        released = recorder.draw(path, self._test.of_size(size), held)
        recorder.note(passed=released is not None)
        return released or ()

    def _joint(self, change: Change) -> JointTopK:
        from affidavit.mechanisms.joint_exponential import JointTopK

        temperature = Fraction(_width(self.change)) / Fraction(self.keyword_epsilon)
        size, most = self.most_keywords, self.ceiling
        return JointTopK(size=size, most=most, width=_width(change), temperature=temperature, pure=self.pure)

    def _size(self, change: Change) -> ExponentialNoisyMax:
        from affidavit.mechanisms.noisy_max import ExponentialNoisyMax

        rate = Fraction(self.choice_epsilon) / _width(self.change)
        return ExponentialNoisyMax(rate=rate, width=_width(change))

    @property
    def _test(self) -> TestedTopK:
        from affidavit.mechanisms.propose_test_release import TestedTopK

        return TestedTopK(self.keyword_epsilon, self.keyword_delta, _moves(self.change))


def _moves(change: Change) -> int:
    """By how much one record moves a gap, or the difference of two counts."""
    return 1 if change == "joins" else 2


def _width(change: Change) -> int:
    """The spread, over outcomes, of what one record does to the joint utility, or to the gaps."""
    return 2 * _moves(change)
