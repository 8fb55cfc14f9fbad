"""The neighbour test: run a generator on D and on D′ with the same noise, and look at what else moved.

A proof of privacy says: one record changes its own contribution, and everything else stands still. So with equal
noise, *until a released output differs*, two runs on neighbours must agree in

- what is public by construction: labels, bounds, lengths, how many texts (fault 3);
- what could have been released at each step, the support (fault 3);
- when each text ends (fault 3: a length read from the data), and whether the run ends at all: a crash on one of two
  neighbours tells them apart;
- which other records take part in each batch or sample (faults 6 and 15);
- what each other row computes (faults 7 and 14);

and the changed record's own words must not come out as they stand (fault 11). Outputs may differ: one record may
tip a draw. Where they do, what follows in that stream is not comparable, and is not compared. Nothing here is left to
chance, so there is no alpha: a difference is a fault for the seeds that were run, and silence means as much as
the steps that were compared.

Any generator is tested by a callable ``run(records, seed) -> Observed``, under noise that ``seed`` determines::

    report = neighbour_test(run, D, D_prime, changed=("r17",), secrets=("the changed record's own words",))
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from affidavit.accountant.errors import UsageError
from affidavit.audits.checks import Check, CheckReport, Status

__all__ = ["Observed", "Step", "combine", "neighbour_test"]

Records = TypeVar("Records")

_CRASH, _FACTS, _SUPPORT, _ENDS, _PLACES, _ROWS, _PUBLIC, _TEXT = (
    "crash",
    "public facts",
    "support",
    "stopping",
    "other records' places",
    "other records' rows",
    "public rows",
    "raw text",
)
_FAULTS: Mapping[str, int] = {
    _CRASH: 3,
    _FACTS: 3,
    _SUPPORT: 3,
    _ENDS: 3,
    _PLACES: 6,
    _ROWS: 14,
    _PUBLIC: 7,
    _TEXT: 11,
}
_SHORTEST_SECRET = 12


@dataclass(frozen=True, slots=True)
class Step:
    """One release, or one choice of records, in the order in which they happen.

    ``place``    what it is: the same word in both runs (a plan path, a label and a number).
    ``output``   what was released; None for a mere choice of records.
    ``support``  what could have been released, if known: a set, a number, a digest.
    ``members``  the records that take part, by names that are the same in both runs; None if unknown.
    ``rows``     what each of them contributed, by name: a digest of the bits.
    ``exchange``  the sample is of a fixed size: where the changed record leaves it, one other may take its place.
    ``stream``   steps of one stream depend on one another's outputs; other streams do not.
    """

    place: str
    output: Hashable = None
    support: Hashable = None
    members: frozenset[str] | None = None
    rows: Mapping[str, Hashable] = field(default_factory=dict)
    stream: str = ""
    exchange: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """What one run did.

    ``facts``     quantities that are public by construction, by name.
    ``steps``     in order.
    ``computed``  what was computed from each input row, whatever its place: a name of the input to digests of the
                  results. Equal inputs must have a result in common.
    ``public``    the same for rows that hold no record.
    ``texts``     everything that was released as text.
    """

    facts: Mapping[str, Hashable] = field(default_factory=dict)
    steps: Sequence[Step] = ()
    computed: Mapping[Hashable, Collection[Hashable]] = field(default_factory=dict)
    public: Mapping[Hashable, Collection[Hashable]] = field(default_factory=dict)
    texts: Sequence[str] = field(default=(), repr=False)


@dataclass(slots=True)
class _Tally:
    """What was compared, and the first difference, by check."""

    seen: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    differences: dict[str, str] = field(default_factory=dict)

    def compare(self, check: str, *, equal: bool, where: str) -> None:
        self.seen[check] += 1
        if not equal:
            self.differences.setdefault(check, where)

    def checks(self) -> Iterator[Check]:
        for name, number in _FAULTS.items():
            if name == _CRASH and not self.seen[name]:
                continue  # a run that ends says nothing of one that does not
            status: Status = "consistent" if self.seen[name] else "not checked"
            detail = f"{self.seen[name]} compared, all equal" if self.seen[name] else "the runs do not show it"
            if name == _TEXT and self.seen[name]:
                detail = f"{self.seen[name]} texts searched"
            if name in self.differences:
                status, detail = "fault", self.differences[name]
            yield Check(name=name, number=number, status=status, seen=self.seen[name], detail=detail)


def neighbour_test(
    run: Callable[[Records, int], Observed],
    dataset: Records,
    neighbour: Records,
    *,
    changed: Collection[str] = (),
    secrets: Sequence[str] = (),
    seeds: Iterable[int] = range(3),
) -> CheckReport:
    """Compare ``run(dataset, seed)`` with ``run(neighbour, seed)`` for each of ``seeds``.

    ``changed``: names of the records that differ, as they appear in ``Step.members`` and ``Step.rows``; where names are
    keyed and unknown, those that are in one run only count as changed, one for each neighbour. ``secrets``:
    passages of the records that differ, which nobody would write by chance (12 characters or more); they are not
    repeated in the report. A run that fails on one of the two only is a fault; where it fails on both in the same way
    its exception is raised. Raises ``UsageError``.
    """
    if any(len(secret) < _SHORTEST_SECRET for secret in secrets):
        raise UsageError(
            f"a secret of fewer than {_SHORTEST_SECRET} characters may stand in a text by chance",
            hint='Plant a longer one, made at random: `secret = "zanthorquil8817"`',
        )
    tally = _Tally()
    for seed in seeds:
        where = f"seed {seed}"
        outcomes = _attempt(run, dataset, seed), _attempt(run, neighbour, seed)
        crashed = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
        if len(crashed) == 2 and type(crashed[0]) is type(crashed[1]):
            raise crashed[0]  # it does not run, on whatever data: that is for its author
        names = " and ".join(type(error).__name__ for error in crashed)
        told = f"{where}: {names} on one neighbour, not on the other" if len(crashed) == 1 else f"{where}: {names}"
        if crashed:
            tally.compare(_CRASH, equal=False, where=told)
        before, after = outcomes
        if isinstance(before, Exception) or isinstance(after, Exception):
            continue
        _facts(tally, before, after, where)
        _steps(tally, before, after, frozenset(changed), where)
        _computed(tally, _ROWS, before.computed, after.computed, where)
        _computed(tally, _PUBLIC, before.public, after.public, where)
        for observed in (before, after):
            for number, text in enumerate(observed.texts):
                found = any(secret in text for secret in secrets)
                if secrets:
                    tally.compare(_TEXT, equal=not found, where=f"{where}: text {number} repeats a changed record")
    return CheckReport(title="neighbour test", checks=tuple(tally.checks()), alpha=0.0)


def _attempt(run: Callable[[Records, int], Observed], records: Records, seed: int) -> Observed | Exception:
    """What the run showed, or how it failed: nothing of an exception but its type is told, it may quote a record."""
    try:
        return run(records, seed)
    except Exception as error:
        return error


def combine(reports: Iterable[CheckReport]) -> CheckReport:
    """Several neighbour tests as one: a fault in any is a fault, and what was compared adds up.

    Raises ``UsageError`` where there is none.
    """
    by_name: dict[str, list[Check]] = {}
    for report in reports:
        for check in report.checks:
            by_name.setdefault(check.name, []).append(check)
    if not by_name:
        raise UsageError("no neighbours were compared", hint="Give at least one pair.")
    merged = []
    for name, checks in by_name.items():
        seen = sum(check.seen for check in checks)
        worst = next((check for check in checks if check.status == "fault"), None)
        if worst is not None:
            status, detail = worst.status, worst.detail
        elif seen:
            status, detail = "consistent", f"{seen} compared in {len(checks)} pairs, all equal"
        else:
            status, detail = "not checked", checks[0].detail
        merged.append(Check(name=name, number=_FAULTS[name], status=status, seen=seen, detail=detail))
    return CheckReport(title="neighbour test", checks=tuple(merged), alpha=0.0)


def _facts(tally: _Tally, before: Observed, after: Observed, where: str) -> None:
    for name in sorted({*before.facts, *after.facts}):
        equal = before.facts.get(name) == after.facts.get(name)
        tally.compare(_FACTS, equal=equal, where=f"{where}: {name} differs between neighbours")


def _steps(tally: _Tally, before: Observed, after: Observed, changed: frozenset[str], where: str) -> None:
    streams: dict[str, tuple[list[Step], list[Step]]] = {}
    for side, observed in enumerate((before, after)):
        for step in observed.steps:
            streams.setdefault(step.stream, ([], []))[side].append(step)
    moved = changed or _only_in_one(streams.values())
    for first, second in streams.values():
        if _stream(tally, first, second, moved, where):
            ends = len(first) == len(second)
            last = (first or second)[min(len(first), len(second)) - 1].place
            tally.compare(_ENDS, equal=ends, where=f"{where}: one run ends after {last}, the other goes on")


def _stream(tally: _Tally, first: list[Step], second: list[Step], moved: frozenset[str], where: str) -> bool:
    """Compare up to the first output that differs; whether none does."""
    for number, (a, b) in enumerate(zip(first, second, strict=False)):
        here = f"{where}: step {number + 1}, {a.place}"
        tally.compare(_ENDS, equal=a.place == b.place, where=f"{here}, and {b.place} in the other run")
        if a.place != b.place:
            return False
        if a.support is not None or b.support is not None:
            tally.compare(_SUPPORT, equal=a.support == b.support, where=f"{here}: another support")
        if a.members is not None and b.members is not None:
            others = (a.members ^ b.members) - moved
            if a.exchange and b.exchange and len(a.members) == len(b.members) and moved & (a.members ^ b.members):
                others = others if len(others) > 1 else frozenset()
            tally.compare(_PLACES, equal=not others, where=f"{here}: {len(others)} other records came or went")
        for name in (a.rows.keys() & b.rows.keys()) - moved:
            tally.compare(_ROWS, equal=a.rows[name] == b.rows[name], where=f"{here}: another record's row changed")
        if a.output != b.output:
            return False
    return True


def _only_in_one(streams: Iterable[tuple[list[Step], list[Step]]]) -> frozenset[str]:
    """Names that one run has and the other has not: at most one a side, or records were lost on the way.

    Of what is compared, up to the first output that differs: behind it samples are fresh ones of other records.
    """
    names: tuple[set[str], set[str]] = (set(), set())
    for first, second in streams:
        for a, b in zip(first, second, strict=False):
            names[0].update(a.members or ())
            names[1].update(b.members or ())
            if a.place != b.place or a.output != b.output:
                break
    alone = (names[0] - names[1], names[1] - names[0])
    return frozenset().union(*(side for side in alone if len(side) == 1))


def _computed(
    tally: _Tally,
    check: str,
    before: Mapping[Hashable, Collection[Hashable]],
    after: Mapping[Hashable, Collection[Hashable]],
    where: str,
) -> None:
    """Equal inputs must have a result in common.

    Not all of them: where a record leaves a prompt of two, or an output differs, one run may ask in another place, and
    so in a batch of another public shape, what both have asked elsewhere.
    """
    for name in before.keys() & after.keys():
        equal = not set(before[name]).isdisjoint(after[name])
        tally.compare(check, equal=equal, where=f"{where}: equal rows gave different results")
