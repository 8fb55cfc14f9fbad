"""Run somebody's generator: once, for its trace; twice, for what repeats; and on neighbours, for what one record moves.

A generator is a function of the records. Its noise is left alone in the first two; for the third, see ``alignment``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from affidavit.accountant.validate import Relation
from affidavit.audits.checks import Check, CheckReport
from affidavit.audits.neighbour import Observed, combine, neighbour_test
from affidavit.foreign.alignment import DROWNING, SHUFFLES, Aligned
from affidavit.foreign.draw import draws_of
from affidavit.foreign.load import called
from affidavit.foreign.naming import Names
from affidavit.foreign.pairs import Pair, pairs
from affidavit.foreign.report import repeat_report
from affidavit.foreign.watch import Watch
from affidavit.generation.dataset import Record

__all__ = ["Function", "neighbours", "repeat", "texts_of", "trace"]

Function: TypeAlias = Callable[[Sequence[Record]], Any]


def trace(function: Function, records: Sequence[Record]) -> Watch:
    """One run as it is, watched; ``.trace()`` of the answer are the lines. Raises ``UsageError`` as ``load.called``."""
    with Watch(records, draws_of(function)) as watch:
        called(function, list(records))
    return watch


def repeat(function: Function, records: Sequence[Record]) -> CheckReport:
    """Two runs, neither seeded by us: they must have no draw in common."""
    watches, texts = [], []
    for _ in range(2):
        with Watch(records, ()) as watch:
            texts.append(texts_of(called(function, list(records))))
        watches.append(watch)
    return repeat_report(*watches, same_texts=texts[0] == texts[1] if texts[0] else None)


def neighbours(
    function: Function, records: Sequence[Record], *, relation: Relation, seeds: Sequence[int] = (1,)
) -> CheckReport:
    """The neighbour test over every pair (``pairs``), under noise that both share.

    What is compared: the texts and how many they are, whether it ends; of named draws also their support, members,
    rows and public rows. Where even one and the same data set does not give the same twice, nothing is.
    """
    trial = _Trial(function)
    trial.learn(records)
    if trial.unsteady:
        detail = "two runs on the same records with the same noise differ: something random is not watched"
        check = Check(name="comparison", status="underpowered", detail=detail)
        return CheckReport(title="neighbour test", checks=(check,), alpha=0.0)
    return combine(trial.test(pair, seeds) for pair in pairs(records, relation=relation))


def texts_of(result: Any) -> tuple[str, ...]:
    """What was released: a text, texts, or what holds them as ``texts``, ``text`` or a key ``text``."""
    if isinstance(result, str):
        return (result,)
    if isinstance(result, dict):
        return texts_of(result["text"]) if "text" in result else ()
    for name in ("texts", "text"):
        if hasattr(result, name):
            return texts_of(getattr(result, name))
    if isinstance(result, (list, tuple)):
        return tuple(text for each in result for text in texts_of(each))
    return ()


@dataclass(slots=True)
class _Trial:
    """A generator under shared noise. ``coins`` and ``drowning`` are learnt from runs on the data as they are."""

    function: Function
    coins: frozenset[str] = frozenset()
    drowning: float = DROWNING
    unsteady: bool = False
    last: str | None = None
    _seen: dict[tuple[int, int], tuple[Watch, tuple[str, ...]] | Exception] = field(default_factory=dict)

    def learn(self, records: Sequence[Record]) -> None:
        """Which uniform numbers are coins of records, and whether the noise may be as large as wished."""
        try:
            watch, _ = self._run(records, 0)
        except Exception:
            self.drowning = (
                1.0  # some code does not bear so large numbers: then only what is before an output is compared
            )
            watch, _ = self._run(records, 0)
        self.coins = watch.coin_sites()
        (first, texts), (second, again) = self._run(records, 0), self._run(records, 0)
        self.unsteady = texts != again or [s.output for s in first.steps] != [s.output for s in second.steps]

    def test(self, pair: Pair, seeds: Sequence[int]) -> CheckReport:
        """One pair. What a shuffle moves is no fault if another outcome of the same shuffle moves nothing."""
        self.last = None
        report = self._test(pair, seeds)
        seen = [each for each in self._seen.values() if not isinstance(each, Exception)]
        if report.faults and any(call.name in SHUFFLES for watch, _ in seen for call in watch.calls):
            self.last = pair.changed
            report = min(report, self._test(pair, seeds), key=lambda each: len(each.faults))
        return report

    def _test(self, pair: Pair, seeds: Sequence[int]) -> CheckReport:
        self._seen.clear()

        def run(side: int, seed: int) -> Observed:
            for each, data in enumerate((pair.before, pair.after)):
                if (each, seed) not in self._seen:
                    self._seen[each, seed] = self._attempt(data, seed)
            mine, other = self._seen[side, seed], self._seen[1 - side, seed]
            if isinstance(mine, Exception):
                raise mine
            return self._observed(mine, other if not isinstance(other, Exception) else mine, pair)

        return _told(neighbour_test(run, 0, 1, changed=(pair.changed,), secrets=pair.secrets, seeds=seeds), pair)

    def _attempt(self, records: Sequence[Record], seed: int) -> tuple[Watch, tuple[str, ...]] | Exception:
        try:
            return self._run(records, seed)
        except Exception as error:  # what the generator raised, which differs where one neighbour makes it fail
            return error.__cause__ if isinstance(error.__cause__, Exception) else error

    def _run(self, records: Sequence[Record], seed: int) -> tuple[Watch, tuple[str, ...]]:
        aligned = Aligned(seed, Names(records), self.coins, self.drowning, self.last)
        with Watch(records, draws_of(self.function), aligned) as watch:
            texts = texts_of(called(self.function, list(records)))
        return watch, texts

    def _observed(
        self, mine: tuple[Watch, tuple[str, ...]], other: tuple[Watch, tuple[str, ...]], pair: Pair
    ) -> Observed:
        watch, texts = mine
        until = _comparable(watch, other[0])
        if self.drowning == 1.0:
            until = min(until or 0, 1) if until is not None else 1
        whole = until is None
        digest = hashlib.sha256(repr(texts).encode()).hexdigest()
        return Observed(
            facts={"how many texts": len(texts), "what they say under noise that hides everybody": digest}
            if whole and texts
            else {},
            steps=watch.steps if whole else watch.steps[:until],
            public=watch.public if whole else {},
            texts=texts if pair.secrets else (),
        )


def _comparable(watch: Watch, other: Watch) -> int | None:
    """How many steps of two runs can be compared; None for all, and the texts."""
    for a, b in zip(watch.calls, other.calls, strict=False):
        if "opaque" in (a.how, b.how):
            return min(a.step, b.step)
        if "fresh" in (a.how, b.how) and (a.name, a.site, a.size) != (b.name, b.site, b.size):
            return min(a.step, b.step)
    return None


def _told(report: CheckReport, pair: Pair) -> CheckReport:
    """With the pair named where something is found."""
    checks = (
        Check(
            name=check.name,
            number=check.number,
            status=check.status,
            seen=check.seen,
            detail=f"{pair.what}: {check.detail}" if check.status == "fault" else check.detail,
        )
        for check in report.checks
    )
    return CheckReport(title=report.title, checks=tuple(checks), alpha=report.alpha)
