"""Paste the accounts of four published settings into their page: ``python -m benchmarks.published_epsilons``.

One training run, four accounts, each step by our own methods and by dp-accounting: the one that was published
(Rényi DP at a list of orders, Mironov's conversion), a better conversion, any real order, and the exact composition.
A test makes sure that the page shows what this computes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from affidavit.accountant.bound import bound
from affidavit.accountant.methods.rdp import rdp
from affidavit.accountant.plan import Gaussian, Poisson, Repeat
from benchmarks.results_page import pasted

PAGE = Path(__file__).resolve().parents[1] / "docs" / "published-epsilons.md"
RECORDS, BATCH, DELTA = 60_000, 256, 1e-5
ORDERS = (*(1 + x / 10 for x in range(1, 100)), *range(12, 64))
"""Of the tutorial's script."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A row of the tutorial's README: ``published`` is its ε."""

    noise: float
    epochs: int
    published: str

    @property
    def steps(self) -> int:
        return math.ceil(Fraction(self.epochs * RECORDS, BATCH))

    @property
    def plan(self) -> Repeat:
        return Repeat(self.steps, Poisson(BATCH / RECORDS, Gaussian(self.noise)))


SETTINGS = (Setting(1.12, 60, "2.92"), Setting(1.1, 60, "3.01"), Setting(1.3, 15, "1.19"), Setting(0.7, 45, "7.10"))


@dataclass(frozen=True, slots=True)
class Accounts:
    """ε of one setting by each account; ``epsilon_lower`` and ``epsilon_upper`` bracket the exact one."""

    old_conversion: float
    better_conversion: float
    any_order: float
    epsilon_lower: float
    epsilon_upper: float


def mironov(divergence: float, order: float) -> float:
    """Mironov 2017, Proposition 3."""
    return divergence + math.log(1 / DELTA) / (order - 1)


def canonne(divergence: float, order: float) -> float:
    """Canonne, Kamath and Steinke 2020, Proposition 12."""
    return divergence + math.log1p(-1 / order) - math.log(DELTA * order) / (order - 1)


def ours(setting: Setting) -> Accounts:
    """By the methods of this package."""
    divergence = rdp(setting.plan, "add-remove")
    by_order = [(divergence(order), order) for order in ORDERS]
    upper = bound(setting.plan, relation="add-remove", delta=DELTA, method="rdp").epsilon_upper
    exact = bound(setting.plan, relation="add-remove", delta=DELTA, tolerance=1e-5)
    return Accounts(
        min(mironov(*pair) for pair in by_order),
        min(canonne(*pair) for pair in by_order),
        upper,
        exact.epsilon_lower,
        exact.epsilon_upper,
    )


def theirs(setting: Setting) -> tuple[float, float, float]:
    """Old conversion, better conversion (both at ``ORDERS``) and PLD, by dp-accounting."""
    import dp_accounting
    from dp_accounting import pld
    from dp_accounting import rdp as renyi

    event = dp_accounting.SelfComposedDpEvent(
        dp_accounting.PoissonSampledDpEvent(BATCH / RECORDS, dp_accounting.GaussianDpEvent(setting.noise)),
        setting.steps,
    )
    accountant = renyi.RdpAccountant(list(map(float, ORDERS)))
    accountant.compose(event)
    divergences = accountant._rdp  # it converts in one way only; the published one used another
    old = min(mironov(float(value), order) for value, order in zip(divergences, ORDERS, strict=True))
    composed = pld.PLDAccountant()
    composed.compose(event)
    return old, float(accountant.get_epsilon(DELTA)), float(composed.get_epsilon(DELTA))


def table() -> str:
    """The page's table."""
    lines = [
        "| noise, epochs | published | (1) orders of the script, old conversion | (2) same orders, better conversion "
        "| (3) any order | (4) exact, from both sides | dp-accounting: (1), (2), (4) |",
        "|---|---|---|---|---|---|---|",
    ]
    for setting in SETTINGS:
        found = ours(setting)
        peers = ", ".join(f"{value:.3f}" for value in theirs(setting))
        lines.append(
            f"| {setting.noise:g}, {setting.epochs} | {setting.published} | {found.old_conversion:.3f} "
            f"| {found.better_conversion:.3f} | {found.any_order:.3f} "
            f"| {math.floor(found.epsilon_lower * 1e4) / 1e4:.4f} to {math.ceil(found.epsilon_upper * 1e4) / 1e4:.4f} "
            f"| {peers} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Write the page's table anew."""
    PAGE.write_text(pasted(PAGE.read_text(encoding="utf-8"), {"accounts": table()}), encoding="utf-8")


if __name__ == "__main__":
    main()
