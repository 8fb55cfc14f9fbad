"""What a draw gives where two neighbours are compared: the same for whatever they share, and nothing of the data.

*Aligned.* Who takes part is decided record by record: every record has a number of its own at each use of a sampler,
and the sample are those with the least. So without one record the others' are the same, and in a sample of fixed size
one other takes its place. Each run by itself is as any other: the numbers are independent and uniform.

*Drowned.* Noise is a million times as large, and a choice is uniform over what had any chance at all. A mechanism is
private for any noise that is large enough, and its outputs then follow from the noise alone; so whatever still differs
between two neighbours was not released through it.

A draw that is neither (a uniform number that decides nobody's part, or noise of another kind) is *opaque*: behind it
the runs may part for good reason, and are not compared. One that has nothing to do with records is *fresh*: the same
in both runs, as long as both ask for the same.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, TypeAlias

import numpy as np

from affidavit.foreign.kinds import Kind, Method
from affidavit.foreign.naming import Names
from affidavit.foreign.sources import Source

__all__ = ["DROWNING", "SHUFFLES", "Aligned", "How"]

How: TypeAlias = Literal["as it is", "aligned", "fresh", "opaque"]

DROWNING = 1e6
SHUFFLES = ("shuffle", "permutation", "randperm")


@dataclass(slots=True)
class Aligned:
    """``coins``: the places where a uniform number decides one record's part, as an earlier run showed them.

    ``last``: a record that every shuffle puts last. Where a shuffled list is dealt out, one record less shifts all that
    follow it; behind none there is nothing to shift. It is one of the outcomes that a shuffle may have.
    """

    seed: int
    names: Names
    coins: frozenset[str] = frozenset()
    drowning: float = DROWNING
    last: str | None = None
    _uses: dict[tuple[str, ...], int] = field(default_factory=dict)

    def draw(
        self,
        source: Source,
        owner: Any,
        name: str,
        method: Method,
        kind: Kind,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
        site: str,
    ) -> tuple[Any, How]:
        """The result, and how it was come by."""
        arguments = method.arguments(args, kwargs)
        if kind == "coin":
            return self._coin(source, owner, name, arguments, args, kwargs, frame, site)
        key = self._key(site, name)
        if kind == "sample":
            sampled = _sampled(source, name, arguments, self.names, frame, key, self.last)
            if sampled is not None:
                return (None if name == "shuffle" else sampled), "aligned"
        if kind == "choice":
            return _chosen(source, name, arguments, self.names, key), "aligned"
        result = self._fresh(source, owner, name, args, kwargs, key)
        if kind == "noise":
            return self._drowned(source, name, method, arguments, result), "aligned"
        return result, "fresh" if kind == "sample" else "opaque"

    def _key(self, *place: str) -> bytes:
        use = self._uses.get(place, 0)
        self._uses[place] = use + 1
        return hashlib.sha256(repr((self.seed, place, use)).encode()).digest()

    def _coin(
        self,
        source: Source,
        owner: Any,
        name: str,
        arguments: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        frame: FrameType,
        site: str,
    ) -> tuple[Any, How]:
        record = self.names.in_frame(frame) if site in self.coins else None
        if record is not None:
            return self._fresh(source, owner, name, args, kwargs, self._key(site, name, record)), "aligned"
        key = self._key(site, name)
        length = _length(arguments, args)
        members = self.names.sequence_in_frame(frame, length) if length else None
        if members is None or source.library != "numpy":
            return self._fresh(source, owner, name, args, kwargs, key), "opaque"
        uniform = np.array([_unit(key, member) for member in members])
        if name == "uniform":
            low, high = float(arguments.get("low", 0.0)), float(arguments.get("high", 1.0))
            return low + (high - low) * uniform, "aligned"
        if name == "binomial":
            return (uniform < np.asarray(arguments["p"], dtype=float)).astype(int), "aligned" if arguments[
                "n"
            ] == 1 else "opaque"
        return uniform, "aligned"

    def _fresh(
        self, source: Source, owner: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], key: bytes
    ) -> Any:
        """What a generator of the same kind, seeded by the place of the call, would draw."""
        seed = int.from_bytes(key[:4], "big")
        if source.library == "random":
            return getattr(random.Random(seed), name)(*args, **kwargs)  # noqa: S311 - a comparison, not a release
        if source.library == "torch":
            import torch

            kwargs.pop("generator", None)
            before = torch.random.get_rng_state()
            torch.default_generator.manual_seed(seed)
            try:
                return owner.draw(args, kwargs)
            finally:
                torch.random.set_rng_state(before)
        modern = source.algorithm != "MT19937" or name in ("integers",)
        make: Any = np.random.Generator if modern else np.random.RandomState
        return getattr(make(np.random.PCG64(seed)) if modern else make(seed), name)(*args, **kwargs)

    def _drowned(self, source: Source, name: str, method: Method, arguments: dict[str, Any], result: Any) -> Any:
        if source.library == "torch" and name.endswith("_"):
            return result.mul_(self.drowning)
        loc = arguments.get(method.loc, 0.0) if method.loc else 0.0
        return loc + (result - loc) * self.drowning


def _unit(key: bytes, what: object) -> float:
    """A number below 1 that belongs to ``what`` at this use."""
    digest = hashlib.sha256(key + repr(what).encode()).digest()
    return int.from_bytes(digest[:6], "big") / float(1 << 48)


def _length(arguments: dict[str, Any], args: tuple[Any, ...]) -> int:
    size = arguments.get("size", args[0] if len(args) == 1 else None)
    if isinstance(size, tuple) and len(size) == 1:
        size = size[0]
    return int(size) if isinstance(size, (int, np.integer)) and not isinstance(size, bool) else 0


def _sampled(
    source: Source,
    name: str,
    arguments: dict[str, Any],
    names: Names,
    frame: FrameType,
    key: bytes,
    last: str | None,
) -> Any | None:
    """A sample of records, by each one's own number; None where the population is not made of records."""
    population: Any = next(
        (arguments[each] for each in ("population", "seq", "a", "x", "n") if each in arguments),
        arguments.get("high") if arguments.get("low") == 0 else arguments.get("low"),
    )
    if isinstance(population, (int, np.integer)):
        population = range(int(population))
    if population is None or not hasattr(population, "__len__") or len(population) == 0:
        return None
    members = names.all_of(population)
    if members is None and _are_places(population):
        highest = int(max(population)) + 1
        whole = names.sequence_in_frame(frame, highest, at_least=highest != len(population))
        members = None if whole is None else [whole[int(place)] for place in population]
    if members is None:
        return None
    order = sorted(range(len(members)), key=lambda place: _unit(key, members[place]))
    if last is not None and name in SHUFFLES:
        order.sort(key=lambda place: members[place] == last)
    if name == "shuffle":
        population[:] = [population[place] for place in order]
        return population
    count = arguments.get("k", arguments.get("size"))
    if name in ("permutation", "randperm"):
        return _as(source, [population[place] for place in order])
    if count is None:
        return population[order[0]]
    count = int(count[0]) if isinstance(count, tuple) else int(count)
    replace = name in ("choices", "integers", "randint") or (name == "choice" and arguments.get("replace", True))
    if replace:
        known = tuple(members)
        places = [min(range(len(known)), key=lambda place: _unit(key, (i, known[place]))) for i in range(count)]
    elif count > len(members):
        return None  # as it fails by itself
    else:
        places = order[:count]
    found = [population[place] for place in places]
    return found if source.library == "random" else _as(source, found)


def _are_places(population: Sequence[Any]) -> bool:
    """Whether it holds places in a list: whole numbers, none of them twice."""
    if not all(isinstance(value, (int, np.integer)) and value >= 0 for value in population):
        return False
    return len(set(population)) == len(population)


def _as(source: Source, values: list[Any]) -> Any:
    if source.library == "torch":
        import torch

        return torch.tensor(values)
    return np.asarray(values) if source.library == "numpy" else values


def _chosen(source: Source, name: str, arguments: dict[str, Any], names: Names, key: bytes) -> Any:
    """A choice that is uniform over what had any chance; of records, by each one's own number."""
    if source.library == "torch":
        return _chosen_rows(arguments, key)
    if source.library == "random":
        population = list(arguments["population"])
        weights = arguments.get("weights")
        if weights is None:
            weights = np.diff(arguments["cum_weights"], prepend=0.0)
        count: Any = arguments.get("k", 1)
    else:
        given = arguments["a"]
        population = list(range(int(given))) if isinstance(given, (int, np.integer)) else list(given)
        weights, count = arguments["p"], arguments.get("size")
    possible = [place for place, weight in enumerate(weights) if float(weight) > 0.0]
    named = [names.of(population[place]) or place for place in possible]
    places = []
    for i in range(1 if count is None else int(np.prod(count))):
        best = min(range(len(possible)), key=lambda at: _unit(key, (i, named[at])))
        places.append(possible[best])
        if name == "choice" and not arguments.get("replace", True):
            del possible[best], named[best]
    found = [population[place] for place in places]
    if source.library == "random":
        return found
    return np.asarray(found)[0] if count is None else np.asarray(found).reshape(count)


def _chosen_rows(arguments: dict[str, Any], key: bytes) -> Any:
    import torch

    weights = arguments["input"]
    rows = weights if weights.dim() == 2 else weights[None]
    count = int(arguments.get("num_samples", 1))
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(key[:4], "big")))
    order = torch.from_numpy(generator.random(rows.shape[1])).expand(rows.shape)
    chosen = torch.where(rows.cpu() > 0, order, torch.full_like(order, 2.0)).argsort(dim=1)[:, :count]
    return (chosen if weights.dim() == 2 else chosen[0]).to(weights.device)
