"""The pair of what is only known to be concentrated: the conversion at the best order, and mechanisms beside it."""

from __future__ import annotations

import itertools
import math
import random
from typing import Any

import mpmath
import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.cases.case import Case
from affidavit.accountant.methods.base import Target
from affidavit.accountant.methods.pld import PldMethod
from affidavit.accountant.plan import Pure, ZeroConcentrated
from affidavit.accountant.pld.concentrated import Concentrated
from affidavit.accountant.verifier import recompute

Law = tuple[float, ...]


def _best_order(rho: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """min over α of e^{(α−1)(αρ−ε)} (1 − 1/α)^α/(α − 1), by a search over ln(α − 1) (Canonne, Kamath, Steinke 2020)."""

    def log_bound(x: mpmath.mpf) -> mpmath.mpf:
        over = mpmath.exp(x)
        order = 1 + over
        return over * (order * rho - epsilon) + order * mpmath.log(over / order) - mpmath.log(over)

    low, high = mpmath.mpf(-300), mpmath.mpf(60)
    for _ in range(400):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if log_bound(left) > log_bound(right) else (low, right)
    return mpmath.exp(log_bound(low))


def _minorant(rho: float, epsilon: float) -> mpmath.mpf:
    """The convex minorant of the conversion h and its mirror image 1 − x + x h(1/x), by the common tangent."""
    r = mpmath.mpf(rho)

    def excess(loss: mpmath.mpf) -> mpmath.mpf:
        """Of the line through (1/x, h's mirror image) and (x, h) above h, just before x."""
        x, near = mpmath.exp(loss), mpmath.exp(loss) * (1 - mpmath.mpf(10) ** -25)
        right, before = _best_order(r, loss), _best_order(r, mpmath.log(near))
        left = 1 - 1 / x + right / x
        slope = (right - left) / (x - 1 / x)
        return slope - (right - before) / (x - near)

    low, high = mpmath.sqrt(2 * r) / 1000, 3 * mpmath.sqrt(2 * r) + 3 * r
    for _ in range(40):
        middle = mpmath.sqrt(low * high)
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    if abs(epsilon) >= low:
        here = _best_order(r, mpmath.mpf(abs(epsilon)))
        x = mpmath.exp(mpmath.mpf(epsilon))
        return here if epsilon > 0 else 1 - x + x * here
    x, right = mpmath.exp(low), _best_order(r, low)
    left = 1 - 1 / x + right / x
    return left + (right - left) * (mpmath.exp(mpmath.mpf(epsilon)) - 1 / x) / (x - 1 / x)


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.7, 40.0, 3e4])
@pytest.mark.parametrize("deviations", [0.7, 6.0, 25.0])
def test_the_profile_is_the_conversion_at_the_best_order(rho: float, deviations: float) -> None:
    epsilon = rho + deviations * math.sqrt(2.0 * rho)
    with mpmath.workdps(60):
        exact = _best_order(mpmath.mpf(rho), mpmath.mpf(epsilon))
    lower, upper = Concentrated(rho).delta(epsilon)
    assert lower <= exact <= upper
    assert upper - lower <= 1e-8 * (1.0 + rho) * float(exact) + 1e-11


@pytest.mark.parametrize(
    ("rho", "deviations"), [(1e-3, -3.0), (1e-3, 0.2), (0.7, -0.5), (0.7, 0.5), (6.0, 0.0), (6.0, 2.0)]
)
def test_in_both_orders_it_is_the_convex_minorant_of_the_conversion_and_its_mirror_image(
    rho: float, deviations: float
) -> None:
    epsilon = deviations * math.sqrt(2.0 * rho)
    with mpmath.workdps(60):
        exact = _minorant(rho, epsilon)
    lower, upper = Concentrated(rho).delta(epsilon)
    assert lower <= exact * (1 + mpmath.mpf(10) ** -9)
    assert exact * (1 - mpmath.mpf(10) ** -9) <= upper <= lower + 1e-8


@pytest.mark.parametrize("rho", [1e-90, 1e-9, 1e-3, 0.7, 40.0, 3e4])
def test_its_loss_has_one_law_in_both_orders(rho: float) -> None:
    curve = Concentrated(rho)
    losses = rho + math.sqrt(rho) * np.linspace(-4.0, 8.0, 41)
    here, mirrored = curve.logs(losses), curve.logs(-losses)
    for p, q in ((here.p_tail, mirrored.q_head), (here.q_tail, mirrored.p_head), (here.p_head, mirrored.q_tail)):
        assert np.allclose(np.exp(p), np.exp(q), rtol=1e-12, atol=1e-15)
    inside = curve.logs(np.linspace(-0.999, 0.999, 5) * curve.gap)
    assert np.allclose(np.exp(inside.p_tail) + np.exp(inside.q_tail), 1.0, atol=1e-14)


@pytest.mark.parametrize("rho", [1e-9, 1e-3, 0.7, 40.0])
def test_the_loss_is_the_logarithm_of_the_ratio_of_the_two_laws(rho: float) -> None:
    """dP/dQ = e^L: the masses of short intervals, P's over Q's, are between e^ of their ends."""
    curve = Concentrated(rho)
    losses = curve.gap + math.sqrt(rho) * np.linspace(0.0, 8.0, 25)
    logs = curve.logs(losses)
    p, q = (
        np.where(tail[:-1] < head[1:], np.exp(tail[:-1]) - np.exp(tail[1:]), np.exp(head[1:]) - np.exp(head[:-1]))
        for tail, head in ((logs.p_tail, logs.p_head), (logs.q_tail, logs.q_head))
    )
    assert np.all(p >= q * np.exp(losses[:-1]) * (1.0 - 1e-6))
    assert np.all(p <= q * np.exp(losses[1:]) * (1.0 + 1e-6))


def _beside_approximate(rho: float, cost: float, failure: float, epsilon: float) -> float:
    """failure + (1 − failure) E h(ε − L), L = ±cost: randomised response before what is concentrated."""
    with mpmath.workdps(40):
        up = 1 / (1 + mpmath.exp(-mpmath.mpf(cost)))
        r, e, c = map(mpmath.mpf, (rho, epsilon, cost))
        mean = up * _best_order(r, e - c) + (1 - up) * _best_order(r, e + c)
        return float(failure + (1 - mpmath.mpf(failure)) * mean)


def _beside(rho: float, uses: int, *others: dict[str, Any]) -> dict[str, Any]:
    once = {"kind": "zcdp", "rho": rho}
    return {"kind": "compose", "parts": [{"kind": "repeat", "count": uses, "of": once}, *others]}


@pytest.mark.parametrize(("rho", "uses", "cost"), [(0.02, 25, 0.8), (1e-4, 3_000, 0.05), (2.0, 2, 6.0)])
def test_beside_an_approximate_mechanism_both_engines_take_the_mean_of_the_joint_conversion(
    rho: float, uses: int, cost: float
) -> None:
    plan = _beside(rho, uses, {"kind": "approximate", "epsilon": cost, "delta": 1e-7})
    issued, verified = (engine(plan, relation="substitution", delta=1e-5) for engine in (bound, recompute))
    assert issued.method == "pld"
    for found in (issued, verified):
        # The upper side is at most one part in a thousand above the ε where the mean is 1e-5, and not below it.
        assert _beside_approximate(uses * rho, cost, 1e-7, found.epsilon_upper) <= 1e-5
        assert _beside_approximate(uses * rho, cost, 1e-7, found.epsilon_upper * (1.0 - 1e-3)) > 1e-5
        # Basic composition, the only method there was, says 22 to 5,000 times ``cost``.
        assert found.epsilon_lower <= found.epsilon_upper <= 1.12 * found.epsilon_lower


def _order_bound(p: Law, q: Law) -> float:
    """ρ of one pair, both ways: the largest D_α/α on a fine grid of orders, raised a little."""
    orders = 1.0 + np.geomspace(1e-4, 1e4, 4_000)
    most = 0.0
    for a, b in ((p, q), (q, p)):
        log_a, log_b = np.log(a), np.log(b)
        terms = orders[:, None] * log_a + (1.0 - orders)[:, None] * log_b
        most = max(most, float(np.max(np.logaddexp.reduce(terms, axis=1) / (orders - 1.0) / orders)))
    return most * (1.0 + 1e-3)


def _drawn(rng: random.Random) -> Law:
    weights = [rng.random() ** 3 + 1e-3 for _ in range(3)]
    return tuple(weight / sum(weights) for weight in weights)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("response_first", [True, False])
def test_adaptive_choices_of_concentrated_mechanisms_cost_no_more(seed: int, response_first: bool) -> None:
    """Enumerated: three outcomes each, the next mechanism (or its order of the data) chosen by the outcome before."""
    rng = random.Random(seed)
    pairs = [(_drawn(rng), _drawn(rng)) for _ in range(4)]
    rho = max(_order_bound(p, q) for p, q in pairs)
    cost = rng.choice([0.1, 1.0, 3.0])
    up = 1.0 / (1.0 + math.exp(-cost))
    responses = [((up, 1.0 - up), (1.0 - up, up)), ((1.0 - up, up), (up, 1.0 - up))]
    chosen = [[rng.choice(pairs), rng.choice(pairs)] for _ in range(3)], [rng.choice(responses) for _ in range(3)]
    outcomes: list[tuple[float, float]] = []
    if response_first:
        for r, first in itertools.product(range(2), range(3)):
            one = chosen[0][r][0]
            after = chosen[0][first][1]
            for second in range(3):
                p = responses[0][0][r] * one[0][first] * after[0][second]
                outcomes.append((p, responses[0][1][r] * one[1][first] * after[1][second]))
    else:
        for first, r in itertools.product(range(3), range(2)):
            one, response, after = pairs[0], chosen[1][first], chosen[0][first][r]
            for second in range(3):
                p = one[0][first] * response[0][r] * after[0][second]
                outcomes.append((p, one[1][first] * response[1][r] * after[1][second]))
    case = Case(fixed=((ZeroConcentrated(rho), 2), (Pure(cost), 1)))
    for epsilon in (0.0, 0.3 * cost, cost, cost + 2.0 * rho):
        profile = PldMethod().profile(case, "substitution", Target(epsilon=epsilon))
        exact = math.fsum(max(0.0, p - math.exp(epsilon) * q) for p, q in outcomes)
        assert exact <= profile.delta(epsilon).upper


def test_exponential_mechanisms_beside_it_count_as_concentrated_where_they_are_weak() -> None:
    """Forty of range .2 are .2-zCDP together; of an envelope of each, ε was 1.15 times as large."""
    exponentials = {"kind": "repeat", "count": 40, "of": {"kind": "exponential", "range": 0.2}}
    plan = _beside(0.01, 3, exponentials, {"kind": "approximate", "epsilon": 0.1, "delta": 1e-8})
    found = bound(plan, relation="zero-out", delta=1e-6)
    assert _beside_approximate(0.03 + 0.2, 0.1, 1e-8, found.epsilon_upper) <= 1e-6
    assert _beside_approximate(0.03 + 0.2, 0.1, 1e-8, found.epsilon_upper * (1.0 - 1e-3)) > 1e-6
