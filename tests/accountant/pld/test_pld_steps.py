"""From plan nodes to curves: every row of docs/theory/sampling.md, nestings, refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.pld.engine import delta_bracket, epsilon_bracket
from affidavit.accountant.pld.steps import flatten, one_step


def gaussian(noise: float) -> dict[str, Any]:
    return {"kind": "gaussian", "noise_multiplier": noise}


def poisson(rate: float, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def fixed_size(population: int, sample: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def repeat(count: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "repeat", "count": count, "of": of}


def epsilon(
    plan: dict[str, Any], delta: float, relation: Any = "add-remove", explicit: bool = False
) -> tuple[float, float]:
    return epsilon_bracket(flatten(parse_plan(plan), relation, explicit=explicit), delta=delta)


def meet(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return first[0] <= second[1] and second[0] <= first[1]


def test_one_sample_reused_is_composed_first_and_amplified_once() -> None:
    """Five Gaussians on one Poisson sample are one Gaussian of √5 times the μ on it."""
    reused = epsilon(repeat(50, poisson(0.1, repeat(5, gaussian(2.0)))), 1e-5)
    merged = epsilon(repeat(50, poisson(0.1, gaussian(2.0 / math.sqrt(5.0)))), 1e-5)
    fresh = epsilon(repeat(250, poisson(0.1, gaussian(2.0))), 1e-5)
    assert meet(reused, merged)
    assert fresh[1] < reused[0]


def test_poisson_of_poisson_multiplies_rates() -> None:
    assert meet(
        epsilon(repeat(20, poisson(0.1, poisson(0.5, gaussian(2.0)))), 1e-5),
        epsilon(repeat(20, poisson(0.05, gaussian(2.0))), 1e-5),
    )


def test_nested_composition_of_unlike_parts_is_between_its_parts_and_their_sum() -> None:
    laplace = {"kind": "laplace", "noise_multiplier": 2.0}
    both = epsilon(repeat(20, poisson(0.1, {"kind": "compose", "parts": [gaussian(2.0), laplace]})), 1e-5)
    one = epsilon(repeat(20, poisson(0.1, laplace)), 1e-5)
    assert one[0] < both[1]
    assert both[1] - both[0] <= 1e-3 * both[0] * (1 + 1e-9)


def test_nested_composition_agrees_with_its_closed_form_one_step() -> None:
    """Two Laplace uses on one sample, one use of the sample: γ h(1 + (e^ε − 1)/γ), h composed directly."""
    laplace = {"kind": "laplace", "noise_multiplier": 2.0}
    gamma, value = 0.2, 0.1
    inner = math.log1p(math.expm1(value) / gamma)
    h = delta_bracket(flatten(parse_plan(repeat(2, laplace)), "add-remove"), epsilon=inner, tolerance=1e-5)
    lower, upper = delta_bracket(flatten(parse_plan(poisson(gamma, repeat(2, laplace))), "add-remove"), epsilon=value)
    assert lower <= gamma * h[1] * (1 + 1e-9)
    assert upper >= gamma * h[0] * (1 - 1e-9)
    assert upper - lower < 1e-4 * upper


def test_fixed_size_inside_fixed_size() -> None:
    plan = fixed_size(100, 10, fixed_size(10, 5, gaussian(2.0)))
    inner, outer = epsilon(fixed_size(10, 5, gaussian(2.0)), 1e-5, "substitution"), epsilon(plan, 1e-5, "substitution")
    assert outer[1] < inner[0]
    with pytest.raises(NotSupported, match="population of 20"):
        one_step(parse_plan(fixed_size(100, 10, fixed_size(20, 5, gaussian(2.0)))), "substitution")
    with pytest.raises(NotSupported, match="population of 20"):
        one_step(parse_plan(fixed_size(100, 10, repeat(2, fixed_size(20, 5, gaussian(2.0))))), "substitution")


@pytest.mark.parametrize("inner", [fixed_size(10, 5, gaussian(1.0)), repeat(3, fixed_size(10, 5, gaussian(1.0)))])
def test_fixed_size_inside_poisson_is_refused(inner: dict[str, Any]) -> None:
    with pytest.raises(NotSupported, match="inner population is random"):
        one_step(parse_plan(poisson(0.1, inner)), "add-remove")


def test_parallel_has_no_curve_and_zcdp_one_that_nothing_reaches() -> None:
    assert one_step(parse_plan(poisson(0.1, {"kind": "zcdp", "rho": 0.5})), "add-remove").forward.lower is None
    with pytest.raises(NotSupported, match="parallel"):
        one_step(parse_plan(poisson(0.1, {"kind": "parallel", "parts": [gaussian(1.0)]})), "add-remove")


def test_a_fixed_size_sample_is_not_a_poisson_sample() -> None:
    """Records in [−1, 1], σ = 0.8, rate 1e-3: 8.63 where Poisson with sensitivity 1 says 0.47 (Lebeda et al. 2024)."""
    lower, upper = epsilon(repeat(1000, fixed_size(10000, 10, gaussian(0.4))), 1e-6)
    assert lower - 5e-5 <= 8.6306 <= upper + 5e-5  # four digits
    assert epsilon(repeat(1000, poisson(1e-3, gaussian(0.8))), 1e-6)[1] < 0.48


def test_zero_out_without_replacement_is_not_poisson_either() -> None:
    """σ = 1, rate 0.01, one use, δ = 1e-5: an explicit pair reaches 2.399, Poisson's curve says 0.199."""
    assert epsilon(fixed_size(1000, 10, gaussian(0.5)), 1e-5, "zero-out")[1] > 2.399


def test_the_explicit_lower_side_is_reached_and_below_the_curve() -> None:
    plan = repeat(80, fixed_size(2953, 80, gaussian(1.08)))
    sharp, reached = (
        epsilon(plan, 3.3863867e-4, "substitution"),
        epsilon(plan, 3.3863867e-4, "substitution", explicit=True),
    )
    assert sharp[1] == pytest.approx(reached[1], rel=1e-3)
    # The explicit pair is that of Poisson sampling with the same curve on the sample (0.98539 in the table of claims).
    assert reached[0] == pytest.approx(0.98539, rel=1e-3)
    assert reached[0] < sharp[0]
    assert not one_step(parse_plan(plan["of"]), "substitution", explicit=True).tight
    assert one_step(parse_plan(plan["of"]), "substitution").tight


def test_poisson_under_substitution_scales_delta_only() -> None:
    """Nothing is known of the output without the record: at most q δ(ε), attained by a disjoint one."""
    lower, upper = delta_bracket(flatten(parse_plan(poisson(0.1, gaussian(1.0))), "substitution"), epsilon=1.0)
    exact = 0.1 * 0.12693673750664  # δ(1) of μ = 1, mpmath
    assert lower <= exact * (1 + 1e-10)
    assert upper >= exact * (1 - 1e-10)


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "substitution"])
@pytest.mark.parametrize(
    "plan",
    [
        poisson(0.0, gaussian(1.0)),
        fixed_size(10, 0, gaussian(1.0)),
        fixed_size(0, 0, gaussian(1.0)),
        repeat(0, gaussian(1.0)),
        poisson(0.3, repeat(0, gaussian(1.0))),
    ],
)
def test_nothing_sampled_costs_nothing(plan: dict[str, Any], relation: Any) -> None:
    assert epsilon(plan, 1e-5, relation) == (0.0, 0.0)


@pytest.mark.parametrize("plan", [poisson(1.0, gaussian(1.0)), fixed_size(10, 10, gaussian(1.0))])
def test_everything_sampled_is_not_amplified(plan: dict[str, Any]) -> None:
    lower, upper = epsilon(plan, 1e-5, "substitution")
    assert lower <= 4.3771780956812245 <= upper


def test_exponential_mechanism_is_randomised_response_below_and_its_envelope_above_here() -> None:
    """The envelope composes to 20.5 where the adaptive optimum is 17.2: valid, loose, not attained."""
    plan = repeat(100, {"kind": "exponential", "range": 0.6361323155216285})
    lower, upper = epsilon(plan, 2.5e-5, "zero-out")
    half = {"kind": "pure", "epsilon": 0.6361323155216285 / 2.0}
    assert lower == pytest.approx(epsilon(repeat(100, half), 2.5e-5, "zero-out")[0], rel=1e-3)
    assert lower < 17.3
    assert 20.4 < upper < 20.6


def test_atoms_beside_a_heavy_atom_at_zero() -> None:
    """A diluted discrete Gaussian: its atoms and the untouched records' loss 0 share one lattice of half steps."""
    leaf = {"kind": "discrete-gaussian", "noise_multiplier": 7.8, "granularity": 1.0}
    lower, upper = epsilon(repeat(5, poisson(0.0044, poisson(0.00276, leaf))), 2.4e-6, "substitution")
    assert 0.0 < lower <= upper < 0.1
    assert upper - lower <= 1e-3 * lower


def test_nested_parts_of_unlike_width() -> None:
    """A narrow Gaussian beside a wide Laplace on one sample: the lower side once came out empty."""
    laplace, narrow = {"kind": "laplace", "noise_multiplier": 11.2}, gaussian(77.4)
    lower, upper = epsilon(repeat(2, poisson(0.08, {"kind": "compose", "parts": [laplace, narrow]})), 1e-6, "zero-out")
    alone = epsilon(repeat(2, poisson(0.08, laplace)), 1e-6, "zero-out")
    assert alone[0] <= upper
    assert upper - lower <= 1e-3 * lower * (1 + 1e-9)
