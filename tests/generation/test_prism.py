"""PRISM: its plan, its loop, and that one record touches one row of one batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import PermitViolation, RunFileError
from affidavit.accountant.plan import Exponential, Parallel, Repeat, to_dict
from affidavit.accountant.validate import RELATIONS, Relation
from affidavit.generation import prism
from affidavit.generation.aggregate import GRID, clip_to_grid
from affidavit.generation.batches import PrivateRows
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prism import PrismConfig
from affidavit.generation.registry import generator, kinds

SIZE = 48
Open = Callable[..., Any]


def _config(**changes: Any) -> PrismConfig:
    base: dict[str, Any] = {
        "labels": ["World", "Sports"],
        "samples_per_label": 2,
        "max_tokens": 6,
        "max_record_tokens": 40,
        "batch_size": 8,
        "minibatch_rows": 3,
        "temperature": 0.5,
    }
    return PrismConfig(**(base | changes))


def _records(count: int = SIZE) -> list[Record]:
    return [
        Record(
            f"id-{i}",
            f"Message {i}: please write to person{i}@example.org about team {i % 5}.",
            ("World", "Sports")[i % 2],
        )
        for i in range(count)
    ]


def _ranges(plan: Any) -> set[float]:
    found = set()
    for part in plan:
        assert isinstance(part, Repeat)
        assert isinstance(part.of, Exponential)
        found.add(part.of.range)
    return found


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_plan_states_the_derived_ranges(relation: Relation) -> None:
    config = _config(clip=10.0, temperature=0.7, batch_size=8)
    plan = prism.plan(config, relation=relation, size=SIZE)
    assert isinstance(plan, Parallel)
    assert len(plan.parts) == 4
    assert all(isinstance(part, Repeat) and part.count == 6 for part in plan.parts)
    one_record = Fraction(10) / (8 * Fraction(0.7))  # c/(s·τ), exactly
    expected = 2 * one_record if relation == "substitution" else one_record
    (stated,) = _ranges(plan.parts)
    assert expected <= Fraction(stated) <= expected + Fraction(1, 2**35)
    if relation == "substitution":
        assert plan.membership == "moving"
        assert plan.moves is not None
        (moved,) = _ranges(plan.moves)
        assert one_record <= Fraction(moved) <= one_record + Fraction(1, 2**35)
    else:
        assert plan.moves is None


def test_the_plan_of_the_papers_preset_is_the_papers_setting() -> None:
    config = PrismConfig(labels=["a", "b"], **prism.PRESETS["paper"])
    plan = prism.plan(config, relation="zero-out", size=600)
    assert isinstance(plan, Parallel)
    (stated,) = _ranges(plan.parts)
    assert stated == pytest.approx(10 / (255 * 1.048), rel=1e-9)


@pytest.mark.parametrize(
    ("batch_size", "temperature", "epsilon"),
    [(64, 0.6, 2.28), (64, 0.8, 1.62), (64, 1.0, 1.25), (128, 0.6, 1.01), (128, 0.8, 0.73), (128, 1.0, 0.56)],
)
def test_what_a_run_costs(batch_size: int, temperature: float, epsilon: float) -> None:
    """c = 10, T = 30, δ = 1/2400, zero-out: two-decimal figures found by separate code on a coarser grid."""
    config = PrismConfig(labels=["a", "b"], batch_size=batch_size, temperature=temperature, max_tokens=30)
    found = bound(prism.plan(config, relation="zero-out", size=2400), relation="zero-out", delta=1 / 2400)
    assert found.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_upper == pytest.approx(epsilon, abs=0.0061)


def test_batches_larger_than_the_declared_size_are_refused_with_the_largest_that_fits() -> None:
    prism.plan(_config(batch_size=12), relation="zero-out", size=SIZE)
    with pytest.raises(
        RunFileError, match=r"generator\.batch_size.*\n.*At most `generator\.batch_size = 12`"
    ) as refusal:
        prism.plan(_config(batch_size=13), relation="zero-out", size=SIZE)
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"labels": []},
        {"labels": ["a", "a"]},
        {"labels": [" "]},
        {"labels": "World"},
        {"batch_size": 0},
        {"batch_size": 8.0},
        {"batch_size": True},
        {"temperature": 0.0},
        {"temperature": float("nan")},
        {"clip": float("inf")},
        {"clip": 1001.0},
        {"task": "poetry"},
        {"dtype": "float16"},
        {"surprise": 1},
    ],
)
def test_a_wrong_setting_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _config(**changes)


def test_a_temperature_that_the_sampler_cannot_reach_is_refused() -> None:
    with pytest.raises(RunFileError, match=r"generator\.temperature"):
        _config(clip=10.0, temperature=0.01)


def test_the_registry_knows_prism() -> None:
    found = generator("prism")
    assert "prism" in kinds()
    assert found.config is PrismConfig
    assert found.plan is prism.plan
    assert found.run is prism.run
    with pytest.raises(RunFileError, match=r"generator\.kind"):
        generator("magic")


def _run(open_plain: Open, records: Sequence[Record], config: PrismConfig, *, seed: int = 1, **kwargs: Any) -> Any:
    relation: Relation = kwargs.pop("relation", "zero-out")
    permit = open_plain(prism.plan(config, relation=relation, size=SIZE), relation=relation, seed=seed)
    return prism.run(permit, config, records, ToyModel(), size=SIZE, **kwargs), permit


@pytest.mark.parametrize("relation", RELATIONS)
def test_a_run_draws_one_token_a_use_at_the_declared_paths(open_plain: Open, relation: Relation) -> None:
    seen: list[prism.Progress] = []
    generated, permit = _run(open_plain, _records(), _config(), relation=relation, progress=seen.append)
    assert [(sample.label, sample.number) for sample in generated.samples] == [
        ("World", 0), ("World", 1), ("Sports", 0), ("Sports", 1)
    ]  # fmt: skip
    assert generated.draws_per_node == permit.uses
    for index, sample in enumerate(generated.samples):
        drawn = permit.uses[f"plan.parts[{index}].of"]
        assert drawn == len(sample.tokens) + sample.stopped <= 6
        assert sample.stopped or drawn == 6
        assert sample.text == ToyModel().decode(sample.tokens).strip()
    assert len(seen) == sum(len(sample.tokens) for sample in generated.samples)
    draws = [line for line in generated.trace if line["event"] == "draw"]
    assert len({line["noise_sha256"] for line in draws}) == len(draws) == sum(permit.uses.values())


def test_a_run_stops_at_an_end_token_and_leaves_the_rest_unused(open_plain: Open) -> None:
    config = _config(max_tokens=60, temperature=0.05, clip=1.0)
    generated, permit = _run(open_plain, _records(), config)
    stopped = [i for i, sample in enumerate(generated.samples) if sample.stopped]
    assert stopped
    for index in stopped:
        with pytest.raises(PermitViolation):
            permit.use(f"plan.parts[{index}].of")


def test_a_run_under_a_permit_for_less_is_stopped(open_plain: Open) -> None:
    certified = _config(temperature=0.6)
    permit = open_plain(prism.plan(certified, relation="zero-out", size=SIZE))
    with pytest.raises(PermitViolation, match="does not cover"):
        prism.run(permit, _config(temperature=0.5), _records(), ToyModel(), size=SIZE)
    permit = open_plain(prism.plan(_config(), relation="zero-out", size=SIZE), relation="substitution")
    with pytest.raises(PermitViolation, match="does not cover"):
        prism.run(permit, _config(), _records(), ToyModel(), size=SIZE)
    permit = open_plain(prism.plan(_config(max_tokens=2), relation="zero-out", size=SIZE))
    with pytest.raises(PermitViolation):
        prism.run(permit, _config(), _records(), ToyModel(), size=SIZE)


def test_the_token_scores_are_algorithm_one() -> None:
    """Against a direct float64 computation of lines 5 to 8, scaled by 2·s·2^20."""
    config, model = _config(clip=2.0, batch_size=8), ToyModel()
    rows = prism.label_rows(config, model)["World"]
    texts = [record.text for record in _records(7)]
    private = PrivateRows(model, rows, texts, minibatch_rows=3, max_tokens=9)
    public = model.start([rows.public], width=len(rows.public))
    answer = model.encode(" Thanks")
    for token in answer:
        private.append(token)
        public.append([token])

    def clip(row: Sequence[int]) -> np.ndarray:
        logits = model.start([[*row, *answer]], width=500).logits[0].astype(np.float64)
        return np.maximum(-2.0, logits - logits.max() + 2.0)

    mean = sum(clip(rows.row(model.encode(text))) for text in texts) / 8
    expected = (mean + clip(rows.public)) / 2
    scores = prism.token_scores(config, private, public)
    assert scores.dtype == np.int64
    assert np.abs(scores / (2 * 8 * GRID) - expected).max() < 1e-6


def _clipped(records: Sequence[Record], config: PrismConfig, tokens: Sequence[int]) -> dict[str, list[bytes]]:
    """Clipped logits of every record after each of ``tokens``, as bytes, by record id."""
    model = ToyModel()
    rows = prism.label_rows(config, model)["World"]
    texts = [record.text for record in records]
    private = PrivateRows(model, rows, texts, minibatch_rows=config.minibatch_rows, max_tokens=config.max_tokens)
    found: dict[str, list[bytes]] = {record.id: [] for record in records}
    for token in (*tokens, None):
        grid = np.concatenate([clip_to_grid(part, clip=config.clip)[0] for part in private.logits()])
        for record, row in zip(records, grid, strict=True):
            found[record.id].append(row.tobytes())
        if token is not None:
            private.append(token)
    return found


@pytest.mark.parametrize("change", ["replaced", "longer", "shorter", "removed"])
def test_a_changed_record_leaves_every_other_row_bit_identical(change: str) -> None:
    records = _records(10)
    texts = {"replaced": "Something else.", "longer": records[3].text * 9, "shorter": "x"}
    if change == "removed":
        changed = records[:3] + records[4:]
    else:
        changed = [*records[:3], dataclasses.replace(records[3], text=texts[change]), *records[4:]]
    tokens = ToyModel().encode(" Dear team.")
    before, after = (_clipped(which, _config(), tokens) for which in (records, changed))
    others = [record.id for record in records if record is not records[3]]
    assert all(before[name] == after[name] for name in others)
    assert change == "removed" or before["id-3"] != after["id-3"]


def test_with_the_same_noise_only_the_changed_records_batch_differs(open_plain: Open) -> None:
    """The neighbour test: support, order, labels and the other batches do not react to one record."""
    records, config = _records(), _config(temperature=0.1, clip=5.0, max_tokens=12)
    gone = records[10]
    outcomes = [_run(open_plain, which, config)[0] for which in (records, [r for r in records if r is not gone])]
    members = [
        {tuple(line["members"]): line["path"] for line in outcome.trace if line["event"] == "batch"}
        for outcome in outcomes
    ]
    changed = set(members[0].values()) - {members[0][key] for key in members[0].keys() & members[1].keys()}
    assert len(changed) == 1
    first = min(int(path.split("[")[1].split("]")[0]) for path in changed)
    assert outcomes[0].samples[:first] == outcomes[1].samples[:first]


def test_labels_are_an_input_and_foreign_ones_contribute_nothing(open_plain: Open) -> None:
    config, records = _config(), _records()
    strangers = [dataclasses.replace(record, id=f"s-{record.id}", label="Weather") for record in records]
    assert _run(open_plain, records + strangers, config)[0].samples == _run(open_plain, records, config)[0].samples
    only, _ = _run(open_plain, strangers, config)
    assert [sample.label for sample in only.samples] == ["World", "World", "Sports", "Sports"]


def test_the_public_opening_belongs_to_the_text(open_plain: Open) -> None:
    generated, _ = _run(open_plain, _records(), _config(task="mail"))
    assert all(sample.text == ("Hello, I" + ToyModel().decode(sample.tokens)).strip() for sample in generated.samples)


def test_prompts_longer_than_the_model_reads_are_refused(open_plain: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ToyModel, "context_length", 60)
    with pytest.raises(RunFileError, match=r"generator\.max_record_tokens"):
        _run(open_plain, _records(), _config())


def test_a_plan_is_its_own_dictionary() -> None:
    assert to_dict(prism.plan(_config(), relation="substitution", size=SIZE))["moves"][0]["count"] == 6


def test_a_plain_wording_ends_a_text_at_its_line_break_and_shows_a_record_with_its_own_label(open_plain: Open) -> None:
    """What comes after the break is not drawn: the text is whole, and what is left of its part of the plan unused."""
    wording = {
        "private": "Texts.\n\n{text}\n\n", "public": "Texts.\n\n", "answer_prefix": "Text:",
        "record": "{label}: {text}", "frame": "plain",
    }  # fmt: skip
    config = _config(prompts=wording, across_labels=True, max_tokens=12, temperature=8.0)
    whole, _ = _run(open_plain, _records(), config)
    assert {sample.label for sample in whole.samples} == {"World", "Sports"}
    written = next(sample for sample in whole.samples if len(sample.text) > 3)
    until = written.text[2]
    ended, permit = _run(
        open_plain, _records(), _config(**{**config.model_dump(), "prompts": {**wording, "until": until}})
    )
    for sample in ended.samples:
        assert until not in sample.text
        assert sample.stopped or len(sample.tokens) == 12
    assert sum(len(sample.tokens) for sample in ended.samples) < sum(len(sample.tokens) for sample in whole.samples)
    template = config.template
    assert template.written(_records()[0]).startswith("World: Message 0")
    assert permit is not None
