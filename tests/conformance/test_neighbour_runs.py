"""The neighbour test on the package's generators: sound code is never accused, and what goes by position is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from affidavit.accountant.validate import Relation
from affidavit.audits.checks import CheckReport
from affidavit.generation import batches, prism, sampling, subsets
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.registry import generator
from affidavit.neighbours import Trial, neighbours, try_neighbours

SIZE = 12
SMALL: dict[str, Any] = {
    "labels": ["north", "south"],
    "samples_per_label": 1,
    "max_tokens": 3,
    "max_record_tokens": 24,
    "subsets": 3,
    "top_k": 40,
    "minibatch_rows": 3,
}
FEW: dict[str, Any] = {**SMALL, "kind": "few-shot", "mechanism": "gaussian", "noise_multiplier": 0.8}
ADA: dict[str, Any] = {
    **SMALL,
    "kind": "adadpsyn",
    "radius_noise_multiplier": 4.0,
    "mean_noise_multiplier": 0.8,
    "count_noise_multiplier": 1.5,
}
SAMPLED: dict[str, tuple[dict[str, Any], Relation]] = {
    "poisson": ({**FEW, "sampling": "poisson"}, "zero-out"),
    "poisson pairs": ({**FEW, "sampling": "poisson", "shots_per_subset": 2, "subsets": 2}, "add-remove"),
    "without replacement": (
        {**FEW, "sampling": "without-replacement", "shots_per_subset": 2, "subsets": 2},
        "add-remove",
    ),
    "fixed groups": ({**FEW, "sampling": "fixed-groups"}, "zero-out"),
    "fixed pairs": ({**FEW, "sampling": "fixed-groups", "shots_per_subset": 2, "subsets": 2}, "substitution"),
    "adadpsyn": ({**ADA, "sampling": "poisson"}, "add-remove"),
}


def _records() -> list[Record]:
    return [Record(f"r{n}", f"the harbour message {n}", ("north", "south")[n % 2]) for n in range(SIZE)]


def _trial(table: dict[str, Any], relation: Relation) -> Trial:
    source = generator(table["kind"])
    return Trial(source, source.config.model_validate(table), load_model("toy"), relation, SIZE)


def _places(report: CheckReport) -> int:
    return report.about("other records' places")[0].seen


@pytest.mark.parametrize("name", SAMPLED)
def test_generators_that_sample_are_never_accused(name: str) -> None:
    """34 seeds of six samplers; a run in which samples are compared at every token says the most."""
    table, relation = SAMPLED[name]
    report = try_neighbours(_trial(table, relation), _records(), seeds=range(34))
    assert not report.faults, report.faults
    assert _places(report) >= 34 * 3


@pytest.mark.slow
def test_no_generator_is_accused_in_a_thousand_comparisons(generator_case) -> None:
    """Of every registered generator: all its relations, every pair of neighbours, as many seeds as it takes."""
    case = generator_case
    pairs = sum(len(list(neighbours(case.records(), relation=relation))) for relation in case.relations)
    for relation in case.relations:
        trial = Trial(case.source, case.config(), load_model("toy"), relation, case.size, case.public())
        report = try_neighbours(trial, case.records(), seeds=range(-(-1000 // pairs)))
        assert not report.faults, (relation, report.faults)


_assign = batches.assign


def _by_position(records, *, labels, samples_per_label, buckets, key, across_labels):
    """Sound otherwise: the batch of a record is its number among the records, modulo the buckets."""
    kept = list(records)
    found = {(label, sample): [] for label in labels for sample in range(samples_per_label)}
    for number, record in enumerate(kept):
        (member,) = (
            member
            for batch in _assign([record], labels=[record.label], samples_per_label=1, buckets=1, key=key)
            for member in batch.members
        )
        if (place := (record.label, number % buckets)) in found:
            found[place].append(member)
    return tuple(
        batches.Batch(label, sample, tuple(sorted(members, key=lambda member: member.digest)))
        for (label, sample), members in found.items()
    )


PRISM: dict[str, Any] = {
    "kind": "prism",
    "labels": ["north", "south"],
    "samples_per_label": 2,
    "max_tokens": 3,
    "max_record_tokens": 24,
    "batch_size": 3,
    "minibatch_rows": 4,
    "clip": 4.0,
    "temperature": 0.4,
}


def test_batches_by_position_are_seen(monkeypatch) -> None:
    trial = _trial(PRISM, "zero-out")
    assert not try_neighbours(trial, _records(), seeds=(1,)).faults
    monkeypatch.setattr(batches, "assign", _by_position)
    report = try_neighbours(trial, _records(), seeds=(1,))
    assert {check.slug for check in report.faults} == {"dropped-records"}


def test_labels_in_the_order_in_which_the_data_hold_them_are_seen() -> None:
    whole = prism.run

    def run(permit, config, records, model, **options):
        met = tuple(dict.fromkeys(record.label for record in records))
        return whole(permit, config.model_copy(update={"labels": met}), records, model, **options)

    trial = _trial(PRISM, "zero-out")
    report = try_neighbours(replace(trial, source=replace(trial.source, run=run)), _records(), seeds=(1,))
    assert "public facts" in {check.name for check in report.faults}


def test_a_sampling_rate_that_counts_the_records_is_seen(monkeypatch) -> None:
    """Expected sizes are kept by a rate of m over how many records there are: everybody's coin then hangs on one."""
    whole = sampling.poisson

    def counted(count, *, rate, noise):
        return whole(count, rate=min(1.0, float(rate) * (SIZE / count) ** 4), noise=noise)

    table, relation = SAMPLED["poisson"]
    monkeypatch.setattr(subsets.sampling, "poisson", counted)
    report = try_neighbours(_trial(table, relation), _records(), seeds=range(8))
    assert {check.slug for check in report.faults} == {"dropped-records"}
