"""How likely it is that an outcome shows everything: δ of approximate mechanisms, through samples and repeats.

An (ε, δ)-DP mechanism may be one that fails with probability δ, and then shows its input (Kairouz, Oh and
Viswanath 2015, theorem 3.3). On a sample it shows the changed record where that is sampled, and the other data set
never has it: samples without it may be as those of the other side, unless ``absent`` says what they cost. So, in the
direction from the record, a plan costs infinity at every δ below this probability, whatever else is in it. A sample
that the record enters where it leaves others shows it in the other direction, and does not count.
"""

from __future__ import annotations

import math

from affidavit.accountant.cases.case import Moved
from affidavit.accountant.cases.scenario import Scenario
from affidavit.accountant.plan import Approximate, Compose, Plan, Poisson, Repeat, WithoutReplacement

__all__ = ["certain_failure"]

ROUNDING = 1e-12


def certain_failure(scenario: Scenario) -> float:
    """A lower side of the P-mass at loss +inf; 0 where nothing is known."""
    log = math.fsum(count * _log_intact(node) for node, count in scenario.fixed)
    return -math.expm1(log) * (1.0 - ROUNDING)


def _log_intact(node: Plan) -> float:
    """ln of the probability that one use does not fail."""
    match node:
        case Approximate(delta=delta):
            failure = delta
        case Poisson(rate=rate, of=of, absent=None):
            failure = rate * -math.expm1(_log_intact(of))
        case WithoutReplacement(population=population, sample=sample, of=of) if population:
            failure = sample / population * -math.expm1(_log_intact(of))
        case Moved(node=sample, leaves=True):
            return _log_intact(sample)
        case Repeat(count=count, of=of):
            return count * _log_intact(of) if count else 0.0
        case Compose(parts=parts):
            return math.fsum(map(_log_intact, parts))
        case _:
            return 0.0
    return math.log1p(-failure) if failure < 1.0 else -math.inf
