"""Who is exposed: leaked identifiers counted per identifier, per record and per user.

One mailbox may hold a hundred records, and one record five addresses; they leak together. So an
interval is made over what is independent: users where they are known, else records. Each count
has its counterfactual beside it, the same count over records that were not in the data, and says
how much of it a guesser would have produced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from affidavit.audits.leaks import ExposedKind, Exposure
from affidavit.audits.pii.identifier import KINDS, Identifier
from affidavit.audits.statistics.clustered import clustered_interval

__all__ = ["Holder", "exposures", "holders"]


@dataclass(frozen=True, slots=True)
class Holder:
    """The identifiers that one record holds, and whose record it is (None: nobody knows)."""

    identifiers: frozenset[Identifier] = field(repr=False)
    user: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class _Units:
    """What is counted: the identifiers of each unit, and the cluster that it belongs to."""

    held: tuple[frozenset[Identifier], ...]
    clusters: tuple[object, ...]

    def touched(self, leaked: Collection[Identifier]) -> list[bool]:
        return [not own.isdisjoint(leaked) for own in self.held]


def exposures(
    members: Sequence[Holder],
    leaked: Collection[Identifier],
    *,
    alpha: float,
    guessable: Collection[Identifier] = frozenset(),
    held_out: Sequence[Holder] = (),
    held_out_leaked: Collection[Identifier] = frozenset(),
) -> tuple[Exposure, ...]:
    """Counts for every kind that members hold, and for all kinds together where there are several.

    An identifier that several records hold counts once, with the first of them. A record or user
    counts as leaked when one of its identifiers is. Users appear where every member's is known,
    their counterfactual where every held-out record's is. Intervals hold at 1 − ``alpha`` each;
    they take clusters (users, else records) as independent, which texts made from many records
    at once are not quite.
    """
    held = {identifier.kind for holder in members for identifier in holder.identifiers}
    wanted: list[ExposedKind] = [kind for kind in KINDS if kind in held]
    if len(wanted) > 1:
        wanted.append("any")
    named, known = (all(holder.user is not None for holder in side) for side in (members, held_out))
    beyond = set(leaked) - set(guessable)
    found = []
    for kind in wanted:
        inside = list(_of_kind(members, kind))
        outside = list(_of_kind(held_out, kind))
        for unit in ("identifier", "record", "user") if named else ("identifier", "record"):
            units = _units(inside, unit, named=named)
            others = _units(outside if unit != "user" or known else (), unit, named=known)
            hit = units.touched(leaked)
            hits, sizes = _per_cluster(units, hit)
            found.append(
                Exposure(
                    unit=unit,
                    kind=kind,
                    at_risk=len(hit),
                    leaked=sum(hit),
                    beyond_guessable=sum(units.touched(beyond)),
                    interval=clustered_interval(hits, sizes, alpha=alpha),
                    interval_method=_method(sizes, "users" if named else "records"),
                    held_out_at_risk=len(others.held),
                    held_out_leaked=sum(others.touched(held_out_leaked)),
                )
            )
    return tuple(found)


def _of_kind(holders: Iterable[Holder], kind: str) -> Iterable[Holder]:
    for holder in holders:
        own = frozenset(i for i in holder.identifiers if kind in ("any", i.kind))
        if own:
            yield Holder(own, holder.user)


def _units(holders: Sequence[Holder], unit: str, *, named: bool) -> _Units:
    clusters: list[object] = [holder.user if named else number for number, holder in enumerate(holders)]
    if unit == "record":
        return _Units(tuple(holder.identifiers for holder in holders), tuple(clusters))
    owned: dict[object, tuple[frozenset[Identifier], object]] = {}
    if unit == "identifier":
        for holder, cluster in zip(holders, clusters, strict=True):
            for identifier in holder.identifiers:
                owned.setdefault(identifier, (frozenset([identifier]), cluster))
    else:
        for holder, cluster in zip(holders, clusters, strict=True):
            before, _ = owned.get(cluster, (frozenset(), cluster))
            owned[cluster] = (before | holder.identifiers, cluster)
    return _Units(tuple(own for own, _ in owned.values()), tuple(cluster for _, cluster in owned.values()))


def _per_cluster(units: _Units, hit: Sequence[bool]) -> tuple[list[int], list[int]]:
    tally: dict[object, list[int]] = {}
    for cluster, leaked in zip(units.clusters, hit, strict=True):
        each = tally.setdefault(cluster, [0, 0])
        each[0] += leaked
        each[1] += 1
    return [hits for hits, _ in tally.values()], [size for _, size in tally.values()]


def _method(sizes: Sequence[int], over: str) -> str:
    exact = "Clopper-Pearson" if max(sizes) == 1 else "Hoeffding and Chernoff"
    return f"{exact} over {over}"


def holders(
    identifiers: Mapping[str, frozenset[Identifier]], users: Mapping[str, str] | None = None
) -> tuple[Holder, ...]:
    """Record id → identifiers, with record id → user where that is known."""
    return tuple(Holder(own, None if users is None else users.get(name)) for name, own in identifiers.items())
