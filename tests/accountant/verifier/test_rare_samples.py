"""Rare samples in windows: against direct integration, the plain contour integral, and the issuing engine."""

from __future__ import annotations

import math
import random

import mpmath
import numpy as np
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import Compose, Gaussian, Plan, Poisson, Repeat, WithoutReplacement
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.added_samples import Added, AddedProfile, added_profile
from affidavit.accountant.verifier.bracket import epsilon_bracket
from affidavit.accountant.verifier.contour import contour_profile
from affidavit.accountant.verifier.loss_cells import Kind
from affidavit.accountant.verifier.loss_integral import log_c
from affidavit.accountant.verifier.loss_windows import Windowed
from affidavit.accountant.verifier.rare_samples import rare_profile
from affidavit.accountant.verifier.smooth import removal_pair

TWO_USES = [
    ((Kind(0.001, 0.8, 2),), 0.078, 1.0051782755125433e-6),
    ((Kind(1e-7, 1.0, 2),), 9e-6, 1.1220802918362656e-12),
    ((Kind(0.3, 2.0, 2),), 1.9, 1.3659048026901165e-8),
    ((Kind(0.01, 0.5, 1), Kind(0.0001, 2.0, 1)), 0.4, 0.00091338355284104832),
]
"""δ = E over the first use of the other's closed form at what is left of ε: mpmath, 60 digits."""


@pytest.mark.parametrize(("kinds", "epsilon", "delta"), TWO_USES)
def test_two_uses_are_their_integral(kinds: tuple[Kind, ...], epsilon: float, delta: float) -> None:
    profile = rare_profile(kinds, delta=None, epsilon=epsilon)
    assert profile is not None
    lower, upper = profile.delta(epsilon)
    assert lower <= delta * (1.0 + 1e-15)
    assert upper >= delta * (1.0 - 1e-15)
    assert upper - lower <= 1e-6 * delta


@pytest.mark.parametrize("kind", [Kind(0.05, 1.0, 5), Kind(0.3, 2.0, 3), Kind(0.9, 1.0, 2), Kind(0.01, 1.0, 10)])
def test_where_the_plain_integral_serves_both_agree(kind: Kind) -> None:
    law = removal_pair(rate=kind.rate, sigma=kind.sigma, removed=True)
    plain = contour_profile([(law, kind.uses)], precision=0.0, delta=1e-6, epsilon=None)
    rare = rare_profile((kind,), delta=1e-6, epsilon=None)
    assert plain is not None
    assert rare is not None
    one, other = (epsilon_bracket(profile, 1e-6, start=1.0) for profile in (plain, rare))
    assert one.lower <= other.upper
    assert other.lower <= one.upper
    assert other.upper - other.lower <= 1e-7 * other.upper


@pytest.mark.parametrize(
    ("plan", "delta"),
    [
        (Repeat(2, Poisson(0.001, Gaussian(0.8))), 1e-6),
        (Repeat(50, Poisson(0.001, Gaussian(0.8))), 1e-6),
        (Repeat(50, Poisson(0.001, Gaussian(0.8))), 1e-40),
        (Repeat(10**7, Poisson(1e-9, Gaussian(0.3))), 1e-8),
        (Repeat(100, Poisson(0.001, Gaussian(20.0))), 1e-6),
        (Repeat(10, WithoutReplacement(10_000, 10, Gaussian(1.0))), 1e-6),
    ],
)
def test_the_verifier_and_the_issuing_engine_meet(plan: Plan, delta: float) -> None:
    found, issued = recompute(plan, relation="add-remove", delta=delta), bound(plan, relation="add-remove", delta=delta)
    assert found.epsilon_lower <= issued.epsilon_upper
    assert issued.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_upper - found.epsilon_lower <= 1e-6 * found.epsilon_upper
    at_epsilon = recompute(plan, relation="add-remove", epsilon=found.epsilon_upper)
    assert at_epsilon.delta_lower <= delta
    assert at_epsilon.delta_upper >= delta * (1.0 - 1e-4)


def test_below_the_largest_loss_of_an_added_record_no_lattice_is_needed() -> None:
    """ε = 4.9e-4, and −T log(1−q) = 1e-3: by the lattices [4.9171e-4, 4.9212e-4]."""
    found = recompute(Repeat(1_000, Poisson(1e-6, Gaussian(1.0))), relation="add-remove", delta=1e-12)
    assert found.method == "contour integral"
    assert 4.917e-4 <= found.epsilon_lower <= found.epsilon_upper <= 4.9212e-4
    assert found.epsilon_upper - found.epsilon_lower <= 1e-6 * found.epsilon_upper


def test_the_bound_of_the_other_direction_is_above_one_use() -> None:
    """Against the closed form of (N(0), mixture)."""
    for rate, sigma in ((0.1, 1.0), (0.3, 0.5), (0.001, 2.0), (0.9, 0.8)):
        law, bounded = removal_pair(rate=rate, sigma=sigma, removed=False), AddedProfile.of((Kind(rate, sigma, 1),))
        for share in (0.0, 0.2, 0.7, 0.99, 1.0, 1.5):
            epsilon = -share * math.log1p(-rate)
            assert bounded.delta(epsilon).upper >= law.delta(epsilon).lower
        assert bounded.delta(-1.01 * math.log1p(-rate)).upper == 0.0


def test_errors_beyond_float64_are_not_capped() -> None:
    """ε from a quadrature in balls (``benchmarks attack``). Ended in an OverflowError once."""
    kinds = Kind(0.99998421, 6.1, 1), Kind(1.669e-10, 47.66, 1)
    assert rare_profile(kinds, delta=4.853e-120, epsilon=None) is None
    first, second = (Poisson(kind.rate, Gaussian(kind.sigma)) for kind in kinds)
    found = recompute(Compose((first, second)), relation="add-remove", delta=4.853e-120)
    assert found.epsilon_lower <= 3.7925647309325 <= found.epsilon_upper <= 3.7926


@pytest.mark.parametrize("theta", [1e-6, 0.3, 50.0, 1e8, 1e15, 1e40])
def test_chernoffs_constant_keeps_its_digits(theta: float) -> None:
    """At tilts of 1e15 the powers' logarithms cancel, and 16 of them were lost."""
    with mpmath.workdps(80):
        t = mpmath.mpf(theta)
        exact = float(t * mpmath.log(t) - (1 + t) * mpmath.log1p(t))
    assert float(log_c(np.array([theta]))[0]) == pytest.approx(exact, rel=1e-14)


def test_hardly_any_noise_takes_no_memory() -> None:
    """1/σ² panels would be 5e7; ε from ``bound``, whose sides are [100017814.78, 100018693.48]."""
    plan = Repeat(2, Poisson(0.01, Gaussian(1e-4)))
    law = removal_pair(rate=0.01, sigma=1e-4, removed=True)
    assert contour_profile([(law, 2)], precision=0.0, delta=1e-5, epsilon=None) is None
    found = recompute(plan, relation="add-remove", delta=1e-5)
    assert 100017814.78 <= found.epsilon_upper <= 100025000.0


def test_losses_of_a_million_million_are_no_crash() -> None:
    """σ = 1e-6: NaN was taken for a place on the lattice. Both uses miss the record with probability .9801."""
    plan = Repeat(2, Poisson(0.01, Gaussian(1e-6)))
    assert recompute(plan, relation="add-remove", delta=0.02).epsilon_upper == 0.0
    found = recompute(plan, relation="add-remove", delta=1e-5)
    assert bound(plan, relation="add-remove", delta=1e-5).epsilon_lower <= found.epsilon_upper <= 1.001e12


def _windows(generator: random.Random, *, whole: bool) -> Windowed:
    kind = Kind(
        10.0 ** generator.uniform(-9.0, -0.1), 10.0 ** generator.uniform(-0.4, 0.7), generator.randint(1, 10**6)
    )
    alone, depth = generator.uniform(0.5, 6.0), 0.0 if whole else generator.uniform(0.3, 3.0)
    return Windowed.of(kind, alone=alone, depth=depth, ramp=generator.uniform(0.03, 0.08))


def _exact(windowed: Windowed, s: mpmath.mpc, halves: list[tuple[float, float]]) -> tuple[mpmath.mpc, mpmath.mpc]:
    """∫ (1 − χ_c) P (e^{sl} − 1) and ∫ (χ_c − χ_b) P e^{sl} up to the end, by mpmath's own quadrature."""
    kind = windowed.kind
    rate, mu, width = mpmath.mpf(kind.rate), 1 / mpmath.mpf(kind.sigma), mpmath.mpf(windowed.width)

    def window(x: mpmath.mpf, at: float) -> mpmath.mpf:
        return mpmath.erfc((at - x) / width / mpmath.sqrt(2)) / 2

    def both(x: mpmath.mpf) -> tuple[mpmath.mpf, mpmath.mpc, mpmath.mpf]:
        a = rate / (1 - rate) * mpmath.exp(mu * x - mu * mu / 2)
        return mpmath.npdf(x) * (1 - rate) * (1 + a), mpmath.exp(s * mpmath.log1p(a)), window(x, windowed.common)

    def common(x: mpmath.mpf) -> mpmath.mpc:
        p, turned, share = both(x)
        return p * (1 - share) * (turned - 1)

    def middle(x: mpmath.mpf) -> mpmath.mpc:
        p, turned, share = both(x)
        return p * (share - window(x, windowed.big)) * turned

    points = [mpmath.mpf(low) for low, _ in halves] + [mpmath.mpf(windowed.end)]
    quad = [mpmath.quad(f, points, method="gauss-legendre", maxdegree=5) for f in (common, middle)]
    return quad[0], quad[1]


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_transforms_miss_no_more_than_they_charge(seed: int, whole: bool) -> None:
    generator = random.Random(seed)
    windowed = _windows(generator, whole=whole)
    loss = float(windowed.kind.loss(np.array([windowed.big]))[0])
    tilt, count = generator.uniform(1.0, 20.0) / loss, 40
    step = generator.uniform(5.0, 60.0) / loss / count
    nodes, lifted = windowed.transforms(tilt, step, count), windowed.lifted(tilt)
    centres, widths = windowed.panels(step * count)
    ends = list(zip((centres - widths).tolist(), (centres + widths).tolist(), strict=True))
    with mpmath.workdps(30):
        for k in (0, count - 1):
            common, middle = _exact(windowed, mpmath.mpc(tilt, step * k), ends)
            t = step * k
            assert abs(common - nodes.common[k]) <= nodes.common_error + t * nodes.common_slope
            assert abs(middle - nodes.middle[k]) <= nodes.middle_error + t * nodes.middle_slope
            largest = float(abs(1 + common + nodes.common_mass)) if whole else float(abs(middle))
            assert largest * (1.0 - 1e-12) <= lifted.bound(t)
        whole_bound = math.exp(float(windowed.common_bound(np.array([tilt]))[0]))
        assert abs(1 + _exact(windowed, mpmath.mpc(tilt), ends)[0] + nodes.common_mass) <= whole_bound * (1 + 1e-12)
    assert nodes.middle_error <= 1e-9 * abs(nodes.middle[0])


@pytest.mark.parametrize("seed", range(4))
def test_so_do_those_of_an_added_record(seed: int) -> None:
    generator = random.Random(seed)
    kind = Kind(
        10.0 ** generator.uniform(-7.0, -0.1), 10.0 ** generator.uniform(-0.4, 0.7), generator.randint(1, 10**6)
    )
    added, tilt, count = Added(kind), 10.0 ** generator.uniform(-1.0, 2.0) / kind.rate, 40
    step = generator.uniform(0.1, 3.0) * tilt / count
    nodes, lifted = added.transforms(tilt, step, count), added.lifted(tilt)
    with mpmath.workdps(30):
        rate, mu = mpmath.mpf(kind.rate), 1 / mpmath.mpf(kind.sigma)

        def one(x: mpmath.mpf) -> mpmath.mpc:
            return mpmath.npdf(x) * mpmath.expm1(
                -s * mpmath.log1p(rate / (1 - rate) * mpmath.exp(mu * x - mu * mu / 2))
            )

        points = [mpmath.mpf(k) / 4 for k in range(-56, 57)]
        for k in (0, count - 1):
            s = mpmath.mpc(tilt, step * k)
            exact = mpmath.quad(one, points, method="gauss-legendre", maxdegree=5)
            assert abs(exact - nodes.common[k]) <= nodes.common_error + step * k * nodes.common_slope
            assert float(abs(1 + exact)) * (1.0 - 1e-12) <= lifted.bound(step * k)
            if k == 0:
                assert float(abs(1 + exact)) <= math.exp(float(added.common_bound(np.array([tilt]))[0])) * (1.0 + 1e-12)


@pytest.mark.parametrize(("rate", "sigma", "epsilon"), [(0.3, 2.0, 0.2), (0.01, 1.0, 0.003), (0.9, 1.0, 2.0)])
def test_two_uses_of_an_added_record_are_their_integral(rate: float, sigma: float, epsilon: float) -> None:
    found = added_profile((Kind(rate, sigma, 2),), aim=epsilon, delta=1e-6, is_epsilon=False)
    assert found is not None
    with mpmath.workdps(40):
        mu, left = 1 / mpmath.mpf(sigma), mpmath.mpf(epsilon) + 2 * mpmath.log1p(-mpmath.mpf(rate))

        def rest(x: mpmath.mpf) -> mpmath.mpf:
            """δ of the second use at what the first leaves: Q − e^{ε'} P below the threshold."""
            loss = mpmath.log1p(rate / (1 - mpmath.mpf(rate)) * mpmath.exp(mu * x - mu * mu / 2))
            room = -left - loss  # the second loss stays below
            if room <= 0:
                return mpmath.mpf(0)
            top = mpmath.log(mpmath.expm1(room) * (1 - mpmath.mpf(rate)) / rate) / mu + mu / 2
            mixture = (1 - mpmath.mpf(rate)) * mpmath.ncdf(top) + rate * mpmath.ncdf(top - mu)
            return mpmath.npdf(x) * (mpmath.ncdf(top) - mpmath.exp(-room) / (1 - mpmath.mpf(rate)) * mixture)

        corner = mpmath.log(mpmath.expm1(-left) * (1 - mpmath.mpf(rate)) / rate) / mu + mu / 2
        near = [corner - mpmath.mpf(2) ** -k for k in range(-3, 60)]
        exact = mpmath.quad(rest, [mpmath.mpf(-14), *near, corner], method="gauss-legendre", maxdegree=6)
    lower, upper = found.delta(epsilon)
    assert lower * (1.0 - 1e-12) <= exact <= upper * (1.0 + 1e-12)
    assert upper - lower <= 1e-6 * upper


DENSE = [
    (126_000, 5.32374352362708e-08, 1.0771839623928576, 1.3e-22),
    (1_000_000, 6.531248612792114e-08, 0.9327834846522715, 6.986e-26),
    (43_525, 1.915002450368244e-06, 2.9672576413697094, 3.857e-16),
    (1_000_000, 4.0646782468091976e-08, 5.629657815013146, 1.591e-15),
    (16, 0.0030954596003698433, 2.7467542750752014, 7.473e-23),
]


@pytest.mark.parametrize(("count", "rate", "sigma", "delta"), DENSE)
def test_many_that_share_the_record_have_two_sides(count: int, rate: float, sigma: float, delta: float) -> None:
    """No lower side, or widths of 3e-2 and seconds, before there was a sum for all that is not big."""
    plan = Repeat(count, Poisson(rate, Gaussian(sigma)))
    found, issued = recompute(plan, relation="add-remove", delta=delta), bound(plan, relation="add-remove", delta=delta)
    assert 0.0 < found.epsilon_lower <= issued.epsilon_upper
    assert issued.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-6)


def test_nothing_is_lost_where_epsilon_is_zero() -> None:
    found = recompute(Repeat(10**6, Poisson(4e-8, Gaussian(3.6))), relation="zero-out", delta=1e-4)
    assert (found.epsilon_lower, found.epsilon_upper) == (0.0, 0.0)


def test_an_added_record_is_no_wider_than_its_contour() -> None:
    """Frequent samples of small losses: the bound by the largest loss is 5 % above what the contour shows."""
    of = {"kind": "gaussian", "noise_multiplier": 153.0}
    sample = {"kind": "subsample", "scheme": "without-replacement", "population": 460, "sample": 171, "of": of}
    found = recompute({"kind": "repeat", "count": 2680, "of": sample}, relation="add-remove", delta=1.14e-10)
    assert 0.7265498 < found.epsilon_lower <= found.epsilon_upper < 0.7265499


@pytest.mark.parametrize(
    ("plan", "delta"),
    [
        (Repeat(2350, Poisson(0.000941, Gaussian(117.0))), 5.11e-12),
        (Repeat(145, Poisson(0.0296, Gaussian(46.9))), 2.58e-07),
        (Repeat(155, WithoutReplacement(3039, 2786, Gaussian(162.0))), 0.00099),
        (Repeat(2, Poisson(0.5292151168488382, Gaussian(12.916110249638573))), 0.00014124001461079155),
    ],
)
def test_chernoffs_bound_is_not_taken_where_it_decides(plan: Plan, delta: float) -> None:
    """Its own ε was 6 % to 34 % above the other direction's, where its bound at that ε was taken for small enough."""
    found = recompute(plan, relation="add-remove", delta=delta)
    issued = bound(plan, relation="add-remove", delta=delta)
    assert issued.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-6)
    assert found.epsilon_lower <= issued.epsilon_upper
