"""Transforms that are formulas, against the definition in many digits; what is inverted, against sums and lattices."""

from __future__ import annotations

import math
from itertools import product

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from affidavit.accountant.bound import bound
from affidavit.accountant.nodes import Approximate, Compose, Pure, Repeat
from affidavit.accountant.nodes import Gaussian as GaussianNode
from affidavit.accountant.nodes import Laplace as LaplaceNode
from affidavit.accountant.pld.atomic import approximate, pure
from affidavit.accountant.pld.closed import Closed
from affidavit.accountant.pld.contour import contour
from affidavit.accountant.pld.curve import Curve
from affidavit.accountant.pld.engine import _refine
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.grid import CurveParts
from affidavit.accountant.pld.laplace import Laplace
from affidavit.accountant.pld.problem import Target
from affidavit.accountant.pld.subsample import Diluted, Mixed, TwoSided
from affidavit.accountant.verifier import recompute

sizes = st.floats(-7.0, 3.0).map(math.exp)
tilts = st.floats(-6.0, 6.0).map(math.exp)
frequencies = st.floats(-3.0, 8.0).map(math.exp)
LAWS: tuple[Curve, ...] = (
    approximate(0.3, 1e-3),
    approximate(0.0, 1e-3),
    Mixed(approximate(0.3, 1e-3), 0.1),
    Mixed(pure(2.0), 0.9).swapped(),
    Mixed(approximate(1.0, 1e-3).swapped(), 0.4).swapped(),
    Diluted(Mixed(approximate(1.0, 1e-3), 0.25), 0.5),
    Mixed(Mixed(pure(0.7), 0.5), 0.01),
)


def law_of(curve: Curve) -> Closed:
    found = Closed.of(curve)
    assert found is not None
    return found


@pytest.mark.parametrize("curve", LAWS)
def test_the_atoms_are_those_of_the_curve(curve: Curve) -> None:
    """δ of one use is their sum, in both orders."""
    for one in (curve, curve.swapped()):
        law = law_of(one)
        assert law.infinity == pytest.approx(one.infinity, rel=1e-14)
        assert float(np.exp(law.log_masses).sum()) + law.infinity == pytest.approx(1.0, rel=1e-14)
        for epsilon in (0.0, 0.05, 0.2, 0.6, 3.0):
            terms = np.exp(law.log_masses) * np.maximum(0.0, -np.expm1(epsilon - law.losses))
            lower, upper = one.delta(epsilon)
            assert lower - 1e-15 <= float(terms.sum()) + law.infinity <= upper + 1e-15


@settings(max_examples=60, deadline=None)
@given(epsilon=sizes, tilt=tilts, frequency=frequencies)
def test_laplace_noise_by_its_definition(epsilon: float, tilt: float, frequency: float) -> None:
    """E_P e^{sL} over the noise x itself: L = ε for x < 0, −ε for x > 1, ε(1 − 2x) between."""
    tilted = law_of(Laplace(epsilon)).tilted(tilt, 0.0)
    log_peak = tilted.moments().log_peak
    with mpmath.workdps(40):
        e, s = mpmath.mpf(epsilon), mpmath.mpc(tilt, frequency)
        pieces = [mpmath.exp(s * e) / 2, mpmath.exp(-e - s * e) / 2]
        rate = e + 2 * s * e  # of the density ε/2 e^{−εx} times e^{sε(1−2x)}
        pieces.append(e / 2 * mpmath.exp(s * e) * (1 - mpmath.exp(-rate)) / rate)
        exact = complex(mpmath.fsum(pieces) / mpmath.exp(mpmath.mpf(log_peak)))
    constant, linear = tilted.rounding(log_peak)
    found = complex(tilted.transform(frequency, 1.0, 1, log_peak)[0])
    assert abs(found - exact) <= constant + linear * frequency
    assert constant + linear * frequency <= 1e-11 * (1.0 + tilt * epsilon + frequency * epsilon)


@pytest.mark.parametrize("curve", LAWS)
@pytest.mark.parametrize(("tilt", "frequency"), [(0.01, 0.3), (3.0, 100.0), (200.0, 1e5)])
def test_atoms_by_their_sum(curve: Curve, tilt: float, frequency: float) -> None:
    law = law_of(curve)
    tilted = law.tilted(tilt, 0.0)
    log_peak = tilted.moments().log_peak
    with mpmath.workdps(40):
        s = mpmath.mpc(tilt, frequency)
        terms = [
            mpmath.exp(mpmath.mpf(float(mass)) + s * mpmath.mpf(float(loss)) - mpmath.mpf(log_peak))
            for mass, loss in zip(law.log_masses, law.losses, strict=True)
        ]
        exact = complex(mpmath.fsum(terms))
    constant, linear = tilted.rounding(log_peak)
    assert abs(complex(tilted.transform(frequency, 1.0, 1, log_peak)[0]) - exact) <= constant + linear * frequency


@settings(max_examples=200, deadline=None)
@given(epsilon=sizes, tilt=tilts, frequency=frequencies, more=st.floats(0.0, 6.0))
def test_nothing_beyond_a_frequency_is_larger_than_said(
    epsilon: float, tilt: float, frequency: float, more: float
) -> None:
    for curve in (Laplace(epsilon), pure(epsilon)):
        tilted = law_of(curve).lifted(tilt)
        log_peak = tilted.moments().log_peak
        steps = frequency * math.exp(more) * np.linspace(0.2, 1.0, 60)
        at = np.array([complex(tilted.transform(float(t), 1.0, 1, log_peak)[0]) for t in steps if t >= frequency])
        assert float(np.abs(at).max(initial=0.0)) <= tilted.beyond(frequency, log_peak)


def test_the_share_with_a_density_fades() -> None:
    """|M| at t and beyond is less than at 0 by about t² times its variance, and far out what the atoms hold."""
    tilted = law_of(Laplace(1.0)).lifted(1.0)
    log_peak = tilted.moments().log_peak
    bounds = [tilted.beyond(t, log_peak) for t in (0.0, 0.3, 1.0, 2.5, 1e6)]
    assert bounds == sorted(bounds, reverse=True)
    atoms = 0.5 * math.e + 0.5 * math.exp(-2.0)
    assert bounds[0] == pytest.approx(1.0, rel=1e-11)
    assert bounds[-1] == pytest.approx(atoms / (atoms + 0.25 * math.exp(-0.5) * 2.0 * math.sinh(1.5) / 1.5), rel=1e-5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.5])
def test_laplace_beside_a_gaussian_by_hand(epsilon: float) -> None:
    """The mean over the loss of Laplace noise of the Gaussian's δ at what is left."""
    gaussian, e = Gaussian(0.8), 1.3

    def rest(loss: float) -> float:
        return sum(gaussian.delta(epsilon - loss)) / 2.0

    inner, _ = quad(lambda loss: 0.25 * math.exp(0.5 * (loss - e)) * rest(loss), -e, e, epsabs=1e-14, limit=400)
    exact = 0.5 * rest(e) + 0.5 * math.exp(-e) * rest(-e) + inner
    found = contour(((Laplace(e), 1), (gaussian, 1)), delta=None, epsilon=epsilon)
    assert found is not None
    lower, upper = found.delta(epsilon)
    assert lower - 1e-13 <= exact <= upper + 1e-13
    assert upper - lower <= 1e-8 * upper


@pytest.mark.parametrize("curve", LAWS)
@pytest.mark.parametrize("epsilon", [0.02, 0.7])
def test_atoms_beside_a_gaussian_by_their_sum(curve: Curve, epsilon: float) -> None:
    """Three uses, in full; what reveals everything is in none of the terms."""
    law, gaussian = law_of(curve), Gaussian(0.5)
    atoms = list(zip(law.losses.tolist(), np.exp(law.log_masses).tolist(), strict=True))
    exact = 1.0 - (1.0 - law.infinity) ** 3
    for chosen in product(atoms, repeat=3):
        left = epsilon - math.fsum(loss for loss, _ in chosen)
        exact += math.prod(mass for _, mass in chosen) * sum(gaussian.delta(left)) / 2.0
    found = contour(((curve, 3), (gaussian, 1)), delta=None, epsilon=epsilon)
    assert found is not None
    lower, upper = found.delta(epsilon)
    assert lower - 1e-13 <= exact <= upper + 1e-13
    assert upper - lower <= 1e-7 * upper


laws = st.one_of(
    sizes.map(Laplace),
    sizes.map(pure),
    st.builds(approximate, sizes, st.floats(-20.0, -9.0).map(math.exp)),
    st.builds(lambda epsilon, rate: Mixed(pure(epsilon), rate), sizes, st.floats(0.01, 0.95)),
    st.builds(lambda epsilon, rate: Mixed(pure(epsilon), rate).swapped(), sizes, st.floats(0.01, 0.95)),
    st.builds(lambda mu, rate: Mixed(Gaussian(mu), rate), st.floats(0.1, 2.0), st.floats(0.01, 0.95)),
)
counts = st.floats(0.0, 7.5).map(lambda x: int(math.exp(x)))


@settings(max_examples=40, deadline=None)
@given(
    uses=st.lists(st.tuples(laws, counts), min_size=1, max_size=3),
    noise=st.sampled_from([0.0, 0.1, 1.0]),
    log_delta=st.floats(-60.0, -3.0),
)
def test_the_lattice_agrees(uses: list[tuple[Curve, int]], noise: float, log_delta: float) -> None:
    parts: CurveParts = (*uses, *(((Gaussian(noise), 1),) if noise else ()))
    delta = math.exp(log_delta)
    found = contour(parts, delta=delta, epsilon=None)
    assume(found is not None and sum(count for _, count in parts) > 1)
    assert found is not None
    (lower, upper), (least, most) = found.epsilon(delta), _refine(parts, Target(delta=delta), 1e-3, 0.0)
    assert lower <= upper
    assert lower <= most * (1.0 + 1e-12)
    assert least <= upper * (1.0 + 1e-12)


def test_what_it_does_not_cover_is_left_to_the_lattice() -> None:
    """Atoms alone do not fade; nor is there an ε below the mass at +inf; nor a formula for what is not in the list."""
    assert contour(((pure(0.1), 1_000),), delta=1e-5, epsilon=None) is None
    assert contour(((Laplace(1.0), 1), (pure(0.1), 1)), delta=1e-5, epsilon=None) is None
    assert contour(((approximate(1.0, 1e-3), 5), (Gaussian(1.0), 1)), delta=1e-3, epsilon=None) is None
    assert contour(((Laplace(1e9), 5), (Gaussian(1.0), 1)), delta=1e-3, epsilon=None) is None
    assert contour(((Laplace(1e-3), 10**300),), delta=1e-3, epsilon=None) is None
    for curve in (Mixed(Laplace(1.0), 0.5), TwoSided(Mixed(pure(1.0), 0.5))):
        assert Closed.of(curve) is None


def test_long_compositions_are_known_to_a_millionth() -> None:
    """And confirmed by the verifier, which has other formulas."""
    for plan, delta in (
        (Repeat(44_880, LaplaceNode(15.8)), 1e-9),
        (Compose((Repeat(20, LaplaceNode(5.0)), GaussianNode(1.0), Repeat(30, Pure(0.1)))), 1e-5),
        (Compose((Repeat(40, Approximate(0.2, 1e-8)), GaussianNode(0.6), Repeat(300, LaplaceNode(9.0)))), 1e-6),
    ):
        found, again = (ask(plan, relation="add-remove", delta=delta) for ask in (bound, recompute))
        assert found.epsilon_lower <= found.epsilon_upper <= found.epsilon_lower * (1.0 + 1e-9)
        assert again.epsilon_lower <= found.epsilon_upper
        assert found.epsilon_lower <= again.epsilon_upper
