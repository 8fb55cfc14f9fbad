"""What one run costs in each filter's own unit: decimals, never below the truth.

A certificate carries them beside its claims, so that an account can add up runs without their plans. A unit that no
theorem here gives the plan is left out, with nothing in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated

from affidavit.accountant import strictjson
from affidavit.accountant.errors import PlanError
from affidavit.accountant.strictjson import AT_LEAST_0

__all__ = ["FORM", "NO_COSTS", "ORDERS", "Costs", "RenyiPoint"]

_ORDERS = (1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, *range(4, 9), *range(10, 17, 2), *range(20, 33, 4), 40, 48, 56, 64)
ORDERS: tuple[Decimal, ...] = tuple(map(Decimal, (*_ORDERS, 80, 96, 128, 192, 256, 384, 512)))
"""The orders at which Rényi divergences are stored."""


@dataclass(frozen=True, slots=True)
class RenyiPoint:
    """The run's Rényi divergence of ``order``, in both directions, is at most ``rho``."""

    order: Decimal
    rho: Annotated[Decimal, AT_LEAST_0]


@dataclass(frozen=True, slots=True)
class Costs:
    """renyi: at rising orders, of ``ORDERS``. zcdp: ρ of ρ-zCDP. gdp: μ of μ-GDP. Empty or None: no theorem."""

    renyi: tuple[RenyiPoint, ...] = ()
    zcdp: Annotated[Decimal, AT_LEAST_0] | None = None
    gdp: Annotated[Decimal, AT_LEAST_0] | None = None

    def rho_at(self, order: Decimal) -> Decimal | None:
        """ρ at a stored order."""
        return next((point.rho for point in self.renyi if point.order == order), None)


NO_COSTS = Costs()


_COSTS = strictjson.record(Costs)


def _read(value: object, *, path: str) -> Costs:
    costs = _COSTS.read(value, path=path)
    orders = [point.order for point in costs.renyi]
    if not set(orders) <= set(ORDERS) or orders != sorted(set(orders)):
        raise PlanError(f"{path}.renyi", "not at stored orders, or not at rising ones", allowed="orders such as 2")
    return costs


FORM = strictjson.Form(_read, _COSTS.show)
"""As a certificate spells it."""
