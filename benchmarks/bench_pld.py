"""Brackets of one subsampled Gaussian beside two other accountants, in one run: time and width, as ratios.

prv-accountant with eps_error 0.01 and delta_error 1e-10; dp-accounting's PLD, pessimistic and optimistic, at
interval 1e-4; ours at tolerance 4e-4. Neither peer covers sampling without replacement; there our own figures stand
alone. Times are processor seconds of this process (the best of several for ours, once for the others), everything
cold but the imports. Ours runs first, so that its peak memory is its own.
"""

from __future__ import annotations

import logging
import os
import resource
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

from affidavit.accountant.plan import Compose, Gaussian, Plan, Poisson, WithoutReplacement
from affidavit.accountant.pld.engine import epsilon_bracket
from affidavit.accountant.pld.steps import one_step
from affidavit.accountant.validate import Relation

REPEATS = 5
TOLERANCE = 4e-4


class Case(NamedTuple):
    """One plan: ``count`` uses of one node, or of each part of a ``compose``."""

    name: str
    node: Plan
    relation: Relation
    count: int
    delta: float


class Timed(NamedTuple):
    """A bracket and the processor seconds it took."""

    lower: float
    upper: float
    seconds: float

    @property
    def width(self) -> float:
        """Relative width."""
        return (self.upper - self.lower) / self.upper


CASES = (
    Case("poisson, T = 1,000", Poisson(0.01, Gaussian(1.0)), "add-remove", 1_000, 1e-6),
    Case("poisson, T = 10,000", Poisson(0.004, Gaussian(0.8)), "add-remove", 10_000, 1e-6),
    Case("without replacement, T = 1,000", WithoutReplacement(10_000, 100, Gaussian(1.0)), "substitution", 1_000, 1e-6),
    Case(
        "without replacement, T = 10,000", WithoutReplacement(10_000, 40, Gaussian(0.8)), "substitution", 10_000, 1e-6
    ),
    Case("poisson, T = 1,000,000", Poisson(0.001, Gaussian(1.0)), "add-remove", 1_000_000, 1e-8),
    Case("poisson, δ = 1e-100", Poisson(0.01, Gaussian(1.0)), "add-remove", 1_000, 1e-100),
    Case(
        "200 mechanisms",
        Compose(tuple(Poisson(0.001 + 1e-4 * i, Gaussian(0.8 + 0.01 * i)) for i in range(200))),
        "add-remove",
        1,
        1e-6,
    ),
)


def timed(bracket: Callable[[], tuple[float, float]], *, repeats: int = 1) -> Timed:
    """The bracket with the least processor time of ``repeats``."""
    best = float("inf")
    lower = upper = 0.0
    for _ in range(repeats):
        start = time.process_time()
        lower, upper = bracket()
        best = min(best, time.process_time() - start)
    return Timed(lower, upper, best)


def ours(case: Case) -> Timed:
    """The engine at its default tolerance; a new curve each time, so that nothing is remembered."""

    nodes = case.node.parts if isinstance(case.node, Compose) else (case.node,)

    def bracket() -> tuple[float, float]:
        steps = [one_step.__wrapped__(node, case.relation) for node in nodes]
        return epsilon_bracket([(step, case.count) for step in steps], delta=case.delta, tolerance=TOLERANCE)

    bracket()
    return timed(bracket, repeats=REPEATS)


def prv(case: Case, noise: float, rate: float) -> Timed:
    """prv-accountant."""
    import prv_accountant

    def bracket() -> tuple[float, float]:
        law = prv_accountant.PoissonSubsampledGaussianMechanism(noise_multiplier=noise, sampling_probability=rate)
        accountant = prv_accountant.PRVAccountant(
            prvs=[law], max_self_compositions=[case.count], eps_error=0.01, delta_error=1e-10
        )
        lower, _, upper = accountant.compute_epsilon(case.delta, [case.count])
        return float(lower), float(upper)

    return timed(bracket)


def google(case: Case, noise: float, rate: float) -> Timed:
    """dp-accounting, both estimates."""
    from dp_accounting.pld import privacy_loss_distribution

    def bracket() -> tuple[float, float]:
        sides = []
        for pessimistic in (False, True):
            law = privacy_loss_distribution.from_gaussian_mechanism(
                noise,
                sampling_prob=rate,
                pessimistic_estimate=pessimistic,
                use_connect_dots=pessimistic,
                value_discretization_interval=1e-4,
            )
            sides.append(float(law.self_compose(case.count).get_epsilon_for_delta(case.delta)))
        return sides[0], sides[1]

    return timed(bracket)


def show(name: str, result: Timed, against: Timed | None = None) -> None:
    """One line."""
    bracket = f"[{result.lower:.6g}, {result.upper:.6g}]"
    line = f"  {name:<16} {bracket:<22} width {result.width:.1e}  {1e3 * result.seconds:.0f} ms"
    if against is not None:
        faster = result.seconds / against.seconds
        line += f"  ours is {faster:.0f}x faster"
        if result.upper < float("inf"):
            line += f", {result.width / against.width:.0f}x narrower"
    print(line, flush=True)


def main() -> None:
    """Print every case."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"threads: OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}; processor time of this process")
    mine = [ours(case) for case in CASES]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(f"affidavit: peak memory {peak:.0f} MB with everything imported")
    for case, result in zip(CASES, mine, strict=True):
        print(f"{case.name} ({case.relation}, δ = {case.delta:g})")
        show("affidavit", result)
        if not isinstance(case.node, Poisson) or not isinstance(case.node.of, Gaussian) or case.count > 10_000:
            continue
        for name, peer in (("prv-accountant", prv), ("dp-accounting", google)):
            try:
                show(name, peer(case, case.node.of.noise_multiplier, case.node.rate), result)
            except (ImportError, ValueError, RuntimeError, MemoryError) as error:
                print(f"  {name:<16} no answer: {type(error).__name__}: {str(error)[:80]}")


if __name__ == "__main__":
    main()
