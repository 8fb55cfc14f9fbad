r"""One use of a mechanism on a random sample, as a pair: which one, by scheme, relation and what runs on the sample."""

from __future__ import annotations

import math
from fractions import Fraction

from flint import ctx

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Approximate, DiscreteGaussian, Laplace, Pure
from affidavit.accountant.verifier.balls import ball
from affidavit.accountant.verifier.branches import Branch, Sampled
from affidavit.accountant.verifier.discrete import discrete_pairs
from affidavit.accountant.verifier.envelope import ExponentialPair
from affidavit.accountant.verifier.pairs import (
    Beside,
    Combined,
    Diluted,
    Finite,
    GaussianPair,
    LaplacePair,
    Mixed,
    Pair,
    PresentOrAbsent,
    Reversed,
    plain,
)
from affidavit.accountant.verifier.product import two_point_product
from affidavit.accountant.verifier.replaced import PureCost, ReplacedPair, replaced_pairs

__all__ = ["reached", "sampled_pairs"]


def _on_sample(branch: Branch, kind: str) -> tuple[Pair, Pair]:
    """(upper, lower) pair on the sample, symmetric; the same unless there is an exponential mechanism."""
    if branch.steps:
        return _exponential_on_sample(branch, kind)
    pair = _attained_on_sample(branch, kind)
    return pair, pair


def _exponential_on_sample(branch: Branch, kind: str) -> tuple[Pair, Pair]:
    """One exponential mechanism, with pure and approximate ones: its envelope above, t = range/2 below."""
    fixed, ((spread, count), *others) = branch.fixed, branch.steps
    leaves = [(use, n) for use, n in fixed.uses if isinstance(use, (Pure, Approximate))]
    if count > 1 or others or branch.blatant or fixed.mu_squared or fixed.rho or len(leaves) < len(fixed.uses):
        raise NotSupported(
            f"{kind} sampling of several exponential mechanisms, or of one beside noise, in certified arithmetic",
            hint="one exponential mechanism a sample, beside pure and approximate ones at most",
        )
    half = float(spread / 2)
    half = half if 2 * Fraction(half) <= spread else math.nextafter(half, 0.0)
    below = Finite(two_point_product([*leaves, (Pure(half), 1)], budget=1e-300))
    envelope = ExponentialPair(ball(spread))
    return (Beside(two_point_product(leaves, budget=1e-300), envelope) if leaves else envelope), below


def _attained_on_sample(branch: Branch, kind: str) -> Pair:
    """One Laplace or discrete Gaussian, or Gaussians and two-point pairs composed."""
    fixed = branch.fixed
    if branch.blatant or fixed.rho:
        raise NotSupported(
            f"{kind} sampling of a zcdp or noiseless mechanism in certified arithmetic",
            hint="sample a gaussian, laplace, exponential, pure or approximate mechanism, or leave out the "
            "subsample node",
        )
    match fixed.uses:
        case ((Laplace(noise_multiplier=scale), 1),) if not fixed.mu_squared:
            return LaplacePair(ball(1 / Fraction(scale)))
        case ((DiscreteGaussian() as leaf, 1),) if not fixed.mu_squared:
            pair, beneath = discrete_pairs(leaf, ctx.prec)
            if pair is beneath:
                return pair
            raise NotSupported(
                "a sampled discrete Gaussian whose sensitivity is no whole number of grid steps",
                hint="a granularity of 1/k for a whole number k",
            )
    leaves = [(use, count) for use, count in fixed.uses if isinstance(use, (Pure, Approximate))]
    if len(leaves) != len(fixed.uses):
        raise NotSupported(
            "nested samples, or Laplace composed with others on one sample, in certified arithmetic",
            hint="one subsample node around gaussian, pure and approximate mechanisms, or around one laplace",
        )
    mu = ball(fixed.mu_squared).sqrt() if fixed.mu_squared else None
    return plain(mu, two_point_product(leaves, budget=1e-300))


def sampled_pairs(use: Sampled, *, forward: bool) -> tuple[Pair, Pair]:
    """(upper, lower) pair of one sampled use in one direction; one object where the bracket can close."""
    if use.absent is not None:
        return _present_or_absent(use, use.absent, forward=forward != use.mirrored)
    rate = ball(use.rate)
    inner, attained = _on_sample(use.of, use.scheme)
    mixture = Mixed if forward != use.mirrored else Reversed
    mixed: Pair = mixture(attained, rate)
    if use.relation == "add-remove" or (use.scheme == "poisson" and use.relation == "zero-out"):
        return (mixed, mixed) if inner is attained else (mixture(inner, rate), mixed)
    if use.scheme == "poisson":
        diluted = Diluted(attained, rate)
        return (diluted, diluted) if inner is attained else (Diluted(inner, rate), diluted)
    return Combined(inner, rate), mixed


def reached(pair: Pair) -> bool:
    """Whether each point of one use's curve is reached by some pair of data sets, if not all by one.

    So it is for one pure mechanism under substitution (``replaced``), and for one exponential mechanism on a sample: a
    mixture's curve at one point is that of the pair on the sample at another, where some t reaches the envelope.
    """
    match pair:
        case ReplacedPair(reached=every_point):
            return every_point
        case Mixed(on_sample=ExponentialPair()) | Reversed(on_sample=ExponentialPair()):
            return True
    return False


def _present_or_absent(use: Sampled, absent: Branch, *, forward: bool) -> tuple[Pair, Pair]:
    """Poisson sampling under substitution with both costs on the sample stated."""
    replaced, presence = PureCost.of(use.of), PureCost.of(absent)
    if replaced is not None and presence is not None:
        return replaced_pairs(replaced, presence, use.rate, forward=forward)
    larger, smaller = use.of.gaussian, absent.gaussian
    if larger is not None and smaller is not None:
        rate, mixture = ball(use.rate), Mixed if forward else Reversed
        replacing, gone = (GaussianPair(ball(mu_squared).sqrt()) for mu_squared in (larger, smaller))
        if smaller > larger:  # then what replacing costs holds by itself
            return Diluted(replacing, rate), mixture(replacing, rate)
        above = Combined(gone, rate) if smaller == larger else PresentOrAbsent(replacing, gone, rate)
        return above, mixture(gone, rate)
    raise NotSupported(
        "Poisson sampling under substitution with `absent`, in certified arithmetic, unless both are Gaussian and "
        "replacing a record costs at least what taking it away does, or both are pure or exponential",
        hint="Use Gaussian noise or a pure mechanism, sample without replacement, or state zero-out or add-remove. "
        "In a plan: gaussian leaves with absent.noise_multiplier >= of.noise_multiplier, pure or exponential leaves, "
        "or no `absent`.",
    )
