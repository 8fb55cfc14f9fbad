"""Closed forms in balls, against mpmath, exact rational sums and the project's table of plans."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import pytest

from affidavit.accountant.errors import PlanError, UsageError
from affidavit.accountant.verifier import recompute, recomputed_curve
from support.references import plans


def gaussian(sigma: float) -> dict:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def pure(epsilon: float) -> dict:
    return {"kind": "pure", "epsilon": epsilon}


def repeat(count: int, of: dict) -> dict:
    return {"kind": "repeat", "count": count, "of": of}


def compose(*parts: dict) -> dict:
    return {"kind": "compose", "parts": list(parts)}


def reference_gaussian_delta(mu: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """Balle and Wang 2018, Theorem 8, at 60 digits."""
    with mp.workdps(60):
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("row", plans("epsilon", "delta"), ids=lambda r: r["id"])
def test_row_of_the_table(row: dict) -> None:
    found = recompute(row["plan"], relation=row["relation"], delta=row["delta"], epsilon=row["epsilon"])
    if row["verb"] == "epsilon":
        lower, upper, floor = found.epsilon_lower, found.epsilon_upper, 1e-6
    else:
        lower, upper, floor = found.delta_lower, found.delta_upper, 0.0
    printed = 3e-12  # the table's digits
    assert upper >= row["lower"] * (1 - printed), "an underestimate"
    assert lower <= row["upper"] * (1 + printed), "the lower side exceeds the truth"
    # Substitution without replacement: no pair attains the upper curve, so the sides stay 1.5 % apart.
    width = 1.5e-2 if row["id"] == "wor-substitution-a" else 1e-3
    if row["tight"]:
        assert upper - lower <= max(width * upper, floor)


@pytest.mark.parametrize("sigma", [0.03, 0.7, 1.0, 40.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 1.3, 30.0])
def test_gaussian_delta_encloses_the_closed_form(sigma: float, epsilon: float) -> None:
    found = recompute(repeat(3, gaussian(sigma)), relation="add-remove", epsilon=epsilon)
    with mp.workdps(60):
        mu = mp.sqrt(3) / mp.mpf(sigma)
        truth = reference_gaussian_delta(mu, mp.mpf(epsilon))
        assert mp.mpf(found.delta_lower) <= truth <= mp.mpf(found.delta_upper)
        assert found.delta_upper - found.delta_lower <= 1e-15 * found.delta_upper + 5e-324


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-30, 1e-100, 1e-300])
def test_gaussian_epsilon_is_on_the_safe_side(delta: float) -> None:
    found = recompute(gaussian(1.0), relation="zero-out", delta=delta)
    with mp.workdps(350):
        assert reference_gaussian_delta(mp.mpf(1), mp.mpf(found.epsilon_upper)) <= mp.mpf(delta)
        assert reference_gaussian_delta(mp.mpf(1), mp.mpf(found.epsilon_lower)) >= mp.mpf(delta)
    assert found.epsilon_upper - found.epsilon_lower <= 1e-11 * found.epsilon_upper


@pytest.mark.parametrize(("epsilon", "count"), [(0.5, 4), (2.0, 20), (10.0, 100), (0.01, 300)])
@pytest.mark.parametrize("delta", [0.2, 1e-5, 1e-40])
def test_pure_composition_is_the_binomial_sum(epsilon: float, count: int, delta: float) -> None:
    """Kairouz, Oh and Viswanath 2015, Theorem 3.3, summed with 200 digits."""
    found = recompute(repeat(count, pure(epsilon)), relation="add-remove", delta=delta)
    with mp.workdps(200):
        e = mp.exp(mp.mpf(epsilon))

        def value(point: float) -> mp.mpf:
            total = mp.mpf(0)
            for k in range(count + 1):
                p = mp.binomial(count, k) * e**k / (1 + e) ** count
                q = mp.binomial(count, k) * e ** (count - k) / (1 + e) ** count
                total += max(p - mp.exp(mp.mpf(point)) * q, 0)
            return total

        assert value(found.epsilon_upper) <= mp.mpf(delta)
        if found.epsilon_lower > 0:
            assert value(math.nextafter(found.epsilon_lower, 0.0)) >= mp.mpf(delta)
        assert found.epsilon_upper - found.epsilon_lower <= 1e-12 * found.epsilon_upper


def test_a_hundred_thousand_pure_uses() -> None:
    """The binomial tail summed upwards from the first loss above ε, mpmath, 60 digits."""
    found = recompute(repeat(100_000, pure(0.01)), relation="add-remove", delta=1e-5)
    n = 100_000
    with mp.workdps(60):
        e = mp.exp(mp.mpf(0.01))

        def delta(epsilon: float) -> mp.mpf:
            k = math.floor((Fraction(epsilon) / Fraction(0.01) + n) / 2) + 1
            p = mp.binomial(n, k) * e**k / (1 + e) ** n
            q = mp.binomial(n, k) * e ** (n - k) / (1 + e) ** n
            total = mp.mpf(0)
            while p > mp.mpf(10) ** -40:
                total += p - mp.exp(mp.mpf(epsilon)) * q
                p, q, k = p * (n - k) / (k + 1) * e, q * (n - k) / (k + 1) / e, k + 1
            return total

        assert delta(found.epsilon_upper) <= mp.mpf(1e-5)
        assert delta(math.nextafter(found.epsilon_lower, 0.0)) >= mp.mpf(1e-5) * (1 - mp.mpf(10) ** -20)
    assert found.epsilon_upper - found.epsilon_lower <= 1e-12 * found.epsilon_upper


def test_unequal_pure_mechanisms_match_an_explicit_product() -> None:
    found = recompute(compose(pure(1.0), repeat(2, pure(0.3))), relation="zero-out", epsilon=0.4)
    with mp.workdps(50):
        total = mp.mpf(0)
        for signs in [(a, b, c) for a in (1, -1) for b in (1, -1) for c in (1, -1)]:
            p = q = mp.mpf(1)
            for sign, epsilon in zip(signs, (mp.mpf(1), mp.mpf(0.3), mp.mpf(0.3)), strict=True):
                p *= mp.exp(max(sign, 0) * epsilon) / (1 + mp.exp(epsilon))
                q *= mp.exp(max(-sign, 0) * epsilon) / (1 + mp.exp(epsilon))
            total += max(p - mp.exp(mp.mpf(0.4)) * q, 0)
        assert mp.mpf(found.delta_lower) <= total <= mp.mpf(found.delta_upper)
        assert found.delta_upper - found.delta_lower <= 1e-15


def test_approximate_failure_is_charged_exactly() -> None:
    """One (ε, δ) mechanism at its own δ costs exactly ε; two cost more than 2δ - δ² allows nothing less."""
    leaf = {"kind": "approximate", "epsilon": 2.0, "delta": 1e-5}
    one = recompute(leaf, relation="zero-out", delta=1e-5)
    assert one.epsilon_lower <= 2.0 <= one.epsilon_upper
    assert one.epsilon_upper == pytest.approx(2.0, abs=1e-12)
    assert recompute(leaf, relation="zero-out", delta=9e-6).epsilon_upper == math.inf
    two = recompute(repeat(2, leaf), relation="zero-out", epsilon=4.0)
    exact = 1 - (1 - Fraction(1e-5)) ** 2
    assert Fraction(two.delta_lower) <= exact <= Fraction(two.delta_upper)


def test_gaussian_and_pure_together() -> None:
    """Two-point mixture of closed forms, mpmath: 5.303466736384218 at 1e-5."""
    found = recompute(compose(gaussian(1.0), pure(1.0)), relation="add-remove", delta=1e-5)
    with mp.workdps(50):
        e = mp.e

        def delta(epsilon: float) -> mp.mpf:
            point = mp.mpf(epsilon)
            return e / (1 + e) * reference_gaussian_delta(mp.mpf(1), point - 1) + 1 / (
                1 + e
            ) * reference_gaussian_delta(mp.mpf(1), point + 1)

        assert delta(found.epsilon_upper) <= mp.mpf(1e-5) <= delta(found.epsilon_lower)
    assert found.epsilon_upper == pytest.approx(5.303466736384218, rel=1e-10)


def test_laplace_alone() -> None:
    """δ = 1 - e^{(ε - 1/b)/2} for b = 2, ε = 0.1."""
    found = recompute({"kind": "laplace", "noise_multiplier": 2.0}, relation="add-remove", epsilon=0.1)
    with mp.workdps(40):
        truth = -mp.expm1((mp.mpf(0.1) - mp.mpf(1) / 2) / 2)
        assert mp.mpf(found.delta_lower) <= truth <= mp.mpf(found.delta_upper)
    assert found.delta_upper - found.delta_lower <= 1e-15


@pytest.mark.parametrize("rho", [0.01, 0.5, 20.0])
def test_zcdp_lies_between_the_gaussian_and_a_scan_of_orders(rho: float) -> None:
    """Lower: Gaussian of mu² = 2ρ. Upper: no order α does better (Canonne et al. 2020, Prop. 12)."""
    found = recompute({"kind": "zcdp", "rho": rho}, relation="add-remove", delta=1e-6)
    sigma = 1 / math.sqrt(2 * rho)
    assert found.epsilon_lower == pytest.approx(
        recompute(gaussian(sigma), relation="add-remove", delta=1e-6).epsilon_lower, rel=1e-9
    )
    best = min(
        rho * a + math.log1p(-1 / a) - math.log(1e-6 * a) / (a - 1)
        for a in (1 + 10 ** (k / 200) for k in range(-400, 800))
    )
    assert found.epsilon_upper >= best * (1 - 1e-4)
    assert found.epsilon_upper <= best * (1 + 2e-3)


@pytest.mark.parametrize(
    ("plan", "asked", "lower", "upper"),
    [
        (gaussian(1.0), {"delta": 0.0}, math.inf, math.inf),
        (gaussian(1.0), {"delta": 1.0}, 0.0, 0.0),
        (gaussian(0.0), {"delta": 0.5}, math.inf, math.inf),
        (gaussian(0.0), {"delta": 1.0}, 0.0, 0.0),
        (gaussian(0.0), {"epsilon": 700.0}, 1.0, 1.0),
        (repeat(0, gaussian(0.0)), {"delta": 0.0}, 0.0, 0.0),
        (compose(), {"epsilon": 0.0}, 0.0, 0.0),
        (pure(0.0), {"epsilon": 0.0}, 0.0, 0.0),
        (repeat(3, pure(0.25)), {"delta": 0.0}, 0.75, 0.75),
        (pure(1.0), {"epsilon": 1.0}, 0.0, 0.0),
        ({"kind": "approximate", "epsilon": 1.0, "delta": 0.25}, {"delta": 0.0}, math.inf, math.inf),
        ({"kind": "approximate", "epsilon": 1.0, "delta": 1.0}, {"epsilon": 5.0}, 1.0, 1.0),
        ({"kind": "exponential", "range": 0.5}, {"delta": 0.0}, 0.5, 0.5),
        ({"kind": "exponential", "range": 0.5}, {"epsilon": 0.5}, 0.0, 0.0),
        ({"kind": "zcdp", "rho": 0.0}, {"delta": 0.0}, 0.0, 0.0),
    ],
)
def test_values_at_the_edges(plan: dict, asked: dict, lower: float, upper: float) -> None:
    found = recompute(plan, relation="substitution", **asked)
    sides = (found.epsilon_lower, found.epsilon_upper) if "delta" in asked else (found.delta_lower, found.delta_upper)
    assert sides == (lower, upper)


@pytest.mark.parametrize(("sigma", "delta"), [(1e-99, 1e-5), (1e-100, 1e-5), (1e100, 1e-5), (1e-40, 1e-5)])
def test_overflow_sized_answers_are_right_or_infinite(sigma: float, delta: float) -> None:
    found = recompute(gaussian(sigma), relation="add-remove", delta=delta)
    exact = 0.5 / sigma / sigma if sigma < 1.0 else 0.0  # so much noise costs less than δ
    assert found.epsilon_upper >= exact * (1 - 1e-9)
    assert not math.isnan(found.epsilon_lower)
    assert found.epsilon_lower <= found.epsilon_upper


def test_pure_999_99() -> None:
    found = recompute(pure(999.99), relation="add-remove", epsilon=999.98)
    with mp.workdps(50):
        e = mp.mpf(999.99)
        truth = (mp.exp(e) - mp.exp(mp.mpf(999.98))) / (1 + mp.exp(e))
        assert mp.mpf(found.delta_lower) <= truth <= mp.mpf(found.delta_upper)


def test_the_curve_is_the_bound_at_every_point() -> None:
    plan = compose(gaussian(1.5), repeat(5, pure(0.2)))
    points = [0.0, 0.5, 1.0, 3.0, 6.0]
    curve = recomputed_curve(plan, relation="add-remove", points=list(reversed(points)))
    assert [epsilon for epsilon, _ in curve] == points
    for epsilon, delta in curve:
        alone = recompute(plan, relation="add-remove", epsilon=epsilon)
        assert alone.delta_lower <= delta <= alone.delta_upper * (1 + 1e-12)


@pytest.mark.parametrize("asked", [{}, {"delta": 1e-5, "epsilon": 1.0}])
def test_exactly_one_question(asked: dict) -> None:
    with pytest.raises(UsageError, match="either delta or epsilon"):
        recompute(gaussian(1.0), relation="add-remove", **asked)


@pytest.mark.parametrize(
    ("field", "value"), [("delta", 2.0), ("delta", math.nan), ("epsilon", -1.0), ("epsilon", math.inf)]
)
def test_questions_out_of_range_name_the_field(field: str, value: float) -> None:
    with pytest.raises(PlanError, match=field):
        recompute(gaussian(1.0), relation="add-remove", **{field: value})


def test_many_different_pure_mechanisms_compose_on_a_lattice() -> None:
    """Between 200 uses of the mean square ε rounded down and up (their exact products)."""
    parts = [pure(0.01 + i * 1e-4) for i in range(200)]
    found = recompute(compose(*parts), relation="add-remove", delta=1e-5)
    groups = [parts[i : i + 50] for i in range(0, 200, 50)]
    low = compose(*(repeat(50, group[0]) for group in groups[1:]), repeat(50, groups[0][0]))
    high = compose(*(repeat(50, group[-1]) for group in groups[:-1]), repeat(50, groups[-1][-1]))
    below = recompute(repeat(200, parts[0]), relation="add-remove", delta=1e-5)
    above = recompute(repeat(200, parts[-1]), relation="add-remove", delta=1e-5)
    assert below.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_lower <= above.epsilon_upper
    assert found.epsilon_upper - found.epsilon_lower <= 5e-3 * found.epsilon_upper
    for plan, side in ((low, "lower"), (high, "upper")):
        bracket = recompute(plan, relation="add-remove", delta=1e-5)
        if side == "lower":
            assert found.epsilon_upper >= bracket.epsilon_lower
        else:
            assert found.epsilon_lower <= bracket.epsilon_upper


def test_the_lattice_agrees_with_the_exact_product() -> None:
    """Six pure mechanisms exactly, and by chunks on a lattice beside 19 all but idle ones."""
    few = [pure(0.1 * k) for k in range(1, 7)]
    idle = [pure(1e-9 * k) for k in range(1, 20)]
    exact = recompute(compose(*few), relation="add-remove", delta=1e-3)
    found = recompute(compose(*few, *idle), relation="add-remove", delta=1e-3)
    assert found.epsilon_upper >= exact.epsilon_lower
    assert found.epsilon_lower <= exact.epsilon_upper + 1e-6
    assert found.epsilon_upper == pytest.approx(exact.epsilon_upper, rel=2e-3)


def sampled_gaussian(rate: float, sigma: float, absent: float | None = None) -> dict:
    sample = {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": gaussian(sigma)}
    return sample if absent is None else {**sample, "absent": gaussian(absent)}


def test_sampled_rarely_or_nearly_always_keeps_its_digits() -> None:
    """At 60 digits the terms of δ cancel: ε was 0 where q > δ, δ 20 times too large where q is next to 1."""
    found = recompute(sampled_gaussian(1e-75, 1 / 3), relation="zero-out", delta=1e-218)
    assert found.epsilon_lower <= 1.153690113131544e-40 * (1 + 1e-12)
    assert found.epsilon_upper >= 1.153690113131544e-40 * (1 - 1e-12)
    assert 0.0 < found.epsilon_upper < 1.2e-40
    near_one = recompute(
        sampled_gaussian(1.0 - 2.0**-53, 1.2318259378853151), relation="add-remove", epsilon=13.620529299437063
    )
    assert near_one.delta_lower <= 7.0847308397549896852e-62 <= near_one.delta_upper
    assert near_one.delta_upper < 7.09e-62


@pytest.mark.parametrize(
    ("rate", "sigma", "absent", "epsilon", "truth"),
    [
        (0.5, 1e6, 2e6, 1e-6, 4.24535343109e-9),
        (0.9, 1e7, 1.3e7, 1e-7, 6.04129556002e-9),
        (0.5, 0.02, 0.04, 800.0, 1.539347948570957e-85),
    ],
)
def test_replacement_far_from_the_middle(
    rate: float, sigma: float, absent: float, epsilon: float, truth: float
) -> None:
    """The threshold of the test lies beyond 1e6, or at losses above 700: δ was 0 there (right values: 400 digits)."""
    found = recompute(sampled_gaussian(rate, sigma, absent), relation="substitution", epsilon=epsilon)
    assert found.delta_lower <= truth * (1 + 1e-11)
    assert found.delta_upper >= truth * (1 - 1e-11)
    assert found.delta_upper - found.delta_lower <= 1e-6 * truth


@pytest.mark.parametrize("epsilon", [150.0, 1000.0, 1e6])
def test_what_float64_loses_is_not_nothing(epsilon: float) -> None:
    """A Gaussian's δ is never 0; of ten samples it was said to be, where it is below all floats."""
    sample = {
        "kind": "subsample",
        "scheme": "poisson",
        "rate": 0.1,
        "of": {"kind": "gaussian", "noise_multiplier": 1.0},
    }
    found = recompute({"kind": "repeat", "count": 10, "of": sample}, relation="add-remove", epsilon=epsilon)
    assert found.delta_lower == 0.0 < found.delta_upper < 1e-200
