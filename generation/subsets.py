"""Which records stand in which prompt, token by token: the three schemes of ``subsampled``.

Places are the positions of the records file. A subset is a list of places whose records may be shown; a place whose
record has another label, or none (``without-replacement`` and ``fixed-groups`` count the declared size), shows nothing.
What is drawn depends on how many places there are and on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.accountant.errors import DataError
from affidavit.generation import sampling
from affidavit.generation.subsampled import SubsampledConfig, group_count, sample_size, sampling_rate

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Noise

__all__ = ["Drawn", "Groups", "draw_subsets", "fixed_groups"]


@dataclass(frozen=True, slots=True)
class Drawn:
    """A sample: all its ``members``, and its ``subsets`` (indices of groups, for fixed groups)."""

    members: tuple[int, ...]
    subsets: tuple[tuple[int, ...], ...] = ()
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Groups:
    """The fixed groups of a run, as tuples of places."""

    places: tuple[tuple[int, ...], ...]
    rate: float

    def draw(self, noise: Noise) -> Drawn:
        """A Poisson sample of groups."""
        chosen = sampling.poisson(len(self.places), rate=self.rate, noise=noise)
        members = tuple(place for group in chosen for place in self.places[group])
        return Drawn(members, groups=tuple(chosen))


def fixed_groups(config: SubsampledConfig, *, size: int, held: int, noise: Noise) -> Groups:
    """Share the places out. ``held``: how many records there are (it matters for N = 1 alone: one group each)."""
    rate = sampling_rate(config, size=size)
    if config.shots_per_subset == 1:
        return Groups(tuple((place,) for place in range(held)), rate)
    _no_more(held, size)
    each = config.shots_per_subset * config.shares
    order = sampling.permutation(size, noise=noise)
    count = group_count(config, size=size)
    return Groups(tuple(tuple(order[each * i : each * (i + 1)]) for i in range(count)), rate)


def draw_subsets(config: SubsampledConfig, *, size: int, held: int, noise: Noise) -> Drawn:
    """A fresh sample and its subsets. Raises ``DataError`` where there are more records than places."""
    if config.sampling == "poisson":
        members = sampling.poisson(held, rate=sampling_rate(config, size=size), noise=noise)
        if config.shots_per_subset == 1:
            return Drawn(tuple(members), tuple((member,) for member in members))
        order = [members[i] for i in sampling.permutation(len(members), noise=noise)]
        slots = noise.integers(0, config.subsets, size=len(order))
        shared: list[list[int]] = [[] for _ in range(config.subsets)]
        for member, slot in zip(order, slots, strict=True):
            shared[int(slot)].append(member)
        return Drawn(tuple(members), tuple(map(tuple, shared)))
    _no_more(held, size)
    order = sampling.without_replacement(size, sample=sample_size(config, size=size), noise=noise)
    each = 1 if config.shots_per_subset == 1 else config.shots_per_subset * config.shares
    return Drawn(tuple(order), tuple(tuple(order[i : i + each]) for i in range(0, len(order), each)))


def shown(subset: Sequence[int], relevant: Sequence[bool], *, shots: int) -> tuple[int, ...]:
    """The places of a subset that a prompt shows: the first ``shots`` relevant ones."""
    return tuple(place for place in subset if place < len(relevant) and relevant[place])[:shots]


def _no_more(held: int, size: int) -> None:
    if held > size:
        raise DataError(
            f"{held} records, declared are {size}",
            hint="size is a public fact about the data set: declare it, and keep the file to it.",
        )
