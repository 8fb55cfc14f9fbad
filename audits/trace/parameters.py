"""The parameters that mechanisms ran with, beside the certified ones (fault 9, an inert parameter).

A generator that hard-codes a parameter elsewhere runs with another value than the one in its plan as soon
as the plan's is changed. On the unsafe side that breaks the certificate; on the other it still means that
what was certified is not what ran. Rounding is allowed for: 1e-6
relative, and the 2^-36 that a softmax's range is certified above what it runs with.
"""

from __future__ import annotations

from affidavit.accountant.plan import Plan, leaves
from affidavit.audits.checks import Check
from affidavit.audits.trace.events import Trace

__all__ = ["parameters"]

_RELATIVE = 1e-6
_ABSOLUTE = 2.0**-34
_NAME = "parameters in force"
_FAULT = 9


def parameters(trace: Trace, plan: Plan) -> tuple[Check, ...]:
    """A fault for each mechanism that ran with another parameter (its first such use), else one line for all."""
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
