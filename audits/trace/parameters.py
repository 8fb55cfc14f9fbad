"""The parameters that mechanisms ran with, beside the certified ones (fault 9, an inert parameter).

A generator that hard-codes a parameter elsewhere runs with another value than the one in its plan as soon
as the plan's is changed. On the unsafe side that breaks the certificate; on the other it still means that
what was certified is not what ran. Rounding is allowed for: 1e-6
relative, and the 2^-36 that a softmax's range is certified above what it runs with.

A parameter holds for a relation: a sum that one record moves by Δ when it leaves may move by 2Δ when it is replaced. A
run that states its parameters for another relation than the plan's is no case of an inert one.
"""

from __future__ import annotations

from affidavit.accountant.plan import Plan, leaves
from affidavit.accountant.validate import Relation
from affidavit.audits.checks import Check
from affidavit.audits.trace.events import Trace

__all__ = ["parameters"]

_RELATIVE = 1e-6
_ABSOLUTE = 2.0**-34
_NAME = "parameters in force"
_FAULT = 9
_BETWEEN_RELATIONS = (2.0, 0.5, 2.0**0.5, 0.5**0.5)
"""What a sensitivity grows or shrinks by, from one relation to another."""


def parameters(trace: Trace, plan: Plan, *, relation: Relation) -> tuple[Check, ...]:
    """A fault for each mechanism that ran with another parameter (its first such use), else one line for all."""
    stated_for = trace.run.relation if trace.run else None
    if stated_for is not None and stated_for != relation:
        detail = f"the run states its parameters for {stated_for}, the plan is for {relation}"
        nothing = "they hold for another relation"
        return (
            Check(name="relation", status="fault", seen=1, detail=detail),
            Check(name=_NAME, number=_FAULT, status="not checked", detail=nothing),
        )
    found = {path: leaf for path, leaf, _ in leaves(plan)}
    faults: dict[str, Check] = {}
    stated = 0
    for draw in trace.draws:
        leaf = found.get(draw.path)
        realised = draw.stated(leaf) if leaf is not None else {}
        stated += bool(realised)
        for name, value in realised.items():
            certified = getattr(leaf, name)
            if abs(value - certified) > _RELATIVE * abs(certified) + _ABSOLUTE:
                detail = f"use {draw.use} ran with {name} {value:.6g}, certified is {certified:.6g}"
                if stated_for is None and any(
                    abs(value - f * certified) <= _RELATIVE * abs(value) for f in _BETWEEN_RELATIONS
                ):
                    detail += "; so it would be for another relation, which `relation` on the run line would say"
                faults.setdefault(
                    draw.path, Check(name=_NAME, number=_FAULT, status="fault", path=draw.path, seen=1, detail=detail)
                )
    if faults:
        return tuple(faults.values())
    if not stated:
        return (
            Check(
                name=_NAME, number=_FAULT, status="not checked", detail="no draw repeats a parameter as it was in force"
            ),
        )
    detail = f"{stated} of {len(trace.draws)} draws state the certified values"
    return (Check(name=_NAME, number=_FAULT, status="consistent", seen=stated, detail=detail),)
