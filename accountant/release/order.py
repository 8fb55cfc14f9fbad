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
from dataclasses import dataclass
from typing import TypeAlias

from affidavit.accountant import nodes
from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.nodes import Plan
from affidavit.accountant.plan import leaves, located

__all__ = ["Order", "order_free"]

# The way down from the root: the number of a part, or None for the one node below ("of").
_Steps: TypeAlias = Sequence[int | None]
_STEP = re.compile(r"\.(?:of|parts\[(\d+)\])")


@dataclass(frozen=True, slots=True)
class _Node:
    """A plan node as the cursor sees it: ``length`` children in a row, or side by side, or a leaf.

    A repeat has one child that serves for all rounds. ``empty``: there is no use below.
    """

    length: int
    children: tuple[_Node, ...]
    parallel: bool = False
    repeated: bool = False
    empty: bool = False

    def child(self, index: int) -> _Node:
        return self.children[0 if self.repeated else index]

    def after(self, index: int) -> int:
        """The next child that has any use, or ``length``."""
        if self.repeated:
            return self.length if self.empty else min(index + 1, self.length)
        return next((i for i in range(index + 1, self.length) if not self.children[i].empty), self.length)


def _compiled(plan: Plan) -> _Node:
    match plan:
        case nodes.Leaf():
            return _Node(0, ())
        case nodes.Compose(parts=parts) | nodes.Parallel(parts=parts):
            children = tuple(map(_compiled, parts))
            empty = all(child.empty for child in children)
            parallel = isinstance(plan, nodes.Parallel) and order_free(plan)
            return _Node(len(children), children, parallel=parallel, empty=empty)
        case nodes.Repeat(count=count, of=of):
            node = _compiled(of)
            return _Node(count, (node,), repeated=True, empty=count == 0 or node.empty)
        case nodes.Poisson(of=of) | nodes.WithoutReplacement(of=of):
            node = _compiled(of)
            return _Node(1, (node,), repeated=True, empty=node.empty)
        case _:
            raise TypeError(f"no order is defined for a {plan.kind} node")


def order_free(plan: nodes.Parallel) -> bool:
    """Whether the cost is the same in any order: exponential leaves all of one range, or none at all."""
    costs = {leaf for part in (*plan.parts, *(plan.moves or ())) for _, leaf, uses in leaves(part) if uses}
    return len(costs) <= 1 or not any(isinstance(leaf, nodes.Exponential) for leaf in costs)


class _Cursor:
    """How far one instance of a node has come. ``use`` either moves by one use or raises."""

    __slots__ = ("_begun", "_index", "_node", "_open", "done")

    def __init__(self, node: _Node) -> None:
        self._node = node
        self._index = -1
        self._begun: dict[int, _Cursor] = {}
        self._open = sum(not child.empty for child in node.children) if node.parallel else 0
        self.done = node.empty

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

    def _child(self, index: int) -> _Cursor:
        return self._begun.get(index) or _Cursor(self._node.child(index))

    def _moved(self, index: int, child: _Cursor) -> None:
        node = self._node
        if node.parallel:
            self._open -= child.done and not node.child(index).empty
            self._begun[index] = child
            self.done = self._open == 0
        else:
            self._index, self._begun = index, {index: child}
            self.done = child.done and node.after(index) == node.length

    def _place(self, step: int | None, path: str) -> int:
        """The child that a use going through ``step`` belongs to."""
        if self._node.parallel and step is not None:
            return step
        under_way = self._index >= 0 and not self._begun[self._index].done
        current = self._index if under_way else self._node.after(self._index)
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
        if self._node.parallel:
            return None if step in self._begun and self._begun[step].done else step
        if step < self._index or self._node.child(step).empty:
            return None
        return step if step == self._index else self._place(step, path)


class Order:
    """Which leaf of ``plan`` may be used next. Mutable; made once for each run."""

    def __init__(self, plan: Plan) -> None:
        self._nodes = {path: (node, _way(path)) for path, node, _ in located(plan)}
        self._root = _Cursor(_compiled(plan))

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
