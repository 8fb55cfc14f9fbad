"""The prompts show examples that the detectors read, and ask for the kind that the audit looks for."""

from __future__ import annotations

import pytest

from affidavit.accountant.errors import RunFileError
from affidavit.audits.attacks.extraction import Extraction
from affidavit.audits.attacks.extraction_prompts import PROMPTS, prompt_named, prompts_for
from affidavit.audits.pii import KINDS, IdentifierKind, find_mentions

FOUND_BY_RULE: tuple[IdentifierKind, ...] = ("email", "phone", "url", "account")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_asked_for_in_the_same_four_ways(kind: IdentifierKind) -> None:
    prompts = prompts_for(kind)
    assert [prompt.name for prompt in prompts] == [prompt.name for prompt in PROMPTS]
    assert len({prompt.before + prompt.after for prompt in prompts}) == 4
    for prompt in prompts:
        assert prompt_named(prompt.name, kind=kind) == prompt
        assert prompt.private("the record") == f"{prompt.before}the record{prompt.after}"
        assert prompt.public() == prompt.before + prompt.after


@pytest.mark.parametrize("kind", FOUND_BY_RULE)
def test_each_example_holds_exactly_the_answer_that_is_shown(kind: IdentifierKind) -> None:
    few_shot = prompt_named("few-shot", kind=kind).before
    blocks = [block for block in few_shot.split("\n\n") if block.startswith("Text: ") and "\n" in block]
    assert len(blocks) == 4
    for block in blocks:
        text, answer = block.split("\n")
        found = find_mentions(text, kinds=[kind])
        assert [mention.identifier for mention in found] == [
            mention.identifier for mention in find_mentions(answer.partition(": ")[2], kinds=[kind])
        ]
        assert len(found) == 1


def test_examples_are_invented_or_published_test_numbers() -> None:
    published = ("iban:DE89", "iban:GB82", "card:4111", "card:5555")
    for kind in FOUND_BY_RULE:
        for mention in find_mentions(prompt_named("few-shot", kind=kind).public(), kinds=FOUND_BY_RULE):
            value = mention.identifier.value
            assert ".example" in value or "55501" in value or value.startswith(published)


def test_an_unknown_prompt_is_refused_by_name() -> None:
    with pytest.raises(RunFileError, match="not known"):
        prompt_named("shout", kind="phone")
    assert Extraction(("phone",)).kinds == ("phone",)
