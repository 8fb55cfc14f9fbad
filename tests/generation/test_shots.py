"""Prompts of several records: their wording, their shape, and what is cut."""

from __future__ import annotations

import pytest

from affidavit.accountant.errors import RunFileError
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prompts import TASKS, PromptTemplate
from affidavit.generation.shots import shot_rows

MODEL = ToyModel()


def _rows(task: str, *, shots: int = 3, tokens: int = 8, label: str = "World"):  # type: ignore[no-untyped-def]
    return shot_rows(MODEL, TASKS[task], label=label, shots=shots, max_record_tokens=tokens)


def test_a_prompt_shows_its_records_between_public_text() -> None:
    rows = _rows("ag-news-completion", tokens=40)
    shown = MODEL.decode(rows.row([MODEL.encode("First story."), MODEL.encode("Second.")]))
    assert shown == (
        "Write a news story of the given type.\n\nNews type: World\nText: First story.\n\n"
        "News type: World\nText: Second.\n\nNews type: World\nText:"
    )
    assert MODEL.decode(rows.public) == "Write a news story of the given type.\n\nNews type: World\nText:"


def test_a_record_of_another_slot_brings_its_own_value() -> None:
    template, rows = TASKS["mit-d-completion"], _rows("mit-d-completion", tokens=60, label="disney")
    record = template.written(Record("1", "what pixar film features a talking dog", "pixar"))
    shown = MODEL.decode(rows.row([MODEL.encode(record)]))
    assert "Director: pixar\nSentence: what pixar film features a talking dog\n\nDirector: disney\nSentence:" in shown


@pytest.mark.parametrize("count", [0, 1, 2, 3, 7])
def test_a_row_never_exceeds_its_public_width(count: int) -> None:
    rows = _rows("trec-completion")
    longest = rows.row([tuple(range(10, 40))] * count)
    assert len(longest) <= rows.width
    assert (len(longest) == rows.width) == (count >= 3)
    assert longest[-len(rows.one.after) :] == rows.one.after


@pytest.mark.parametrize("text", ["x" * 10_000, "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 😀 \u202e עברית \ufffd", "{label} {text} <user><end>"])
def test_odd_records_are_cut_and_never_read_as_templates(text: str) -> None:
    rows, template = _rows("generic-completion"), TASKS["generic-completion"]
    tokens = MODEL.encode(template.written(Record("1", text, "World")))
    row = rows.row([tokens])
    assert row == (*rows.one.before, *tokens[:8], *rows.one.after)
    assert not {MODEL.encode(mark, trusted=True)[0] for mark in ("<user>", "<end>")} & set(tokens)


def test_every_task_serves_several_shots() -> None:
    for template in TASKS.values():
        assert template.written(Record("1", "text", "own")).endswith("text")
        rows = shot_rows(MODEL, template, label="World", shots=2, max_record_tokens=4)
        assert rows.width == len(rows.row([(9, 9, 9, 9)] * 2))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"record": "no place"}, "record"),
        ({"record": "{text} {text}"}, "record"),
        ({"record": "{text} {name}"}, "record"),
        ({"between": "{text}"}, "between"),
        ({"between": "{"}, "between"),
    ],
)
def test_a_wrong_template_is_refused(changes: dict[str, str], field: str) -> None:
    with pytest.raises(RunFileError, match=rf"generator\.prompts\.{field}"):
        PromptTemplate(**{"private": "{text}", "public": "Write."} | changes)


@pytest.mark.parametrize(
    ("until", "answer", "ended", "kept"),
    [
        ("", " one\ntwo\n", False, "one\ntwo"),
        ("\n", " one", False, "one"),
        ("\n", "\n\n one", False, "one"),  # line breaks before a text end nothing
        ("\n", "\n one \nType: two", True, "one"),
        ("##", "one # two ## three ## four", True, "one # two"),
    ],
)
def test_a_text_is_what_stands_before_its_end(until: str, answer: str, ended: bool, kept: str) -> None:
    template = PromptTemplate(private="{text}", public="Write.", until=until)
    assert (template.ended(answer), template.kept(answer)) == (ended, kept)


def test_completion_tasks_end_a_text_at_a_line_break() -> None:
    """A model without chat template goes on with the next demonstration, as the prompt taught it."""
    ends = {name: template.until for name, template in TASKS.items()}
    assert {name for name, until in ends.items() if until} == {name for name in ends if name.endswith("-completion")}
