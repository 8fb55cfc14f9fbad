"""Both engines, every preset: what issues, what verifies, and the settled ε. Processor time on one core.

The first rows are plans of long compositions; then every generator's presets under every relation they allow, as
10,000 records and five labels or questions would have them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from affidavit.accountant.errors import AffidavitError, NotSupported
from affidavit.accountant.plan import Exponential, Gaussian, Plan, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.settle import issue
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute
from affidavit.generation.registry import generator, kinds

DELTA, SIZE = 1e-5, 10_000
RELATIONS: tuple[Relation, ...] = ("add-remove", "zero-out", "substitution")
PUBLIC: tuple[dict[str, Any], ...] = (
    {"labels": ("a", "b", "c", "d", "e")},
    {"queries": tuple(f"question {number}" for number in range(5))},
    {"labels": ("a", "b", "c", "d", "e"), "queries": ("why",)},
)
PLANS: tuple[tuple[str, Plan, Relation, float], ...] = (
    ("Poisson .01, Gaussian 1, 1,000 uses", Repeat(1_000, Poisson(0.01, Gaussian(1.0))), "add-remove", 1e-6),
    ("Poisson .004, Gaussian .8, 10,000 uses", Repeat(10_000, Poisson(0.004, Gaussian(0.8))), "add-remove", 1e-6),
    ("Poisson .001, Gaussian 1, 1e6 uses", Repeat(10**6, Poisson(0.001, Gaussian(1.0))), "add-remove", 1e-6),
    ("Poisson .001, Gaussian .8, 2 uses", Repeat(2, Poisson(0.001, Gaussian(0.8))), "add-remove", 1e-6),
    ("Poisson .001, Gaussian .8, 10 uses", Repeat(10, Poisson(0.001, Gaussian(0.8))), "add-remove", 1e-6),
    ("Poisson .001, Gaussian .8, 50 uses", Repeat(50, Poisson(0.001, Gaussian(0.8))), "add-remove", 1e-6),
    ("Poisson .01, Gaussian 1, 10 uses", Repeat(10, Poisson(0.01, Gaussian(1.0))), "add-remove", 1e-6),
    ("Poisson 1e-9, Gaussian .3, 1e7 uses", Repeat(10**7, Poisson(1e-9, Gaussian(0.3))), "add-remove", 1e-8),
    (
        "20 of 30,000, Gaussian .51, 100 uses",
        Repeat(100, WithoutReplacement(30_000, 20, Gaussian(0.51))),
        "substitution",
        1e-5,
    ),
    ("exponential .1, 1,000 uses", Repeat(1_000, Exponential(0.1)), "add-remove", 1e-6),
    ("Poisson .01, exponential .5, 1e5 uses", Repeat(10**5, Poisson(0.01, Exponential(0.5))), "add-remove", 1e-6),
    ("Poisson .1, exponential 1, 100 uses", Repeat(100, Poisson(0.1, Exponential(1.0))), "zero-out", 1e-5),
)


def presets() -> Iterator[tuple[str, Plan, Relation, float]]:
    """Every preset under every relation that its generator allows."""
    for kind in kinds():
        found = generator(kind)
        for name, preset in found.presets.items():
            for relation in RELATIONS:
                for public in PUBLIC:
                    try:
                        config = found.config.model_validate({**public, **preset})
                        plan = found.plan(config, relation=relation, size=SIZE)
                    except (AffidavitError, ValueError):  # not its public facts, or not its relation
                        continue
                    yield f"{kind} {name}", plan, relation, DELTA
                    break


def timed(ask: Callable[[], Any]) -> tuple[float, float, float]:
    """(lower, upper, seconds)."""
    begin = time.process_time()
    try:
        found = ask()
    except NotSupported:
        return 0.0, float("inf"), time.process_time() - begin
    return found.epsilon_lower, found.epsilon_upper, time.process_time() - begin


def main() -> None:
    """One line a plan."""
    print(
        f"{'plan':40} {'relation':12} {'settled ε':>12} {'issued: width':>14} {'s':>6} {'verified: width':>16} {'s':>6}"
    )
    slowest = 0.0
    for name, plan, relation, delta in (*PLANS, *presets()):
        low, high, seconds = timed(lambda: issue(plan, relation=relation, delta=delta))  # noqa: B023
        least, most, again = timed(lambda: recompute(plan, relation=relation, delta=delta))  # noqa: B023
        slowest = max(slowest, seconds + 2 * again)
        print(
            f"{name:40} {relation:12} {max(high, most):12.6f} {(high - low) / high:14.1e} {seconds:6.2f}"
            f" {(most - least) / most:16.1e} {again:6.2f}"
        )
    print(f"certify and verify, the slowest: {slowest:.1f} s")


if __name__ == "__main__":
    main()
