"""DP few-shot generation: its plan, its releases, and algorithm 1 line by line."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import NotSupported, PermitViolation, RunFileError
from affidavit.accountant.plan import Gaussian, Leaf, Plan, leaves
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.validate import RELATIONS, Relation
from affidavit.generation import few_shot
from affidavit.generation.dataset import Record
from affidavit.generation.few_shot import ROOT_TWO, FewShotConfig, gaussian_sum, noisy_best
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.probabilities import GRID, on_simplex, scaled_to_best, support
from affidavit.generation.registry import check_access, generator
from affidavit.mechanisms.noisy_max import NoisyMax

SIZE = 40
Open = Callable[..., Any]
GAUSSIAN: dict[str, Any] = {"mechanism": "gaussian", "noise_multiplier": 0.7}
NOISY_MAX: dict[str, Any] = {"mechanism": "noisy-max", "noise_epsilon": 3.0}


def _config(**changes: Any) -> FewShotConfig:
    base: dict[str, Any] = {
        "labels": ["World", "Sports"],
        "max_tokens": 6,
        "max_record_tokens": 30,
        "subsets": 5,
        "top_k": 30,
        "minibatch_rows": 3,
    }
    noise = {} if "mechanism" in changes else GAUSSIAN
    return FewShotConfig(**(base | noise | changes))


def _records(count: int = SIZE) -> list[Record]:
    return [Record(f"id-{i}", f"Message {i} about team {i % 5}.", ("World", "Sports")[i % 2]) for i in range(count)]


def _leaf(config: FewShotConfig, relation: Relation) -> Leaf:
    found = {leaf for _, leaf, _ in leaves(few_shot.plan(config, relation=relation, size=SIZE))}
    assert len(found) == 1
    return found.pop()


def test_the_gaussians_multiplier_is_the_papers_or_root_two_more() -> None:
    """Noise √2 σ: multiplier σ where a vector is replaced (√2), √2 σ where one joins (1)."""
    assert gaussian_sum(0.7, "replaced").leaf() == Gaussian(0.7)
    joined = gaussian_sum(0.7, "joins").leaf().noise_multiplier
    assert joined == pytest.approx(0.7 * math.sqrt(2), rel=1e-15)
    assert 2 <= ROOT_TWO**2 < 2 + Fraction(1, 2**50)


def test_noisy_max_costs_rate_times_width() -> None:
    """Rate σ/2: σ where scores move both ways (width 2), σ/2 where they rise (width 1)."""
    assert noisy_best(3.0, "replaced").leaf() == NoisyMax(3.0)
    assert noisy_best(3.0, "joins").leaf() == NoisyMax(1.5)


@pytest.mark.parametrize(
    ("relation", "sampling", "shots", "gaussian", "best"),
    [
        ("zero-out", "poisson", 1, 0.7 * math.sqrt(2), 1.5),
        ("add-remove", "fixed-groups", 1, 0.7 * math.sqrt(2), 1.5),
        ("zero-out", "poisson", 2, 0.7, 3.0),
        ("substitution", "poisson", 1, 0.7, 3.0),
        ("substitution", "fixed-groups", 2, 0.7, 3.0),
        ("add-remove", "without-replacement", 1, 0.7, 3.0),
    ],
)
def test_leaves_follow_relation_and_sampling(
    relation: Relation, sampling: str, shots: int, gaussian: float, best: float
) -> None:
    settings = {"sampling": sampling, "shots_per_subset": shots}
    assert _leaf(_config(**settings), relation) == Gaussian(pytest.approx(gaussian, rel=1e-15))
    assert _leaf(_config(**settings, **NOISY_MAX), relation) == NoisyMax(pytest.approx(best, rel=1e-15))


def _run(open_plain: Open, config: FewShotConfig, relation: Relation = "zero-out", **kwargs: Any) -> tuple[Any, Any]:
    permit = open_plain(few_shot.plan(config, relation=relation, size=SIZE), relation=relation, seed=3)
    return few_shot.run(permit, config, _records(), ToyModel(), size=SIZE, **kwargs), permit


@pytest.mark.parametrize("noise", [GAUSSIAN, NOISY_MAX])
@pytest.mark.parametrize("relation", RELATIONS)
def test_a_run_draws_one_token_a_use(open_plain: Open, noise: dict[str, Any], relation: Relation) -> None:
    seen: list[Any] = []
    generated, permit = _run(open_plain, _config(samples_per_label=2, **noise), relation, progress=seen.append)
    assert [(sample.label, sample.number) for sample in generated.samples] == [
        ("World", 0), ("World", 1), ("Sports", 0), ("Sports", 1)
    ]  # fmt: skip
    assert generated.draws_per_node == permit.uses
    for index in (0, 1):
        texts = generated.samples[2 * index : 2 * index + 2]
        assert permit.uses[f"plan.parts[{index}].of.of"] == sum(len(text.tokens) + text.stopped for text in texts)
    assert len(seen) == sum(len(text.tokens) for text in generated.samples)
    for text in generated.samples:
        assert text.text == ToyModel().decode(text.tokens).strip()


@pytest.mark.parametrize("noise", [GAUSSIAN | {"noise_multiplier": 1e-6}, NOISY_MAX | {"noise_epsilon": 1e6}])
def test_without_noise_it_is_algorithm_one(open_plain: Open, noise: dict[str, Any]) -> None:
    """Rate 1, so that every record of the label is sampled: against a direct float64 computation."""
    config, model = _config(subsets=20, sampling="poisson", **noise), ToyModel()
    text = _run(open_plain, config)[0].samples[0]
    prompt = config.template.public.format(label="World")
    head, tail = model.frame(config.template.frame)
    tokens: list[int] = []
    for token in text.tokens:
        public = [*model.encode(head + prompt + tail + "The text:", trusted=True), *tokens]
        vocabulary = support(model.start([public], width=len(public)).logits[0], top_k=config.top_k)
        summed = np.zeros(vocabulary.size)
        for record in _records():
            if record.label == "World":
                before, after = config.template.private.format(label="World", text="\0").split("\0")
                row = [
                    *model.encode(head + before, trusted=True),
                    *model.encode(record.text)[:30],
                    *model.encode(after + tail + "The text:", trusted=True),
                    *tokens,
                ]
                logits = model.start([row], width=len(row)).logits[0].astype(np.float64)[vocabulary]
                weights = np.exp(logits - logits.max())
                summed += weights if config.mechanism == "noisy-max" else weights / weights.sum()
        assert token == vocabulary[summed.argmax()]
        tokens.append(token)
    assert tokens


def test_a_text_ends_at_an_end_token_and_the_next_goes_on(open_plain: Open) -> None:
    config, model = _config(samples_per_label=3, max_tokens=9), ToyModel()
    model.stop_tokens = frozenset(range(0, model.vocabulary_size, 4))
    permit = open_plain(few_shot.plan(config, relation="zero-out", size=SIZE))
    generated = few_shot.run(permit, config, _records(), model, size=SIZE)
    assert any(text.stopped for text in generated.samples)
    assert not any(set(text.tokens) & model.stop_tokens for text in generated.samples)
    assert generated.draws_per_node["plan.parts[0].of.of"] < 27
    with pytest.raises(PermitViolation):
        permit.use("plan.parts[0].of.of")


@pytest.mark.parametrize("sampling", ["poisson", "fixed-groups"])
def test_a_text_ends_where_its_task_says_and_what_is_left_is_not_drawn(open_plain: Open, sampling: str) -> None:
    """The same noise writes the same tokens up to there; the run goes on with the next label."""
    wording = {"private": "{label}: {text}\n", "public": "Write:\n", "answer_prefix": "{label}:", "frame": "plain"}

    def written(until: str, **changes: Any) -> Any:
        config = _config(sampling=sampling, prompts=wording | {"until": until}, **changes)
        permit = open_plain(few_shot.plan(config, relation="zero-out", size=SIZE))
        return few_shot.run(permit, config, _records(), ToyModel(), size=SIZE)

    whole = written("", max_tokens=12)
    text, tokens = whole.samples[0].text, whole.samples[0].tokens
    mark = next(letter for letter in text[len(text) // 2 :] if letter in text and text.index(letter) > 0)
    ended = written(mark, max_tokens=12)
    sample = ended.samples[0]
    assert sample.text == text[: text.index(mark)].rstrip()
    assert sample.stopped
    assert sample.tokens == tokens[: len(sample.tokens)]
    assert len(sample.tokens) < len(tokens)
    assert ended.draws_per_node["plan.parts[0].of.of"] == len(sample.tokens)
    assert [each.label for each in ended.samples] == ["World", "Sports"]


def test_labels_are_an_input_and_foreign_records_contribute_nothing(open_plain: Open) -> None:
    config = _config()
    strangers = [Record(f"s-{i}", "Something else.", "Weather") for i in range(SIZE)]
    permit = open_plain(few_shot.plan(config, relation="zero-out", size=SIZE))
    generated = few_shot.run(permit, config, strangers, ToyModel(), size=SIZE)
    assert [text.label for text in generated.samples] == ["World", "Sports"]
    assert all(text.tokens for text in generated.samples)


@pytest.mark.parametrize("noise", [GAUSSIAN, NOISY_MAX])
def test_a_run_under_a_permit_for_less_is_stopped(open_plain: Open, noise: dict[str, Any]) -> None:
    key, louder = ("noise_multiplier", 0.71) if noise is GAUSSIAN else ("noise_epsilon", 2.9)
    permit = open_plain(few_shot.plan(_config(**noise | {key: louder}), relation="zero-out", size=SIZE))
    with pytest.raises(PermitViolation, match="certified"):
        few_shot.run(permit, _config(**noise), _records(), ToyModel(), size=SIZE)
    permit = open_plain(few_shot.plan(_config(max_tokens=2, **noise), relation="zero-out", size=SIZE))
    with pytest.raises(PermitViolation):
        few_shot.run(permit, _config(**noise), _records(), ToyModel(), size=SIZE)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"mechanism": "gaussian"}, "noise_multiplier"),
        ({"mechanism": "noisy-max"}, "noise_epsilon"),
        (GAUSSIAN | {"noise_epsilon": 1.0}, "noise_epsilon"),
        (NOISY_MAX | {"noise_multiplier": 1.0}, "noise_multiplier"),
    ],
)
def test_noise_of_the_other_mechanism_is_refused(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(RunFileError, match=rf"generator\.{key}"):
        _config(**changes)


def test_presets_are_whole_configurations() -> None:
    found = generator("few-shot")
    for preset in found.presets.values():
        config = found.config(labels=["World", "Sports", "Business", "Technology"], **preset)
        assert isinstance(few_shot.plan(config, relation="substitution", size=120_000), Plan)


@pytest.mark.parametrize("kind", ["few-shot", "adadpsyn"])
def test_a_server_is_enough_where_it_shows_the_best_k(kind: str) -> None:
    source = generator(kind)
    settings = {"labels": ["World"], **source.presets["paper"]}
    check_access(source, source.config(**settings | {"top_k": 20}), top_logprobs=20)
    for top_k in (0, 21):
        with pytest.raises(NotSupported, match=f"top_k = {top_k}"):
            check_access(source, source.config(**settings | {"top_k": top_k}), top_logprobs=20)


def test_more_noise_makes_the_released_token_less_certain() -> None:
    """The noise reaches the release: at σ = 50 the best of two equal-cost tokens is nearly a coin flip."""
    logits = np.array([2.0, 0.0], dtype=np.float32)
    sums = np.sum([on_simplex(logits)] * 5, axis=0)
    scores = np.sum([scaled_to_best(logits)] * 5, axis=0)
    noise = SeededNoise(2)
    wins = {}
    for sigma in (0.3, 50.0):
        spec = gaussian_sum(sigma, "joins")
        drawn = sums / GRID + float(spec.standard_deviation) * noise.standard_normal((4000, 2))
        wins[sigma] = (drawn.argmax(axis=1) == 0).mean()
    assert wins[0.3] > 0.99
    assert 0.45 < wins[50.0] < 0.58
    assert scores[0] > sums[0]
