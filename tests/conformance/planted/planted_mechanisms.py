"""Bugs in the noise itself: statistics move as they should, and what hides them is less than what was certified."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from planted_audits import Case, Plant

from affidavit.accountant.release.randomness import NoiseSource
from affidavit.mechanisms import (
    above_threshold,
    bounded_range,
    exponential,
    joint_exponential,
    noisy_max,
    propose_test_release,
)

Patch = pytest.MonkeyPatch

PRISM = Case("prism", changes={"max_tokens": 4})
FEW = Case("few-shot", changes={"max_tokens": 4, "noise_multiplier": 0.4})
NOISY = Case(
    "few-shot", changes={"max_tokens": 4, "mechanism": "noisy-max", "noise_multiplier": None, "noise_epsilon": 2.0}
)
PREDICTION = Case("private-prediction", changes={"distance_noise": 0.4}, mechanism="above-threshold")
JOINT = Case("ksa", changes={"samples_per_label": 1, "keyword_epsilon": 4.0}, mechanism="joint-exponential")
TESTED = Case("ksa-answers", changes={"keyword_epsilon": 1.0, "fewest_keywords": 2}, mechanism="propose-test-release")
SGA = Case(
    "sga",
    changes={
        "queries": ["where is the river"],
        "augment": None,
        "dpm": {"dimensions": 2, "radius": 0.5, "interval": 0.2, "levels": 1, "split_range": 4.0, "smallest": 2.0},
    },
    mechanism="bounded-range",
)


def radius_without_its_two(patch: Patch) -> None:
    """Box and Muller's radius is √E instead of √(2E)."""
    whole = NoiseSource.standard_normal
    patch.setattr(NoiseSource, "standard_normal", lambda self, size=None: whole(self, size) / math.sqrt(2.0))


def temperature_halved(patch: Patch) -> None:
    whole = exponential._weights
    patch.setattr(exponential, "_weights", lambda scores, temperature: whole(scores, temperature / 2.0))


def rate_for_mean(patch: Patch) -> None:
    """The rate σ/2 is taken for σ: half the noise."""
    whole = noisy_max.exponential_coins
    patch.setattr(
        noisy_max, "exponential_coins", lambda exponents, *, noise: whole([2 * e for e in exponents], noise=noise)
    )


def joint_temperature_halved(patch: Patch) -> None:
    whole = joint_exponential._factors

    def factors(spec, count):
        halved = spec.__class__(spec.size, spec.most, spec.width, Fraction(spec.temperature) / 2)
        return whole(halved, count)

    patch.setattr(joint_exponential, "_factors", factors)


def gap_of_another_set(patch: Patch) -> None:
    whole = propose_test_release.gaps
    patch.setattr(propose_test_release, "gaps", lambda counts: np.roll(whole(counts), -1))


def test_without_noise(patch: Patch) -> None:
    patch.setattr(
        propose_test_release, "two_sided_geometric", lambda _rate, *, noise: 0 * int(noise.integers(0, 2, 1)[0])
    )


def no_noise_on_queries(patch: Patch) -> None:
    """The threshold's noise is thought to be enough."""
    whole = above_threshold.Scan.above

    def above(self, query):
        noise, self._noise = self._noise, _Silent()
        try:
            return whole(self, query)
        finally:
            self._noise = noise

    patch.setattr(above_threshold.Scan, "above", above)
    drawn = above_threshold.two_sided_geometric
    patch.setattr(
        above_threshold,
        "two_sided_geometric",
        lambda rate, *, noise: 0 if isinstance(noise, _Silent) else drawn(rate, noise=noise),
    )


class _Silent:
    """No noise."""


def splits_colder(patch: Patch) -> None:
    whole = bounded_range.sample
    patch.setattr(
        bounded_range,
        "sample",
        lambda scores, *, temperature, noise: whole(scores, temperature=temperature / 2, noise=noise),
    )


PLANTS = (
    Plant("normals-too-narrow", "normal noise is narrower by √2", FEW, radius_without_its_two, "one-step audit"),
    Plant(
        "softmax-colder",
        "the exponential mechanism samples at half its temperature",
        PRISM,
        temperature_halved,
        "one-step audit",
    ),
    Plant("rate-for-mean", "noisy max draws at twice its rate", NOISY, rate_for_mean, "one-step audit"),
    Plant(
        "joint-colder",
        "the joint exponential mechanism samples at half its temperature",
        JOINT,
        joint_temperature_halved,
        "one-step audit",
    ),
    Plant("wrong-gap", "propose-test-release tests the next gap", TESTED, gap_of_another_set, "sensitivity check"),
    Plant(
        "test-without-noise", "propose-test-release tests without noise", TESTED, test_without_noise, "one-step audit"
    ),
    Plant(
        "queries-without-noise",
        "the sparse vector's queries have no noise",
        PREDICTION,
        no_noise_on_queries,
        "one-step audit",
    ),
    Plant("splits-colder", "separators are chosen at half the temperature", SGA, splits_colder, "one-step audit"),
)
