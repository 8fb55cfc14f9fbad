"""A permit for trials: what a generator asks of one, where nothing is released and nobody is charged."""

from __future__ import annotations

from dataclasses import dataclass, field

from affidavit.accountant.plan import Leaf, Plan
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.randomness import NoiseSource, SecureNoise
from affidavit.accountant.validate import Relation

__all__ = ["TrialPermit"]


@dataclass(slots=True)
class TrialPermit:
    """What a generator asks of a permit, for one audited trial: the same order and counts, no ledger."""

    plan: Plan
    relation: Relation
    noise: NoiseSource = field(default_factory=SecureNoise)
    _order: Order = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._order = Order(self.plan)

    def use(self, path: str) -> Leaf:
        """Charge one use. Raises ``PermitViolation`` as a real permit does."""
        return self._order.use(path)

    def finish(self, path: str) -> None:
        """Leave a node early."""
        self._order.finish(path)
