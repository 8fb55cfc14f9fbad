"""Parts of several kinds, exponential mechanisms among them: which of them dominates which, and what many uses cost."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.plan import (
    Approximate,
    Compose,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    Plan,
    Pure,
    Repeat,
    WithoutReplacement,
)
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute
from affidavit.accountant.verifier.balls import ball, precision
from affidavit.accountant.verifier.cases import Case, Fixed, enough
from affidavit.accountant.verifier.choices import any_of
from affidavit.accountant.verifier.product import two_point_product
from affidavit.accountant.verifier.reading import read

RANGES = [1e-4, 0.0386, 0.352, 1.0, 4.0, 12.0, 40.0]


def hockey_stick(eta: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """The most of any use of range η at ε, by trying t (Dong, Durfee and Rogers 2020, lemma 3.3): no closed form."""
    top, alpha = mpmath.exp(eta), mpmath.exp(epsilon)
    best = max(mpmath.mpf(0), 1 - alpha)
    for i in range(101):
        chance = (top - mpmath.exp(t := eta * i / 100)) / (top - 1)
        gains = [p * max(0, 1 - alpha * mpmath.exp(-loss)) for p, loss in ((chance, t), (1 - chance, t - eta))]
        best = max(best, mpmath.fsum(gains))
    return best


def gaussian(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """δ(ε) of a Gaussian mechanism (Balle and Wang 2018, theorem 8)."""
    shifts = -epsilon / mu + mu / 2, -epsilon / mu - mu / 2
    return mpmath.ncdf(shifts[0]) - mpmath.exp(epsilon) * mpmath.ncdf(shifts[1])


def laplace(width: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """δ(ε) of Laplace noise of scale 1/width, 0 <= ε."""
    return max(mpmath.mpf(0), 1 - mpmath.exp((epsilon - width) / 2))


@pytest.mark.parametrize("eta", RANGES)
def test_a_gaussian_of_as_large_a_total_variation_dominates_a_range(eta: float) -> None:
    """At every ε, and hardly less noise would do."""
    found = enough(Exponential(eta))
    assert found is not None
    with mpmath.workdps(60):
        mu, width = mpmath.sqrt(mpmath.mpf(found.numerator) / found.denominator), mpmath.mpf(eta)
        assert mpmath.erf(mu / mpmath.sqrt(8)) >= mpmath.tanh(width / 4)
        assert mpmath.erf(mu * (1 - 1e-9) / mpmath.sqrt(8)) < mpmath.tanh(width / 4)
        for i in range(-4, 41):
            epsilon = width * i / 32
            assert gaussian(mu, epsilon) >= hockey_stick(width, epsilon)


@pytest.mark.parametrize("eta", RANGES)
def test_laplace_noise_of_its_width_dominates_a_range(eta: float) -> None:
    """At every ε >= 0, hence below, as both are symmetric; of less than its width it does not."""
    with mpmath.workdps(60):
        width = mpmath.mpf(eta)
        for i in range(41):
            assert laplace(width, width * i / 32) >= hockey_stick(width, width * i / 32)
        less = width * 15 / 16
        assert laplace(less, less) < hockey_stick(width, less)


def one(leaf: Leaf) -> Case:
    (case,) = read(leaf, "zero-out").upper
    return case


COVERS: list[tuple[Leaf, Leaf]] = [
    (Gaussian(10.3), Exponential(0.128)),
    (Laplace(1.03), Exponential(0.352)),
    (Laplace(2.0), Exponential(0.5)),
    (Pure(0.5), Exponential(0.5)),
    (Approximate(0.5, 1e-9), Exponential(0.5)),
    (Exponential(0.5), Exponential(0.4)),
]
DOES_NOT: list[tuple[Leaf, Leaf]] = [
    (Gaussian(16.3), Exponential(0.128)),
    (Laplace(2.1), Exponential(0.5)),
    (Pure(0.49), Exponential(0.5)),
    (Exponential(0.128), Gaussian(1e3)),
]


def test_what_covers_an_exponential_mechanism() -> None:
    for larger, smaller in COVERS:
        assert one(larger).covers(one(smaller))
        assert not one(smaller).covers(one(larger))
    for larger, smaller in DOES_NOT:
        assert not one(larger).covers(one(smaller))
    two = Case.joined([one(Exponential(0.2)), one(Laplace(4.0)), one(Exponential(0.1))])
    assert not one(Gaussian(4.0)).covers(two)
    assert Case.joined([one(Gaussian(3.0)), one(Laplace(3.5))]).covers(two)


WEAK: list[tuple[Relation, int, tuple[Leaf, ...], Leaf, float]] = [
    # what is repeated; which part costs the most; δ
    ("add-remove", 76 * 38, (Exponential(0.0386), Gaussian(10.0)), Gaussian(10.0), 2.51e-9),
    ("zero-out", 111 * 68, (Gaussian(6.55), Exponential(0.00397), Laplace(15.4)), Gaussian(6.55), 5.77e-8),
    ("zero-out", 1560, (Gaussian(17.5), Laplace(15.5), Gaussian(10.3), Exponential(0.128)), Gaussian(10.3), 2.4e-3),
    ("zero-out", 217, (Exponential(0.352), Laplace(1.03)), Laplace(1.03), 1.29e-8),
]


@pytest.mark.parametrize(("relation", "count", "parts", "costliest", "delta"), WEAK)
def test_a_weak_exponential_mechanism_among_others_changes_nothing(
    relation: Relation, count: int, parts: tuple[Leaf, ...], costliest: Leaf, delta: float
) -> None:
    """The upper side is that of the costliest part alone, n times; the issuing engine's says the same."""
    plan = Repeat(count, Parallel(parts))
    found, alone = (recompute(of, relation=relation, delta=delta) for of in (plan, Repeat(count, costliest)))
    assert (found.epsilon_lower, found.epsilon_upper) == (alone.epsilon_lower, alone.epsilon_upper)
    issued = bound(plan, relation=relation, delta=delta)
    assert issued.epsilon_lower <= found.epsilon_upper * (1 + 1e-9)
    assert found.epsilon_lower <= issued.epsilon_upper * (1 + 1e-9)


def test_a_sample_of_parts_of_which_one_is_a_weak_range() -> None:
    """The Gaussian stands for it, hence it is that of the two others."""
    inner = Parallel((Gaussian(0.5), Exponential(0.3)))
    found = recompute(WithoutReplacement(200, 50, Parallel((Gaussian(0.5), inner))), relation="add-remove", delta=1e-5)
    twice = recompute(
        WithoutReplacement(200, 50, Parallel((Gaussian(0.5), Gaussian(0.5)))), relation="add-remove", delta=1e-5
    )
    assert found.epsilon_upper == twice.epsilon_upper


EITHER: list[tuple[Plan, float]] = [
    # uses of it and the width that is left: of the pairs of a range and others, or of what is zCDP
    (Parallel((Exponential(1.2), Gaussian(3.0))), 1.07),
    (Compose((Gaussian(1.9), Parallel((Exponential(0.658), Gaussian(11.3), Pure(0.395))))), 1.06),
    (Parallel((Compose((Exponential(0.5), Exponential(0.3))), Exponential(0.6), Approximate(0.3, 1e-12))), 1.13),
    (Parallel((Exponential(40.0), Gaussian(0.3), Laplace(0.1))), 1.06),
    (Parallel((Exponential(400.0), Gaussian(0.05), Pure(100.0))), 1.02),
    (Parallel((Exponential(1000.0), Gaussian(0.05), Pure(100.0))), 2.1),
    (Parallel((Exponential(1e-9), Gaussian(3e9), Pure(4e-10))), math.inf),
]


@pytest.mark.parametrize("relation", ["zero-out", "substitution"])
@pytest.mark.parametrize(("part", "width"), EITHER)
def test_three_hundred_uses_of_any_of_several(part: Plan, width: float, relation: Relation) -> None:
    """No less than what is reached with either engine, hardly more than that."""
    plan = Repeat(300, part)
    found, issued = (ask(plan, relation=relation, delta=1e-6) for ask in (recompute, bound))
    least = max(found.epsilon_lower, issued.epsilon_lower)
    assert least <= min(found.epsilon_upper, issued.epsilon_upper) * (1 + 1e-9)
    assert found.epsilon_upper <= width * least or found.epsilon_upper < 1e-6


def test_few_uses_are_pairs() -> None:
    """The issuing engine says 29.7035; all of it as zCDP cost 29.896."""
    part = Parallel((Exponential(0.658), Gaussian(11.3), Pure(0.395)))
    plan = Repeat(28, Compose((Repeat(5, Gaussian(6.12)), part, Gaussian(1.87))))
    found = recompute(plan, relation="substitution", delta=3.1e-6)
    assert 28.345 < found.epsilon_lower < 28.346 < found.epsilon_upper < 29.706


def test_ranges_alone_stay_steps() -> None:
    """Of options that differ by an exponential mechanism only, it is a step of the composition."""
    fixed = Fixed(mu_squared=Fraction(1, 100))
    options = [Case(first=fixed, steps=((Fraction(eta), 2),)) for eta in (0.5, 0.25)]
    assert any_of(options, 3) == Case(first=fixed.times(3), steps=((Fraction(0.5), 6),))


def test_the_rare_loss_of_a_large_pure_mechanism() -> None:
    """Its mass is e^-ε of the other's; so are ε = 300 beside a Gaussian, and Laplace noise of 1/400 or ε = 410."""
    with precision():
        atoms = two_point_product([(Pure(300.0), 1)], budget=1e-30)
        assert abs(float((atoms.masses[1] * ball(300).exp() - 1).mid())) < 1e-30
    plan = Compose((Pure(300.0), Gaussian(1.0)))
    with mpmath.workdps(200):

        def delta(epsilon: mpmath.mpf) -> mpmath.mpf:
            rare = 1 / (1 + mpmath.exp(300))
            return (1 - rare) * gaussian(mpmath.mpf(1), epsilon - 300) + rare * gaussian(mpmath.mpf(1), epsilon + 300)

        expected = float(mpmath.findroot(lambda at: mpmath.log(delta(at) * 10**6), (304, 306), solver="anderson"))
    found = recompute(plan, relation="zero-out", delta=1e-6)
    assert found.epsilon_lower <= expected * (1 + 1e-12)
    assert expected * (1 - 1e-12) <= found.epsilon_upper <= expected * (1 + 1e-9)
    above = recompute(Compose((Exponential(600.0), Gaussian(1.0))), relation="zero-out", delta=1e-6).epsilon_upper
    assert expected + 300.0 - 4.0 < above <= expected + 300.0 + 1e-9  # no more than a pure mechanism of 600
    many = Repeat(300, Parallel((Laplace(0.0025), Gaussian(0.05), Pure(410.0))))
    assert recompute(many, relation="substitution", delta=1e-6).epsilon_upper == pytest.approx(242_842, rel=1e-3)
