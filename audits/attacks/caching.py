"""An attack that remembers: equal views and records are scored once.

Comparisons repeat scores (the null pair shows one fixed demonstration in every run), and a
language model's answer costs a thousand times its look-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from affidavit.audits.attacks.protocol import Access, MembershipAttack, View
from affidavit.audits.textmodel import Record

__all__ = ["Remembering"]

_Key = tuple[tuple[str, ...], str, Record]


@dataclass(slots=True)
class Remembering:
    """``attack`` with a memory, keyed by everything that its score may depend on."""

    attack: MembershipAttack
    _scores: dict[_Key, float] = field(default_factory=dict, init=False, repr=False)

    @property
    def name(self) -> str:
        """The attack's own."""
        return self.attack.name

    @property
    def needs(self) -> frozenset[Access]:
        """The attack's own."""
        return self.attack.needs

    def scores(self, view: View, records: Sequence[Record]) -> list[float]:
        """As the attack scores them."""
        model = "" if view.model is None else view.model.digest
        keys = [(view.texts, model, record) for record in records]
        fresh = {key: record for key, record in zip(keys, records, strict=True) if key not in self._scores}
        if fresh:
            self._scores.update(zip(fresh, self.attack.scores(view, list(fresh.values())), strict=True))
        return [self._scores[key] for key in keys]
