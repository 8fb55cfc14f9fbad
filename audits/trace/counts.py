"""Draws counted, and replayed in their order against the plan.

The replay is the permit's own automaton (``affidavit.accountant.release.order``). A trace does not say where a
generator left a node early; doing nothing is allowed by every plan, so a draw that is not next is tried
again after leaving, from the innermost outwards, what was under way in the same parallel part, and then
the parts before it. Only a draw that no leaving explains is a fault: out of order, or one too many.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.plan import Parallel, Plan, leaves, located
from affidavit.accountant.release.order import Order
from affidavit.audits.checks import Check
from affidavit.audits.trace.events import Trace

__all__ = ["draw_counts", "draw_order", "parallel_parts"]

_MISSING = "no draw is recorded"


def draw_counts(trace: Trace, plan: Plan) -> tuple[Check, ...]:
    """Every mechanism is drawn at most as often as was certified, and each use once."""
    allowed = {path: uses for path, _, uses in leaves(plan)}
    drawn = Counter(draw.path for draw in trace.draws)
    checks = []
    for path, count in drawn.items():
        if path not in allowed:
            checks.append(_fault(path, count, "the plan has no mechanism here"))
        elif count > allowed[path]:
            checks.append(_fault(path, count, f"{count} draws, {allowed[path]} are certified"))
    numbers: dict[str, list[int]] = defaultdict(list)
    for draw in trace.draws:
        numbers[draw.path].append(draw.use)
    checks += [
        _fault(path, len(uses), "the uses are not numbered 0, 1, 2, ...: one is missing or stands twice")
        for path, uses in numbers.items()
        if sorted(uses) != list(range(len(uses)))
    ]
    if checks:
        return tuple(checks)
    total = len(trace.draws)
    if total == 0:
        return (Check(name="draws", status="not checked", detail=_MISSING),)
    return (
        Check(
            name="draws",
            status="consistent",
            seen=total,
            detail=f"{total} draws, at most {sum(allowed.values())} allowed",
        ),
    )


def draw_order(trace: Trace, plan: Plan) -> Check:
    """The draws are in the plan's order, parts left early aside."""
    known = {path for path, _, _ in leaves(plan)}
    replay = _Replay(plan)
    for position, draw in enumerate(draw for draw in trace.draws if draw.path in known):
        if not replay.use(draw.path):
            return Check(
                name="order",
                status="fault",
                path=draw.path,
                seen=position + 1,
                detail=f"draw {position + 1} of the trace (use {draw.use}) is out of the plan's order, or one too many",
            )
    if not trace.draws:
        return Check(name="order", status="not checked", detail=_MISSING)
    return Check(name="order", status="consistent", seen=len(trace.draws), detail="in the plan's order")


def parallel_parts(plan: Plan) -> Iterator[tuple[str, ...]]:
    """The parts' paths of every ``parallel`` node."""
    for path, node, _ in located(plan):
        if isinstance(node, Parallel):
            yield tuple(f"{path}.parts[{i}]" for i in range(len(node.parts)))


class _Replay:
    def __init__(self, plan: Plan) -> None:
        self._order = Order(plan)
        self._parts = {part for parts in parallel_parts(plan) for part in parts} | {"plan"}
        self._last: dict[str, str] = {}

    def use(self, path: str) -> bool:
        home = next(above for above in _upwards(path) if above in self._parts)
        allowed = (
            self._try(path)
            or self._after_skipping(path, within=home)
            or self._after_leaving(path, home)
            or self._after_skipping(path)
        )
        if allowed:
            for above in _upwards(path):
                if above in self._parts:
                    self._last[above] = path
        return allowed

    def _try(self, path: str) -> bool:
        try:
            self._order.use(path)
        except PermitViolation:
            return False
        return True

    def _after_leaving(self, path: str, home: str) -> bool:
        """Leave what was last under way in the same parallel part: the innermost node that lets ``path`` be next."""
        for above in _upwards(self._last.get(home, "")):
            if len(above) < len(home):
                return False
            if self._leave(above) and self._try(path):
                return True
        return False

    def _after_skipping(self, path: str, *, within: str = "") -> bool:
        """Leave the earlier parts on the way to ``path`` out: those below ``within``, a part that runs by itself."""
        for above in reversed(list(_upwards(path))):
            if above.endswith("]") and len(above) > len(within):
                stem, _, index = above[:-1].rpartition("[")
                for earlier in range(int(index)):
                    self._leave(f"{stem}[{earlier}]")
        return self._try(path)

    def _leave(self, path: str) -> bool:
        try:
            self._order.finish(path)
        except PermitViolation:
            return False
        return True


def _upwards(path: str) -> Iterator[str]:
    """``path`` and the nodes above it, innermost first."""
    while path:
        yield path
        path = path.rpartition(".")[0]


def _fault(path: str, seen: int, detail: str) -> Check:
    return Check(name="draws", status="fault", path=path, seen=seen, detail=detail)
