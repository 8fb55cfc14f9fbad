"""Prompts, the choice of demonstrations, contextual calibration and scores, against values worked out by hand."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from affidavit.accountant.errors import UsageError
from affidavit.generation.icl.answering import CONTENT_FREE, Answered, answer, calibrated, score
from affidavit.generation.icl.evaluation import evaluate, subset
from affidavit.generation.icl.examples import Example
from affidavit.generation.icl.prompting import choose_demonstrations, prompt
from affidavit.generation.icl.scores import bleu, exact_match, meteor, rouge
from affidavit.generation.icl.structured import check_record, rates
from affidavit.generation.icl.tasks import MOVIE_SCHEMA, task
from affidavit.generation.models.toy import ToyModel

LABELS = list(task("ag-news").words)
POOL = [Example(f"text {n}", (LABELS[n % 4],)) for n in range(12)]


class Scripted(ToyModel):
    """Answers from a table: ln P of each choice by the question that ends the prompt."""

    def __init__(self, table: dict[str, list[float]], default: list[float]) -> None:
        super().__init__()
        self.table, self.default = table, default
        self.asked: list[str] = []

    def choice_log_likelihoods(self, prompts: Sequence[str], choices: Sequence[str]) -> np.ndarray:  # noqa: ARG002
        self.asked += prompts
        questions = [text.rpartition("Article: ")[2].partition("\n")[0] for text in prompts]
        return np.array([self.table.get(question, self.default) for question in questions])


def test_calibration_divides_by_what_an_empty_input_gives() -> None:
    """Zhao et al. 2021, W = diag(p_cf)^-1: p = (.6, .4) against p_cf = (.8, .2) turns the answer round."""
    raw = np.log([[0.6, 0.4], [0.9, 0.1]])
    free = np.log([[0.9, 0.1], [0.7, 0.3]])
    found = calibrated(raw, free)
    assert np.allclose(np.exp(found), [[0.6 / 0.8, 0.4 / 0.2], [0.9 / 0.8, 0.1 / 0.2]])
    assert found.argmax(axis=1).tolist() == [1, 0]


def test_calibration_normalises_over_the_labels_first() -> None:
    """A common factor of a row, the probability that any label follows at all, says nothing."""
    raw, free = np.log([[0.06, 0.04]]), np.log([[0.8, 0.2], [0.008, 0.002]])
    assert np.allclose(calibrated(raw, free), calibrated(raw + 3.0, free + np.array([[0.0], [5.0]])))
    assert calibrated(np.array([[-900.0, -901.0]]), free).argmax() == 1


def test_answers_are_calibrated_and_the_plain_ones_are_kept() -> None:
    biased = [math.log(p) for p in (0.7, 0.1, 0.1, 0.1)]
    sports = [math.log(p) for p in (0.5, 0.4, 0.05, 0.05)]
    model = Scripted({"a match": sports}, biased)
    given = answer(model, task("ag-news"), (), [Example("a match", ("Sports",))])
    assert given == Answered(("Sports",), ("World",))
    assert [text.rpartition("Article: ")[2].partition("\n")[0] for text in model.asked[1:]] == list(CONTENT_FREE)
    scores = score(task("ag-news"), given, [Example("a match", ("Sports",))])
    assert scores == {"accuracy": 1.0, "accuracy_uncalibrated": 0.0}


def test_a_prompt_shows_the_words_of_labels() -> None:
    shown = prompt(task("dbpedia"), [Example("A firm.", ("MeanOfTransportation",))], "A ship.")
    assert shown.endswith("Text: A firm.\nAnswer: Transportation\n\nText: A ship.\nAnswer:")
    assert "MeanOfTransportation" not in shown


def test_labels_take_turns_among_the_demonstrations() -> None:
    news = task("ag-news")
    for seed in range(20):
        for shots in (1, 3, 4, 8, 11):
            chosen = choose_demonstrations(POOL, news, shots=shots, seed=seed)
            counts = Counter(one.answers[0] for one in chosen)
            assert len(set(map(id, chosen))) == shots
            assert max(counts.values()) - min(counts.get(label, 0) for label in LABELS) <= 1
    again = choose_demonstrations(POOL, news, shots=4, seed=3)
    assert again == choose_demonstrations(POOL, news, shots=4, seed=3)
    assert len({choose_demonstrations(POOL, news, shots=4, seed=seed) for seed in range(20)}) > 10


def test_a_pool_of_one_label_still_serves() -> None:
    chosen = choose_demonstrations(POOL[::4], task("ag-news"), shots=3, seed=0)
    assert {one.answers for one in chosen} == {("World",)}
    with pytest.raises(UsageError, match="5 demonstrations are asked for and there are 3"):
        choose_demonstrations(POOL[::4], task("ag-news"), shots=5, seed=0)


def test_evaluation_tests_every_seed_on_the_same_examples() -> None:
    model = Scripted({}, [0.0, -1.0, -2.0, -3.0])
    found = evaluate(model, task("ag-news"), demonstrations=POOL, examples=POOL[:4], shots=2, seeds=[0, 1, 2])
    assert [one.seed for one in found.seeds] == [0, 1, 2]
    assert len(model.asked) == 3 * (4 + len(CONTENT_FREE))
    assert found.to_json()["mean"] == found.mean() == 0.25  # calibrated scores tie, so the first label: 1 of 4
    none = evaluate(model, task("ag-news"), demonstrations=(), examples=POOL[:4], shots=0, seeds=[0, 1])
    assert len(model.asked) == 4 * (4 + len(CONTENT_FREE))
    assert none.deviation() == 0.0
    for seeds in ([], [1, 1]):
        with pytest.raises(UsageError, match="seeds"):
            evaluate(model, task("ag-news"), demonstrations=POOL, examples=POOL, shots=1, seeds=seeds)


def test_a_subset_is_always_the_same_and_in_order() -> None:
    chosen = subset(POOL, 5)
    assert chosen == subset(POOL, 5)
    assert [POOL.index(one) for one in chosen] == sorted(POOL.index(one) for one in chosen)
    assert subset(POOL, None) == subset(POOL, 99) == tuple(POOL)
    assert set(subset(POOL, 5)) <= set(subset(POOL, 7))


def test_exact_match_is_the_rule_of_squad() -> None:
    assert exact_match(" The Big-Lebowski!", ["big lebowski", "BigLebowski"])
    assert exact_match("\uff37ar", ["war"])
    assert not exact_match("wars", ["war"])
    assert not exact_match("", ["war"])


def test_rouge_of_a_common_subsequence() -> None:
    """'the cat sat' against 'the cat': precision 2/3, recall 1, F = 4/5; of two references the better."""
    found = rouge(["the cat sat"], [["a dog ran", "the cat"]])
    assert found["rouge_l"] == pytest.approx(0.8)
    assert found["rouge_1"] == pytest.approx(0.8)
    assert found["rouge_2"] == pytest.approx(2 / 3)  # one bigram of two, and of one


def test_meteor_by_hand() -> None:
    """Banerjee and Lavie 2005: 10PR / (R + 9P), less half of (chunks / matches)^3; "running" has the stem of "run"."""
    assert meteor(["The cat sat on the mat."], [["a dog", "the cat sat on the mat"]]) == pytest.approx(1 - 0.5 / 6**3)
    precision, recall, chunks, matches = 1.0, 2 / 3, 2, 2
    whole = 10 * precision * recall / (recall + 9 * precision) * (1 - 0.5 * (chunks / matches) ** 3)
    assert meteor(["running cat"], [["cat will run"]]) == pytest.approx(whole)
    assert meteor(["running cat", "nothing"], [["cat will run"], ["else"]]) == pytest.approx(whole / 2)


def test_bleu_of_equal_texts_is_100_and_references_may_differ_in_number() -> None:
    text = "the quick brown fox jumps over the lazy dog"
    assert bleu([text, text], [[text], ["something else entirely", text]]) == pytest.approx(100.0)
    assert bleu([text], [["entirely other words stand here instead"]]) < 5.0


@pytest.mark.parametrize(
    ("text", "parsed", "valid"),
    [
        ('{"title": "A", "year": 1999, "genre": "B"}', True, True),
        (' {"title": "A", "year": 1999, "genre": "B", "plot": "x"}\n', True, True),
        ('{"title": "A", "year": 1999}', True, False),
        ('{"title": "A", "year": 1999.5, "genre": "B"}', True, False),
        ('{"title": "A", "year": true, "genre": "B"}', True, False),
        ('["title"]', True, False),
        ('{"title": "A", "title": "B"}', False, False),
        ('{"title": NaN}', False, False),
        ('{"title": "A", "year": 1999, "genre": "B"} and more', False, False),
        ("", False, False),
        ("[" * 100_000, False, False),
    ],
)
def test_records(text: str, parsed: bool, valid: bool) -> None:
    found = check_record(text, MOVIE_SCHEMA)
    assert (found.parsed, found.valid) == (parsed, valid)
    assert rates([text], MOVIE_SCHEMA).to_json()["valid_rate"] == float(valid)


def test_records_are_scored_by_field() -> None:
    right = Example("A film.", ('{"title": "A", "year": 1999, "genre": "Drama"}',))
    near = '{"title": "A", "year": 2000, "genre": "Drama"}'
    scores = score(task("wikimovies"), Answered((near, "no JSON")), [right, right])
    assert scores == {"valid_rate": 0.5, "parse_rate": 0.5, "fields_right": pytest.approx((2 / 3 + 0.0) / 2)}


def test_spans_are_what_the_model_writes_up_to_the_end_of_the_line() -> None:
    asked: list[tuple[list[str], int, str]] = []

    class Writer(ToyModel):
        def continuations(self, prompts: Sequence[str], *, max_tokens: int, stop: str) -> list[str]:
            asked.append((list(prompts), max_tokens, stop))
            return [" The  Comedy", "war"]

    examples = [Example("a film", ("comedy",)), Example("another", ("drama",))]
    given = answer(Writer(), task("mit-g"), examples[:1], examples)
    assert given.answers == ("The Comedy", "war")
    assert score(task("mit-g"), given, examples) == {"exact_match": 0.5}
    ((prompts, max_tokens, stop),) = asked
    assert (max_tokens, stop) == (task("mit-g").max_tokens, "\n")
    assert all("Sentence: a film\nGenre: comedy\n\n" in text for text in prompts)


def test_draws_go_through_the_labels_in_turn_whichever_pool_it_is() -> None:
    labels = [f"label{number}" for number in range(7)]
    kind = task("ag-news").with_labels(labels)
    pools = [[Example(f"{name} {number}", (labels[number % 7],)) for number in range(21)] for name in ("one", "two")]

    def shown(pool: list[Example], draw: int, shots: int = 3) -> list[str]:
        return [one.answers[0] for one in choose_demonstrations(pool, kind, shots=shots, seed=5, draw=draw)]

    drawn = [label for draw in range(7) for label in shown(pools[0], draw)]
    assert {label: drawn.count(label) for label in labels} == dict.fromkeys(labels, 3)
    assert all(len(set(shown(pools[0], draw))) == 3 for draw in range(7))
    assert [shown(pools[0], draw) for draw in range(7)] == [shown(pools[1], draw) for draw in range(7)]
    assert sorted(shown(pools[0], 0, shots=7)) == sorted(labels)
    assert shown(pools[0], 0, shots=7) != shown(pools[0], 1, shots=7)  # another order
    for draw in range(3):
        assert len(set(choose_demonstrations(pools[0], kind, shots=21, seed=1, draw=draw))) == 21
    few = pools[0][:1] * 2 + pools[0][1:3]
    assert len(choose_demonstrations(few, kind, shots=4, seed=0)) == 4
