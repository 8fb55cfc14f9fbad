"""What the run says that it cost, beside what its plan costs (fault 5).

Where a generator stops depends on the data, so a cost that is computed from where it stopped is no bound, and
tells something of the data besides. What holds is the cost of the whole plan. A stated ε below the lower side of the
plan's ε at the same δ is refuted by an explicit strategy, not by our bound alone.
"""

from __future__ import annotations

from affidavit.accountant.plan import Plan
from affidavit.accountant.settle import known
from affidavit.accountant.validate import Relation
from affidavit.audits.checks import Check
from affidavit.audits.trace.events import Trace

__all__ = ["stated_cost"]

_NAME = "stated cost"
_FAULT = 5


def stated_cost(trace: Trace, plan: Plan, *, relation: Relation) -> Check:
    """Hold the least ε that the run states, at each δ, against the plan's."""
    if not trace.claims:
        return Check(name=_NAME, number=_FAULT, status="not checked", detail="the run states no cost of its own")
    below = 0
    for delta in sorted({claim.delta for claim in trace.claims}):
        stated = min(claim.epsilon for claim in trace.claims if claim.delta == delta)
        costs, _ = known(plan, relation=relation, delta=delta)
        if stated < costs.epsilon_lower:
            detail = (
                f"the run says that it cost {stated:.4g}; whatever it drew, its plan costs at least "
                f"{costs.epsilon_lower:.4g} at delta {delta:g}"
            )
            return Check(name=_NAME, number=_FAULT, status="fault", seen=len(trace.claims), detail=detail)
        below += stated < costs.epsilon_upper
    if below:
        detail = "the stated cost lies between both sides of the bound"
        return Check(name=_NAME, number=_FAULT, status="underpowered", seen=len(trace.claims), detail=detail)
    detail = f"{len(trace.claims)} stated costs are not below the plan's"
    return Check(name=_NAME, number=_FAULT, status="consistent", seen=len(trace.claims), detail=detail)
