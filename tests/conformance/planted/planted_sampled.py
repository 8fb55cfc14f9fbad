"""Bugs in few-shot generation (Gaussian and noisy max) and AdaDPSyn, and in how their samples are drawn."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from planted_audits import Case, Plant

from affidavit.generation import adadpsyn, few_shot, recorder, sampling, subset_rows, subsets, token_steps
from affidavit.generation.probabilities import GRID
from affidavit.mechanisms import coverage, gaussian, good_radius, projected_mean

Patch = pytest.MonkeyPatch

_SINGLE = {"sampling": "poisson", "shots_per_subset": 1, "subsets": 8, "max_tokens": 4}
FEW = Case("few-shot", changes=_SINGLE)
PAIRS = Case("few-shot", relation="substitution", changes={"max_tokens": 4})
NOISY = Case("few-shot", changes={**_SINGLE, "mechanism": "noisy-max", "noise_multiplier": None, "noise_epsilon": 0.8})
LONG = Case("few-shot", changes={**_SINGLE, "max_tokens": 20, "samples_per_label": 1})
_SMALL = {"max_tokens": 2, "samples_per_label": 1, "top_k": 12}
ADA = Case("adadpsyn", changes=_SMALL)
ADA_REPLACED = Case("adadpsyn", relation="substitution", changes={**_SMALL, "labels": ["north"]})


# --- few-shot --------------------------------------------------------------------------------------------------


def not_normalised(patch: Patch) -> None:
    patch.setattr(few_shot, "on_simplex", few_shot.scaled_to_best)


def normalised_over_everything(patch: Patch) -> None:
    """Restricted to the support, then divided by the mass that is left *in logits of float32*: a tiny sum explodes."""
    whole = few_shot.on_simplex

    def on_simplex(logits):
        shares = whole(logits)
        return None if shares is None else shares * 2 if shares.max() > GRID // 2 else shares

    patch.setattr(few_shot, "on_simplex", on_simplex)


def first_subset_twice(patch: Patch) -> None:
    whole = token_steps.fresh_logits

    def fresh_logits(model, rows, prompts, **more):
        return whole(model, rows, [*prompts[:1], *prompts], **more)

    patch.setattr(token_steps, "fresh_logits", fresh_logits)


def all_rows_of_a_minibatch(patch: Patch) -> None:
    whole = subset_rows._started

    def started(*given, **more):
        return [(decoding, more["minibatch_rows"]) for decoding, _ in whole(*given, **more)]

    patch.setattr(subset_rows, "_started", started)


def record_in_two_subsets(patch: Patch) -> None:
    whole = token_steps.draw_subsets

    def draw_subsets(*given, **more):
        drawn = whole(*given, **more)
        turned = drawn.subsets[1:] + drawn.subsets[:1]
        return dataclasses.replace(drawn, subsets=tuple(a + b for a, b in zip(drawn.subsets, turned, strict=True)))

    patch.setattr(token_steps, "draw_subsets", draw_subsets)


def scores_are_log_probabilities(patch: Patch) -> None:
    def scaled(logits):
        chosen = logits.astype(np.float64)
        if not np.isfinite(chosen.max()):
            return None
        return np.rint(np.maximum(chosen - chosen.max(), -20.0) * GRID).astype(np.int64)

    patch.setattr(few_shot, "scaled_to_best", scaled)


def mean_over_sampled(patch: Patch) -> None:
    """The sum is divided by how many vectors there are, times M: the paper's mean, where the sample's size varies."""
    whole = few_shot.total

    def total(rows, *, width):
        return whole(rows, width=width) * 8 // max(1, len(rows))

    patch.setattr(few_shot, "total", total)


def best_vector_decides(patch: Patch) -> None:
    """Where all vectors agree, their token is taken: a vote that needs no noise, it is thought."""
    whole = few_shot._GaussianStep.choose

    def choose(self, recorder, path, rows, *, width):
        best = {int(row.argmax()) for row in rows}
        if len(best) == 1 and rows[0].max() > GRID // 2:
            recorder.use(path)
            return best.pop()
        return whole(self, recorder, path, rows, width=width)

    patch.setattr(few_shot._GaussianStep, "choose", choose)


def noise_for_joining_where_replaced(patch: Patch) -> None:
    """√2 is forgotten: noise σ, and the plan of it, for a vector that becomes another."""
    whole = few_shot.gaussian_sum

    def gaussian_sum(noise_multiplier, change):
        spec = whole(noise_multiplier, change)
        return gaussian.GaussianNoise(spec.standard_deviation / 2, spec.l2_sensitivity / 2)

    patch.setattr(few_shot, "gaussian_sum", gaussian_sum)


def noise_once_for_all_coordinates(patch: Patch) -> None:
    """One normal number is added to the whole vector: the argmax is that of the sum itself."""

    def release(spec, permit, path, values):
        return values + (whole(spec, permit, path, values[:1])[0] - values[0])

    whole = gaussian.GaussianNoise.release
    patch.setattr(gaussian.GaussianNoise, "release", release)


def one_sample_for_all_tokens(patch: Patch) -> None:
    whole, kept = token_steps.draw_subsets, {}

    def draw_subsets(config, *, size, held, noise):
        if (size, held) not in kept:
            kept[size, held] = whole(config, size=size, held=held, noise=noise)
        return kept[size, held]

    patch.setattr(token_steps, "draw_subsets", draw_subsets)


def exactly_the_expected_size(patch: Patch) -> None:
    def poisson(count, *, rate, noise):
        return sorted(sampling.without_replacement(count, sample=round(float(rate) * count), noise=noise))

    patch.setattr(subsets.sampling, "poisson", poisson)


def rate_from_the_records(patch: Patch) -> None:
    whole = sampling.poisson

    def poisson(count, *, rate, noise):
        return whole(count, rate=min(1.0, float(rate) * (36 / max(1, count)) ** 4), noise=noise)

    patch.setattr(subsets.sampling, "poisson", poisson)


def same_noise_vector_for_every_token(patch: Patch) -> None:
    whole, kept = recorder._Digested.standard_normal, {}

    def standard_normal(self, size):
        if size not in kept:
            kept[size] = self._source.standard_normal(size)
        self._note(kept[size].tobytes())
        return kept[size]

    assert whole is not standard_normal
    patch.setattr(recorder._Digested, "standard_normal", standard_normal)


# --- AdaDPSyn --------------------------------------------------------------------------------------------------


def points_not_drawn_into_the_ball(patch: Patch) -> None:
    def projected(points, *, centre, radius):
        return np.trunc((points - centre) * projected_mean.GRID).astype(np.int64)

    patch.setattr(projected_mean, "projected", projected)


def sum_not_about_the_centre(patch: Patch) -> None:
    """The points are summed and the centre is taken off the sum: what joins moves it by its own length."""

    def projected(points, *, centre, radius):
        whole = _projected(points, centre=centre, radius=radius)
        return np.trunc(points * projected_mean.GRID).astype(np.int64) if len(points) else whole

    _projected = projected_mean.projected
    patch.setattr(projected_mean, "projected", projected)


def drawn_into_twice_the_ball(patch: Patch) -> None:
    whole = projected_mean.projected
    patch.setattr(
        projected_mean,
        "projected",
        lambda points, *, centre, radius: whole(points, centre=centre, radius=2.0 * radius),
    )


def stops_on_the_exact_count(patch: Patch) -> None:
    whole = coverage.CoverageInside.release

    def release(inside, permit, path, points):
        whole(inside, permit, path, points)
        return float(coverage.covered(points, centre=inside.centre, radius=inside.radius).sum())

    patch.setattr(coverage.CoverageInside, "release", release)


def count_of_pairs(patch: Patch) -> None:
    def release(inside, permit, path, points):
        held = int(coverage.covered(points, centre=inside.centre, radius=inside.radius).sum())
        noise = gaussian.GaussianNoise(inside.spec.noise_multiplier, 1)
        return float(noise.release(permit, path, np.array([held * (held - 1) / 2.0]))[0])

    patch.setattr(coverage.CoverageInside, "release", release)


def coverage_not_held_to_the_volume(patch: Patch) -> None:
    def average_coverage(squared, *, radius, volume):
        held = (squared <= coverage.squared_radius(radius)).sum(axis=1)
        return float(held.sum()) / volume

    patch.setattr(good_radius, "average_coverage", average_coverage)


def coverage_of_one_ball_times_points(patch: Patch) -> None:
    whole = good_radius.average_coverage
    patch.setattr(
        good_radius,
        "average_coverage",
        lambda squared, *, radius, volume: whole(squared, radius=radius, volume=volume) * max(1, len(squared)) / 2.0,
    )


def noise_of_sensitivity_one(patch: Patch) -> None:
    patch.setattr(good_radius, "_SENSITIVITY", 1)


def search_ends_when_found(patch: Patch) -> None:
    """No more draws once the exact value says that the ball is full."""
    whole = good_radius.average_coverage

    class _Full(Exception):
        pass

    def average_coverage(squared, *, radius, volume):
        value = whole(squared, radius=radius, volume=volume)
        if value >= volume:
            raise _Full
        return value

    release = good_radius.RadiusHolding.release

    def released(search, permit, path, points):
        try:
            return release(search, permit, path, points)
        except _Full:
            permit.finish(path.removesuffix(".of"))
            return 0.35

    patch.setattr(good_radius, "average_coverage", average_coverage)
    patch.setattr(good_radius.RadiusHolding, "release", released)


def first_mean_of_the_scaled(patch: Patch) -> None:
    patch.setattr(adadpsyn, "on_simplex", few_shot.scaled_to_best)


def joining_where_replaced(patch: Patch) -> None:
    whole = adadpsyn.adaptive_mean
    patch.setattr(adadpsyn, "adaptive_mean", lambda config, change: whole(config, "joins"))  # noqa: ARG005


def denominator_of_the_sample(patch: Patch) -> None:
    whole = projected_mean.MeanAbout.release

    def release(mean, permit, path, points):
        return whole(dataclasses.replace(mean, count=max(1, len(points))), permit, path, points)

    patch.setattr(projected_mean.MeanAbout, "release", release)


PLANTS = (
    Plant(
        "not-normalised",
        "vectors are scaled to their best entry, not to sum 1",
        FEW,
        not_normalised,
        "sensitivity check",
    ),
    Plant(
        "heavy-vectors-double",
        "a vector with a clear best entry counts twice",
        FEW,
        normalised_over_everything,
        "sensitivity check",
    ),
    Plant(
        "first-subset-twice",
        "the first prompt is asked, and counted, twice",
        FEW,
        first_subset_twice,
        "sensitivity check",
    ),
    Plant(
        "shots-dummy-rows-count",
        "rows that fill a minibatch up are vectors as well",
        FEW,
        all_rows_of_a_minibatch,
        "sensitivity check",
    ),
    Plant("in-two-subsets", "every record stands in two prompts", PAIRS, record_in_two_subsets, "sensitivity check"),
    Plant(
        "log-probabilities",
        "noisy max over logarithms, down to −20",
        NOISY,
        scores_are_log_probabilities,
        "sensitivity check",
    ),
    Plant(
        "mean-over-sampled",
        "the sum is divided by how many vectors there are",
        FEW,
        mean_over_sampled,
        "sensitivity check",
    ),
    Plant(
        "vote-without-noise",
        "a token on which all vectors agree is taken as it is",
        FEW,
        best_vector_decides,
        "sensitivity check",
    ),
    Plant(
        "root-two-forgotten",
        "the noise for a joining vector, where one is replaced",
        PAIRS,
        noise_for_joining_where_replaced,
        "sensitivity check",
    ),
    Plant(
        "one-number-of-noise",
        "one normal number for the whole vector",
        FEW,
        noise_once_for_all_coordinates,
        "sensitivity check",
    ),
    Plant("one-sample", "one sample serves all tokens of a text", LONG, one_sample_for_all_tokens, "trace check"),
    Plant(
        "fixed-size",
        "exactly the expected number of records is sampled",
        LONG,
        exactly_the_expected_size,
        "trace check",
    ),
    Plant(
        "rate-from-records",
        "the sampling rate hangs on how many records there are",
        FEW,
        rate_from_the_records,
        "neighbour test",
    ),
    Plant(
        "one-noise-vector", "one noise vector serves all tokens", FEW, same_noise_vector_for_every_token, "trace check"
    ),
    Plant("no-ball", "points are not drawn into the ball", ADA, points_not_drawn_into_the_ball, "sensitivity check"),
    Plant(
        "not-about-centre",
        "the sum is of the points, not of what they differ from the centre by",
        ADA,
        sum_not_about_the_centre,
        "sensitivity check",
    ),
    Plant(
        "twice-the-ball",
        "points are drawn into a ball of twice the radius",
        ADA,
        drawn_into_twice_the_ball,
        "sensitivity check",
    ),
    Plant(
        "exact-count",
        "the radius is reduced where the exact count says so",
        ADA,
        stops_on_the_exact_count,
        "sensitivity check",
    ),
    Plant("count-of-pairs", "pairs within the radius are counted", ADA, count_of_pairs, "sensitivity check"),
    Plant(
        "coverage-not-held",
        "a ball's points are not held to the volume",
        ADA_REPLACED,
        coverage_not_held_to_the_volume,
        "sensitivity check",
    ),
    Plant(
        "coverage-times-points",
        "the mean coverage is multiplied by how many points there are",
        ADA,
        coverage_of_one_ball_times_points,
        "sensitivity check",
    ),
    Plant(
        "radius-half-noise",
        "the search's values are taken to move by 1",
        ADA,
        noise_of_sensitivity_one,
        "sensitivity check",
    ),
    Plant("search-ends-early", "the search ends when the exact value says so", ADA, search_ends_when_found, "permit"),
    Plant("ada-not-normalised", "vectors are scaled to their best entry", ADA, first_mean_of_the_scaled, "permit"),
    Plant(
        "joining-for-replaced",
        "the noise of vectors that join, under substitution",
        ADA_REPLACED,
        joining_where_replaced,
        "sensitivity check",
        signed=True,
    ),
    Plant(
        "denominator-of-sample",
        "the reduced mean is over how many points there are",
        ADA,
        denominator_of_the_sample,
        "sensitivity check",
    ),
)
