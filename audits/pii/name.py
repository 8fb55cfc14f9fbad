"""Names of people, where Presidio is installed (extra ``names``) or another finder is given.

Which words are a person's name is a model's opinion, not a rule's, so no name is ever looked for
unless the caller asks. Two spellings name one person when first and last name agree: letters
only, accents and case folded, "Roe, Jane" read as "Jane Roe". A single word names nobody.
"""

from __future__ import annotations

import importlib
import importlib.util
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.extras import require
from affidavit.audits.pii.identifier import Identifier, Mention
from affidavit.audits.pii.person import parse_name

__all__ = ["NameFinder", "name_mentions", "presidio_names"]

NameFinder = Callable[[str], Iterable[tuple[int, int]]]
"""A text → where the names of people stand in it, as character positions ``[start, end)``."""

_MODELS = ("en_core_web_lg", "en_core_web_md", "en_core_web_sm")


def name_mentions(text: str, *, find: NameFinder | None = None) -> Iterator[Mention]:
    """Every name of two words or more. Raises ``PackageMissing`` when neither a finder nor Presidio is there."""
    for start, end in (find or presidio_names())(text):
        name = parse_name(text[start:end])
        if name is not None:
            yield Mention(Identifier("name", f"{name.first} {name.last}"), start, end)


@cache
def presidio_names(model: str = "") -> NameFinder:
    """Presidio's ``PERSON`` recogniser on an installed spaCy model (default: the largest English one).

    Nothing is downloaded: Presidio would fetch a missing model by itself, so that is checked
    before. Raises ``PackageMissing``, or ``NotSupported`` with the command that fetches the model.
    """
    require("names", "presidio_analyzer", purpose="finding names")
    wanted = (model,) if model else _MODELS
    found = next((name for name in wanted if importlib.util.find_spec(name) is not None), None)
    if found is None:
        raise NotSupported(
            f"to find names with, Presidio needs a model of spaCy's: {' or '.join(wanted)}",
            hint=f"Run `{shlex.quote(sys.executable)} -m spacy download {shlex.quote(wanted[-1])}`",
        )
    return _presidio_finder(found)


def _presidio_finder(model: str) -> NameFinder:
    analyzer: Any = importlib.import_module("presidio_analyzer")
    nlp_engine: Any = importlib.import_module("presidio_analyzer.nlp_engine")
    settings = {"nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": model}]}
    engine = analyzer.AnalyzerEngine(
        nlp_engine=nlp_engine.NlpEngineProvider(nlp_configuration=settings).create_engine()
    )

    def find(text: str) -> list[tuple[int, int]]:
        return [(found.start, found.end) for found in engine.analyze(text=text, entities=["PERSON"], language="en")]

    return find
