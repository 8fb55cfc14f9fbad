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
before any draw, so as to detect half the noise (``design``). The test is made in both directions
at α/2 each: a sign error shows as well.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.plan import Leaf, Plan, Repeat, leaves
from affidavit.accountant.validate import Relation
from affidavit.audits.attacks.cases import Case, Release
from affidavit.audits.attacks.protocol import access
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.power import per_run_power
from affidavit.audits.statistics.tradeoff import TradeoffCurve, TradeoffTest, violation_test

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
ENOUGH_POWER = 0.999
"""What a design aims at."""
REQUIRED_POWER = 0.95
"""Below it an audit that refutes nothing says nothing: decided by the prediction, before any draw."""
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
    def plan(self) -> Plan:
        """What one trial runs."""
        return sub_plan(self.case.leaf, uses=self.uses * self.case.leaf_uses)


@dataclass(frozen=True, slots=True)
class OneStepResult:
    """Counts and tests in both directions, and the empirical ROC of the statistic.

    ``repeated``: all trials of a side gave one and the same output, on both sides, and as certified that would have
    happened with probability below ``REPEATED_ALPHA``: nothing fresh is drawn.
    """

    counts: tuple[Counts, Counts]
    tests: tuple[TradeoffTest, TradeoffTest]
    curve_points: tuple[tuple[float, float], ...]
    repeated: bool = False

    @property
    def violated(self) -> bool:
        """Whether either direction refutes the curve, each at half the level."""
        return any(test.violated for test in self.tests)

    @property
    def excess(self) -> float:
        """The larger of the two directions' TPR₋ − (1 − f(FPR₊))."""
        return max(test.excess for test in self.tests)


def design(
    cases: Sequence[Case], curves: Callable[[int], TradeoffCurve], *, uses: Sequence[int], trials: int, alpha: float
) -> Design:
    """The pair, the number of uses and the threshold with the most power against half the noise.

    ``curves`` gives the certified curve of a number of releases. The first of ``uses`` whose
    power reaches 99.9 % is taken, so that an audit is no slower than it must be.
    """
    best: Design | None = None
    for count in uses:
        curve = curves(count)
        candidate = max(_candidates(cases, curve, count, trials, alpha), key=lambda pair: pair[0], default=None)
        if candidate is None:
            continue
        _, case, threshold = candidate
        rival = Design(case, count, threshold, trials, alpha, power=0.0)
        rival = replace(rival, power=_power(rival, curve))
        if best is None or rival.power > best.power:
            best = rival
        if best.power >= ENOUGH_POWER:
            break
    if best is None:
        raise ValueError("design: no case, or no number of uses, was given")
    return best


def trials_needed(cases: Sequence[Case], curve: TradeoffCurve, *, uses: int, alpha: float, above: int) -> int | None:
    """The first of 1, 2, 5, 10, … trials a side, beyond ``above``, with which half the noise is surely noticed.

    ``curve`` is that of ``uses`` releases. None where ``MOST_TRIALS`` would not do.
    """

    def enough(trials: int) -> bool:
        return design(cases, lambda _: curve, uses=[uses], trials=trials, alpha=alpha).power >= ENOUGH_POWER

    numbers: list[int] = [digit * 10**zeros for zeros in range(len(str(MOST_TRIALS))) for digit in (1, 2, 5)]
    numbers = [trials for trials in numbers if above < trials <= MOST_TRIALS]
    if not numbers or not enough(numbers[-1]):
        return None
    return numbers[bisect_left(numbers, True, hi=len(numbers) - 1, key=enough)]


def _candidates(
    cases: Sequence[Case], curve: TradeoffCurve, uses: int, trials: int, alpha: float
) -> Iterator[tuple[float, Case, float]]:
    """Each rival with the excess that half the noise would show on average, in standard errors."""
    for case in cases:
        for threshold in case.thresholds(uses):
            hits, alarms = (case.tail(threshold, uses=uses, member=member, noise=0.5) for member in (True, False))
            counts = Counts(round(hits * trials), trials, round(alarms * trials), trials)
            test = violation_test(counts, curve, alpha=alpha / DIRECTIONS)
            slope = (
                max(0.0, curve.false_negative_rate(alarms) - curve.false_negative_rate(min(1.0, alarms + 1e-3))) / 1e-3
            )
            spread = ((hits * (1.0 - hits) + slope**2 * alarms * (1.0 - alarms)) / trials) ** 0.5
            yield test.excess / (spread + 1e-3), case, threshold


def _power(plan: Design, curve: TradeoffCurve) -> float:
    """Of either direction: they cannot both refute."""
    rates = plan.rates(noise=0.5)
    return sum(
        per_run_power(hits, alarms, curve, members=plan.trials, non_members=plan.trials, alpha=plan.alpha / DIRECTIONS)
        for hits, alarms in (rates, (1.0 - rates[0], 1.0 - rates[1]))
    )


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

    def statistics(self, release: Release, *, member: bool) -> list[float]:
        """One statistic a trial: the sum over its releases."""
        case = self.design.case
        inputs = case.inputs(member=member)
        results = []
        for _ in range(self.design.trials):
            permit = AuditPermit(self.design.plan, self.relation, self.noise)
            drawn = (release(permit, _TRIAL_PATH, inputs) for _ in range(self.design.uses))
            results.append(sum(case.statistic(value) for value in drawn))
        return results

    def run(self, release: Release, curve: TradeoffCurve, *, null: bool = False) -> OneStepResult:
        """Both sides, counted at the threshold and held against the curve; ``null`` gives both sides one input."""
        import numpy as np

        record_in = np.asarray(self.statistics(release, member=not null))
        record_out = np.asarray(self.statistics(release, member=False))
        threshold, trials = self.design.threshold, self.design.trials
        hits, alarms = int((record_in >= threshold).sum()), int((record_out >= threshold).sum())
        counts = (Counts(hits, trials, alarms, trials), Counts(trials - hits, trials, trials - alarms, trials))
        first, second = (violation_test(each, curve, alpha=self.design.alpha / DIRECTIONS) for each in counts)
        return OneStepResult(
            counts,
            (first, second),
            _roc(record_in, record_out),
            repeated=self._repeated(record_in, record_out, null=null),
        )

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
            chance *= rate**self.design.trials + (1.0 - rate) ** self.design.trials
        return chance <= REPEATED_ALPHA


def _roc(record_in: _Values, record_out: _Values) -> tuple[tuple[float, float], ...]:
    """At most 50 points of the empirical ROC, from (0, 0) to (1, 1)."""
    import numpy as np

    values = np.unique(np.concatenate([record_in, record_out]))[::-1]
    if len(values) > 48:
        values = np.quantile(values, np.linspace(1.0, 0.0, 48))
    rates = [(float((record_out >= value).mean()), float((record_in >= value).mean())) for value in values]
    return ((0.0, 0.0), *rates, (1.0, 1.0))
