"""What repeats and what is seeded in one run, and in two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from affidavit.audits.checks import Check, CheckReport, Status
from affidavit.foreign.watch import Call, Watch

__all__ = ["repeat_report", "watch_report"]

_NOISE = ("noise", "choice")
_SAMPLES = ("sample", "coin")
_ENOUGH = 8
"""Numbers that do not come out twice by chance: of a sample, as many members."""


def watch_report(watch: Watch) -> CheckReport:
    """The seeds that were set, and whatever came out twice. No chance is involved."""
    noise = [call for call in watch.calls if call.kind in _NOISE]
    samples = [call for call in watch.calls if call.kind in _SAMPLES]
    checks = (
        _seeds("seeded noise", noise),
        _seeds("seeded samples", samples),
        _twice("repeated noise", [call for call in noise if _marks(call)]),
        _twice("repeated samples", [call for call in samples if call.size >= _ENOUGH]),
    )
    return CheckReport(title="watch", checks=checks, alpha=0.0)


def repeat_report(first: Watch, second: Watch, *, same_texts: bool | None) -> CheckReport:
    """Two runs without a seed of ours: what they have in common is no noise. ``same_texts``: None if they gave none."""
    name = "fresh runs"
    drawn = [{call.digest: call for call in watch.calls if _marks(call)} for watch in (first, second)]
    common = drawn[0].keys() & drawn[1].keys()
    if common:
        sites = sorted({drawn[0][digest].site for digest in common})
        detail = f"{len(common)} of {len(drawn[0])} draws are the same in two runs: {_list(sites)}"
        status: Status = "fault"
    elif drawn[0]:
        status, detail = "consistent", f"{len(drawn[0])} draws, none of them in another run"
    elif same_texts:
        status, detail = "underpowered", "two runs gave the same texts, and no noise was seen that would tell why"
    else:
        status, detail = "not checked", "no noise was seen"
    check = Check(name=name, number=13, status=status, seen=len(drawn[0]), detail=detail)
    return CheckReport(title="repeat", checks=(check,), alpha=0.0)


def _marks(call: Call) -> bool:
    """Whether two such draws are never equal by chance: noise of two coordinates, or the state behind a choice."""
    return bool(call.digest) and (call.kind == "choice" or (call.kind == "noise" and call.size >= 2))


def _seeds(name: str, calls: Sequence[Call]) -> Check:
    seeded = [call for call in calls if call.source.seed is not None]
    if seeded:
        sites = dict.fromkeys(f"{call.site} ({call.source.library}, seed {call.source.seed})" for call in seeded)
        detail = f"{len(seeded)} of {len(calls)} draws: {_list(sites)}"
        return Check(name=name, number=13, status="fault", seen=len(calls), detail=detail)
    if not calls:
        return Check(name=name, number=13, status="not checked", detail="nothing of the kind was drawn")
    return Check(name=name, number=13, status="consistent", seen=len(calls), detail=f"{len(calls)} draws, no seed")


def _twice(name: str, calls: Sequence[Call]) -> Check:
    first: dict[tuple[str, str], Call] = {}
    again = [call for call in calls if first.setdefault((call.name, call.digest), call) is not call]
    if again:
        detail = (
            f"{len(again)} of {len(calls)} are what was drawn before: {_list(dict.fromkeys(c.site for c in again))}"
        )
        return Check(name=name, number=2, status="fault", seen=len(calls), detail=detail)
    if len(calls) < 2:
        return Check(name=name, number=2, status="not checked", detail="fewer than two draws that could repeat")
    return Check(name=name, number=2, status="consistent", seen=len(calls), detail=f"{len(calls)} draws, all different")


def _list(sites: Iterable[str]) -> str:
    found = list(sites)
    return ", ".join(found[:3]) + (f" and {len(found) - 3} more" if len(found) > 3 else "")
