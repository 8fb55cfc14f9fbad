"""Whether anybody could know the samples (fault 13): then sampling hides nobody, and amplifies nothing.

The curve of a sampled mechanism averages over samples that the adversary does not know. Of whoever knows them it
is the curve of the mechanism by itself, at each use that the record is in.
"""

from __future__ import annotations

from affidavit.accountant.plan import Plan
from affidavit.accountant.settle import known
from affidavit.accountant.validate import Relation
from affidavit.audits.checks import Check
from affidavit.audits.trace.events import Trace
from affidavit.audits.trace.samples import subsample_nodes

__all__ = ["sample_source"]

_NAME = "sample source"
_FAULT = 13


def sample_source(trace: Trace, plan: Plan, *, relation: Relation, delta: float | None) -> tuple[Check, ...]:
    """One check where the plan samples, none where it does not. ``delta``: at which to tell what one use costs."""
    nodes = list(subsample_nodes(plan))
    if not nodes:
        return ()
    source = trace.run.sampling if trace.run else None
    if source is None:
        detail = "no run line says where samples come from"
        return (Check(name=_NAME, number=_FAULT, status="not checked", detail=detail),)
    if source.seed is None:
        detail = f"{source.algorithm}, without a seed, as stated by the run"
        return (Check(name=_NAME, number=_FAULT, status="consistent", seen=1, detail=detail),)
    path, node, _ = nodes[0]
    detail = "the samples were seeded: whoever knows the seed knows who is in them, and sampling hides nobody"
    if delta is not None:
        alone = known(node.of, relation=relation, delta=delta)[0].epsilon_lower
        detail += f"; one use that a record is known to be in costs at least {alone:.4g}"
    return (Check(name=_NAME, number=_FAULT, status="fault", path=path, seen=1, detail=detail),)
