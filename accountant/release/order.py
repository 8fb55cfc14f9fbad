"""The declared order of a plan, enforced one use at a time.

A cursor walks the plan tree and remembers, at every node that has begun, only how far it is: a
repeat of 10^12 rounds is one counter. The rule (it matters: with unequal mechanisms the order
changes the bound, docs/theory/exponential.md):

    compose    its parts one after another, each finished before the next begins
    repeat     round after round, each finished before the next begins
    parallel   its parts side by side, each in its own order, if no order among them could matter
               (a replaced record may meet two parts); else one after another, like compose
    subsample  the node below, on one fresh sample a use

``use`` must name a leaf that may come next. Whoever leaves a node early says so with ``finish``.
That is sound, because doing nothing is among the adaptive choices over which the bound is taken;
but it is never silent, because a mechanism left out by accident means that plan and program have
drifted apart. What is left out is not refunded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

from affidavit.accountant import nodes
from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.nodes import Plan
from affidavit.accountant.plan import leaves, located

__all__ = ["Order", "order_free"]

# The way down from the root: the number of a part, or None for the one node below ("of").
_Steps: TypeAlias = Sequence[int | None]
_STEP = re.compile(r"\.(?:of|parts\[(\d+)\])")


def _is_empty(plan: Plan) -> bool:
    """Whether there is no use below."""
    if isinstance(plan, nodes.Leaf):
        return False
    return (isinstance(plan, nodes.Repeat) and plan.count == 0) or all(map(_is_empty, plan.below))


def order_free(plan: nodes.Parallel) -> bool:
    """Whether the cost is the same in any order: exponential leaves all of one range, or none at all."""
    costs = {leaf for part in (*plan.parts, *(plan.moves or ())) for _, leaf, uses in leaves(part) if uses}
    return len(costs) <= 1 or not any(isinstance(leaf, nodes.Exponential) for leaf in costs)


class _Cursor:
    """How far one instance of a node has come. ``use`` either moves by one use or raises."""

    __slots__ = ("_begun", "_index", "_length", "_node", "_open", "_side_by_side", "done")

    def __init__(self, node: Plan) -> None:
        self._node = node
        self._length = node.count if isinstance(node, nodes.Repeat) else len(node.below)
        self._index = -1
        self._begun: dict[int, _Cursor] = {}
        self._side_by_side = isinstance(node, nodes.Parallel) and order_free(node)
        self._open = sum(not _is_empty(part) for part in node.below) if self._side_by_side else 0
        self.done = _is_empty(node)

    def use(self, way: _Steps, path: str) -> None:
        if self.done:
            raise _violation(f"one use too many of {path}: its part of the plan is finished")
        if not way:
            self.done = True
            return
        index = self._place(way[0], path)
        child = self._child(index)
        child.use(way[1:], path)
        self._moved(index, child)

    def finish(self, way: _Steps, path: str) -> None:
        if self.done or not way:
            self.done = True
            return
        index = self._latest(way, path)
        if index is None:
            return
        child = self._child(index)
        child.finish(way[1:], path)
        self._moved(index, child)

    def _part(self, index: int) -> Plan:
        """One node serves for all rounds of a repeat."""
        return self._node.below[min(index, len(self._node.below) - 1)]

    def _next(self) -> int:
        """The next part or round in a row that has any use; ``_length`` where none has."""
        return next((i for i in range(self._index + 1, self._length) if not _is_empty(self._part(i))), self._length)

    def _child(self, index: int) -> _Cursor:
        return self._begun.get(index) or _Cursor(self._part(index))

    def _moved(self, index: int, child: _Cursor) -> None:
        if self._side_by_side:
            self._open -= child.done and not _is_empty(self._part(index))
            self._begun[index] = child
            self.done = self._open == 0
        else:
            self._index, self._begun = index, {index: child}
            self.done = child.done and self._next() == self._length

    def _place(self, step: int | None, path: str) -> int:
        """The child that a use going through ``step`` belongs to."""
        if self._side_by_side and step is not None:
            return step
        under_way = self._index >= 0 and not self._begun[self._index].done
        current = self._index if under_way else self._next()
        if step is None or step == current:
            return current
        if step < current:
            raise _violation(f"{path} is out of order: the plan has moved past it")
        raise _violation(f"{path} is out of order: part {current} of the same compose comes first and is not finished")

    def _latest(self, way: _Steps, path: str) -> int | None:
        """The child that ``finish`` goes through: the one begun last, or a part that is next."""
        step = way[0]
        if step is None:
            # A round that has not begun cannot be left; a part of the first one can be left out.
            return None if self._index < 0 and len(way) == 1 else max(self._index, 0)
        if self._side_by_side:
            return None if step in self._begun and self._begun[step].done else step
        if step < self._index or _is_empty(self._part(step)):
            return None
        return step if step == self._index else self._place(step, path)


class Order:
    """Which leaf of ``plan`` may be used next. Mutable; made once for each run."""

    def __init__(self, plan: Plan) -> None:
        self._nodes = {path: (node, _way(path)) for path, node, _ in located(plan)}
        self._root = _Cursor(plan)

    @property
    def paths(self) -> tuple[str, ...]:
        """The leaves' paths, in declared order."""
        return tuple(path for path, (node, _) in self._nodes.items() if isinstance(node, nodes.Leaf))

    def use(self, path: str) -> nodes.Leaf:
        """Move past one use of the leaf at ``path``. Raises ``PermitViolation``, and then nothing moved."""
        node, way = self._nodes.get(path, (None, ()))
        if not isinstance(node, nodes.Leaf):
            raise _violation(f"{str(path)[:80]!r} is not a mechanism of the certified plan")
        self._root.use(way, path)
        return node

    def finish(self, path: str) -> None:
        """Leave the node at ``path`` without its remaining uses: the instance begun last, or the next part.

        Within a finished round of a repeat this does nothing; a new round begins with a use. Raises
        ``PermitViolation`` for a part whose turn has not come, or a path that is not in the plan.
        """
        if path not in self._nodes:
            raise _violation(f"{str(path)[:80]!r} is not a node of the certified plan")
        self._root.finish(self._nodes[path][1], path)


def _way(path: str) -> tuple[int | None, ...]:
    return tuple(int(part) if part else None for part in _STEP.findall(path))


def _violation(message: str) -> PermitViolation:
    return PermitViolation(
        message,
        hint="The program is not the one that was planned. Certify its plan: `affidavit certify RUN.toml -o CERT.json`",
    )
