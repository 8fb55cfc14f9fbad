"""The contour integral against quadrature by hand, against the lattice, and its own charges against what they cover."""

from __future__ import annotations

import math
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import ndtr

from affidavit.accountant.plan import Compose, Plan, Poisson, Repeat
from affidavit.accountant.plan import Gaussian as GaussianNode
from affidavit.accountant.pld.common_part import common_part, log_beyond
from affidavit.accountant.pld.contour import _aimed, _cut, _plain, contour, inverted
from affidavit.accountant.pld.curve import Curve
from affidavit.accountant.pld.engine import _refine
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.gaussian_pair import Pair, TooFineError
from affidavit.accountant.pld.problem import Target
from affidavit.accountant.pld.subsample import Mixed
from affidavit.accountant.pld.three_gaussians import ThreeGaussians
from affidavit.accountant.settle import issue
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute


def pair_of(curve: Curve) -> Pair:
    found = Pair.of(curve)
    assert found is not None
    return found


def sampled(rate: float, mu: float, *, removed: bool = True) -> Curve:
    curve = Mixed(Gaussian(mu), rate)
    return curve if removed else curve.swapped()


def density(pair: Pair, x: float, which: str) -> float:
    mixture = getattr(pair, which)
    base = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    z = mixture.mean * x - 0.5 * mixture.mean**2
    return base * (1.0 - mixture.share + mixture.share * math.exp(z))


CURVES = (
    sampled(0.5, 1.5),
    sampled(0.9, 1.2, removed=False),
    ThreeGaussians(right=1.0, left=1.0, rate=0.4),
    ThreeGaussians(right=1.5, left=0.5, rate=0.7).swapped(),
)


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_two_uses_by_hand(curve: Curve, epsilon: float) -> None:
    """δ(ε) of two uses is the mean over the first loss of δ of one use at what is left of ε."""
    pair = pair_of(curve)

    def rest(x: float) -> float:
        loss = math.log(density(pair, x, "p") / density(pair, x, "q"))
        return density(pair, x, "p") * sum(curve.delta(epsilon - loss)) / 2.0

    exact, _ = quad(rest, -12.0, 14.0, limit=800, epsabs=1e-13)
    found = contour(((curve, 2),), delta=None, epsilon=epsilon)
    assert found is not None
    lower, upper = found.delta(epsilon)
    assert lower - 1e-11 <= exact <= upper + 1e-11
    assert upper - lower <= 1e-6 * upper


@pytest.mark.parametrize("curve", CURVES)
@pytest.mark.parametrize(("tilt", "frequency"), [(0.5, 0.0), (2.0, 3.0), (8.0, 20.0)])
def test_the_transform_is_right_within_its_charge(curve: Curve, tilt: float, frequency: float) -> None:
    check_transform(pair_of(curve), tilt, frequency)


@pytest.mark.parametrize("curve", [sampled(0.01, 1.5), ThreeGaussians(right=1.0, left=0.5, rate=0.02)])
@pytest.mark.parametrize("ends", [(None, -3.0), (-3.0, -1.0), (-1.0, None)])
@pytest.mark.parametrize(("tilt", "frequency"), [(4.0, 40.0)])
def test_so_is_that_of_what_windows_leave(
    curve: Curve, ends: tuple[float | None, float | None], tilt: float, frequency: float
) -> None:
    pair = pair_of(curve)
    check_transform(pair.within(pair.between(*ends)), tilt, frequency)


def check_transform(pair: Pair, tilt: float, frequency: float) -> None:
    tilted = pair.tilted(tilt, frequency)
    log_peak = tilted.moments().log_peak
    window = pair.window
    with mpmath.workdps(30):

        def ratio(mixture: tuple[float, float], x: mpmath.mpf) -> mpmath.mpf:
            share, mean = map(mpmath.mpf, mixture)
            return 1 - share + share * mpmath.exp(mean * x - mean**2 / 2)

        def share(x: mpmath.mpf) -> mpmath.mpf:
            if window is None:
                return mpmath.mpf(1)
            low, high = ((end - x) / mpmath.mpf(window.width) if end is not None else None for end in window[:2])
            below = 0 if low is None else mpmath.erfc(-low / mpmath.sqrt(2)) / 2
            return (1 if high is None else mpmath.erfc(-high / mpmath.sqrt(2)) / 2) - below

        def at(x: mpmath.mpf) -> mpmath.mpc:
            return share(x) * mpmath.npdf(x) * ratio(pair.p, x) ** (1 + s) * ratio(pair.q, x) ** (-s)

        s, parts = mpmath.mpc(tilt, frequency), 20 if window is None else 60
        points = [k / mpmath.mpf(parts) for k in range((-18 if window is None else -9) * parts, 28 * parts)]
        exact = complex(mpmath.fsum(at(x) for x in points) / parts / mpmath.exp(mpmath.mpf(log_peak)))
    constant, linear = tilted.rounding(log_peak)
    found = complex(tilted.transform(frequency, 1.0, 1, log_peak)[0])
    assert abs(found - exact) <= constant + linear * frequency


@settings(max_examples=40, deadline=None)
@given(
    rate=st.floats(1e-4, 0.9),
    mu=st.floats(0.05, 4.0),
    left=st.floats(0.1, 1.0),
    tilt=st.floats(0.05, 20.0),
    start=st.floats(0.1, 50.0),
    kind=st.sampled_from(["removed", "added", "replaced"]),
)
def test_no_frequency_beyond_exceeds_the_bound(
    rate: float, mu: float, left: float, tilt: float, start: float, kind: str
) -> None:
    three = ThreeGaussians(right=mu, left=left * mu, rate=rate)
    pair = pair_of(three if kind == "replaced" else sampled(rate, mu, removed=kind == "removed"))
    log_peak = pair.tilted(tilt, 0.0).moments().log_peak
    limit = pair.lifted(tilt).beyond(start, log_peak)
    for frequency in start * np.array([1.0, 1.3, 2.0, 5.0, 17.0]):
        tilted = pair.tilted(tilt, float(frequency))
        value = abs(complex(tilted.transform(float(frequency), 1.0, 1, log_peak)[0]))
        constant, linear = tilted.rounding(log_peak)
        assert value <= limit + constant + linear * float(frequency)


@settings(max_examples=15, deadline=None)
@given(
    rate=st.floats(1e-3, 0.5),
    mu=st.floats(0.1, 4.0),
    count=st.integers(1, 20_000),
    extra=st.sampled_from([0.0, 0.01, 1.0, 5.0]),
    log_delta=st.floats(-200.0, -1.0),
    removed=st.booleans(),
)
def test_the_lattice_agrees(rate: float, mu: float, count: int, extra: float, log_delta: float, removed: bool) -> None:
    delta = 10.0 ** (log_delta / 2.5)
    parts = ((sampled(rate, mu, removed=removed), count), *(((Gaussian(extra), 1),) if extra else ()))
    found = contour(parts, delta=delta, epsilon=None)
    if found is None:
        return
    lower, upper = found.epsilon(delta)
    least, most = _refine(parts, Target(delta=delta), 1e-3, 0.0)
    assert lower <= most
    assert least <= upper


USE = Poisson(0.01, GaussianNode(1.0))


@pytest.mark.parametrize(("rate", "mu"), [(0.001, 1.25), (0.01, 1.0), (1e-4, 1.6)])
@pytest.mark.parametrize("delta", [1e-6, 1e-7])
def test_two_rare_samples_by_hand(rate: float, mu: float, delta: float) -> None:
    """The first loss by Gauss and Legendre, on panels that narrow where what is left of ε is the smallest loss."""
    found = contour(((sampled(rate, mu), 2),), delta=delta, epsilon=None)
    assert found is not None
    assert found.common is not None
    epsilon = sum(found.epsilon(delta)) / 2.0

    def left(loss: np.ndarray) -> np.ndarray:
        ratio = np.expm1(loss) / rate + 1.0
        x = (np.log(np.maximum(ratio, 1e-300)) + 0.5 * mu**2) / mu
        return np.where(ratio > 0.0, rate * (ndtr(mu - x) - ratio * ndtr(-x)), -np.expm1(loss))

    corner = (math.log(math.expm1(epsilon - math.log1p(-rate)) / rate + 1.0) + 0.5 * mu**2) / mu
    near = np.geomspace(1e-12, 0.2, 400)
    edges = np.unique(np.concatenate((np.linspace(-10.0, 13.0, 500), corner - near, corner + near)))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = 0.5 * np.diff(edges)[:, None]
    x, weight = (edges[:-1, None] + half * (nodes + 1.0)).ravel(), (half * weights).ravel()
    p = 1.0 + rate * np.expm1(mu * x - 0.5 * mu**2)
    exact = float((weight * np.exp(-0.5 * x * x) * p) @ left(epsilon - np.log(p))) / math.sqrt(2.0 * math.pi)
    lower, upper = found.delta(epsilon)
    assert lower * (1.0 - 1e-11) <= exact <= upper * (1.0 + 1e-11)
    assert upper - lower <= 1e-7 * upper


@settings(max_examples=20, deadline=None)
@given(
    rate=st.floats(1e-5, 0.2),
    mu=st.floats(0.3, 3.0),
    epsilon=st.floats(0.01, 1.0),
    log_goal=st.floats(-60.0, -20.0),
)
def test_what_common_parts_add_is_charged(rate: float, mu: float, epsilon: float, log_goal: float) -> None:
    """One use by quadrature; P's mass beyond the window too."""
    pair = pair_of(sampled(rate, mu))
    found = common_part(((pair, 1),), 0.0, epsilon, log_goal)
    if found is None:
        return
    odds, common = found
    window = pair.between(None, odds)
    assert window.high is not None

    def share(x: float) -> float:
        return float(ndtr((window.high - x) / window.width))

    def excess(x: float) -> float:
        loss = float((pair.p.log_ratio(np.array([x])) - pair.q.log_ratio(np.array([x])))[0])
        return share(x) * density(pair, x, "p") * max(0.0, -math.expm1(epsilon - loss))

    points = sorted({-8.0, window.high - 0.5, window.high, window.high + 0.5, 14.0})
    added = sum(quad(excess, a, b, limit=400)[0] for a, b in pairwise(points))
    assert added * (1.0 - 1e-6) - 1e-300 <= common.delta(epsilon) <= math.exp(log_goal)
    beyond = sum(
        quad(lambda x: (1.0 - share(x)) * density(pair, x, "p"), a, b, limit=400)[0] for a, b in pairwise(points)
    )
    assert beyond * (1.0 - 1e-6) <= math.exp(log_beyond(((pair, 1),), odds))


@settings(max_examples=15, deadline=None)
@given(
    rate=st.floats(3e-5, 0.1),
    mu=st.floats(0.5, 2.5),
    count=st.integers(2, 3_000),
    log_delta=st.floats(-9.0, -4.0),
)
def test_windows_and_the_lattice_agree(rate: float, mu: float, count: int, log_delta: float) -> None:
    parts = ((sampled(rate, mu), count),)
    found = inverted(parts)
    least, most = _refine(parts, Target(delta=10.0**log_delta), 1e-3, 0.0)
    if found is None or least == 0.0:
        return
    cut = _cut(found.pairs, found.precision, 0.5 * (least + most), log_delta * math.log(10.0))
    if cut is not None:
        lower, upper = cut.epsilon(10.0**log_delta)
        assert lower <= most
        assert least <= upper


@pytest.mark.parametrize(
    ("rate", "sigma", "count", "delta", "relation"),
    [
        (1e-3, 0.8, 3, 1e-6, "add-remove"),
        (1e-3, 0.8, 40, 1e-8, "add-remove"),
        (1e-3, 0.8, 40, 1e-8, "substitution"),
        (0.02, 1.5, 7, 1e-9, "substitution"),
    ],
)
def test_the_verifier_confirms_rare_samples(
    rate: float, sigma: float, count: int, delta: float, relation: Relation
) -> None:
    gone = GaussianNode(2.0 * sigma) if relation == "substitution" else None
    plan = Repeat(count, Poisson(rate, GaussianNode(sigma), absent=gone))
    issued, found = issue(plan, relation=relation, delta=delta), recompute(plan, relation=relation, delta=delta)
    assert issued.epsilon_upper <= issued.epsilon_lower * (1.0 + 1e-6)
    assert found.epsilon_lower <= issued.epsilon_upper
    assert issued.epsilon_lower <= found.epsilon_upper


LONG: tuple[tuple[Plan, float, float], ...] = (
    (Repeat(30, USE), 1e-6, 0.7351573),
    (Repeat(1_000, USE), 1e-6, 2.1245151711),
    (Repeat(10**6, USE), 1e-6, 145.4968354),
    (Repeat(10_000, Poisson(0.004, GaussianNode(0.8))), 1e-6, 4.0284360376),
    (Repeat(10**6, Poisson(0.001, GaussianNode(1.0))), 1e-6, 6.69427267),
    (Repeat(10, Poisson(0.001, GaussianNode(0.8))), 1e-6, 0.1342575903),
    (Repeat(50, Poisson(0.001, GaussianNode(0.8))), 1e-6, 0.2157048733),
    (Repeat(2, Poisson(0.001, GaussianNode(0.8))), 1e-5, 0.0306894338),
    (Repeat(5_000, Poisson(6e-4, GaussianNode(1.0))), 1e-11, 0.5617384642),
    (Repeat(1_000, USE), 1e-200, 57.78176529),
    (Repeat(1_000, USE), 1e-300, 85.54427112),
)


@pytest.mark.parametrize(("plan", "delta", "epsilon"), LONG)
def test_long_compositions_are_known_to_a_millionth(plan: Plan, delta: float, epsilon: float) -> None:
    found = issue(plan, relation="add-remove", delta=delta)
    assert found.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-6)
    assert found.epsilon_upper == pytest.approx(epsilon, rel=1e-7)


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_short_ones_too(count: int) -> None:
    found = issue(Repeat(count, USE), relation="add-remove", delta=1e-6)
    assert found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-6)


def test_ten_million_very_rare_samples() -> None:
    found = issue(Repeat(10**7, Poisson(1e-9, GaussianNode(0.3))), relation="add-remove", delta=1e-8)
    assert found.epsilon_lower <= 0.7225463 <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 5e-6)


def test_two_hundred_unlike_samples() -> None:
    plan = Compose(tuple(Poisson(0.005 + 1e-4 * i, GaussianNode(0.8 + 5e-3 * i)) for i in range(200)))
    found = issue(plan, relation="add-remove", delta=1e-6)
    assert found.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-6)
    assert found.epsilon_upper == pytest.approx(1.0562498, rel=1e-7)


def test_what_it_does_not_cover_is_left_to_the_lattice() -> None:
    assert contour(((Gaussian(1.0), 1),), delta=1e-5, epsilon=None) is None
    assert contour(((sampled(0.1, 5_000.0), 10),), delta=1e-5, epsilon=None) is None


def test_a_rate_near_one() -> None:
    """The density between the means is 1 − q, which 1 + q(e^z − 1) rounds away: 6e-7 of δ was lost (arb, 40 digits)."""
    found = contour(((ThreeGaussians(right=3.5, left=3.5, rate=1.0 - 2.0**-42), 360),), delta=None, epsilon=1e4)
    assert found is not None
    lower, upper = found.delta(1e4)
    assert lower <= 2.100014511096163945529973e-19 <= upper <= lower * (1.0 + 1e-8)


def test_a_coarse_sum_is_right_within_its_charge() -> None:
    """Far below a window the angle of r_q counts, and all of p: without, 7e3 and 4e4 times the charge was missed."""
    curve, odds = ThreeGaussians(right=0.6869, left=0.5950, rate=6.165e-4).swapped(), -11.9
    tilt, frequency = 0.118, 13_929.0
    whole = pair_of(curve)
    pair = whole.within(whole.between(None, odds))
    coarse, fine = pair.tilted(tilt, frequency), pair._nodes(tilt, pair.tilted(tilt, 0.0).step / 64.0)
    log_peak = fine.moments().log_peak
    values = [complex(one.transform(frequency, 1.0, 1, log_peak)[0]) for one in (coarse, fine)]
    charges = [constant + slope * frequency for constant, slope in (one.rounding(log_peak) for one in (coarse, fine))]
    assert abs(values[0] - values[1]) <= sum(charges)


@settings(max_examples=20, deadline=None)
@given(
    rate=st.floats(1e-4, 0.9),
    mu=st.floats(0.02, 4.0),
    left=st.floats(0.0, 1.0),
    count=st.integers(2, 500_000),
    extra=st.sampled_from([0.0, 0.01, 1.0]),
    log_delta=st.floats(-300.0, -4.0),
)
def test_windows_and_one_sum_agree(
    rate: float, mu: float, left: float, count: int, extra: float, log_delta: float
) -> None:
    """Also where windows are not needed: where common parts are nearly nothing, or smaller than what they miss."""
    curve = ThreeGaussians(right=mu, left=left * mu, rate=rate) if left > 0.1 else sampled(rate, mu)
    found = inverted(((curve, count), *(((Gaussian(extra), 1),) if extra else ())))
    assert found is not None
    try:
        whole = _aimed(found.uses, found.precision, math.exp(log_delta), None)
        target = max(whole.epsilon, 0.0)
        plain = _plain(whole, target, log_delta, 2e7)
        cut = _cut(found.pairs, found.precision, target, log_delta)
    except TooFineError:
        return
    if plain is not None and cut is not None:
        for epsilon in (target, 0.97 * target, 1.03 * target + 1e-3):
            (least, most), (lower, upper) = plain.delta(epsilon), cut.delta(epsilon)
            assert lower <= most * (1.0 + 1e-13)
            assert least <= upper * (1.0 + 1e-13)


def test_no_part_is_too_small_for_its_logarithm() -> None:
    """At the tilt of what is rare the common part is below 1e-300, as is 1 against e^745 of all."""
    pairs = ((pair_of(sampled(0.66, 2.2)), 1), (pair_of(sampled(0.003, 0.04)), 14_568))
    for epsilon, log_delta in ((60.0, -98.0), (2.0, -33.0)):
        cut = _cut(pairs, 1.0, epsilon, log_delta)
        assert cut is None or all(math.isfinite(one.error) for one in cut.sums)
