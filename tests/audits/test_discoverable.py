"""(n, p)-discoverable extraction: probabilities against sampling, numbers of questions against counting up."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import DataError, UsageError
from affidavit.accountant.plan import Exponential, Repeat
from affidavit.audits.attacks.discoverable import Discoverable, Sampling, chance_within, queries_needed
from affidavit.audits.attacks.endpoint import PromptedEndpoint
from affidavit.audits.auditfile import parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.demonstrating import behind
from affidavit.audits.experiments.discoverable import Asked, DiscoverableTally, chance_of_split
from affidavit.audits.finding import DiscoverableFinding
from affidavit.audits.findings import Findings, read, write
from affidavit.audits.formats import FORMATS, render
from affidavit.audits.given import Material
from affidavit.audits.run import run_audit
from affidavit.audits.sentences import sentence
from affidavit.audits.statistics.clopper_pearson import rate_interval
from affidavit.audits.textmodel import Record, sampled_log_likelihoods
from affidavit.generation.models.base import Decoding, Frame, Logits, Template, TokenModel
from affidavit.generation.models.toy import ToyModel
from tests.support.under_test import under_test

LETTERS = " abcd"


class Letters(TokenModel):
    """Five letters, each drawn by the two before it."""

    name = "letters"
    digest = "0" * 64
    vocabulary_size = len(LETTERS)
    stop_tokens = frozenset[int]()
    context_length = 1000
    rows_apart_by_nature = True

    def __init__(self) -> None:
        self.table = np.random.default_rng(4).normal(scale=1.5, size=(5, 5, 5)).astype(np.float32)

    def frame(self, template: Template) -> Frame:  # noqa: ARG002
        return "", ""

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:  # noqa: ARG002
        return [LETTERS.index(letter) for letter in text]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(LETTERS[token] for token in tokens)

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:  # noqa: ARG002
        table, grown = self.table, [list(row) for row in rows]

        class Growing:
            @property
            def logits(self) -> Logits:
                return np.stack([table[row[-2], row[-1]] for row in grown])

            def append(self, tokens: Sequence[int]) -> None:
                for row, token in zip(grown, tokens, strict=True):
                    row.append(token)

        return Growing()

    def sample(self, prompt: str, length: int, count: int, *, temperature: float, top_k: int | None) -> list[str]:
        """Answers, letter by letter: written without any of the code under test."""
        generator = np.random.default_rng(11)
        answers = [list(prompt[-2:]) for _ in range(count)]
        for _, answer in itertools.product(range(length), answers):
            weights = np.exp(self.table[LETTERS.index(answer[-2]), LETTERS.index(answer[-1])] / temperature)
            if top_k is not None:
                weights[np.argsort(weights)[: len(LETTERS) - top_k]] = 0.0
            answer.append(LETTERS[generator.choice(len(LETTERS), p=weights / weights.sum())])
        return ["".join(answer[2:]) for answer in answers]


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.6, None), (1.7, None), (1.0, 2), (0.8, 3)])
def test_a_target_is_as_likely_as_sampling_finds_it(temperature: float, top_k: int | None) -> None:
    model = Letters()
    answers = model.sample("ab", 3, 20_000, temperature=temperature, top_k=top_k)
    targets = ["".join(each) for each in itertools.product(LETTERS, repeat=3)]
    told = sampled_log_likelihoods(model, ["ab"] * 125, targets, temperature=temperature, top_k=top_k)
    assert sum(map(math.exp, told)) == pytest.approx(1.0)
    for target, each in zip(targets, told, strict=True):
        low, high = rate_interval(answers.count(target), len(answers), alpha=1e-6)
        assert low <= math.exp(each) <= high
        assert (math.exp(each) > 0.0) or target not in answers
    plain = model.log_likelihoods(["ab"] * 125, targets)
    assert (told == plain) == (temperature == 1.0 and top_k is None)


def test_within_n_answers_is_what_groups_of_n_answers_show() -> None:
    model = Letters()
    answers = model.sample("cd", 2, 40_000, temperature=1.0, top_k=None)
    target = sorted(set(answers), key=answers.count)[len(set(answers)) // 2]
    (each,) = model.log_likelihoods(["cd"], [target])
    for queries in (1, 2, 5, 20, 80):
        groups = [answers[first : first + queries] for first in range(0, 40_000 - queries + 1, queries)]
        low, high = rate_interval(sum(target in group for group in groups), len(groups), alpha=1e-6)
        assert low <= chance_within(each, queries) <= high


def test_the_fewest_questions_are_those_that_counting_up_finds() -> None:
    for probability, chance in itertools.product((0.003, 0.04, 0.31, 0.5, 0.97), (0.01, 0.3, 0.5, 0.75, 0.999)):
        counted = next(n for n in itertools.count(1) if 1.0 - (1.0 - probability) ** n >= chance - 1e-12)
        assert queries_needed(math.log(probability), chance) == counted
    assert queries_needed(0.0, 0.9) == 1
    assert queries_needed(-30.0, 0.5) == pytest.approx(math.log(2.0) * math.exp(30.0), rel=1e-9)
    assert queries_needed(-1000.0, 0.5) is None
    assert chance_within(-30.0, 10**6) == pytest.approx(1e6 * math.exp(-30.0), rel=1e-6)


def test_the_chance_of_a_split_is_every_split_counted() -> None:
    """Two runs: 2 of 5 records extractable with 3 members, 3 of 4 with 2 members."""
    ways = [
        sum(i in (0, 1) for i in first) + sum(i in (0, 1, 2) for i in second)
        for first in itertools.combinations(range(5), 3)
        for second in itertools.combinations(range(4), 2)
    ]
    for members in range(5):
        expected = sum(each >= members for each in ways) / len(ways)
        assert chance_of_split(members, [(2, 3, 2), (3, 2, 2)]) == pytest.approx(expected)


def test_a_service_that_knows_no_member_is_rarely_accused() -> None:
    """10,000 audits of a service that gives the same 9 of 24 records away whoever is in it."""
    generator = np.random.default_rng(5)
    told = np.where(np.arange(24) < 9, -0.1, -50.0)
    found = []
    for _ in range(10_000):
        order = told[generator.permutation(24)].tolist()
        found.append(DiscoverableTally((Asked(tuple(order[:12]), tuple(order[12:])),)).luck(10, 0.5))
    for alpha in (0.2, 0.05, 0.01):
        assert sum(each <= alpha for each in found) <= 10_000 * alpha + 4 * math.sqrt(10_000 * alpha * (1 - alpha))


WORDS = (  # each one token of the toy model
    "account address album animal building business city company computer country court customer director email film "
    "game government internet invoice market match minister movie order package password payment people phone plant "
    "police president price product profit question refund report river sales school science season service shares"
)


def _records(count: int = 30) -> list[Record]:
    generator = np.random.default_rng(7)
    return [
        Record(f"r{i}", " ".join(generator.choice(WORDS.split(), size=14)), ("north", "south")[i % 2])
        for i in range(count)
    ]


CERTIFIED = Certified.of_plan(Repeat(4, Exponential(0.5)), relation="zero-out", delta=1e-5)


def _run(serve: Any = None, model: Any = None, **changes: Any) -> Findings:
    content = {"attack": "discoverable", "members": 6, "non_members": 6, "runs": 2, "seed": 3, "queries": 100,
               "prefix_words": 8, "target_words": 2, **changes}  # fmt: skip
    material = Material(records=_records(), model=model or ToyModel())
    return run_audit(parse_audit(content), CERTIFIED, material, under_test(serve=serve))


def _copying(records: Sequence[Record], **_: Any) -> Any:
    return behind(ToyModel(), tuple(Discoverable(8, 2).prompt.demonstration(record) for record in records))


def _quiet(records: Sequence[Record], **_: Any) -> Any:
    return behind(ToyModel(), ("Text: the delivery was late\nCategory: north",))


def test_a_service_that_shows_its_records_gives_them_away_and_its_policy_fails() -> None:
    findings = _run(_copying)
    item, control = findings.items
    assert isinstance(item, DiscoverableFinding)
    assert (item.verdict, control.badge, item.is_test) == ("COUNTED", "LEAKED, AS IT MUST", False)
    assert [row[1] for row in findings.facts().rows] == ["protected", "unprotected, control"]
    assert item.extractable > 6 > item.held_out_extractable
    assert item.luck < 0.001
    assert findings.outcome == "policy-failed"
    assert all(test.passed for test in findings.self_tests)
    assert item.fewest is not None
    assert [members for _, members, _ in item.by_queries] == sorted(members for _, members, _ in item.by_queries)
    assert sentence(item).startswith(
        f"Asked 100 times for what follows, it gives away {item.extractable} of 12 records"
    )
    assert _run(_copying, policy={"max_extractable": 12}).outcome == "holds"


def test_at_another_epsilon_the_finding_says_so() -> None:
    items = _run(_quiet, epsilons=[1.0, CERTIFIED.epsilon]).items
    assert [item.note.startswith("the same generator at epsilon 1; ") for item in items] == [True, False, False]


def test_a_service_that_holds_no_record_holds() -> None:
    findings = _run(_quiet)
    assert findings.outcome == "holds"
    assert findings.items[0].luck > 0.05


def test_other_schemes_and_what_is_missing() -> None:
    plain, sharp = (_run(_copying, temperature=temperature).items[0] for temperature in (1.0, 0.3))
    assert sharp.extractable >= plain.extractable
    assert _run(_copying, top_k=1, queries=1).items[0].note.endswith("the 1 likeliest tokens; no ε follows from it")
    assert _run(target="null").items[0].luck > 1e-3
    assert _run(target="unprotected").items[0].extractable > 6
    with pytest.raises(UsageError, match="serves no endpoint"):
        _run()
    with pytest.raises(DataError, match="30 records show 10 words, 40 are asked for") as caught:
        _run(_quiet, members=20, non_members=20)
    assert "`members = 15`" in caught.value.hint

    class Plain:
        name, digest = "plain", "0" * 64
        generate, log_likelihoods, token_scores = ToyModel.generate, ToyModel.log_likelihoods, ToyModel.token_scores

    with pytest.raises(UsageError, match="plain tells probabilities at temperature 1 over all tokens only"):
        PromptedEndpoint(Plain(), ()).sampled_log_likelihoods([""], [""], temperature=0.5, top_k=None)  # type: ignore[arg-type]


def test_it_is_written_in_every_format_without_a_word_of_the_records(tmp_path: Path) -> None:
    findings = _run(_copying)
    write(findings, tmp_path / "findings.json")
    assert read(tmp_path / "findings.json") == findings
    shown = [(tmp_path / "findings.json").read_text(), *(render(findings, form) for form in FORMATS)]
    pairs = {" ".join(pair) for record in _records() for pair in itertools.pairwise(record.text.split())}
    assert not any(pair in text for pair in pairs for text in shown)


def test_a_question_is_cut_where_a_demonstration_is() -> None:
    attack = Discoverable(2, 2, Sampling())
    record = Record("r", " one  two\nthree four five ", "north")
    assert attack.question(record) == ("Text: one two", " three four")
    assert attack.can_ask(record)
    assert not Discoverable(3, 3).can_ask(record)
