"""What one run costs in each filter's own unit: decimals, never below the truth.

A certificate carries them beside its claims, so that an account can add up runs without their plans. A unit that no
theorem here gives the plan is left out, with nothing in its place.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from affidavit.accountant import decimals, strictjson
from affidavit.accountant.errors import PlanError

__all__ = ["NO_COSTS", "ORDERS", "Costs", "RenyiPoint", "decode", "encode"]

_ORDERS = (1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, *range(4, 9), *range(10, 17, 2), *range(20, 33, 4), 40, 48, 56, 64)
ORDERS: tuple[Decimal, ...] = tuple(map(Decimal, (*_ORDERS, 80, 96, 128, 192, 256, 384, 512)))
"""The orders at which Rényi divergences are stored."""


@dataclass(frozen=True, slots=True)
class RenyiPoint:
    """The run's Rényi divergence of ``order``, in both directions, is at most ``rho``."""

    order: Decimal
    rho: Decimal


@dataclass(frozen=True, slots=True)
class Costs:
    """renyi: at rising orders, of ``ORDERS``. zcdp: ρ of ρ-zCDP. gdp: μ of μ-GDP. Empty or None: no theorem."""

    renyi: tuple[RenyiPoint, ...] = ()
    zcdp: Decimal | None = None
    gdp: Decimal | None = None

    def rho_at(self, order: Decimal) -> Decimal | None:
        """ρ at a stored order."""
        return next((point.rho for point in self.renyi if point.order == order), None)


NO_COSTS = Costs()


def encode(costs: Costs) -> dict[str, Any]:
    """As a certificate spells it."""
    shown = [{"order": decimals.show(point.order), "rho": decimals.show(point.rho)} for point in costs.renyi]
    return {
        "renyi": shown,
        "zcdp": None if costs.zcdp is None else decimals.show(costs.zcdp),
        "gdp": None if costs.gdp is None else decimals.show(costs.gdp),
    }


def decode(value: object, path: str) -> Costs:
    """Read strictly. Raises ``PlanError`` naming the field."""
    stated = strictjson.fields(value, path, "renyi zcdp gdp")
    points: list[RenyiPoint] = []
    for place, item in strictjson.items(stated["renyi"], f"{path}.renyi"):
        pair = strictjson.fields(item, place, "order rho")
        order = decimals.parse(pair["order"], path=f"{place}.order")
        if order not in ORDERS or (points and order <= points[-1].order):
            raise PlanError(f"{place}.order", "not a stored order, or not above the one before", allowed="2")
        points.append(RenyiPoint(order, _cost(pair["rho"], f"{place}.rho")))
    zcdp, gdp = (None if stated[name] is None else _cost(stated[name], f"{path}.{name}") for name in ("zcdp", "gdp"))
    return Costs(tuple(points), zcdp, gdp)


def _cost(value: object, path: str) -> Decimal:
    cost = decimals.parse(value, path=path)
    if cost < 0:
        raise PlanError(path, f"{cost} is out of range", allowed="a number >= 0")
    return cost
