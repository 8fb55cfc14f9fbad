"""Every record's row is in the sum (fault 8), no public row among them (7), and disjoint parts are disjoint."""

from __future__ import annotations

from collections.abc import Iterator

from affidavit.accountant.plan import Plan
from affidavit.audits.checks import Check, Status
from affidavit.audits.trace.counts import parallel_parts
from affidavit.audits.trace.events import Batch, Draw, Sample, Trace

__all__ = ["disjoint_parts", "public_rows", "summed_rows"]

_ROWS = "rows in the sum"
_DISJOINT = "disjoint parts"
_PUBLIC = "public rows"


def summed_rows(trace: Trace) -> Check:
    """As many rows entered each sum as its batch or sample has members.

    A batch or a sample may say so itself (``rows``), or each draw below it.
    """
    groups: tuple[Batch | Sample, ...] = (*trace.batches, *trace.samples)
    for line in groups:
        if line.rows is not None and line.rows != len(line.members):
            return _lost(line.path, len(line.members), line.rows)
    looked_at = sum(line.rows is not None for line in groups)
    for draw, members in _matched(trace):
        if draw.rows is not None:
            looked_at += 1
            if draw.rows != members:
                return _lost(draw.path, members, draw.rows)
    if not looked_at:
        return Check(name=_ROWS, number=8, status="not checked", detail="no line says how many rows entered its sum")
    return Check(name=_ROWS, number=8, status="consistent", seen=looked_at, detail=f"{looked_at} sums are whole")


def public_rows(trace: Trace) -> Check:
    """No row without a record is computed in one batch with rows of records, which may move it."""
    stated = [draw for draw in trace.draws if draw.public_rows is not None]
    mixed = next((draw for draw in stated if draw.public_rows), None)
    if mixed is not None:
        detail = f"use {mixed.use}: {mixed.public_rows} public rows in one batch with private ones, which may move them"
        return Check(name=_PUBLIC, number=7, status="fault", path=mixed.path, seen=len(stated), detail=detail)
    if not stated:
        return Check(
            name=_PUBLIC, number=7, status="not checked", detail="no draw says where public rows were computed"
        )
    return Check(
        name=_PUBLIC, number=7, status="consistent", seen=len(stated), detail="public rows in batches of their own"
    )


def _matched(trace: Trace) -> Iterator[tuple[Draw, int]]:
    """Each draw with the number of records that it should see, where that is clear.

    Below a batch: the batch's. Below a sampled node: its sample's, if the draws there are as many as the samples.
    """
    batches = {line.path: len(line.members) for line in trace.batches}
    sampled: dict[str, list[int]] = {}
    for line in trace.samples:
        sampled.setdefault(line.path, []).append(len(line.members))
    drawn: dict[str, list[Draw]] = {}
    for draw in trace.draws:
        drawn.setdefault(draw.path, []).append(draw)
    for path, draws in drawn.items():
        above = path
        while above and above not in batches and above not in sampled:
            above = above.rpartition(".")[0]
        if above in sampled and len(sampled[above]) == len(draws):
            yield from zip(draws, sampled[above], strict=True)
        elif above in batches:
            yield from ((draw, batches[above]) for draw in draws)


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
