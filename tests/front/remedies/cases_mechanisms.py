"""Mechanisms that are asked for more than the permit's leaf covers, or for values that they cannot release."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from remedy_cases import Api

from affidavit.accountant.plan import DiscreteGaussian, Exponential, Gaussian, Laplace, Leaf
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.mechanisms import (
    above_threshold,
    coverage,
    discrete_gaussian,
    dpm,
    exponential,
    gaussian,
    good_radius,
    joint_exponential,
    laplace,
    noisy_max,
    projected_mean,
    propose_test_release,
)

VECTOR = above_threshold.SparseVector(Fraction(4), Fraction(4), 1)
TOP = joint_exponential.JointTopK(size=2, most=10, width=Fraction(1), temperature=Fraction(1))
TESTED = propose_test_release.TestedTopK(1.0, 1e-5, 2)
SCORES = [0.0, 1.0]
COUNTS = [9, 1, 0]
MEAN = projected_mean.ProjectedMean(1.0, "replaced")


class Certified:
    """A permit for one leaf, as often as it is asked for."""

    def __init__(self, leaf: Leaf) -> None:
        self.noise = SeededNoise(4)
        self._leaf = leaf

    def use(self, path: str) -> Leaf:  # noqa: ARG002
        return self._leaf


def _released(spec: Callable[..., Any], leaf: Leaf, **given: Any) -> Callable[..., object]:
    """A release from a permit for ``leaf``; what is ``given`` stays so unless the case says otherwise."""

    def call(*, value: Any, **changes: Any) -> object:
        return spec(**(given | changes)).release(Certified(leaf), "plan", value)

    return call


def _several(*, runs: int) -> list[bool]:
    """As many positives as ``runs`` have, from so many runs."""
    spec = above_threshold.SparseVector(Fraction(1, 100), Fraction(1, 100), 1)
    begun = [above_threshold.Scan(spec, SeededNoise(1), threshold=0) for _ in range(runs)]
    return [begun[min(number, runs - 1)].above(1000) for number in range(2)]


def _sent(*, what: Any) -> bytes:
    return pickle.dumps(what)


def _clustering(*, split_range: float) -> None:
    dpm.Clustering(
        dimensions=2,
        radius=1.0,
        interval=0.25,
        levels=2,
        smallest=1.0,
        split_range=split_range,
        count_noise_multiplier=1.0,
        centre_noise_multiplier=1.0,
    ).check(points=1_000_000)


def _projected(*, points: Any, centre: Any, radius: float = 1.0) -> object:
    return projected_mean.projected(np.asarray(points), centre=np.asarray(centre), radius=radius)


REFUSED: list[tuple[str, Callable[..., object], dict[str, Any], dict[str, Any]]] = [
    (
        "above_threshold.py:above",
        _several,
        {"runs": 1},
        {"runs": 2},
    ),
    (
        "above_threshold.py:__reduce__",
        _sent,
        {"what": above_threshold.Scan(VECTOR, SeededNoise(1), threshold=0)},
        {"what": VECTOR},
    ),
    (
        "base.py:charge",
        _released(gaussian.GaussianNoise, Gaussian(1.0), l2_sensitivity=1.0),
        {"value": [1.0], "standard_deviation": 0.5},
        {"standard_deviation": 1.0},
    ),
    (
        "coverage.py:on_grid",
        lambda *, points: coverage.on_grid(np.asarray(points)),
        {"points": [[2.0, 0.0]]},
        {"points": [[1.0, 0.0]]},
    ),
    (
        "discrete_gaussian.py:release",
        _released(discrete_gaussian.DiscreteGaussianNoise, DiscreteGaussian(1.0, 1.0), standard_deviation=1),
        {"value": 0.5},
        {"value": 1},
    ),
    (
        "discrete_gaussian.py:_whole",
        lambda *, sensitivity: discrete_gaussian.DiscreteGaussianNoise(1, sensitivity).leaf(),
        {"sensitivity": 0.5},
        {"sensitivity": 1},
    ),
    (
        "exponential.py:_weights",
        _released(exponential.SoftmaxSampling, Exponential(1.0), width=1, temperature=1),
        {"value": np.array([0.0, np.nan])},
        {"value": np.array(SCORES)},
    ),
    (
        "exponential.py:_weights#2",
        _released(exponential.SoftmaxSampling, Exponential(1.0), width=1),
        {"value": np.array([0.0, 1e9]), "temperature": 1},
        {"temperature": 1e9},
    ),
    (
        "gaussian.py:release",
        _released(gaussian.GaussianNoise, Gaussian(1.0), standard_deviation=1.0, l2_sensitivity=1.0),
        {"value": [np.inf]},
        {"value": [1.0]},
    ),
    (
        "good_radius.py:release",
        _released(good_radius.GoodRadius(Fraction(4), 0.5).holding, Gaussian(4.0)),
        {"value": np.eye(3), "volume": 0},
        {"volume": 3},
    ),
    (
        "joint_exponential.py:sample",
        lambda *, counts: joint_exponential.sample(counts, spec=TOP, noise=SeededNoise(1)),
        {"counts": [9]},
        {"counts": COUNTS},
    ),
    (
        "laplace.py:release",
        _released(laplace.LaplaceNoise, Laplace(1.0), scale=1, l1_sensitivity=1),
        {"value": [0.5]},
        {"value": [1]},
    ),
    (
        "noisy_max.py:sample",
        lambda *, scores: noisy_max.sample(np.asarray(scores), rate=1, noise=SeededNoise(1)),
        {"scores": [0.5]},
        {"scores": COUNTS},
    ),
    (
        "projected_mean.py:release",
        _released(MEAN.about, Gaussian(1.0), centre=np.zeros(2), radius=1),
        {"value": np.eye(2), "count": 0},
        {"count": 2},
    ),
    ("projected_mean.py:projected", _projected, {"points": np.eye(2), "centre": [0.0]}, {"centre": [0.0, 0.0]}),
    ("projected_mean.py:projected#2", _projected, {"points": [[np.nan], [1.0]], "centre": [0.0]}, {"points": [[1.0]]}),
    (
        "projected_mean.py:projected#3",
        _projected,
        {"points": np.eye(2), "centre": np.zeros(2), "radius": 1e7},
        {"radius": 2097152.0},
    ),
    (
        "propose_test_release.py:release",
        _released(TESTED.of_size, TESTED.leaf()),
        {"value": COUNTS, "size": 3},
        {"size": 2},
    ),
]
"""Where, the call, the keywords that are refused, and those that do what the remedy says."""

CASES = [
    Api("mechanisms/dpm.py:check", _clustering, {"split_range": 1e6}),
    *(Api(f"mechanisms/{at}", call, given, remedied) for at, call, given, remedied in REFUSED),
]
