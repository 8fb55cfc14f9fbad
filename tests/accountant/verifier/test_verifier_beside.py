"""One use beside others, in closed form: against one integral or sum over the others' losses, in mpmath."""

from __future__ import annotations

import mpmath
import pytest

from affidavit.accountant.plan import Compose, Gaussian, Laplace, Plan, Poisson, Pure
from affidavit.accountant.verifier import recompute


def _removed(rate: float, sigma: float, epsilon: mpmath.mpf) -> mpmath.mpf:
    """δ of one sampled Gaussian, the record removed, at ε of either sign (Zhu, Dong, Wang 2022, Theorem 11)."""
    inner = 1 + mpmath.expm1(epsilon) / rate
    if inner <= 0:
        return -mpmath.expm1(epsilon)
    at = sigma**2 * mpmath.log(inner) + mpmath.mpf(1) / 2
    near, far = (mpmath.erfc((at - mean) / sigma / mpmath.sqrt(2)) / 2 for mean in (0, 1))
    return (1 - rate) * near + rate * far - mpmath.exp(epsilon) * near


def _beside(rate: float, sigma: float, other: Plan, epsilon: float) -> mpmath.mpf:
    if isinstance(other, Pure):
        likely = 1 / (1 + mpmath.exp(-mpmath.mpf(other.epsilon)))
        points = ((other.epsilon, likely), (-other.epsilon, 1 - likely))
        return mpmath.fsum(mass * _removed(rate, sigma, mpmath.mpf(epsilon) - loss) for loss, mass in points)
    assert isinstance(other, Laplace)
    width = 1 / mpmath.mpf(other.noise_multiplier)
    ends = _removed(rate, sigma, epsilon - width) + mpmath.exp(-width) * _removed(rate, sigma, epsilon + width)
    between = mpmath.quad(
        lambda u: width * mpmath.exp(-width * u) * _removed(rate, sigma, epsilon - width * (1 - 2 * u)), [0, 0.5, 1]
    )
    return (ends + between) / 2


@pytest.mark.parametrize(
    ("rate", "sigma", "other", "delta", "width"),
    [
        (1.405e-05, 0.5012, Pure(0.002301), 4.777e-18, 1e-12),
        (1.25e-9, 0.4195, Pure(0.7592), 2.7e-21, 1e-12),
        (8.37e-6, 0.7001, Laplace(252.6), 2.512e-221, 1e-6),
        (0.01562, 3.152, Laplace(10.46), 3.136e-267, 1e-6),
        (0.00053, 0.3869, Laplace(51.96), 1.9e-215, 1e-6),
        (0.0001, 0.4, Laplace(50.0), 1e-5, 1e-5),  # a lattice says 0.020 to 0.034
        (0.000656, 0.308, Laplace(3.2), 4.68e-5, 1e-4),
    ],
)
def test_a_sampled_gaussian_beside_a_weak_mechanism(
    rate: float, sigma: float, other: Plan, delta: float, width: float
) -> None:
    found = recompute(Compose((Poisson(rate, Gaussian(sigma)), other)), relation="add-remove", delta=delta)
    with mpmath.workdps(60):
        assert _beside(rate, sigma, other, found.epsilon_upper) <= delta * (1 + mpmath.mpf("1e-15"))
        assert _beside(rate, sigma, other, found.epsilon_lower) >= delta * (1 - mpmath.mpf("1e-15"))
    assert found.epsilon_upper - found.epsilon_lower <= width * found.epsilon_upper
