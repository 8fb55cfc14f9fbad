"""Keyword-space aggregation: plans of every sampling, counts, the public domain, and what is done without keywords."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    core,
    leaves,
)
from affidavit.accountant.validate import RELATIONS, Relation
from affidavit.generation.answers import greedy_answers
from affidavit.generation.dataset import Record
from affidavit.generation.ksa import answers as ksa_answers
from affidavit.generation.ksa import generator as ksa
from affidavit.generation.ksa import texts as ksa_texts
from affidavit.generation.ksa.generator import KsaConfig
from affidavit.generation.ksa.keywords import count_words, text_domain, vocabulary_domain, words
from affidavit.generation.ksa.topics import LabelTopic, topics
from affidavit.generation.models.toy import ToyModel
from affidavit.mechanisms import load
from affidavit.mechanisms.noisy_max import NoisyMax
from affidavit.mechanisms.propose_test_release import ProposeTestRelease

load()
SIZE = 48
Open = Callable[..., Any]
TESTED = {"mechanism": "propose-test-release"}


def _config(**changes: Any) -> KsaConfig:
    base: dict[str, Any] = {
        "labels": ["World", "Sports"],
        "samples_per_label": 2,
        "keywords": 3,
        "keyword_epsilon": 2.0,
        "keyword_delta": 1e-4,
        "subsets": 8,
        "max_answer_tokens": 6,
        "max_tokens": 5,
        "max_record_tokens": 40,
        "minibatch_rows": 3,
        "top_k": 30,
    }
    return KsaConfig(**(base | changes))


def _records(count: int = SIZE, kind: str = "id") -> list[Record]:
    topics = ("market", "school", "bridge", "team", "window")
    return [
        Record(f"{kind}-{i}", f"A story about the {topics[i % 5]} and message {i}.", ("World", "Sports")[i % 2])
        for i in range(count)
    ]


def _run(open_plain: Open, config: KsaConfig, *, relation: Relation = "zero-out", **kwargs: Any) -> Any:
    records, public = kwargs.pop("records", _records()), kwargs.pop("public", _records(10, "public"))
    permit = open_plain(ksa.plan(config, relation=relation, size=SIZE), relation=relation, **kwargs)
    return ksa.run(permit, config, records, ToyModel(), size=SIZE, public=public), permit


def _costs(plan: Plan) -> set[Leaf]:
    return {leaf for _, leaf, _ in leaves(core(plan))}


def test_words_are_letters_in_lower_case_and_no_function_words() -> None:
    assert words("The MARKET's prices, of 30 shares; the market again — Größe, über e-mail!") == {
        "market",
        "prices",
        "shares",
        "größe",
        "über",
        "mail",
    }
    assert words("x" * 41 + " " + "y" * 40) == {"y" * 40}
    assert text_domain(["b market", "the apple market"]) == ("apple", "market")
    assert text_domain(["market market", "the apple market"], least=2) == ("market",)


def test_an_answer_counts_once_a_word_and_only_in_the_domain() -> None:
    counts = count_words(["market market school", "school unknown", ""], ("market", "nobody", "school"))
    assert counts.tolist() == [1, 0, 2]


def test_the_vocabulary_gives_a_public_domain() -> None:
    domain = vocabulary_domain(ToyModel())
    assert "market" in domain
    assert "the" not in domain
    assert list(domain) == sorted(set(domain))


def test_an_answer_is_a_function_of_its_own_prompt() -> None:
    model = ToyModel()
    prompts = [model.encode(f" market school {'day ' * n}message") for n in range(1, 8)]

    def answers(chosen: list[list[int]]) -> list[str]:
        return list(
            greedy_answers(
                model, chosen, dummy=model.encode(" the"), width=20, max_tokens=5, minibatch_rows=3, private=True
            )
        )

    whole = answers(prompts)
    assert len(set(whole)) > 1
    assert answers([*prompts[:2], prompts[5], *prompts[3:]]) == [*whole[:2], whole[5], *whole[3:]]
    assert answers(prompts[1:]) == whole[1:]


@pytest.mark.parametrize(
    ("relation", "cost", "moved"), [("add-remove", 2.0, None), ("zero-out", 2.0, None), ("substitution", 2.0, 1.0)]
)
def test_disjoint_batches_cost_one_draw(relation: Relation, cost: float, moved: float | None) -> None:
    """ε is that of the run's relation; a record that leaves a batch costs half of what a replaced one does."""
    plan = ksa.plan(_config(), relation=relation, size=SIZE)
    assert isinstance(plan, Parallel)
    assert len(plan.parts) == 4
    assert all(isinstance(part, Exponential) and part.range == pytest.approx(cost) for part in plan.parts)
    if moved is None:
        assert plan.moves is None
    else:
        assert all(isinstance(part, Exponential) and part.range == pytest.approx(moved) for part in plan.moves or ())


def test_a_tested_set_costs_its_size_its_test_and_its_delta() -> None:
    plan = ksa.plan(_config(**TESTED, choice_epsilon=0.5), relation="zero-out", size=SIZE)
    assert isinstance(plan, Parallel)
    assert set(plan.parts) == {Compose((NoisyMax(0.5), ProposeTestRelease(2.0, 1e-4)))}
    fixed = ksa.plan(_config(**TESTED, fewest_keywords=3), relation="zero-out", size=SIZE)
    assert isinstance(fixed, Parallel)
    assert set(fixed.parts) == {ProposeTestRelease(2.0, 1e-4)}
    replaced = ksa.plan(_config(**TESTED, fewest_keywords=3), relation="substitution", size=SIZE)
    assert isinstance(replaced, Parallel)
    assert set(replaced.parts) == {ProposeTestRelease(2.0, 1e-4)}
    assert set(replaced.moves or ()) == {ProposeTestRelease(1.0, 1e-4)}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("shots", [1, 2])
def test_samples_state_their_scheme_and_charge_the_range_or_pure(relation: Relation, shots: int) -> None:
    poisson = ksa.plan(_config(sampling="poisson", subsets=4, shots_per_subset=shots), relation=relation, size=SIZE)
    assert isinstance(poisson, Parallel)
    for part in poisson.parts:
        assert isinstance(part, Repeat)
        assert part.count == 2
        assert isinstance(part.of, Poisson)
        assert part.of.rate == 2 * 4 * shots / SIZE
        if relation == "substitution":
            assert isinstance(part.of.of, Pure)
            assert part.of.of.epsilon == pytest.approx(2.0)
            assert isinstance(part.of.absent, Pure)
            assert part.of.absent.epsilon == pytest.approx(1.0 if shots == 1 else 2.0)
        else:
            assert isinstance(part.of.of, Exponential)
            assert part.of.of.range == pytest.approx(2.0)
    fixed = ksa.plan(
        _config(sampling="without-replacement", subsets=4, shots_per_subset=shots), relation=relation, size=SIZE
    )
    samples = {part.of for part in fixed.parts if isinstance(part, Repeat)}  # type: ignore[attr-defined]
    assert all(isinstance(sample, WithoutReplacement) and sample.sample == 8 * shots for sample in samples)
    assert {round(leaf.range, 9) for leaf in _costs(fixed) if isinstance(leaf, Exponential)} == {2.0}


def _settings() -> Iterator[dict[str, Any]]:
    for mechanism in ("joint-exponential", "propose-test-release"):
        yield {"mechanism": mechanism}
        for sampling, shots in (("poisson", 1), ("poisson", 2), ("without-replacement", 1), ("without-replacement", 2)):
            yield {"mechanism": mechanism, "sampling": sampling, "subsets": 4, "shots_per_subset": shots}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("changes", list(_settings()), ids=lambda c: "-".join(str(v) for v in c.values()))
def test_a_run_uses_what_its_plan_states(open_plain: Open, changes: dict[str, Any], relation: Relation) -> None:
    generated, permit = _run(open_plain, _config(**changes), relation=relation)
    assert generated.draws_per_node == permit.uses
    assert permit.uses == {path: uses for path, _, uses in leaves(permit.plan)}
    assert [(sample.label, sample.number) for sample in generated.samples] == [
        ("World", 0), ("World", 1), ("Sports", 0), ("Sports", 1)
    ]  # fmt: skip
    digests = [line["noise_sha256"] for line in generated.trace if line["event"] == "draw"]
    assert len(set(digests)) == len(digests)


def test_counts_are_of_private_and_public_answers(open_plain: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a direct count: each prompt asked alone, its words counted by hand."""
    config, model, seen = _config(use_public=True, samples_per_label=1), ToyModel(), []
    from affidavit.generation.ksa import choice as keyword_choice

    real = keyword_choice.KeywordChoice.choose

    def recorded(self: Any, recorder: Any, path: str, counts: Any) -> Any:
        seen.append(counts.copy())
        return real(self, recorder, path, counts)

    monkeypatch.setattr(keyword_choice.KeywordChoice, "choose", recorded)
    records, public = [r for r in _records(14) if r.label == "World"], _records(10, "public")
    permit = open_plain(ksa.plan(config, relation="zero-out", size=16))
    ksa.run(permit, config, records, model, size=16, public=public)
    known = ksa_texts.Public.prepared(config, model, public)[0]
    topic = known.topic

    def answer(record: Record) -> str:
        prompts, width = [topic.prompt([record])], topic.width
        return next(
            greedy_answers(
                model, prompts, dummy=topic.prompt(()), width=width, max_tokens=6, minibatch_rows=3, private=True
            )
        )

    shown = [record for record in (*records, *public) if record.label == "World"]
    expected = [sum(word in words(answer(record)) for record in shown) for word in known.domain]
    assert seen[0].tolist() == expected
    assert max(expected) > 0


def test_the_domain_does_not_depend_on_private_records(open_plain: Open) -> None:
    """Fault 3: a word that only private records hold is no candidate, with public records or without."""
    secret = [dataclasses.replace(r, text="xylophone xylophone xylophone") for r in _records()]
    for use_public in (True, False):
        generated, _ = _run(open_plain, _config(use_public=use_public, keyword_epsilon=500.0), records=secret)
        named = {word for line in generated.trace for word in line.get("keywords", ())}
        assert named
        assert "xylophone" not in named


@pytest.mark.parametrize("use_public", [True, False])
def test_words_that_the_prompt_itself_says_are_no_keywords(use_public: bool) -> None:
    """The label, and the wording of the task: a model repeats them whatever records it is shown."""
    model = ToyModel()
    public = [dataclasses.replace(r, text=f"{r.text} A text of the world's category.") for r in _records(10, "public")]
    for known in ksa_texts.Public.prepared(_config(use_public=use_public), model, public):
        said = words(model.decode(known.topic.prompt(())))
        assert {"text", "category", known.topic.name.lower()} <= said == known.topic.said
        assert said.isdisjoint(known.domain)
        assert {"market", "school"} <= set(known.domain)
    answers = ksa_answers.CONFIG(**(ANSWERS | {"use_public": use_public}))
    answered = [dataclasses.replace(r, label=r.text) for r in public]
    for known in ksa_texts.Public.prepared(answers, model, answered):
        assert known.topic.said >= words(known.topic.query)
        assert known.topic.said.isdisjoint(known.domain)


@pytest.mark.parametrize("shown", [True, False])
def test_the_last_prompt_need_not_show_a_public_record(
    open_plain: Open, monkeypatch: pytest.MonkeyPatch, shown: bool
) -> None:
    seen: list[Record | None] = []
    fitting = LabelTopic.fitting

    def recorded(self: Any, example: Record | None, keywords: Any, *, longest: int) -> Any:
        seen.append(example)
        return fitting(self, example, keywords, longest=longest)

    monkeypatch.setattr(LabelTopic, "fitting", recorded)
    config = _config(use_public=True, public_example=shown, samples_per_label=1)
    assert ksa.plan(config, relation="zero-out", size=SIZE) == ksa.plan(
        _config(samples_per_label=1), relation="zero-out", size=SIZE
    )
    _run(open_plain, config)
    public = _records(10, "public")
    assert seen == ([public[0], public[1]] if shown else [None, None])


def test_a_failed_test_falls_back_on_the_public_prompt(open_plain: Open) -> None:
    """Fault 11: without keywords, the text is that of a run without any private record."""
    config = _config(**TESTED, keyword_delta=1e-12)
    with_records, _ = _run(open_plain, config)
    without, _ = _run(open_plain, config, records=[])
    lines = [line for line in with_records.trace if line["event"] == "draw" and "passed" in line]
    assert [line["passed"] for line in lines] == [False] * 4
    assert all(line["keywords"] == [] for line in lines)
    model = ToyModel()
    topic = topics(config, model)[0]
    assert isinstance(topic, LabelTopic)
    assert topic.last(None, ()) == topic.rows.public
    assert len(with_records.samples) == len(without.samples) == 4


def test_a_large_gap_releases_its_set(open_plain: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ksa_texts,
        "greedy_answers",
        lambda model, prompts, **_: iter(["market school"] * len(prompts)),  # noqa: ARG005
    )
    generated, _ = _run(open_plain, _config(**TESTED, keyword_epsilon=40.0, choice_epsilon=80.0))
    lines = [line for line in generated.trace if "passed" in line]
    assert all(line["passed"] and line["keywords"] == ["market", "school"] for line in lines)


def test_the_last_prompt_holds_keywords_and_a_public_demonstration() -> None:
    config, model = _config(use_public=True), ToyModel()
    known = ksa_texts.Public.prepared(config, model, _records(10, "public"))[0]
    text = model.decode(known.topic.last(known.example(1), ["market", "day"]))
    assert "Use some of these words: market, day." in text
    assert "A story about the bridge and message 2." in text


def test_keywords_that_do_not_fit_go_from_the_end() -> None:
    topic, model = topics(_config(), ToyModel())[0], ToyModel()
    full = topic.last(None, ["market", "school"])
    assert topic.fitting(None, ["market", "school"], longest=len(full)) == full
    shorter = model.decode(topic.fitting(None, ["market", "school"], longest=len(full) - 1))
    assert "words: market." in shorter
    assert topic.fitting(None, ["market"], longest=1) == topic.last(None, ())


ANSWERS: dict[str, Any] = {
    "queries": ["Which way does the market face?", "Where is the school?"],
    "keywords": 2,
    "keyword_epsilon": 2.0,
    "subsets": 5,
    "max_answer_tokens": 6,
    "max_tokens": 5,
    "max_record_tokens": 24,
    "minibatch_rows": 3,
    "top_k": 30,
}


@pytest.mark.parametrize(
    ("relation", "sampling", "shots"),
    [
        (relation, sampling, shots)
        for sampling, shots in (("disjoint", 1), ("poisson", 1), ("without-replacement", 2))
        for relation in RELATIONS
        if (sampling, relation) != ("without-replacement", "add-remove")  # refused
    ],
)
def test_queries_are_answered_from_all_records(open_plain: Open, relation: Relation, sampling: str, shots: int) -> None:
    config = ksa_answers.CONFIG(**ANSWERS, use_public=True, sampling=sampling, shots_per_subset=shots)
    plan = ksa_answers.plan(config, relation=relation, size=SIZE)
    permit = open_plain(plan, relation=relation)
    public = [dataclasses.replace(record, label=record.text) for record in _records(8, "public")]
    generated = ksa_answers.run(permit, config, _records(), ToyModel(), size=SIZE, public=public)
    assert permit.uses == generated.draws_per_node == {path: uses for path, _, uses in leaves(plan)}
    assert [(sample.number, sample.query) for sample in generated.samples] == list(enumerate(config.queries))
    if sampling != "disjoint":
        assert isinstance(plan, Repeat)
        assert plan.count == 2


def test_answers_to_a_query_come_from_answered_questions_and_keywords() -> None:
    config, model = ksa_answers.CONFIG(**{**ANSWERS, "max_tokens": 20}), ToyModel()
    topic = topics(config, model)[1]
    shown = model.decode(topic.prompt([Record("a", "Is it far?", "Yes, by the bridge.")]))
    assert "Question: Is it far?\nAnswer: Yes, by the bridge." in shown
    assert shown.endswith("Question: Where is the school?\nAnswer:")
    last = model.decode(topic.last(Record("p", "Why?", "Because."), ["market", "day"]))
    assert last.startswith(
        "Answer the question as in the examples. Use some of these words in your answer: market, day."
    )
    assert "Why?" in last
    assert topic.words_of(Record("p", "question", "answer")) == "answer"


@pytest.mark.parametrize(
    ("changes", "public", "named"),
    [
        ({"use_public": True}, [], "data.public"),
        ({"use_public": True}, [Record("p", "market", "World")], "data.public"),
        ({"use_public": True, "keywords": 900}, _records(10, "public"), "generator.keywords"),
        ({"use_public": True, "least_public": 6}, _records(10, "public"), "generator.keywords"),
        ({"max_record_tokens": 1_000_000, "max_tokens": 100_000}, [], "generator.max_record_tokens"),
    ],
)
def test_what_cannot_run_is_refused_before_any_charge(
    changes: dict[str, Any], public: list[Record], named: str
) -> None:
    with pytest.raises(RunFileError, match=named.replace(".", r"\.")):
        ksa.check(_config(**changes), ToyModel(), public=public)


@pytest.mark.parametrize(
    "changes",
    [
        {"fewest_keywords": 4},
        {"shots_per_subset": 2},
        {"keyword_epsilon": 1000.0, "subsets": 100_000},
    ],
)
def test_settings_that_contradict_each_other_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(RunFileError, match="generator"):
        _config(**changes)


def test_subsets_beyond_the_declared_size_are_refused_with_what_fits() -> None:
    for sampling in ("disjoint", "poisson", "without-replacement"):
        with pytest.raises(RunFileError, match=r"generator\.subsets.*\n.*At most `generator\.subsets = (12|24)`"):
            ksa.plan(_config(subsets=25, sampling=sampling), relation="zero-out", size=SIZE)


def test_a_served_model_needs_public_records_for_its_domain() -> None:
    model = ToyModel()
    model.top_logprobs = 20  # type: ignore[attr-defined]
    with pytest.raises(RunFileError, match=r"generator\.use_public"):
        ksa.check(_config(), model, public=())
    ksa.check(_config(use_public=True), model, public=_records(10, "public"))


def test_a_served_model_writes_by_itself(open_plain: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer_rows(self: Any, prompts: Any, *, max_tokens: int, private: bool) -> list[str]:
        asked.extend(self.decode(prompt) for prompt in prompts)
        return ["the market and the school" for _ in prompts]

    monkeypatch.setattr(ToyModel, "top_logprobs", 20, raising=False)
    monkeypatch.setattr(ToyModel, "answer_rows", answer_rows, raising=False)
    generated, _ = _run(open_plain, _config(use_public=True, keyword_epsilon=200.0, keywords=2))
    assert all(sample.text.endswith("the market and the school") for sample in generated.samples)
    assert {frozenset(line["keywords"]) for line in generated.trace if "keywords" in line} == {
        frozenset({"market", "school"})
    }
    assert asked


def test_counts_are_held_to_the_public_ceiling() -> None:
    step = _config(subsets=2).choice("joins")
    from affidavit.accountant.release.randomness import SeededNoise
    from affidavit.generation.recorder import Recorder

    class One:
        noise, relation = SeededNoise(1), "zero-out"

        def use(self, path: str) -> Plan:  # noqa: ARG002
            return step.cost("joins")

        def finish(self, path: str) -> None: ...

    chosen = step.choose(Recorder(One()), "plan", np.array([500, 8, 8, 0], dtype=np.int64))  # type: ignore[arg-type]
    assert len(chosen) == 3


@pytest.mark.parametrize("preset", ["paper", "local"])
def test_presets_are_settings(preset: str) -> None:
    ksa.plan(KsaConfig(labels=("a",), **ksa.PRESETS[preset]), relation="substitution", size=10_000)


@pytest.mark.parametrize("preset", ["paper", "local"])
def test_presets_of_answers_are_settings(preset: str) -> None:
    config = ksa_answers.CONFIG(queries=("Why?",), **ksa_answers.PRESETS[preset])
    ksa_answers.plan(config, relation="substitution", size=10_000)
