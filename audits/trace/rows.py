"""Every record's row is in the sum (fault 8), and disjoint parts of the data are disjoint."""

from __future__ import annotations

from affidavit.accountant.plan import Plan
from affidavit.audits.checks import Check, Status
from affidavit.audits.trace.counts import parallel_parts
from affidavit.audits.trace.events import Batch, Sample, Trace

__all__ = ["disjoint_parts", "summed_rows"]

_ROWS = "rows in the sum"
_DISJOINT = "disjoint parts"


def summed_rows(trace: Trace) -> Check:
    """As many rows entered each sum as its batch or sample has members.

    A batch or a sample may say so itself (``rows``), or each draw below it.
    """
    groups: tuple[Batch | Sample, ...] = (*trace.batches, *trace.samples)
    for line in groups:
        if line.rows is not None and line.rows != len(line.members):
            return _lost(line.path, len(line.members), line.rows)
    looked_at = sum(line.rows is not None for line in groups)
    members_at = {line.path: len(line.members) for line in trace.batches}
    for draw in trace.draws:
        path = draw.path
        while path and path not in members_at:
            path = path.rpartition(".")[0]
        if draw.rows is None or not path:
            continue
        looked_at += 1
        if draw.rows != members_at[path]:
            return _lost(draw.path, members_at[path], draw.rows)
    if not looked_at:
        return Check(name=_ROWS, number=8, status="not checked", detail="no line says how many rows entered its sum")
    return Check(name=_ROWS, number=8, status="consistent", seen=looked_at, detail=f"{looked_at} sums are whole")


def _lost(path: str, members: int, rows: int) -> Check:
    return Check(
        name=_ROWS,
        number=8,
        status="fault",
        path=path,
        seen=members,
        detail=f"{members} members, but {rows} rows in the sum",
    )


def disjoint_parts(trace: Trace, plan: Plan) -> tuple[Check, ...]:
    """No record is in two parts of a ``parallel`` node: else the parts add up instead of the largest counting."""
    checks = []
    for parts in parallel_parts(plan):
        node = parts[0].rpartition(".")[0] if parts else "plan"
        if ".of" in node:
            detail = "below a repeat or a sample, where each use may part the records anew"
            checks.append(Check(name=_DISJOINT, status="not checked", path=node, detail=detail))
            continue
        home: dict[str, str] = {}
        shared = 0
        for line in trace.batches:
            part = next((part for part in parts if line.path == part or line.path.startswith(f"{part}.")), None)
            if part is not None:
                shared += sum(home.setdefault(member, part) != part for member in line.members)
        status: Status
        if shared:
            status, detail = "fault", f"{shared} records are in more than one part"
        elif home:
            status, detail = "consistent", f"{len(home)} records, each in one part"
        else:
            status, detail = "not checked", "no line says which records are in which part"
        checks.append(Check(name=_DISJOINT, status=status, path=node, seen=len(home), detail=detail))
    return tuple(checks)
