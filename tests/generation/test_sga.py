"""SGA: its plan, its sensitivity in practice, its candidates, what it refuses, and a whole run on the toy model."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from pydantic import ValidationError

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import DataError, PermitViolation, RunFileError
from affidavit.accountant.plan import Compose, Gaussian, Poisson, Repeat, WithoutReplacement, leaves
from affidavit.accountant.verifier import recompute
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.outputs import Provenance, write
from affidavit.generation.questions import Asking, QuestionTemplate
from affidavit.generation.registry import generator
from affidavit.generation.sga import answers as sga_answers
from affidavit.generation.sga import generator as sga
from affidavit.generation.sga.augment import ordered, write_record
from affidavit.generation.sga.candidates import Projection, candidates, choose
from affidavit.generation.sga.costs import clustering
from affidavit.generation.sga.settings import PRESETS, AugmentTable, SgaConfig
from affidavit.mechanisms.dpm import Clusters

MODEL = load_model("toy")
SIZE = 30
QUERIES = ("which way does the harbour face", "where is the orchard")
DPM = {"dimensions": 3, "radius": 0.8, "interval": 0.2, "levels": 2, "smallest": 2.0}
TABLE = {
    "queries": QUERIES,
    "ensemble": 6,
    "shots": 2,
    "candidates": 2,
    "selection": "likelihood",
    "embedding": "toy",
    "max_tokens": 5,
    "max_record_tokens": 24,
    "minibatch_rows": 4,
    "dpm": DPM,
}


def _config(**changes):
    return SgaConfig.model_validate({**TABLE, **changes})


def _records(count, kind):
    return [Record(f"{kind}{n}", f"the harbour and the orchard, letter {n}", f"north {n % 3}") for n in range(count)]


def _run(open_plain, config, *, records=None, relation="zero-out", seed=1):
    permit = open_plain(sga.plan(config, relation=relation, size=SIZE), relation=relation, seed=seed)
    private = _records(SIZE, "r") if records is None else records
    return sga.run(permit, config, private, MODEL, size=SIZE, public=_records(20, "p")), permit


def test_it_is_registered():
    found = generator("sga")
    assert found.run is sga.run
    assert found.access == "text"
    assert set(found.presets) == {"paper", "local"}


def test_the_plan_is_one_sampled_clustering_a_query():
    plan = sga.plan(_config(), relation="zero-out", size=SIZE)
    assert plan == Repeat(2, WithoutReplacement(SIZE, 12, clustering(_config().dpm, embedding="toy", paths=2).plan()))
    assert [leaf.kind for _, leaf, _ in leaves(plan)] == ["bounded-range", "gaussian"] * 2 + ["gaussian"]


@pytest.mark.parametrize(("relation", "parts"), [("zero-out", 6), ("substitution", 5)])
def test_augmented_public_data_are_charged_before_the_queries(relation, parts):
    config = _config(augment={"texts": 2})
    plan = sga.plan(config, relation=relation, size=SIZE)
    assert isinstance(plan, Compose)
    assert len(plan.parts[0].parts) == parts
    asked = {"relation": relation, "delta": 1e-3}
    assert (
        bound(plan, **asked).epsilon_upper
        > bound(sga.plan(_config(), relation=relation, size=SIZE), **asked).epsilon_upper
    )


def test_add_remove_is_refused_where_an_empty_record_stands_for_a_missing_one():
    with pytest.raises(RunFileError, match="declared number of places") as refusal:
        sga.plan(_config(), relation="add-remove", size=SIZE)
    assert 'relation = "zero-out"' in refusal.value.hint


@pytest.mark.parametrize("relation", ["zero-out", "substitution"])
def test_the_cost_can_be_certified_and_sampling_makes_it_smaller(relation):
    asked = {"relation": relation, "delta": 1e-3}
    costs = [recompute(sga.plan(_config(), relation=relation, size=n), **asked).epsilon_upper for n in (30, 300)]
    assert costs[1] < costs[0] / 3


def test_a_run_draws_what_the_plan_says(open_plain):
    generated, permit = _run(open_plain, _config())
    assert generated.draws_per_node == permit.uses
    assert [sample.query for sample in generated.samples] == list(QUERIES)
    assert all(sample.text for sample in generated.samples)
    samples = [line for line in generated.trace if line["event"] == "sample"]
    assert [(line["path"], line["use"], len(line["members"])) for line in samples] == [
        ("plan.of", 0, 12),
        ("plan.of", 1, 12),
    ]
    assert samples[0]["members"] != samples[1]["members"]
    noise = [line["noise_sha256"] for line in generated.trace if line["event"] == "draw"]
    assert len(set(noise)) == len(noise)


def test_the_same_noise_gives_the_same_run_and_other_noise_another_sample(open_plain):
    first, again, other = (_run(open_plain, _config(), seed=seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first.trace[0]["members"] != other.trace[0]["members"]


def test_a_replaced_record_moves_one_private_point_of_a_sample(open_plain, monkeypatch):
    """What reaches DPM under equal noise: one row differs where the record is sampled, none elsewhere; public never."""
    from affidavit.mechanisms import dpm

    seen = []
    release = dpm.release

    def spy(permit, path, points, settings, *, public):
        seen.append((points, public))
        return release(permit, path, points, settings, public=public)

    monkeypatch.setattr(dpm, "release", spy)
    moved = Counter()
    for seed in range(6):
        seen.clear()
        neighbour = _records(SIZE, "r")
        neighbour[7] = Record("r7", "quite another thing altogether " * 40, "zebra")
        _run(open_plain, _config(queries=QUERIES[:1]), seed=seed)
        _run(open_plain, _config(queries=QUERIES[:1]), seed=seed, records=neighbour)
        (mine, fixed), (theirs, same) = seen
        assert np.array_equal(fixed, same)
        moved[int((mine != theirs).any(axis=1).sum())] += 1
    assert set(moved) == {0, 1}


def test_a_place_without_a_record_shows_nothing(open_plain):
    """Fewer records than declared: absent ones change no other prompt, and the sample is the same."""
    whole, _ = _run(open_plain, _config())
    fewer, _ = _run(open_plain, _config(), records=_records(SIZE - 1, "r"))
    assert len(fewer.samples) == len(whole.samples)
    with pytest.raises(DataError, match="declared are 30"):
        _run(open_plain, _config(), records=_records(SIZE + 1, "r"))


def test_another_plan_is_refused(open_plain):
    quieter = _config(dpm={**DPM, "count_noise_multiplier": 2.0})
    permit = open_plain(sga.plan(quieter, relation="zero-out", size=SIZE))
    with pytest.raises(PermitViolation):
        sga.run(permit, _config(), _records(SIZE, "r"), MODEL, size=SIZE, public=_records(20, "p"))


@pytest.mark.parametrize("selection", ["top-1", "generate", "likelihood"])
def test_every_selection_answers(open_plain, selection):
    generated, _ = _run(open_plain, _config(selection=selection))
    assert len(generated.samples) == 2


def test_synthetic_text_names_its_query(open_plain, tmp_path):
    generated, _ = _run(open_plain, _config())
    from datetime import UTC, datetime

    written = write(tmp_path, generated, Provenance(), ended=datetime.now(UTC))
    lines = [json.loads(line) for line in written.synthetic.read_text().splitlines()]
    assert [line["query"] for line in lines] == list(QUERIES)
    assert [line["id"] for line in lines] == ["answer-0", "answer-1"]


def test_candidates_are_public_answers_near_the_centres():
    public = ["north", "south", "east", "north"]
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.1, 0.0]])
    clusters = Clusters(np.array([[0.9, 0.1], [0.08, 0.0], [0.0, 0.9]]), np.array([9.0, 4.0, 2.0]))
    assert candidates(clusters, points, public, most=2) == ["south", "north"]
    assert candidates(clusters, points, public, most=9) == ["south", "north", "east"]


def test_the_likeliest_candidate_is_chosen_and_an_empty_one_never():
    asking = Asking(MODEL, QuestionTemplate(instruction="Answer."), 1, 20, 8)
    example = Record("e", "what is new", "the game report")
    picked = choose("likelihood", ["zqx zqx", "the game report"], asking, example=example, query="what is new")
    assert picked == "the game report"
    assert choose("likelihood", ["", "zqx"], asking, example=example, query="what is new") == "zqx"
    assert choose("top-1", ["zqx", "the game report"], asking, example=example, query="what is new") == "zqx"


def test_a_projection_keeps_the_public_spread_and_sees_rows_alone():
    rng = np.random.default_rng(3)
    public = rng.normal(size=(12, 1)) * np.array([[3.0, 0.0, 4.0]]) + 0.01 * rng.normal(size=(12, 3))
    onto = Projection.of(public, dimensions=1)
    spread = np.abs(onto(public)).max()
    assert spread == pytest.approx(np.linalg.norm(public - public.mean(axis=0), axis=1).max(), rel=0.01)
    rows = rng.normal(size=(5, 3))
    assert all(np.array_equal(onto(rows)[i], onto(rows[i : i + 1])[0]) for i in range(5))
    assert np.allclose(Projection.of(public, dimensions=3)(rows), rows - public.mean(axis=0))
    assert Projection.of(public[:2], dimensions=2)(rows).shape == (5, 2)


def test_augmentation_adds_records_and_uses_the_relations_sensitivity(open_plain):
    config = _config(augment={"texts": 2, "examples": 1, "dpm": DPM})
    for relation in ("zero-out", "substitution"):
        generated, permit = _run(open_plain, config, relation=relation)
        first = next(line["path"] for line in generated.trace if line["event"] == "draw")
        assert first == "plan.parts[0].parts[0]"
        assert generated.draws_per_node == permit.uses


def test_noisy_public_data_come_from_what_is_furthest_from_every_centre():
    """Two centres at 0 and 10; of five public points the one at 5 is the furthest from both, then the one at 13."""
    clusters = Clusters(np.array([[0.0], [10.0]]), np.array([3.0, 2.0]))
    placed = np.array([[0.5], [5.0], [9.0], [13.0], [2.0]])
    near, order = ordered(AugmentTable(examples=1), clusters, placed)
    assert (near, order) == ([0, 2], [0, 2, 4, 3, 1])
    far, order = ordered(AugmentTable(examples=1, of="furthest"), clusters, placed)
    assert (far, order) == ([1, 3], [1, 3, 4, 2, 0])


def test_a_pool_holds_the_new_records_and_then_others_in_the_same_order(open_plain, monkeypatch):
    seen = {}
    whole = sga_answers.augmented

    def kept(*given, **named):
        seen["pool"] = whole(*given, **named)
        return seen["pool"]

    monkeypatch.setattr(sga_answers, "augmented", kept)
    monkeypatch.setattr("affidavit.generation.sga.augment.write_record", _made)
    for pool, held in ((0, 22), (13, 13), (21, 21), (99, 22)):
        config = _config(augment={"texts": 2, "examples": 1, "of": "furthest", "pool": pool, "dpm": DPM})
        _, permit = _run(open_plain, config)
        names = [record.id for record in seen["pool"]]
        assert len(set(names)) == held
        assert names[:2] == ["new0", "new1"] if pool else names[-2:] == ["new0", "new1"]
        assert permit.plan == sga.plan(_config(augment={"texts": 2, "dpm": DPM}), relation="zero-out", size=SIZE), (
            "noisy public data cost what others do"
        )


def _made(config, model, examples, *, noise, number):
    assert examples
    return Record(f"new{number}", "where is the mill", "by the river")


def test_a_pool_too_small_for_the_prompts_is_refused():
    with pytest.raises(RunFileError, match=r"generator\.augment\.pool") as refusal:
        _config(augment={"pool": 12})
    assert "`generator.augment.pool = 13`" in refusal.value.hint
    assert _config(augment={"pool": 13}).augment.pool == 13


def test_a_record_is_written_from_public_examples_or_not_at_all(open_plain):
    noise = open_plain(sga.plan(_config(), relation="zero-out", size=SIZE)).noise
    config = _config(augment={"texts": 1}, max_tokens=12)
    made = [write_record(config, MODEL, _records(2, "p"), noise=noise, number=n) for n in range(8)]
    for record in filter(None, made):
        assert record.text
        assert record.label
        assert record.id.startswith("augmented-")


def test_a_coreset_is_refused_with_the_reason():
    with pytest.raises(RunFileError, match="every record decides") as caught:
        _config(sampling="coreset")
    assert 'sampling = "without-replacement"' in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"queries": []}, "queries"),
        ({"queries": ["same", "same"]}, "twice"),
        ({"queries": [" "]}, "queries"),
        ({"task": "poem"}, "task"),
        ({"sampling": "poisson"}, "sampling"),
        ({"selection": "best"}, "selection"),
        ({"dpm": {**DPM, "split_range": 0.0}}, "split_range"),
        ({"dpm": {**DPM, "radius": 3.0}}, "radius"),
        ({"dpm": {**DPM, "levels": 13}}, "levels"),
        ({"embedding": "ada"}, "embedding"),
    ],
)
def test_settings_out_of_range_are_refused(changes, match):
    with pytest.raises(ValidationError, match=match):
        _config(**changes)


def test_what_does_not_fit_is_refused_before_anything_is_charged():
    with pytest.raises(RunFileError, match=r"generator\.ensemble") as caught:
        sga.plan(_config(), relation="zero-out", size=11)
    assert "`generator.ensemble = 5`" in caught.value.hint
    with pytest.raises(RunFileError, match=r"generator\.dpm\.split_range"):
        sga.plan(_config(dpm={**DPM, "split_range": 1e5}), relation="zero-out", size=SIZE)
    with pytest.raises(RunFileError, match=r"data\.public: 12 public records"):
        sga.check(_config(), MODEL, public=_records(12, "p"))
    sga.check(_config(), MODEL, public=_records(13, "p"))


def test_more_dimensions_than_the_embedding_has_are_refused():
    assert _config(dpm={**DPM, "dimensions": 16}).dpm.dimensions == 16
    with pytest.raises(RunFileError, match=r"generator\.dpm\.dimensions"):
        _config(dpm={**DPM, "dimensions": 17})
    with pytest.raises(RunFileError, match=r"generator\.augment\.dpm\.dimensions"):
        _config(augment={"dpm": {"dimensions": 17}})


def test_all_dimensions_of_the_embedding(open_plain):
    generated, _ = _run(open_plain, _config(dpm={**DPM, "dimensions": 0}))
    assert len(generated.samples) == 2


def test_a_served_model_writes_but_does_not_rate(open_plain, monkeypatch):
    def answer_rows(self, prompts, *, max_tokens, private):
        return self.generate([self.decode(prompt) for prompt in prompts], max_tokens=max_tokens)

    monkeypatch.setattr(type(MODEL), "top_logprobs", 5, raising=False)
    monkeypatch.setattr(type(MODEL), "answer_rows", answer_rows, raising=False)
    with pytest.raises(RunFileError, match=r"generator\.selection"):
        sga.check(_config(), MODEL, public=_records(20, "p"))
    generated, _ = _run(open_plain, _config(selection="generate", augment={"texts": 2, "dpm": DPM}))
    assert len(generated.samples) == 2


def test_settings_that_matter_not_to_privacy_do_not_change_the_plan():
    here = sga.plan(_config(), relation="zero-out", size=SIZE)
    for changes in ({"candidates": 1}, {"selection": "top-1"}, {"max_tokens": 9}, {"dpm": {**DPM, "emptiness": 1.0}}):
        assert sga.plan(_config(**changes), relation="zero-out", size=SIZE) == here


@pytest.mark.parametrize(
    ("multiplier", "gaussian", "zero_out"),
    [(8.4265, 0.5, 1.22), (2.2691, 2.49, 8.0), (1.0953, 7.51, 34.4)],
)
def test_the_papers_settings_cost_what_the_page_says(multiplier, gaussian, zero_out):
    """The Gaussian as the paper accounts for it, and the run as it samples; counts without cost (docs/sga.md)."""
    alone = Repeat(100, Poisson(400 / 2600, Gaussian(multiplier)))
    assert bound(alone, relation="add-remove", delta=2.56e-4).epsilon_upper == pytest.approx(gaussian, rel=1e-3)
    paper = {**PRESETS["paper"], "queries": [f"question {n}" for n in range(100)]}
    paper["dpm"] = {**paper["dpm"], "centre_noise_multiplier": multiplier / 2, "count_noise_multiplier": 1e6}
    config = SgaConfig.model_validate(paper)
    for relation in ("zero-out", "substitution"):
        plan = sga.plan(config, relation=relation, size=2600)
        assert bound(plan, relation=relation, delta=2.56e-4).epsilon_upper == pytest.approx(zero_out, rel=5e-3)


@pytest.mark.parametrize("name", ["paper", "local"])
def test_presets_are_settings(name):
    config = SgaConfig.model_validate({"queries": ["why"], **PRESETS[name]})
    size = 2600 if name == "paper" else 700
    assert (
        bound(sga.plan(config, relation="substitution", size=size), relation="substitution", delta=1e-4).epsilon_upper
        < 8
    )
