"""The one-step audit: a mechanism's own release, on inputs chosen to tell two neighbours apart.

No language model is involved, so a trial costs microseconds and the audit has real power. The
release function that generation uses is run many times on each side of the worst pair that its
certified leaf admits, and what comes out is held against the leaf's certified trade-off curve.
The pairs are in ``cases``, for every registered mechanism. A trial makes ``uses`` releases, each with
fresh randomness, and its statistic is a sum over what came out; it is held against the curve of
``repeat(uses, leaf)`` (twice the uses, where one release makes two).

One use of a leaf of ε = 1 is enough: with n = 1,000 a side, range 1 and half the noise give
P(A) = .73 against .27, where the curve admits .50. The leaves of a certificate for many tokens
cost a small fraction of its ε each; one use of those says nothing, so as many as needed are
made. Which pair, which threshold and how many uses is decided from the *certified* numbers alone,
before any draw, so as to detect half the noise (``design``).

Trials are drawn in pairs, one with the record and one without it, and stop as soon as it is known how the audit ends: a
bet against the claim on a fifth of α (``statistics.sequential``) proves a violation, or half the noise is ruled out
but for once in 10,000 audits of it. After the last pair the exact joint test of both rates has what is left of α, half
of it in each direction, so that a sign error shows as well.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.plan import Leaf, Plan, Repeat, leaves
from affidavit.accountant.validate import Relation
from affidavit.audits.attacks.cases import Case, Release
from affidavit.audits.attacks.protocol import access
from affidavit.audits.statistics.boundaries import TradeoffCurve, of_curve
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.divergence import distance
from affidavit.audits.statistics.joint import JointTest, outcome, violation_test
from affidavit.audits.statistics.power import per_run_power
from affidavit.audits.statistics.sequential import Alternative, Known, Sequential

if TYPE_CHECKING:
    from typing import TypeAlias

    import numpy as np

    from affidavit.mechanisms.base import Noise

    _Values: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

__all__ = [
    "ENOUGH_POWER",
    "MOST_TRIALS",
    "REPEATED_ALPHA",
    "REQUIRED_POWER",
    "AuditPermit",
    "Design",
    "OneStep",
    "OneStepResult",
    "design",
    "sub_plan",
    "trials_needed",
]

DIRECTIONS = 2
EARLY = 0.2
"""The share of alpha that is for refuting a claim before the last pair."""
GIVEN_UP = 1e-4
"""The power that is given up for stopping where nothing is wrong."""
ENOUGH_POWER = 0.999
"""What a design aims at."""
REQUIRED_POWER = 0.95
"""Below it an audit that refutes nothing says nothing: decided by the prediction, before any draw."""
SURE_POWER = 0.9999
"""What is asked of a number of trials that is told before it is tried."""
_KINK = 1.1
"""By how much the square of a test's limit exceeds that of a normal one, at most: where a curve has a corner."""
REPEATED_ALPHA = 1e-9
"""Of calling a release that draws afresh one that repeats itself; it adds to the audit's alpha."""
MOST_TRIALS = 200_000
"""The most trials a side that are considered where fewer have no power: beyond, an audit takes hours."""


@dataclass(slots=True)
class AuditPermit:
    """What a mechanism's ``release`` asks of a permit, for chosen inputs: no ledger, no data, the same refusals.

    One trial each: it grants the uses of ``plan`` and not one more.
    """

    plan: Plan
    relation: Relation
    noise: Noise
    uses: dict[str, int] = field(default_factory=dict, init=False)
    _granted: dict[str, tuple[Leaf, int]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._granted = {path: (leaf, count) for path, leaf, count in leaves(self.plan)}

    def use(self, path: str) -> Leaf:
        """Charge one use. Raises ``PermitViolation`` for an unknown path or one use too many."""
        leaf, count = self._granted.get(path, (None, 0))
        used = self.uses.get(path, 0)
        if leaf is None or used >= count:
            raise PermitViolation(f"{path}: {count} uses are certified", hint="a trial draws what its plan says")
        self.uses[path] = used + 1
        return leaf

    def finish(self, path: str) -> None:
        """Leave a node early: what is left of it is not granted any more."""
        for granted, (_, count) in self._granted.items():
            if granted.startswith(path):
                self.uses[granted] = count


def sub_plan(leaf: Leaf, *, uses: int) -> Plan:
    """The plan of one trial."""
    return Repeat(uses, leaf)


_TRIAL_PATH = "plan.of"


@dataclass(frozen=True, slots=True)
class Design:
    """Everything about the audit that is fixed before the first draw.

    ``uses`` is the number of releases a trial. ``power`` is the chance, exact, that a release with
    half the noise is caught; the design is the one among its rivals with the most.
    """

    case: Case
    uses: int
    threshold: float
    trials: int
    alpha: float
    power: float

    @property
    def powered(self) -> bool:
        """Whether half the noise would surely enough be caught."""
        return self.power >= REQUIRED_POWER

    def rates(self, *, noise: float) -> tuple[float, float]:
        """The chance of the event with the record and without it, at a share of the certified noise."""
        hit, alarm = (
            self.case.tail(self.threshold, uses=self.uses, member=member, noise=noise) for member in (True, False)
        )
        return hit, alarm

    @property
    def last_alpha(self) -> float:
        """Of the test after the last pair, in one direction."""
        return self.alpha * (1.0 - EARLY) / DIRECTIONS

    @property
    def early_alpha(self) -> float:
        """Of refuting before the last pair."""
        return self.alpha * EARLY

    def watch(self, curve: TradeoffCurve) -> Sequential:
        """What may stop the trials: stakes on half the noise, on an eighth of it, and on a sign error.

        Where the design has too little power, silence says nothing however soon it comes: only a violation stops it.
        """
        half, little = self.rates(noise=0.5), self.rates(noise=0.125)
        faults = (Alternative(*half, 0.6), Alternative(*little, 0.2), Alternative(half[1], half[0], 0.2))
        beta = GIVEN_UP if self.powered else 0.0
        return Sequential.against(of_curve(curve), faults, alpha=self.early_alpha, beta=beta)

    def pairs_expected(self, curve: TradeoffCurve) -> tuple[int, int]:
        """About how many pairs it takes as certified, and at half the noise."""
        watch = self.watch(curve)
        certified = watch.pairs_until_consistent(*self.rates(noise=1.0))
        halved = watch.pairs_until_refuted(*self.rates(noise=0.5))
        return math.ceil(min(certified, self.trials)), math.ceil(min(halved, self.trials))

    @property
    def plan(self) -> Plan:
        """What one trial runs."""
        return sub_plan(self.case.leaf, uses=self.uses * self.case.leaf_uses)


@dataclass(frozen=True, slots=True)
class OneStepResult:
    """Counts and tests in both directions, and the empirical ROC of the statistic.

    ``known``: what was settled before the last pair; ``open`` where all were drawn.

    ``repeated``: all trials of a side gave one and the same output, on both sides, and as certified that would have
    happened with probability below ``REPEATED_ALPHA``: nothing fresh is drawn.
    """

    counts: tuple[Counts, Counts]
    tests: tuple[JointTest, JointTest]
    curve_points: tuple[tuple[float, float], ...]
    known: Known = "open"
    repeated: bool = False

    @property
    def pairs(self) -> int:
        """How many were drawn."""
        return self.counts[0].members

    @property
    def violated(self) -> bool:
        """Whether the curve is refuted: before the last pair, or in either direction after it."""
        return any(test.violated for test in self.tests)

    @property
    def excess(self) -> float:
        """The larger of the two directions'."""
        return max(test.excess for test in self.tests)


def design(
    cases: Sequence[Case], curves: Callable[[int], TradeoffCurve], *, uses: Sequence[int], trials: int, alpha: float
) -> Design:
    """The pair, the number of uses and the threshold with the most power against half the noise.

    ``curves`` gives the certified curve of a number of releases. The first of ``uses`` whose
    power reaches 99.9 % is taken, so that an audit is no slower than it must be.
    """
    if not cases or not uses:
        raise ValueError("design: no case, or no number of uses, was given")
    found: list[tuple[float, Design]] = []
    for count in uses:
        case, threshold, each = _farthest(cases, curves(count), count)
        rival = Design(case, count, threshold, trials, alpha, power=0.0)
        found.append((likely := _likely_power(each, trials=trials, alpha=rival.last_alpha), rival))
        if likely >= REQUIRED_POWER:
            rival = replace(rival, power=_power(rival, curves(count)))
            found[-1] = (rival.power, rival)
        if rival.power >= ENOUGH_POWER:
            return rival
    _, best = max(found, key=lambda pair: pair[0])
    return best if best.power > 0.0 else replace(best, power=_power(best, curves(best.uses)))


def trials_needed(cases: Sequence[Case], curve: TradeoffCurve, *, uses: int, alpha: float, above: int) -> int | None:
    """The first of 1, 2, 5, 10, … trials a side, beyond ``above``, with which half the noise is surely noticed.

    ``curve`` is that of ``uses`` releases. None where ``MOST_TRIALS`` would not do. Told from the distance between half
    the noise and the claim, not by the exact power of so many trials.
    """
    case, threshold, each = _farthest(cases, curve, uses)
    level = Design(case, uses, threshold, above, alpha, power=0.0).last_alpha

    def enough(trials: int) -> bool:
        return _likely_power(each, trials=trials, alpha=level) >= SURE_POWER

    numbers: list[int] = [digit * 10**zeros for zeros in range(len(str(MOST_TRIALS))) for digit in (1, 2, 5)]
    numbers = [trials for trials in numbers if above < trials <= MOST_TRIALS]
    if not numbers or not enough(numbers[-1]):
        return None
    return numbers[bisect_left(numbers, True, hi=len(numbers) - 1, key=enough)]


def _farthest(cases: Sequence[Case], curve: TradeoffCurve, uses: int) -> tuple[Case, float, float]:
    """The case and threshold where half the noise is farthest from what is certified, and the divergence of a pair."""
    import numpy as np

    rivals = [(case, threshold) for case in cases for threshold in case.thresholds(uses)]
    hits, alarms = (
        np.asarray([case.tail(threshold, uses=uses, member=member, noise=0.5) for case, threshold in rivals])
        for member in (True, False)
    )
    far = distance(of_curve(curve), np.clip(hits, 0.0, 1.0), np.clip(alarms, 0.0, 1.0), members=1.0, non_members=1.0)
    best = int(np.argmax(far))
    return (*rivals[best], float(far[best]))


def _likely_power(each: float, *, trials: int, alpha: float) -> float:
    """Of the test after the last pair: √(2D) is about normal with standard deviation 1 about √(2 trials · each)."""
    from scipy.special import ndtr, ndtri

    return float(ndtr((2.0 * trials * each) ** 0.5 - (float(ndtri(1.0 - alpha)) ** 2 + _KINK) ** 0.5))


def _power(plan: Design, curve: TradeoffCurve) -> float:
    """Of the test after the last pair in either direction (they cannot both refute), less what stopping early costs."""
    rates = plan.rates(noise=0.5)
    sides = {"members": plan.trials, "non_members": plan.trials}
    found = sum(
        per_run_power(hits, alarms, curve, **sides, alpha=plan.last_alpha)
        for hits, alarms in (rates, (1.0 - rates[0], 1.0 - rates[1]))
    )
    return max(0.0, min(1.0, found) - GIVEN_UP)


@dataclass(frozen=True, slots=True)
class OneStep:
    """Runs a design against a release function.

    ``noise`` is where the *mechanism* draws from: secure unless a test asks for reproducible
    draws. Nothing else here is random.
    """

    name = "one-step"
    needs = access("mechanism")

    design: Design
    relation: Relation
    noise: Noise

    def run(
        self, release: Release, curve: TradeoffCurve, *, null: bool = False, to_the_end: bool = False
    ) -> OneStepResult:
        """Draw pairs until it is known, at the latest ``trials``; ``null`` gives both sides one input.

        ``to_the_end`` draws them all. While all outputs of a side are one and the same nothing is called consistent: it
        may be that none is fresh.
        """
        import numpy as np

        settled, boundary = self.design, of_curve(curve)
        watch, threshold = settled.watch(curve), settled.threshold
        record_in: list[float] = []
        record_out: list[float] = []
        hits = alarms = 0
        known: Known = "open"
        fresh = False
        for pair in range(1, settled.trials + 1):
            record_in.append(self._trial(release, member=not null))
            record_out.append(self._trial(release, member=False))
            hits += record_in[-1] >= threshold
            alarms += record_out[-1] >= threshold
            fresh = fresh or record_in[-1] != record_in[0] or record_out[-1] != record_out[0]
            if to_the_end or pair == settled.trials:
                continue
            known = watch.known(pair, hits, alarms)
            if known == "refuted" or (known == "consistent" and fresh):
                break
        pairs = len(record_in)
        counts = (Counts(hits, pairs, alarms, pairs), Counts(pairs - hits, pairs, pairs - alarms, pairs))
        if pairs == settled.trials:
            known = "open"
            first, second = (violation_test(each, curve, alpha=settled.last_alpha) for each in counts)
        else:
            radius = -math.log(settled.early_alpha)
            above = hits > alarms  # the direction that refutes
            first, second = (
                outcome(each, boundary, radius=radius, violated=known == "refuted" and towards, shrink=0.0)
                for each, towards in zip(counts, (above, not above), strict=True)
            )
        inside, outside = np.asarray(record_in), np.asarray(record_out)
        repeated = self._repeated(inside, outside, null=null)
        return OneStepResult(counts, (first, second), _roc(inside, outside), known=known, repeated=repeated)

    def _trial(self, release: Release, *, member: bool) -> float:
        """One statistic: the sum over a trial's releases."""
        case = self.design.case
        inputs = case.inputs(member=member)
        permit = AuditPermit(self.design.plan, self.relation, self.noise)
        drawn = (release(permit, _TRIAL_PATH, inputs) for _ in range(self.design.uses))
        return sum(case.statistic(value) for value in drawn)

    def _repeated(self, record_in: _Values, record_out: _Values, *, null: bool) -> bool:
        """Whether every trial repeats the first of its side, against the certified law.

        Trials that are all equal are all on the same side of any threshold, which n independent ones are with
        probability t^n + (1 − t)^n, t the certified chance of an output beyond it.
        """
        if bool((record_in != record_in[0]).any() or (record_out != record_out[0]).any()):
            return False
        hit, alarm = self.design.rates(noise=1.0)
        chance = 1.0
        for rate in (alarm if null else hit, alarm):
            chance *= rate ** len(record_in) + (1.0 - rate) ** len(record_in)
        return chance <= REPEATED_ALPHA


def _roc(record_in: _Values, record_out: _Values) -> tuple[tuple[float, float], ...]:
    """At most 50 points of the empirical ROC, from (0, 0) to (1, 1)."""
    import numpy as np

    values = np.unique(np.concatenate([record_in, record_out]))[::-1]
    if len(values) > 48:
        values = np.quantile(values, np.linspace(1.0, 0.0, 48))
    rates = [(float((record_out >= value).mean()), float((record_in >= value).mean())) for value in values]
    return ((0.0, 0.0), *rates, (1.0, 1.0))
