r"""Above-threshold (the sparse vector technique): which queries of a long stream exceed a threshold.

A run draws one noise ρ for the threshold and a fresh noise ν_i for every query q_i, answers "below" while
q_i + ν_i < θ + ρ and "above" otherwise, and ends after ``positives`` answers "above". Only the answers are
released. Queries may be chosen adaptively.

*Cost* (Lyu, Su and Li 2017, "Understanding the sparse vector technique for differential privacy", theorems 2
and 4; Dwork and Roth 2014, algorithm 1). Let neighbours move every query by at most Δ; ρ has Laplace scale
b₁ = t₁Δ, each ν_i scale b₂ = t₂Δ. Fix the answers, c of them "above", and write P = E_ρ[∏ P(answer i | ρ)].
Compare the neighbour's integrand at ρ + Δ:

- the density of ρ changes by a factor of at most e^{1/t₁};
- "below" gets no less likely: q_i′ <= q_i + Δ;
- "above" compares ν_i with θ + ρ + Δ − q_i′, at most 2Δ further out: a factor of at most e^{2/t₂}, c times.

So one run is (ε, 0)-DP with ε = 1/t₁ + 2c/t₂, however many queries it answers "below". In a *monotone* stream
all queries move the same way (say, counts when a record is added): where they rise, q_i′ >= q_i leaves "above"
at most Δ further out; where they fall, ρ need not be shifted at all. Then ε = 1/t₁ + c/t₂.

Sensitivity is *for* a relation and the caller's. A distance from a mean over a fixed s that one record enters
as a probability vector p: ‖p‖₁/s = 1/s under add-remove and zero-out, ‖p − p′‖₁/s <= 2/s under substitution;
not monotone.

A run is charged when its threshold is drawn, so the last run, which may end without any "above", is paid for
like the others. (Charging at an "above" instead leaves it out; what it then reveals, that nothing exceeded
the threshold for so long, costs as much.) Nothing better than pure DP is used for one run: no source.

*Sampling.* Queries, threshold and Δ are whole numbers and the noise is discrete Laplace, exactly
(``coins``): the proof above holds word for word over the whole numbers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, NoReturn, TypeAlias

import numpy as np

from affidavit.accountant import validate
from affidavit.accountant.decimals import float_at_least, float_at_most
from affidavit.accountant.errors import PermitViolation, PlanError, UsageError
from affidavit.accountant.plan import Leaf, Pure, register_leaf
from affidavit.mechanisms.base import (
    Mechanism,
    Noise,
    Permit,
    Rational,
    Statistic,
    charge,
    positive,
    watched,
)
from affidavit.mechanisms.coins import two_sided_geometric

__all__ = ["ASSUMPTIONS", "MECHANISM", "AboveThreshold", "Scan", "SparseVector"]

ASSUMPTIONS = ("above-threshold: the noise source yields independent uniform bits",)

_MOST_POSITIVES = 1_000_000

Hidden: TypeAlias = Callable[[Statistic, Callable[[], Any]], Any]
"""How a statistic becomes an answer: by what is drawn, or as a rehearsal's watch says."""


@dataclass(frozen=True, slots=True)
class AboveThreshold(Leaf):
    """One run. Both noises are Laplace, their scales in units of the queries' sensitivity."""

    threshold_noise_multiplier: float
    query_noise_multiplier: float
    positives: int
    monotone: bool
    kind: ClassVar[str] = "above-threshold"


def _epsilon(leaf: AboveThreshold) -> Fraction:
    shifts = leaf.positives * (1 if leaf.monotone else 2)
    return 1 / Fraction(leaf.threshold_noise_multiplier) + shifts / Fraction(leaf.query_noise_multiplier)


def _boolean(value: object, *, path: str) -> bool:
    if not isinstance(value, bool):
        raise PlanError(path, f"a {type(value).__name__}, not a boolean", allowed="true | false")
    return value


_multiplier = partial(validate.size, minimum=(1 + 2 * _MOST_POSITIVES) / validate.MOST)  # no cost is beyond ``MOST``

register_leaf(
    AboveThreshold,
    {
        "threshold_noise_multiplier": _multiplier,
        "query_noise_multiplier": _multiplier,
        "positives": partial(validate.whole, minimum=1, maximum=_MOST_POSITIVES),
        "monotone": _boolean,
    },
    costs=lambda leaf: Pure(float_at_least(_epsilon(leaf))),
)


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Laplace scales of threshold and queries, and the queries' sensitivity: all in the queries' own units."""

    threshold_scale: Rational
    query_scale: Rational
    sensitivity: int
    positives: int = 1
    monotone: bool = False

    def leaf(self) -> AboveThreshold:
        """The ``above-threshold`` leaf of one run: the ratios, rounded down."""
        if self.positives < 1 or self.sensitivity < 1:
            raise UsageError(
                "positives and sensitivity are whole numbers >= 1",
                hint="For example `positives = 1` and `sensitivity = 1`.",
            )
        return AboveThreshold(
            float_at_most(positive(self.threshold_scale, name="threshold_scale") / self.sensitivity),
            float_at_most(positive(self.query_scale, name="query_scale") / self.sensitivity),
            self.positives,
            self.monotone,
        )

    def against(self, threshold: int) -> ScanAgainst:
        """A run against a public ``threshold``."""
        return ScanAgainst(self, threshold)


@dataclass(frozen=True, slots=True)
class ScanAgainst:
    """``spec`` for one run against ``threshold``."""

    spec: SparseVector
    threshold: int

    def leaf(self) -> AboveThreshold:
        """As of ``spec``."""
        return self.spec.leaf()

    def release(self, permit: Permit, path: str, values: Iterable[int]) -> Scan:
        """A run that has answered ``values``, of which there may be none yet.

        It is charged now, whether or not any query will exceed ``threshold``. Whoever computes the queries guarantees
        that neighbouring data move each by at most the sensitivity. Raises ``PermitViolation`` if less noise or more
        positives than certified are asked for (compared exactly).
        """
        asked = self.leaf()
        charge(permit, path, asked, lambda certified: _covers(certified, asked))
        scan = Scan(self.spec, permit.noise, threshold=self.threshold, hidden=partial(watched, permit, path))
        for query in values:
            scan.above(query)
        return scan


class Scan:
    """A run under way. It was charged when it began; ``above`` may be asked until it is ``finished``.

    One answer at a time, however many threads ask; a copy would answer as often again for the same charge,
    so there is none. After the permit's end, and in a fork, the noise itself refuses.
    """

    def __init__(self, spec: SparseVector, noise: Noise, *, threshold: int, hidden: Hidden | None = None) -> None:
        self._spec = spec
        self._noise = noise
        self._hidden: Hidden = hidden or (lambda _, draw: draw())
        self._scales = (Fraction(spec.threshold_scale), Fraction(spec.query_scale))
        public = Statistic("not", (np.array([threshold]),), self._scales)
        self._threshold = int(threshold) + self._hidden(
            public, lambda: two_sided_geometric(1 / Fraction(spec.threshold_scale), noise=noise)
        )
        self._remaining = spec.positives
        self._lock = threading.Lock()
        self.queries = 0

    @property
    def finished(self) -> bool:
        """Whether all answers "above" have been given."""
        return self._remaining == 0

    def above(self, query: int) -> bool:
        """Whether the noisy ``query`` reaches the noisy threshold. Raises ``PermitViolation`` after the end."""
        with self._lock:
            if self.finished:
                raise PermitViolation(
                    "the sparse vector has given every answer that it may give",
                    hint="Begin another run; it is charged anew.",
                )
            self.queries += 1
            reached = self._hidden(
                Statistic("l1", (np.array([query]),), self._scales),
                lambda: (
                    int(query) + two_sided_geometric(1 / Fraction(self._spec.query_scale), noise=self._noise)
                    >= self._threshold
                ),
            )
            self._remaining -= reached
            return bool(reached)

    def __reduce__(self) -> NoReturn:
        raise PermitViolation("a sparse vector's run cannot be copied or pickled", hint="Begin another run.")


def _covers(certified: AboveThreshold, asked: AboveThreshold) -> bool:
    return (
        asked.threshold_noise_multiplier >= certified.threshold_noise_multiplier
        and asked.query_noise_multiplier >= certified.query_noise_multiplier
        and asked.positives <= certified.positives
        and (asked.monotone or not certified.monotone)
    )


MECHANISM = Mechanism(AboveThreshold.kind, SparseVector, "exact geometric noise on threshold and queries", ASSUMPTIONS)
