"""Question prompts: their shape is public, halves are cut, answers end where the next question would begin."""

from __future__ import annotations

import pytest

from affidavit.accountant.errors import RunFileError
from affidavit.generation.dataset import Record
from affidavit.generation.ensemble import answers, check_lengths, complete
from affidavit.generation.models import load_model
from affidavit.generation.questions import QUESTION_TASKS, Asking, QuestionTemplate

MODEL = load_model("toy")
SHORT, LONG = Record("a", "short", "yes"), Record("b", "a very long question " * 30, "no, " * 40)
QUERY = "where is the match"


def _asking(**changes):
    values = {"template": QuestionTemplate(instruction="Answer."), "shots": 2, "max_record_tokens": 12, "max_tokens": 6}
    return Asking(MODEL, **{**values, **changes})


@pytest.mark.parametrize("task", QUESTION_TASKS)
def test_a_row_reads_as_the_template_says(task):
    template = QUESTION_TASKS[task]
    opening, middle, _ = template.pieces
    asking = _asking(template=template, shots=1, max_record_tokens=100, max_tokens=100)
    shown = Record("a", "the match was won", "a report")
    assert MODEL.decode(asking.row([shown], QUERY)) == (
        f"{template.instruction}\n\n{opening}the match was won{middle}a report\n\n{opening}{QUERY}{middle.rstrip()}"
    )


def test_a_row_never_exceeds_the_public_width():
    asking = _asking()
    width = asking.width(QUERY)
    for shown in ([], [SHORT], [LONG, LONG], [LONG] * 5):
        assert len(asking.row(shown, QUERY)) <= width
    assert len(asking.row([LONG, LONG], QUERY)) == width


def test_each_half_is_cut_by_its_own_limit():
    text = MODEL.decode(_asking(shots=1).row([LONG], QUERY))
    assert MODEL.encode(text.split("Question:")[1].split("\nAnswer:")[0]) == MODEL.encode(" " + LONG.text)[:12]
    assert MODEL.encode(text.split("Answer:")[1].split("\n\n")[0]) == MODEL.encode(" " + LONG.label)[:6]


def test_a_long_query_is_cut_and_a_record_cannot_add_a_control_token():
    asking = _asking(max_record_tokens=3)
    assert asking.width("one two three four five six") == asking.width("one two three")
    marked = asking.row([Record("a", "<end>", "<user>")], QUERY)
    assert not {0, 1, 2} & set(marked)


def test_an_answer_depends_on_its_own_subset_alone():
    """To the last letter, whatever the other prompts hold and however many there are."""
    asking = _asking()

    def answered(*subsets):
        return answers(asking, QUERY, subsets, minibatch_rows=3, private=True)

    together = answered([SHORT], [LONG], [SHORT, LONG], [])
    assert together[0] == answered([SHORT])[0]
    assert together[:3] == answered([SHORT], [LONG], [SHORT, LONG], [LONG, LONG])[:3]


def test_answers_end_at_a_blank_line_or_the_next_question():
    template = QuestionTemplate(instruction="Answer.")
    assert template.clean(" yes\nindeed\n\nmore") == "yes\nindeed"
    assert template.clean("\n\nyes\nQuestion: and you?") == "yes"
    assert template.ended("yes\n\n")
    assert template.ended("yes\nQuestion: and")
    assert not template.ended(" yes\nindeed")


def test_the_choice_shows_an_example_and_the_candidates_in_order():
    asking = _asking(max_record_tokens=100, max_tokens=20)
    prompt = asking.choice(SHORT, QUERY, ["first answer", "second answer"])
    text = MODEL.decode(prompt)
    assert text.index("short") < text.index(QUERY) < text.index("1. first answer") < text.index("2. second answer")
    assert len(prompt) <= asking.choice_width(QUERY, candidates=2)
    assert isinstance(complete(asking, prompt), str)


def test_prompts_that_do_not_fit_are_refused(monkeypatch):
    asking = _asking()
    longest = max(asking.width(QUERY), asking.choice_width(QUERY, candidates=2)) + 6
    monkeypatch.setattr(type(MODEL), "context_length", longest)
    check_lengths(asking, [QUERY], candidates=2)
    monkeypatch.setattr(type(MODEL), "context_length", longest - 1)
    with pytest.raises(RunFileError, match="max_record_tokens"):
        check_lengths(asking, [QUERY], candidates=2)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"shown": "{label} then {text}"}, "shown"),
        ({"shown": "only {text}"}, "shown"),
        ({"shown": "{text} {label} {label}"}, "shown"),
        ({"choose": "pick one"}, "choose"),
    ],
)
def test_a_template_without_its_places_is_refused(changes, key):
    with pytest.raises(RunFileError, match=rf"generator\.prompts\.{key}"):
        QuestionTemplate(instruction="Answer.", **changes)
