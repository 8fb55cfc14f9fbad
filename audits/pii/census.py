"""How many identifiers some records hold, and whose: the size of what there is to lose."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from affidavit.audits.pii.detect import find_mentions
from affidavit.audits.pii.identifier import Identifier, IdentifierKind, distinct
from affidavit.audits.pii.name import NameFinder

__all__ = ["Held", "census"]


@dataclass(frozen=True, slots=True)
class Held:
    """Distinct ``identifiers`` of some ``kinds``, the ``records`` that hold one, and the ``users`` of those records."""

    kinds: tuple[IdentifierKind, ...]
    identifiers: int
    records: int
    users: int


def census(
    records: Iterable[tuple[str, str]],
    *,
    kinds: tuple[IdentifierKind, ...],
    region: str = "US",
    names: NameFinder | None = None,
) -> tuple[Held, ...]:
    """Count (user, text) records: one row for each kind, then one for all of them together."""
    found: dict[IdentifierKind, set[Identifier]] = defaultdict(set)
    holders: dict[IdentifierKind, set[int]] = defaultdict(set)
    users: list[str] = []
    for number, (user, text) in enumerate(records):
        users.append(user)
        for identifier in distinct(find_mentions(text, kinds=kinds, region=region, names=names)):
            found[identifier.kind].add(identifier)
            holders[identifier.kind].add(number)

    def row(chosen: tuple[IdentifierKind, ...]) -> Held:
        holding = set().union(*(holders[kind] for kind in chosen))
        return Held(chosen, sum(len(found[kind]) for kind in chosen), len(holding), len({users[i] for i in holding}))

    return (*(row((kind,)) for kind in kinds), *([row(kinds)] if len(kinds) > 1 else []))
