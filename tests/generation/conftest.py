"""A permit without certificate or ledger: the real plan order and noise, nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from affidavit.accountant.plan import Leaf, Plan
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.randomness import NoiseSource, SeededNoise
from affidavit.accountant.validate import Relation


class PlainPermit:
    """Counts and orders uses as the real permit does."""

    def __init__(self, plan: Plan, *, relation: Relation, noise: NoiseSource) -> None:
        self.plan = plan
        self.relation: Relation = relation
        self.noise = noise
        self.uses: dict[str, int] = {}
        self._order = Order(plan)

    def use(self, path: str) -> Leaf:
        leaf = self._order.use(path)
        self.uses[path] = self.uses.get(path, 0) + 1
        return leaf

    def finish(self, path: str) -> None:
        self._order.finish(path)


@pytest.fixture
def open_plain() -> Callable[..., PlainPermit]:
    """``open_plain(plan, relation=..., seed=...)``: a permit for tests."""

    def make(plan: Plan, *, relation: Relation = "zero-out", seed: int = 1) -> PlainPermit:
        return PlainPermit(plan, relation=relation, noise=SeededNoise(seed))

    return make
