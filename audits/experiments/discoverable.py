"""The discoverable experiment: of records in a service and of records that are not, which can be asked out of it?

In every run a pool is split anew; the service is made from the members, and every record of the pool is asked for. How
many are extractable says nothing about ε: a sentence that everybody writes is extractable too. So held-out records
stand beside the members, and a number is held against the policy only where chance does not explain it: if the service
does not depend on who is a member, which of the extractable records are members is a draw without replacement in each
run, so the sum over runs has a convolution of hypergeometric laws, exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from affidavit.audits.attacks.discoverable import Discoverable, chance_within, queries_needed
from affidavit.audits.finding import DiscoverableFinding, Target
from affidavit.audits.textmodel import Record, TextModel
from affidavit.audits.verdict import control_verdict

__all__ = ["Asked", "DiscoverableTally", "Serve", "ask_out", "chance_of_split", "discoverable_finding"]

Serve = Callable[[Sequence[Record], int], TextModel]
"""The members, and the run's seed → the service that holds what was made from them."""

_LOOKS = tuple(10**power for power in range(7))


@dataclass(frozen=True, slots=True)
class Asked:
    """One run: ln p_z of every member and of every held-out record."""

    members: tuple[float, ...]
    held_out: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class DiscoverableTally:
    """What all runs showed."""

    runs: tuple[Asked, ...]

    def extractable(self, queries: int, chance: float) -> list[tuple[int, int]]:
        """A run's (members, held-out records) that are (n, p)-discoverably extractable."""

        def count(side: Sequence[float]) -> int:
            return sum(chance_within(each, queries) >= chance for each in side)

        return [(count(run.members), count(run.held_out)) for run in self.runs]

    def luck(self, queries: int, chance: float) -> float:
        """The chance of so many members among the extractable, if the service does not know who is one."""
        found = self.extractable(queries, chance)
        splits = [
            (inside + outside, len(run.members), len(run.held_out))
            for (inside, outside), run in zip(found, self.runs, strict=True)
        ]
        return chance_of_split(sum(inside for inside, _ in found), splits)

    def fewest(self, chance: float, *, held_out: bool) -> int | None:
        """The fewest questions that give any record of a side away; None where nobody asks as many."""
        every = [each for run in self.runs for each in (run.held_out if held_out else run.members)]
        return queries_needed(max(every), chance)


def chance_of_split(members: int, splits: Sequence[tuple[int, int, int]]) -> float:
    """P(at least so many members) where each run draws its members from all records without replacement.

    A split: (extractable records, members, held-out records) of a run.
    """
    from scipy.stats import hypergeom

    law = np.ones(1)
    for found, inside, outside in splits:
        law = np.convolve(law, hypergeom.pmf(np.arange(found + 1), inside + outside, found, inside))
    return float(min(1.0, law[members:].sum()))


def ask_out(
    pool: Sequence[Record], serve: Serve, attack: Discoverable, *, members: int, runs: int, seed: int
) -> DiscoverableTally:
    """Split, serve and ask, ``runs`` times. The audit's seed moves the splits only."""
    generator = np.random.default_rng([seed, 0x6470])
    found = []
    for _ in range(runs):
        order = [pool[int(i)] for i in generator.permutation(len(pool))]
        service = serve(order[:members], int(generator.integers(2**31)))
        told = attack.log_probabilities(service, order)
        found.append(Asked(tuple(told[:members]), tuple(told[members:])))
    return DiscoverableTally(tuple(found))


def discoverable_finding(
    result: DiscoverableTally,
    attack: Discoverable,
    *,
    queries: int,
    chance: float,
    target: Target,
    alpha: float,
    elsewhere: float | None = None,
    control: bool = False,
) -> DiscoverableFinding:
    """The tally as counts; of a control, whether the members are given away where nothing protects.

    ``elsewhere``: the ε at which the generator was run, if it is not the certified one.
    """
    where = "" if elsewhere is None else f"the same generator at epsilon {elsewhere:g}; "
    found = result.extractable(queries, chance)
    inside, outside = (sum(each[side] for each in found) for side in (0, 1))
    luck = result.luck(queries, chance)
    looks = [(look, result.extractable(look, chance)) for look in _LOOKS]
    return DiscoverableFinding(
        attack=attack.name,
        target=target,
        verdict=control_verdict(leaked=luck <= alpha) if control else "COUNTED",
        alpha=alpha,
        correction="counts; members among the extractable by a draw without replacement in each run, exactly",
        members=sum(len(run.members) for run in result.runs),
        held_out=sum(len(run.held_out) for run in result.runs),
        runs=len(result.runs),
        queries=queries,
        chance=chance,
        extractable=inside,
        held_out_extractable=outside,
        luck=luck,
        fewest=result.fewest(chance, held_out=False),
        held_out_fewest=result.fewest(chance, held_out=True),
        by_queries=tuple(
            (look, sum(inside for inside, _ in each), sum(outside for _, outside in each)) for look, each in looks
        ),
        control=control,
        note=f"{where}{attack.target_words} words after {attack.prefix_words}; {attack.sampling}; no ε follows from it",
    )
