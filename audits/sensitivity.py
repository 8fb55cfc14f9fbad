r"""The sensitivity check: what a generator is about to hide by noise moves by no more than its plan states.

A plan's leaf says: neighbours move this statistic by at most so much, measured in the noise. Nothing about the noise
can show that a generator's own code keeps to it: a row clipped after the sum, a bound doubled, a private row among
public ones leave every draw as it was. So the generator itself runs twice, as it is, on D and on a neighbour D′, under
a permit whose ``watch`` is told every statistic before its noise (``mechanisms.base.watched``):

- on D what is drawn is kept;
- on D′ the same comes out again. That is the adaptive adversary of a composition theorem: every later step is compared
  after one and the same history, however unlikely, and no step is hidden by an earlier one that went another way.

Then, exactly and without a level:

    sensitivity         at every use, the change of the statistic, in the leaf's norm, is at most what the leaf allows
                        at the noise that is used (``allowed``)
    order of releases   both runs release the same things in the same order, and neither fails
    parallel parts      a record that is dropped or replaced moves one part of a parallel node, one that moves two
    what is public      shapes, noise and thresholds are those of the other run
    unstated releases   nothing is charged whose statistic is not shown
    outputs             equal releases give equal outputs: nothing passes beside them

Which pairs are neighbours, and which leaf speaks of them, follows from plan and relation (``stated``). A check is as
strong as the neighbours that it is given: whoever makes them chooses what the model answers so that rows differ as far
as they can (``affidavit.sensitivity``), and the largest share of the allowed move that was reached is in the report.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import (
    Compose,
    DiscreteGaussian,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    leaves,
)
from affidavit.accountant.validate import Relation
from affidavit.audits.checks import Check, CheckReport, Status
from affidavit.mechanisms.above_threshold import AboveThreshold
from affidavit.mechanisms.base import Statistic
from affidavit.mechanisms.bounded_range import BoundedRange
from affidavit.mechanisms.noisy_max import NoisyMax
from affidavit.mechanisms.propose_test_release import ProposeTestRelease

__all__ = ["Change", "Neighbours", "Rehearsal", "Rehearse", "allowed", "move", "sensitivity_check", "stated"]

Outcome = TypeVar("Outcome")

Change: TypeAlias = Literal["dropped", "replaced", "moved"]
"""A record is missing or empty; becomes another one in its slots; becomes one of another slot (its label)."""

_ROUNDING = Fraction(1, 1 << 30)
"""Of float64 sums and norms, relative; those of this package are of whole numbers, and much closer."""

_PARTS, _ORDER, _PUBLIC, _UNSTATED, _OUTPUTS = _NAMES = (
    "parallel parts",
    "order of releases",
    "what is public",
    "unstated releases",
    "outputs",
)


class _DivergedError(Exception):
    """The rehearsal on the neighbour releases something else than the first: it is not followed any further."""


@dataclass(frozen=True, slots=True)
class _Seen:
    path: str
    statistic: Statistic
    outcome: Any


@dataclass(slots=True)
class Rehearsal:
    """The ``watch`` of a rehearsal's permit; ``follows``: the rehearsal on the neighbour that it repeats.

    ``drawing`` is entered while a mechanism draws, for noise that tells mechanisms' draws from samples. ``chosen`` may
    make another outcome of a drawn one: any that is possible will do for a history.
    """

    follows: Rehearsal | None = field(default=None, repr=False)
    drawing: Callable[[], AbstractContextManager[None]] = nullcontext
    chosen: Callable[[Any], Any] = lambda outcome: outcome
    seen: list[_Seen] = field(default_factory=list, repr=False)
    unstated: list[str] = field(default_factory=list)
    _charged: list[str] = field(default_factory=list, repr=False)

    def began(self, path: str) -> None:
        """A use was charged at ``path``: its statistic is to be shown before the next use there."""
        if path in self._charged:
            self.unstated.append(path)
        else:
            self._charged.append(path)

    def ended(self) -> None:
        """The run is over."""
        self.unstated += self._charged
        self._charged = []

    def release(self, path: str, statistic: Statistic, draw: Callable[[], Outcome]) -> Outcome:
        """What is drawn; on the neighbour, what was drawn the first time."""
        if path in self._charged:
            self._charged.remove(path)
        kept = Statistic(statistic.moves, tuple(np.array(values) for values in statistic.values), statistic.scale)
        if self.follows is not None:
            place = len(self.seen)
            if place >= len(self.follows.seen) or self.follows.seen[place].path != path:
                raise _DivergedError
            outcome = self.follows.seen[place].outcome
        else:
            with self.drawing():
                outcome = self.chosen(draw())
        self.seen.append(_Seen(path, kept, copy.deepcopy(outcome)))
        drawn: Outcome = copy.deepcopy(outcome)
        return drawn


Rehearse: TypeAlias = Callable[[Rehearsal], Hashable]
"""Runs a generator on one data set under a permit with this watch, and gives everything that comes out."""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Two data sets, as the runs on them. ``name`` says what differs, in public words."""

    name: str
    change: Change
    before: Rehearse
    after: Rehearse


def stated(plan: Plan, *, relation: Relation, change: Change) -> dict[str, Leaf]:
    """The leaves that speak of ``change``, by path (docs/relations.md; the changes that reach a node: docs/plans.md).

    A record that is dropped is a neighbour under every relation. One that is replaced is one under substitution, and
    below a sample without replacement under any: there another record stands in the place of a missing one. One that
    moves to another part costs what the node states as ``moves``.
    """
    return dict(_stated(plan, "plan", change, speaks=change == "dropped" or relation == "substitution"))


def _stated(plan: Plan, path: str, change: Change, *, speaks: bool) -> Iterator[tuple[str, Leaf]]:
    match plan:
        case Leaf():
            if speaks:
                yield path, plan
        case Repeat(of=of) | Poisson(of=of):
            yield from _stated(of, f"{path}.of", change, speaks=speaks)
        case WithoutReplacement(of=of):
            yield from _stated(of, f"{path}.of", change, speaks=True)
        case Compose(parts=parts):
            for index, part in enumerate(parts):
                yield from _stated(part, f"{path}.parts[{index}]", change, speaks=speaks)
        case Parallel(parts=parts, membership=membership, moves=moves):
            across = change == "moved"
            for index, part in enumerate(parts):
                which = moves[index] if across and moves is not None else part
                crosses = not across or membership == "moving"
                yield from _stated(which, f"{path}.parts[{index}]", change, speaks=speaks and crosses)
        case _:
            raise TypeError(plan.kind)


def allowed(leaf: Leaf, statistic: Statistic) -> Fraction | None:
    """The largest change, in ``statistic.moves``, that ``leaf`` covers at the noise in use; None: it states none."""
    if statistic.moves == "not":
        return Fraction(0)
    first = statistic.scale[0]
    match leaf:
        case Gaussian() | Laplace() | DiscreteGaussian():
            return first / Fraction(leaf.noise_multiplier) if leaf.noise_multiplier > 0.0 else None
        case Exponential() | BoundedRange():
            return first * Fraction(leaf.range)
        case NoisyMax() | Pure() | ProposeTestRelease():
            return first * Fraction(leaf.epsilon)
        case AboveThreshold():
            threshold, query = statistic.scale
            return min(
                threshold / Fraction(leaf.threshold_noise_multiplier), query / Fraction(leaf.query_noise_multiplier)
            )
        case _:
            return None


def move(before: Statistic, after: Statistic) -> Fraction | None:
    """By how much a statistic moved, as its kind is measured; exact for whole numbers. None: it is another kind."""
    shapes = [[values.shape for values in each.values] for each in (before, after)]
    if shapes[0] != shapes[1] or before.moves != after.moves or before.scale != after.scale:
        return None
    changes = [_difference(b, a) for b, a in zip(before.values, after.values, strict=True)]
    if before.moves == "l2":
        return Fraction(math.sqrt(sum(float(np.square(change.astype(np.float64)).sum()) for change in changes)))
    if before.moves == "guarded":
        # propose-test-release's proof: either one set, guarded by gaps that are near, or two, each with a small gap
        gaps = [_exact(each.values[1][0]) for each in (before, after)]
        return sum(gaps, Fraction(0)) if changes[0].any() else abs(gaps[0] - gaps[1])
    if before.moves in ("l1", "not"):
        return sum((_exact(np.abs(change).sum()) for change in changes), Fraction(0))
    spread = sum((_exact(change.max()) - _exact(change.min()) for change in changes if change.size), Fraction(0))
    return 2 * spread if before.moves == "two-spreads" else spread


def _difference(before: NDArray[Any], after: NDArray[Any]) -> NDArray[Any]:
    difference: NDArray[Any] = np.asarray(after) - np.asarray(before)
    return difference


def _exact(value: Any) -> Fraction:
    return Fraction(value.item() if isinstance(value, np.generic) else value)


@dataclass(slots=True)
class _Largest:
    """The largest move at one leaf, as a share of what is allowed."""

    seen: int = 0
    share: float = 0.0
    excess: str = ""


@dataclass(slots=True)
class _Tally:
    """What was compared, and the first difference, by check."""

    plan: Plan
    largest: dict[str, _Largest] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_NAMES, 0))
    faults: dict[str, str] = field(default_factory=dict)

    def compare(self, check: str, *, equal: bool, where: str) -> None:
        self.seen[check] += 1
        if not equal:
            self.faults.setdefault(check, where)


def sensitivity_check(pairs: Iterable[Neighbours], *, plan: Plan, relation: Relation) -> CheckReport:
    """Rehearse every pair and hold what moves against ``plan``. Consecutive pairs that share ``before`` run it once.

    Raises ``UsageError`` where there is no pair, and what a rehearsal on D raises.
    """
    tally = _Tally(plan, {_place(plan, path): _Largest() for path, _, _ in leaves(plan)})
    last: tuple[Rehearse, Rehearsal, Hashable] | None = None
    failed: Exception | None = None
    for pair in pairs:
        if last is None or last[0] is not pair.before:
            first = Rehearsal()
            try:
                last = (pair.before, first, pair.before(first))
            except Exception as error:
                failed = failed or error
                tally.compare(_ORDER, equal=False, where=f"{pair.name}: the run fails ({type(error).__name__})")
                continue
            first.ended()
            where = f"{pair.name}: nothing is shown of what is released at {', '.join(sorted(set(first.unstated)))}"
            tally.compare(_UNSTATED, equal=not first.unstated, where=where)
        _compare(tally, pair, last[1], last[2], stated(plan, relation=relation, change=pair.change))
    if last is None:
        if failed is not None:  # whatever the records say: it is not they that make it fail
            raise failed
        raise UsageError("no neighbours were rehearsed", hint="Give at least one pair.")
    return CheckReport(title="sensitivity check", checks=tuple(_checks(tally)), alpha=0.0)


def _compare(tally: _Tally, pair: Neighbours, first: Rehearsal, output: Hashable, speaking: dict[str, Leaf]) -> None:
    second = Rehearsal(follows=first)
    other: Hashable = None
    went = ""
    try:
        other = pair.after(second)
    except _DivergedError:
        went = "releases something else"
    except Exception as error:
        went = f"fails ({type(error).__name__})"
    second.ended()
    touched: dict[str, set[str]] = {}
    for number, (before, after) in enumerate(zip(first.seen, second.seen, strict=False)):
        _compare_one(tally, f"{pair.name}: release {number + 1}, {before.path}", before, after, speaking)
        if move(before.statistic, after.statistic) != 0:
            for node, part in _parts(tally.plan, before.path):
                touched.setdefault(node, set()).add(part)
    for node, parts in touched.items():
        where = f"{pair.name}: {len(parts)} parts of {node} moved"
        tally.compare(_PARTS, equal=len(parts) <= (2 if pair.change == "moved" else 1), where=where)
    if not went and len(second.seen) < len(first.seen):
        went = "releases less"
    where = f"{pair.name}: after {len(second.seen)} releases the run on the neighbour {went}"
    tally.compare(_ORDER, equal=not went, where=where)
    if not went:
        unstated = ", ".join(sorted(set(second.unstated)))
        tally.compare(_UNSTATED, equal=not unstated, where=f"{pair.name}: nothing is shown of what is at {unstated}")
        tally.compare(_OUTPUTS, equal=output == other, where=f"{pair.name}: equal releases, and another output")


def _compare_one(tally: _Tally, where: str, before: _Seen, after: _Seen, speaking: dict[str, Leaf]) -> None:
    leaf = speaking.get(before.path)
    moved = move(before.statistic, after.statistic)
    tally.compare(_PUBLIC, equal=moved is not None, where=f"{where}: another shape, or another noise")
    if moved is not None and before.statistic.moves == "not":
        tally.compare(_PUBLIC, equal=moved == 0, where=f"{where}: a public value, or one released before, moved")
        return
    if leaf is None or moved is None:
        return
    most = allowed(leaf, before.statistic)
    if most is None:
        return
    largest = tally.largest.setdefault(_place(tally.plan, before.path), _Largest())
    largest.seen += 1
    share = float(moved / most) if most else math.inf if moved else 0.0
    if moved > most * (1 + _ROUNDING) and not largest.excess:
        largest.excess = f"{where}: moved by {float(moved):.6g}, and the plan states {float(most):.6g}"
    largest.share = max(largest.share, share)


def _place(plan: Plan, path: str) -> str:
    """A path without the number of its parallel part: the parts of one generator run the same code."""
    return re.sub(r"^plan\.parts\[\d+\]", "plan.parts[*]", path) if isinstance(plan, Parallel) else path


def _parts(plan: Plan, path: str) -> Iterator[tuple[str, str]]:
    """The parallel nodes above a leaf, each with the part that the leaf is in."""
    node: Plan = plan
    for step in re.finditer(r"\.of|\.parts\[(\d+)\]", path):
        if step.group(1) is None:
            node = node.of  # type: ignore[attr-defined]
            continue
        if isinstance(node, Parallel):
            yield path[: step.start()], step.group(1)
        node = node.parts[int(step.group(1))]  # type: ignore[attr-defined]


def _checks(tally: _Tally) -> Iterator[Check]:
    for path, largest in tally.largest.items():
        status: Status = "consistent"
        detail = f"{largest.seen} moves, the largest {largest.share:.3f} of what the plan states"
        if not largest.seen:
            status, detail = "not checked", "nothing was released there"
        elif largest.share == 0.0:
            status, detail = "not checked", f"no neighbour moved it in {largest.seen} releases"
        if largest.excess:
            status = "fault"
            detail = f"{largest.excess}; at most {largest.share:.3g} times the stated move"
        yield Check(name="sensitivity", path=path, status=status, seen=largest.seen, detail=detail)
    for name, seen in tally.seen.items():
        if name in tally.faults:
            yield Check(name=name, status="fault", seen=seen, detail=tally.faults[name])
        else:
            status = "consistent" if seen else "not checked"
            yield Check(
                name=name, status=status, seen=seen, detail=f"{seen} compared" if seen else "nothing to compare"
            )
