"""The engine against closed forms, exact sums, the table of cases, other accountants, and itself."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.plan import parse_plan
from affidavit.accountant.pld.atomic import Atomic, pure
from affidavit.accountant.pld.curve import OneStep
from affidavit.accountant.pld.engine import _refine, delta_bracket, epsilon_bracket
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.grid import masses
from affidavit.accountant.pld.nested import composed_law
from affidavit.accountant.pld.problem import Target
from affidavit.accountant.pld.steps import flatten
from affidavit.accountant.pld.subsample import Mixed, TwoSided
from support.references import plans as reference_plans
from support.references import rows


def gaussian(noise: float) -> dict[str, Any]:
    return {"kind": "gaussian", "noise_multiplier": noise}


def poisson(rate: float, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of}


def fixed_size(population: int, sample: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "subsample", "scheme": "without-replacement", "population": population, "sample": sample, "of": of}


def repeat(count: int, of: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "repeat", "count": count, "of": of}


def epsilon(
    plan: dict[str, Any], delta: float, relation: Any = "add-remove", tolerance: float = 1e-3
) -> tuple[float, float]:
    return epsilon_bracket(flatten(parse_plan(plan), relation), delta=delta, tolerance=tolerance)


def composed_by_the_engine(row: dict[str, Any]) -> bool:
    text = json.dumps(row["plan"])
    return "exponential" not in text and "parallel" not in text


@pytest.mark.parametrize(
    "row",
    [row for row in reference_plans("epsilon", "delta") if composed_by_the_engine(row)],
    ids=lambda row: str(row["id"]),
)
def test_rows_of_the_table(row: dict[str, Any]) -> None:
    parts = flatten(parse_plan(row["plan"]), row["relation"])
    if row["verb"] == "epsilon":
        lower, upper = epsilon_bracket(parts, delta=row["delta"])
    else:
        lower, upper = delta_bracket(parts, epsilon=row["epsilon"])
    # The references are rounded in their last digit.
    assert upper >= row["lower"] * (1 - 2e-12)
    assert lower <= row["upper"] * (1 + 2e-12)
    if row["tight"]:
        assert upper - lower <= max(1e-3 * lower, 1e-6 if row["verb"] == "epsilon" else 0.0)


@pytest.mark.parametrize(
    "row",
    [r for r in rows("claims") if r["paper"] != "PRISM"],
    ids=lambda r: f"{r['paper']}-{r.get('dataset', 'noisy max')}-{r.get('claimed', r.get('sigma'))}",
)
def test_published_settings(row: dict[str, Any]) -> None:
    """Tang et al. (noise multipliers per √2 of sensitivity), AdaDPSyn (its composed μ), noisy max."""
    leaf = (
        {"kind": "pure", "epsilon": row["sigma"]}
        if "RNM" in row["paper"]
        else gaussian(1.0 / row["mu"] if "mu" in row else row["sigma"])
    )
    sample = row["MN"] if "MN" in row else row["M"] * row["N"]
    plan = repeat(row["compositions"], fixed_size(row["n"], sample, leaf))
    if "RNM" in row["paper"]:
        # Expo(σ/2) noise: a rate, pure at σ for width 2; the table states the amplified step.
        amplified = math.log1p(sample / row["n"] * math.expm1(row["sigma"]))
        assert amplified == pytest.approx(row["eps_step"], rel=1e-6)
    lower, upper = epsilon(plan, row["delta"], "substitution")
    expected = row.get("epsilon_wor_substitution", row.get("epsilon_pld_wor_substitution"))
    assert lower * (1 - 2e-3) <= expected <= upper * (1 + 2e-3)
    assert upper - lower <= 1e-3 * upper


def test_gaussians_merge_exactly() -> None:
    """Three G(1), four G(2), ten G(5) are one Gaussian of μ² = 4.4."""
    plan = {"kind": "compose", "parts": [repeat(3, gaussian(1.0)), repeat(4, gaussian(2.0)), repeat(10, gaussian(5.0))]}
    lower, upper = epsilon(plan, 1e-5)
    assert lower <= 10.60331464803667 <= upper
    assert upper - lower < 1e-10


@pytest.mark.parametrize("rate", [0.05, 0.4])
@pytest.mark.parametrize("scheme", ["pure", "mixed", "combined"])
def test_brute_force_over_three_uses(scheme: str, rate: float) -> None:
    """All sequences of losses of a two- or three-point law."""
    base = pure(1.1)
    curve = {"pure": base, "mixed": Mixed(base, rate), "combined": TwoSided(Mixed(base, rate))}[scheme]
    points = np.array(curve.atoms)
    logs = curve.logs(np.concatenate((points, np.nextafter(points, -np.inf))))
    tails = np.exp(logs.p_tail)
    p = tails[len(points) :] - tails[: len(points)]
    for epsilon_value in (0.0, 0.05, 0.31, 0.8):
        exact = 0.0
        for chosen in itertools.product(range(len(points)), repeat=3):
            loss = float(points[list(chosen)].sum())
            if loss > epsilon_value:
                exact += float(np.prod(p[list(chosen)])) * -math.expm1(epsilon_value - loss)
        step = OneStep.attained(curve, symmetric=True)
        lower, upper = delta_bracket([(step, 3)], epsilon=epsilon_value)
        assert lower <= exact + 1e-12
        assert upper >= exact - 1e-12
        assert upper - lower <= 1e-3 * exact + 1e-12


def test_both_directions_count() -> None:
    """Randomised response of ln 3 at rate ½, twice, δ = 0.2: adding costs 0.3716, removing 0.2288."""
    lower, upper = epsilon(repeat(2, poisson(0.5, {"kind": "pure", "epsilon": math.log(3.0)})), 0.2)
    assert lower <= 0.3715635564325 <= upper
    assert upper - lower < 1e-9


def test_subsampled_laplace_of_another_tool() -> None:
    """Laplace scale 2, rate ½, two uses, ε = 0.06: dp-accounting 0.6.0 gives [0.1118881725, 0.1118890806]."""
    parts = flatten(parse_plan(repeat(2, poisson(0.5, {"kind": "laplace", "noise_multiplier": 2.0}))), "add-remove")
    lower, upper = delta_bracket(parts, epsilon=0.06)
    assert lower <= 0.1118890806
    assert upper >= 0.1118881725


@pytest.mark.parametrize(
    ("noise", "rate", "count", "delta"), [(1.0, 0.01, 300, 1e-6), (0.7, 0.1, 20, 1e-5), (0.5, 0.001, 1000, 1e-5)]
)
def test_upper_side_against_dp_accounting(noise: float, rate: float, count: int, delta: float) -> None:
    """Its pessimistic and optimistic sides (step 1e-3) enclose the truth, as ours do, so the brackets meet."""
    from dp_accounting.pld import privacy_loss_distribution as accounting

    sides = []
    for pessimistic in (True, False):
        law = accounting.from_gaussian_mechanism(
            noise,
            sampling_prob=rate,
            use_connect_dots=pessimistic,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-3,
        )
        sides.append(law.self_compose(count).get_epsilon_for_delta(delta))
    lower, upper = epsilon(repeat(count, poisson(rate, gaussian(noise))), delta)
    assert lower <= sides[0] * (1 + 1e-9)
    assert upper >= sides[1] * (1 - 1e-9)
    # At a step ten times coarser than usual theirs is already this much wider.
    assert upper - lower < sides[0] - sides[1]


plans = st.recursive(
    st.one_of(
        st.floats(0.3, 20.0).map(gaussian),
        st.floats(0.3, 20.0).map(lambda b: {"kind": "laplace", "noise_multiplier": b}),
        st.floats(0.01, 3.0).map(lambda e: {"kind": "pure", "epsilon": e}),
    ),
    lambda inner: st.tuples(st.floats(1e-4, 1.0), inner).map(lambda pair: poisson(*pair)),
    max_leaves=3,
)


@settings(max_examples=6, deadline=None)
@given(plan=plans, count=st.integers(1, 60), log_delta=st.floats(-40.0, -1.0))
def test_random_plans(plan: dict[str, Any], count: int, log_delta: float) -> None:
    """lower <= upper, no NaN, narrow, δ(ε) agrees, and one more use costs no less."""
    delta = math.exp(log_delta)
    lower, upper = epsilon(repeat(count, plan), delta)
    assert 0.0 <= lower <= upper < math.inf
    assert upper - lower <= max(1e-3 * lower, 1e-6) * (1 + 1e-9)
    _, more = epsilon(repeat(count + 1, plan), delta)
    assert more >= lower
    parts = flatten(parse_plan(repeat(count, plan)), "add-remove")
    delta_lower, _ = delta_bracket(parts, epsilon=upper)
    assert delta_lower <= delta * (1 + 1e-6)


@settings(max_examples=4, deadline=None)
@given(noise=st.floats(0.5, 5.0), rate=st.floats(0.001, 0.9), count=st.integers(2, 40))
def test_count_is_composition(noise: float, rate: float, count: int) -> None:
    plan = poisson(rate, gaussian(noise))
    together = epsilon(repeat(count, plan), 1e-6)
    apart = epsilon({"kind": "compose", "parts": [plan] * count}, 1e-6)
    assert together[0] <= apart[1]
    assert apart[0] <= together[1]


@settings(max_examples=4, deadline=None)
@given(noise=st.floats(0.5, 5.0), rate=st.floats(0.001, 0.8))
def test_more_noise_and_lower_rates_cost_less(noise: float, rate: float) -> None:
    base = epsilon(repeat(10, poisson(rate, gaussian(noise))), 1e-6)
    assert epsilon(repeat(10, poisson(rate, gaussian(1.2 * noise))), 1e-6)[0] <= base[1]
    assert epsilon(repeat(10, poisson(0.8 * rate, gaussian(noise))), 1e-6)[0] <= base[1]


@pytest.mark.parametrize("delta", [1e-15, 1e-30, 1e-100])
def test_tiny_deltas(delta: float) -> None:
    lower, upper = epsilon(repeat(1000, poisson(0.01, gaussian(1.0))), delta)
    assert upper - lower <= 1e-3 * lower
    parts = flatten(parse_plan(repeat(1000, poisson(0.01, gaussian(1.0)))), "add-remove")
    below, above = delta_bracket(parts, epsilon=lower)
    assert above >= delta
    assert below <= delta * 1.5


def test_a_million_uses() -> None:
    """Two peers: [7.7644, 7.8642] (peer_faults F22), dp-accounting's connect-the-dots 7.8642: both 3e-4 too small.

    The contour integral, the verifier's and the lattice agree on 7.86452.
    """
    lower, upper = epsilon(repeat(10**6, poisson(1e-3, gaussian(1.0))), 1e-8)
    assert lower <= 7.86452 <= upper * (1.0 + 1e-6)
    below, above = _refine(((Mixed(Gaussian(1.0), 1e-3), 10**6),), Target(delta=1e-8), 1e-3, 0.0)
    assert below <= 7.86452 <= above
    assert upper - lower <= 1e-3 * lower


def test_a_trillion_uses_of_a_tiny_step() -> None:
    """10^12 uses of 10^-6-DP are close to a Gaussian of μ = 1: ε = 4.3772 at δ = 1e-5."""
    lower, upper = epsilon(repeat(10**12, {"kind": "pure", "epsilon": 1e-6}), 1e-5)
    assert 4.3 < lower <= 4.37718 <= upper < 4.45


@pytest.mark.slow
def test_two_hundred_different_mechanisms() -> None:
    parts = [poisson(0.01 + 1e-4 * i, gaussian(1.0 + 0.01 * i)) for i in range(200)]
    lower, upper = epsilon({"kind": "compose", "parts": parts}, 1e-5)
    assert 0.0 < lower <= upper
    assert upper - lower <= 1e-3 * lower


@pytest.mark.parametrize("noise", [pytest.param(1e-3, marks=pytest.mark.slow), 1e-2, 1e2, 1e4, 1e6])
def test_noise_of_every_size(noise: float) -> None:
    """Above 500 an ε is of no use: ten times the tolerance is enough."""
    lower, upper = epsilon(repeat(10, poisson(0.01, gaussian(noise))), 1e-5)
    assert upper - lower <= max((1e-2 if lower > 500.0 else 1e-3) * lower, 1e-6)


@pytest.mark.parametrize(("delta", "expected"), [(1.0, 0.0), (0.0, math.inf)])
def test_ends_of_delta(delta: float, expected: float) -> None:
    assert epsilon(repeat(10, poisson(0.1, gaussian(1.0))), delta) == (expected, expected)


def test_pure_at_delta_zero_is_the_sum() -> None:
    lower, upper = epsilon(repeat(4, {"kind": "pure", "epsilon": 0.5}), 0.0)
    assert lower <= 2.0 <= upper
    assert upper - lower < 1e-12


def test_mass_at_infinity() -> None:
    """Ten times (0.5, 1e-7): infinite below 1 − (1 − 1e-7)^10, at most 5 above."""
    plan = repeat(10, {"kind": "approximate", "epsilon": 0.5, "delta": 1e-7})
    assert epsilon(plan, 9.9e-7) == (math.inf, math.inf)
    lower, upper = epsilon(plan, 1.1e-6)
    assert 4.9 < lower <= upper <= 5.0 + 1e-9


def test_no_noise_inside_a_sample() -> None:
    """Everything is revealed with probability 1 − 0.99^10 = 0.0956."""
    plan = repeat(10, poisson(0.01, gaussian(0.0)))
    assert epsilon(plan, 0.05) == (math.inf, math.inf)
    assert epsilon(plan, 0.2) == (0.0, 0.0)
    both = poisson(0.1, {"kind": "compose", "parts": [gaussian(0.0), gaussian(1.0)]})
    assert epsilon(both, 0.05) == (math.inf, math.inf)
    assert epsilon(both, 0.2) == (0.0, 0.0)


@pytest.mark.parametrize("side", ["upper", "lower"])
@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_composed_laws_reproduce_the_profile(side: Any, direction: Any) -> None:
    parts = flatten(parse_plan(repeat(20, poisson(0.1, gaussian(1.0)))), "add-remove")
    curve = getattr(parts[0][0], direction).upper
    law = composed_law(((curve, 20),), side=side, log_nothing=-80.0)
    for epsilon_value in (0.2, 1.0, 2.0):
        above = law.losses > epsilon_value
        value = float(np.sum(law.masses[above] * -np.expm1(epsilon_value - law.losses[above]))) + law.infinity
        lower, upper = delta_bracket(
            [(OneStep.attained(curve, symmetric=True), 20)], epsilon=epsilon_value, tolerance=1e-4
        )
        assert value >= lower if side == "upper" else value <= upper
        assert value == pytest.approx(upper, rel=2e-3, abs=1e-12)


def test_gaussian_with_randomised_response() -> None:
    """5.303466736384218: a two-point mixture of closed forms in mpmath."""
    plan = {"kind": "compose", "parts": [gaussian(1.0), {"kind": "pure", "epsilon": 1.0}]}
    lower, upper = epsilon(plan, 1e-5)
    assert lower <= 5.303466736384218 <= upper


def test_single_gaussian_step_under_poisson() -> None:
    step = OneStep.attained(Mixed(Gaussian(1.0), 0.01))
    lower, upper = epsilon_bracket([(step, 1)], delta=1e-5)
    assert lower <= 0.19945044779591473 <= upper


@pytest.mark.parametrize("size", [100.0, 1000.0, 1e6])
def test_huge_losses(size: float) -> None:
    """Ten samples of 2 in 10 of one (size)-DP use: eight hits or more have probability 7.8e-5, nine 4e-6."""
    plan = repeat(10, fixed_size(10, 2, {"kind": "pure", "epsilon": size}))
    lower, upper = epsilon(plan, 1e-5, "substitution")
    hit = size + math.log(0.2)
    assert 7.5 * hit < lower <= upper < 8.5 * hit
    assert upper - lower <= 1e-6 * upper


def test_losses_near_their_maximum() -> None:
    """Two Laplace uses at scale 1, δ = e^{−29}: ε = 2 less δ over the mass ¼ at the top."""
    lower, upper = epsilon(repeat(2, {"kind": "laplace", "noise_multiplier": 1.0}), math.exp(-29.0))
    assert lower <= 2.0 - 4.0 * math.exp(-29.0) + 1e-13
    assert 2.0 - 1e-2 < lower <= upper <= 2.0 * (1.0 + 2e-14)


def test_mass_at_minus_infinity_does_not_loosen_the_lower_side() -> None:
    plan = repeat(100, {"kind": "approximate", "epsilon": 0.00995, "delta": 2.9e-6})
    lower, upper = epsilon(plan, 6.5e-4)
    assert upper - lower <= 1e-6


def test_a_transition_in_the_tilt() -> None:
    """Few large losses out of 100 decide here: the normal approximation of the saddle point is off by a factor of 5."""
    lower, upper = epsilon(repeat(100, fixed_size(30000, 20, gaussian(1.0 / 1.2219147))), 8.3333333e-6, "substitution")
    assert lower <= 0.08249 * (1 + 1e-3)
    assert upper >= 0.08249 * (1 - 1e-3)
    assert upper - lower <= 1e-3 * upper


def test_atoms_off_the_other_parts_grid() -> None:
    """Sampled Laplace has atoms at both ends; 10,000 uses still come out narrow."""
    plan = repeat(10000, fixed_size(14589, 243, {"kind": "laplace", "noise_multiplier": 0.4666}))
    lower, upper = epsilon(plan, 1.5e-8)
    assert 26.0 < lower <= upper < 26.2
    assert upper - lower <= 1e-3 * lower


@pytest.mark.parametrize("noise", [1e-5, 1e-2, 1.0])
@pytest.mark.parametrize("rate", [0.01, 0.4])
def test_no_sample_costs_anything_above_its_chance_of_being_taken(rate: float, noise: float) -> None:
    """δ(0) of two uses is the total variation, at most 1 − (1 − q)²: [0, 5.7] was said of q = .01, σ = 1e-5."""
    failing = 1.0 - (1.0 - rate) ** 2
    plan = repeat(2, poisson(rate, gaussian(noise)))
    assert epsilon(plan, failing * (1 + 1e-9)) == (0.0, 0.0)
    if noise < 0.1:
        assert epsilon(plan, failing * 0.99)[1] > 1.0


@settings(max_examples=60, deadline=None)
@given(
    epsilons=st.lists(st.floats(0.01, 1.5), min_size=1, max_size=3, unique=True),
    count=st.integers(2, 9),
    delta=st.sampled_from([0.2, 1e-3, 1e-7]),
)
def test_an_upper_side_alone_is_above_all_products(epsilons: list[float], count: int, delta: float) -> None:
    """Two-point losses, every outcome of every use enumerated; and sharp to the tolerance."""
    parts = [(OneStep.dominated(pure(e), symmetric=True), count) for e in epsilons]
    low, high = epsilon_bracket(parts, delta=delta, tolerance=1e-3)
    losses, weights = np.zeros(1), np.ones(1)
    for e in epsilons:
        up = np.arange(count + 1)
        chance = math.exp(e) / (1.0 + math.exp(e))
        each = np.array([math.comb(count, k) * chance**k * (1.0 - chance) ** (count - k) for k in up])
        losses = np.add.outer(losses, (2 * up - count) * e).ravel()
        weights = np.multiply.outer(weights, each).ravel()

    def profile(at: float) -> float:
        return float(weights @ np.maximum(0.0, -np.expm1(at - losses)))

    assert low == 0.0
    assert profile(high) <= delta * (1 + 1e-9)
    assert high <= 1e-5 or profile(high * (1 - 4e-3) - 1e-5) >= delta * (1 - 1e-9)


@pytest.mark.parametrize("spacing", [0.701 / 96, 0.1 / 48, 1.0 / 3.0])
@pytest.mark.parametrize("points", [2, 120, 5_000])
def test_the_last_atom_of_a_lattice_is_on_its_grid(spacing: float, points: int) -> None:
    """Rounding put it a hair beyond the last point, and its mass at infinity."""
    curve = Atomic(np.arange(points) * spacing - 1.0, np.full(points, -math.log(points)), atoms=(-1.0, -1.0 + spacing))
    for share in (1.0, 1.0 - 2e-16, 1.0 - 4e-14, 0.5):
        (found, _), *_ = masses(((curve, 1),), ((curve.low, curve.high),), side="upper", step=spacing * share)
        assert found.infinity == 0.0


@pytest.mark.parametrize(("count", "scale"), [(100_000_000, 0.3), (1_000_000_000, 5.0), (2_636_227_200, 0.827)])
def test_more_uses_than_one_transform_takes_cost_about_their_mean(count: int, scale: float) -> None:
    """1/b + e^{−1/b} − 1 a use, and deviations of a few √count; from below at least four fifths."""
    lower, upper = epsilon(repeat(count, {"kind": "laplace", "noise_multiplier": scale}), 1e-9)
    mean, deviations = count * (1.0 / scale + math.expm1(-1.0 / scale)), 10.0 * math.sqrt(count) / scale
    assert 0.8 * mean < lower < mean + deviations
    assert mean < upper < mean * (1.0 + 1e-3) + deviations


@settings(max_examples=20, deadline=None)
@given(
    noise=st.floats(0.5, 5.0),
    uses=st.integers(1, 50),
    rate=st.floats(0.01, 0.5),
    pure_epsilon=st.floats(0.01, 1.0),
    share=st.floats(0.5, 2.0),
)
def test_an_upper_side_that_is_enough_is_one(
    noise: float, uses: int, rate: float, pure_epsilon: float, share: float
) -> None:
    """Where it shows early, both sides are valid, and the upper one is at most what is enough; else nothing changes."""
    pure_part = {"kind": "pure", "epsilon": pure_epsilon}
    laplace = {"kind": "laplace", "noise_multiplier": noise}
    parts = flatten(
        parse_plan(repeat(uses, {"kind": "compose", "parts": [poisson(rate, laplace), pure_part]})), "zero-out"
    )
    lower, upper = epsilon_bracket(parts, delta=1e-6)
    enough = share * upper
    found = epsilon_bracket(parts, delta=1e-6, enough=enough)
    assert found == (lower, upper) or (found[0] <= upper and lower <= found[1] <= enough)
    height = delta_bracket(parts, epsilon=0.5 * upper)
    seen = delta_bracket(parts, epsilon=0.5 * upper, enough=share * height[1])
    assert seen == height or (seen[0] <= height[1] and height[0] <= seen[1] <= share * height[1])
