"""How likely it is that an outcome shows everything: δ of approximate mechanisms, through samples and repeats.

An (ε, δ)-DP mechanism may be one that fails with probability δ, and then shows its input (Kairouz, Oh and
Viswanath 2015, theorem 3.3). On a sample it shows the changed record where that is sampled, and the other data set
never has it: samples without it may be as those of the other side, unless ``absent`` says what they cost. So, in the
direction from the record, a plan costs infinity at every δ below this probability, whatever else is in it. A sample
that the record enters where it leaves others shows it in the other direction, and does not count.

Beside a failure of mass f, losses without end leave δ(ε) = f + (1 − f) δ_rest(ε) > f at every ε.

The other way round, all is as without the record where no sample takes it: what is on samples alone costs nothing at a
δ that is at least the probability p that one takes it, since the two laws share a mass of 1 − p.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from affidavit.accountant import nodes
from affidavit.accountant.cases.case import Case
from affidavit.accountant.cases.nodes import Moved
from affidavit.accountant.leaves import facts
from affidavit.accountant.rounding import POWER

__all__ = ["certain_failure", "costs_infinity", "most_taken"]


def certain_failure(case: Case) -> float:
    """A lower side of the P-mass at loss +inf; 0 where nothing is known."""
    log = math.fsum(count * _log_intact(node) for node, count in case.fixed)
    return -math.expm1(log) * (1.0 - POWER)


def _log_intact(node: nodes.Plan) -> float:
    """ln of the probability that one use does not fail."""
    match node:
        case nodes.Approximate(delta=delta):
            return _log_rest(delta)
        case nodes.Poisson(absent=nodes.Plan()) | Moved(leaves=False):
            return 0.0
    return _log_without(node, _log_intact, 0.0)


def _log_without(node: nodes.Plan, below: Callable[[nodes.Plan], float], other: float) -> float:
    """ln of the probability that nothing happens in a node, from that ``below``; of any other node ``other``."""
    match node:
        case nodes.Poisson() | nodes.WithoutReplacement():
            return _log_rest(node.rate * -math.expm1(below(node.of)))
        case Moved(node=sample):
            return below(sample)
        case nodes.Compose() | nodes.Repeat():
            return math.fsum(count * below(one) for one, count in nodes.unrolled(node))
    return other


def _log_rest(chance: float) -> float:
    return math.log1p(-chance) if chance < 1.0 else -math.inf


def costs_infinity(case: Case, delta: float) -> bool:
    """Whether it shows that δ(ε) > ``delta`` at every ε."""
    if certain_failure(case) > delta:
        return True
    failing = max((node.delta for node, _ in case.fixed if isinstance(node, nodes.Approximate)), default=0.0)
    return failing >= delta and any(isinstance(node, nodes.Leaf) and facts(node).is_endless for node, _ in case.fixed)


def most_taken(case: Case) -> float:
    """At least the probability that some sample takes the record; 1 where something is not on a sample."""
    if case.exponentials:
        return 1.0
    log = math.fsum(count * _log_left_out(node) for node, count in case.fixed)
    return min(1.0, -math.expm1(log) * (1.0 + POWER))


def _log_left_out(node: nodes.Plan) -> float:
    """ln of at most the probability that the record is not in it."""
    return _log_without(node, _log_left_out, -math.inf)
