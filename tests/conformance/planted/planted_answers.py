"""Bugs in keyword-space aggregation (texts and answers) and in SGA: what is counted, embedded, clustered, written."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from planted_audits import Case, Plant

from affidavit.generation.ksa import choice, texts
from affidavit.generation.ksa.keywords import words
from affidavit.generation.sga import answers as sga_answers
from affidavit.generation.sga import candidates
from affidavit.mechanisms import dpm, dpm_splits, propose_test_release

Patch = pytest.MonkeyPatch

KSA = Case("ksa", changes={"samples_per_label": 1})
TESTED = Case(
    "ksa-answers",
    changes={"queries": ["where is the river"], "fewest_keywords": 2, "keyword_epsilon": 8.0, "max_answer_tokens": 8},
    mechanism="propose-test-release",
)
SIZED = Case("ksa-answers", changes={"queries": ["where is the river"]})
POISSON = Case("ksa", changes={"samples_per_label": 1, "sampling": "poisson"})
_DPM = {
    "dimensions": 3,
    "radius": 0.3,
    "interval": 0.1,
    "levels": 2,
    "smallest": 2.0,
    "split_range": 1.0,
    "count_noise_multiplier": 2.0,
    "centre_noise_multiplier": 2.0,
}
SGA = Case(
    "sga", changes={"queries": ["where is the river"], "augment": None, "dpm": _DPM, "shots": 1}, mechanism="gaussian"
)
FIRST = Case("sga", changes={**SGA.changes, "selection": "top-1"}, mechanism="gaussian")
AUGMENTED = Case(
    "sga",
    changes={"queries": ["where is the river"], "dpm": _DPM, "augment": {"texts": 1, "examples": 1, "dpm": _DPM}},
    mechanism="gaussian",
)

REPLACED = Case("sga", relation="substitution", changes=AUGMENTED.changes, mechanism="gaussian")


# --- keywords --------------------------------------------------------------------------------------------------


def every_occurrence_counts(patch: Patch) -> None:
    def count_words(found, domain):
        place = {word: index for index, word in enumerate(domain)}
        counts = np.zeros(len(domain), dtype=np.int64)
        for answer in found:
            for word in answer.lower().split():
                counts[place.get(word, [])] += 1
        return counts

    patch.setattr(texts, "count_words", count_words)


def domain_of_the_answers(patch: Patch) -> None:
    """Only words that some private answer says can be drawn."""
    whole, choose, known = texts.count_words, choice.KeywordChoice.choose, []

    def count_words(found, domain):
        held = list(found)
        said = set().union(*map(words, held)) if held else set()
        known[:] = [index for index, word in enumerate(domain) if word in said]
        return whole(held, domain)

    def chosen(self, recorder, path, counts):
        places = (known + [index for index in range(counts.size) if index not in known])[: max(len(known), 3)]
        return tuple(places[index] for index in choose(self, recorder, path, counts[places]))

    patch.setattr(texts, "count_words", count_words)
    patch.setattr(choice.KeywordChoice, "choose", chosen)


def shares_of_the_answers(patch: Patch) -> None:
    whole = texts.count_words

    def count_words(found, domain):
        held = list(found)
        return whole(held, domain) * 12 // max(1, len(held))

    patch.setattr(texts, "count_words", count_words)


def weights_by_rarity(patch: Patch) -> None:
    """Keywords that few answers hold weigh more, as in tf-idf: one answer changes its words' weights for all."""
    whole = texts.count_words

    def count_words(found, domain):
        counts = whole(found, domain)
        return counts * np.where(counts <= 2, 3, 1)

    patch.setattr(texts, "count_words", count_words)


def fallback_to_an_answer(patch: Patch) -> None:
    """Where the test fails, the words are those that most private answers say."""
    choose = choice.KeywordChoice.choose

    def chosen(self, recorder, path, counts):
        found = choose(self, recorder, path, counts)
        return found or tuple(np.argsort(-counts, kind="stable")[: self.most_keywords].tolist())

    patch.setattr(choice.KeywordChoice, "choose", chosen)


def keywords_in_the_order_of_their_counts(patch: Patch) -> None:
    """What is released is a set; it is written in the exact order of the counts."""
    choose = choice.KeywordChoice.choose

    def chosen(self, recorder, path, counts):
        found = choose(self, recorder, path, counts)
        return tuple(sorted(found, key=lambda index: (-counts[index], index)))

    patch.setattr(choice.KeywordChoice, "choose", chosen)


def private_example_in_the_last_prompt(patch: Patch) -> None:
    whole = texts._written
    kept = []
    shown = texts._Asked.shown

    def noted(self, topic, records, shots):
        kept[:] = [record for subset in shown(self, topic, records, shots) for record in subset]
        return shown(self, topic, records, shots)

    def written(recorder, config, model, about, keywords, *, number):
        if kept:
            about = dataclasses.replace(about, shown=(kept[0],))
            config = config.model_copy(update={"public_example": True})
        return whole(recorder, config, model, about, keywords, number=number)

    patch.setattr(texts._Asked, "shown", noted)
    patch.setattr(texts, "_written", written)


def record_in_two_prompts(patch: Patch) -> None:
    whole = texts._Asked.shown

    def shown(self, topic, records, shots):
        asked = list(whole(self, topic, records, shots))
        return iter([*asked, *asked[:2]])

    patch.setattr(texts._Asked, "shown", shown)


def half_the_noise_on_the_size(patch: Patch) -> None:
    """Gaps are doubled, to prefer clear ones: they move twice as far."""
    whole = propose_test_release.gaps
    patch.setattr(propose_test_release, "gaps", lambda counts: 2 * whole(counts))


def texts_of_one_batch(patch: Patch) -> None:
    """Disjoint batches that overlap: each also holds what the one before it held."""
    whole = texts._disjoint

    def disjoint(*given, **more):
        before = []

        def overlapping(ask):
            one = ask()
            also = before[-1] if before else ()
            before.append(one.subsets)
            return dataclasses.replace(one, subsets=one.subsets + also)

        for ask in whole(*given, **more):
            yield functools.partial(overlapping, ask)

    patch.setattr(texts, "_disjoint", disjoint)


# --- SGA -------------------------------------------------------------------------------------------------------


def points_not_clipped(patch: Patch) -> None:
    patch.setattr(dpm, "clipped", lambda points, *, radius: np.asarray(points, dtype=np.float64))  # noqa: ARG005


def clipped_coordinate_by_coordinate(patch: Patch) -> None:
    patch.setattr(dpm, "clipped", lambda points, *, radius: np.clip(points, -radius, radius) * 2.0)


def clipped_sum(patch: Patch) -> None:
    """The centre is clipped, not the points."""

    def clipped(points, *, radius):
        return np.where(np.isfinite(points).all(axis=1, keepdims=True), points, 0.0)

    sums = dpm._Permitted.sums

    def clipped_sums(self, exact):
        radius = self._settings.radius * 12
        norms = np.linalg.norm(exact, axis=1, keepdims=True)
        return sums(self, exact * np.minimum(1.0, radius / np.maximum(norms, 1e-9)))

    patch.setattr(dpm, "clipped", clipped)
    patch.setattr(dpm._Permitted, "sums", clipped_sums)


def mean_instead_of_sum(patch: Patch) -> None:
    """Centres are divided by the exact numbers of points, then noised as sums are."""
    counts, sums = dpm._Permitted.counts, dpm._Permitted.sums

    def kept(self, level, exact):
        _SIZES[:] = [float(exact.sum())]
        return counts(self, level, exact)

    def scaled(self, exact):
        return sums(self, exact * 12.0 / max(1.0, _SIZES[0] / 2.0 if _SIZES else 1.0) * 2.0)

    _SIZES: list[float] = []
    patch.setattr(dpm._Permitted, "counts", kept)
    patch.setattr(dpm._Permitted, "sums", scaled)


def exact_weights(patch: Patch) -> None:
    """Clusters are ranked by their exact sizes."""
    whole = dpm._Permitted.counts

    def counts(self, level, exact):
        whole(self, level, exact)
        return exact

    patch.setattr(dpm._Permitted, "counts", counts)


def best_separator_taken(patch: Patch) -> None:
    def separators(self, level, scores):
        chosen = _separators(self, level, scores)
        return [int(rated.argmax()) for rated in scores] if level else chosen

    _separators = dpm._Permitted.separators
    patch.setattr(dpm._Permitted, "separators", separators)


def scores_squared_occupation(patch: Patch) -> None:
    whole = dpm_splits.Separators.scores

    def scores(self, points, *, size):
        return whole(self, points, size=size) * (1 + len(points) // 6)

    patch.setattr(dpm_splits.Separators, "scores", scores)


def scores_by_share(patch: Patch) -> None:
    """Occupation is a share of the points in the set, in percent."""
    whole = dpm_splits.Separators.scores

    def scores(self, points, *, size):
        return whole(self, points, size=size) * 40 // max(1, len(points))

    patch.setattr(dpm_splits.Separators, "scores", scores)


def projected_on_private_axes(patch: Patch) -> None:
    whole, kept = sga_answers._Answering._answers, []

    def answered(self, query, subsets, *, private):
        found = whole(self, query, subsets, private=private)
        kept.append(found)
        return found

    class _Private(candidates.Projection):
        __slots__ = ()

        @staticmethod
        def of(public, *, dimensions):
            from affidavit.generation.models.embedding import load_embedding

            private = load_embedding("toy").embed(kept[-2]) if len(kept) > 1 else public
            return candidates_of(np.concatenate([public, private]), dimensions=dimensions)

    candidates_of = candidates.Projection.of
    patch.setattr(sga_answers._Answering, "_answers", answered)
    patch.setattr(sga_answers, "Projection", _Private)


def candidates_among_private_answers(patch: Patch) -> None:
    whole, kept = sga_answers._Answering._answers, []

    def answered(self, query, subsets, *, private):
        found = whole(self, query, subsets, private=private)
        kept.append(found)
        return found

    ranked = sga_answers.candidates

    def mixed(clusters, points, public, *, most):
        private = next(found for found in kept[::-1] if found is not public)
        return [*private[:1], *ranked(clusters, points, public, most=most)][:most]

    patch.setattr(sga_answers._Answering, "_answers", answered)
    patch.setattr(sga_answers, "candidates", mixed)


def places_shared_by_prompts(patch: Patch) -> None:
    whole = sga_answers._Answering._private_subsets

    def subsets(self):
        cut = whole(self)
        return [mine + other for mine, other in zip(cut, cut[1:] + cut[:1], strict=True)]

    patch.setattr(sga_answers._Answering, "_private_subsets", subsets)
    patch.setattr(sga_answers, "asking", _two_shots(sga_answers.asking))


def _two_shots(whole):
    return lambda config, model: dataclasses.replace(whole(config, model), shots=config.shots + 1)


def augmented_as_if_present(patch: Patch) -> None:
    """The root's size is taken for public, where records come and go."""
    counts = dpm._Permitted.counts

    def exact_root(self, level, exact):
        found = counts(self, level, exact)
        return exact if level == 0 else found

    patch.setattr(dpm._Permitted, "counts", exact_root)


def missing_records_shrink_the_set(patch: Patch) -> None:
    """The number of points is taken for public, and is how many records there are: a null record is one less."""
    whole = sga_answers.augmented

    def augmented(config, records, *given, size, path):
        return whole(config, records, *given, size=len(records), path=path)

    patch.setattr(sga_answers, "augmented", augmented)


PLANTS = (
    Plant(
        "every-occurrence",
        "a word counts as often as an answer says it",
        KSA,
        every_occurrence_counts,
        "sensitivity check",
    ),
    Plant(
        "domain-of-answers", "the domain is what private answers say", KSA, domain_of_the_answers, "sensitivity check"
    ),
    Plant(
        "shares-of-answers",
        "counts are divided by how many answers there are",
        KSA,
        shares_of_the_answers,
        "sensitivity check",
    ),
    Plant("weights-by-rarity", "rare words weigh more, by private counts", KSA, weights_by_rarity, "sensitivity check"),
    Plant(
        "fallback-keywords",
        "where the test fails, the exact best words are taken",
        TESTED,
        fallback_to_an_answer,
        "sensitivity check",
    ),
    Plant(
        "order-of-counts",
        "a released set is written in the order of its counts",
        TESTED,
        keywords_in_the_order_of_their_counts,
        "sensitivity check",
    ),
    Plant(
        "private-example",
        "the last prompt shows a private record",
        KSA,
        private_example_in_the_last_prompt,
        "sensitivity check",
    ),
    Plant(
        "first-prompts-twice",
        "the first prompts are asked, and counted, twice",
        POISSON,
        record_in_two_prompts,
        "sensitivity check",
    ),
    Plant("gaps-doubled", "the size is chosen by doubled gaps", SIZED, half_the_noise_on_the_size, "sensitivity check"),
    Plant(
        "overlapping-batches",
        "each batch also holds the one before it",
        Case("ksa"),
        texts_of_one_batch,
        "sensitivity check",
    ),
    Plant("points-not-clipped", "embeddings are not drawn into the ball", SGA, points_not_clipped, "sensitivity check"),
    Plant(
        "clipped-per-coordinate",
        "each coordinate is clipped, and then doubled",
        SGA,
        clipped_coordinate_by_coordinate,
        "sensitivity check",
    ),
    Plant("clipped-sum", "sums are clipped, not points", SGA, clipped_sum, "sensitivity check"),
    Plant(
        "sums-scaled",
        "sums are scaled by exact sizes before their noise",
        SGA,
        mean_instead_of_sum,
        "sensitivity check",
    ),
    Plant("exact-weights", "exact sizes go on beside the noisy ones", SGA, exact_weights, "sensitivity check"),
    Plant(
        "best-separator",
        "below the first level the best separator is taken",
        SGA,
        best_separator_taken,
        "sensitivity check",
    ),
    Plant(
        "scores-grow",
        "scores are multiplied as a set has more points",
        SGA,
        scores_squared_occupation,
        "sensitivity check",
    ),
    Plant(
        "scores-by-share",
        "scores are divided by how many points there are",
        AUGMENTED,
        scores_by_share,
        "sensitivity check",
    ),
    Plant(
        "private-axes",
        "the projection is fitted to private answers as well",
        SGA,
        projected_on_private_axes,
        "sensitivity check",
    ),
    Plant(
        "private-candidate",
        "one of the candidates is a private answer",
        FIRST,
        candidates_among_private_answers,
        "sensitivity check",
    ),
    Plant("shared-places", "every record stands in two prompts", SGA, places_shared_by_prompts, "sensitivity check"),
    Plant(
        "root-size-exact",
        "the number of records is taken for public",
        AUGMENTED,
        augmented_as_if_present,
        "sensitivity check",
    ),
    Plant(
        "null-record-shrinks",
        "a null record is one point less, where their number is public",
        REPLACED,
        missing_records_shrink_the_set,
        "sensitivity check",
    ),
)
