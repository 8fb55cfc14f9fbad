"""Generators by kind: what a run file's ``[generator]`` table is parsed into, and what then runs."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, cast

from affidavit.accountant.errors import NotSupported, RunFileError
from affidavit.accountant.remedies import did_you_mean
from affidavit.generation.configs import GeneratorConfig
from affidavit.generation.contract import Generator, GeneratorModule

if TYPE_CHECKING:
    from affidavit.generation import adadpsyn, few_shot, invisible_ink, prism, private_prediction
    from affidavit.generation.ksa import answers as ksa_answers
    from affidavit.generation.ksa import generator as ksa
    from affidavit.generation.sga import generator as sga

    # The type checker holds every module against the contract here; at run time each is imported when it is named.
    _CHECKED: tuple[GeneratorModule, ...] = (
        prism,
        few_shot,
        adadpsyn,
        private_prediction,
        invisible_ink,
        ksa,
        ksa_answers,
        sga,
    )

__all__ = ["Generator", "check_access", "generator", "kinds"]

_MODULES = {
    "prism": "affidavit.generation.prism",
    "few-shot": "affidavit.generation.few_shot",
    "adadpsyn": "affidavit.generation.adadpsyn",
    "private-prediction": "affidavit.generation.private_prediction",
    "invisible-ink": "affidavit.generation.invisible_ink",
    "ksa": "affidavit.generation.ksa.generator",
    "ksa-answers": "affidavit.generation.ksa.answers",
    "sga": "affidavit.generation.sga.generator",
}


def kinds() -> tuple[str, ...]:
    """The known generators."""
    return tuple(_MODULES)


def generator(kind: object) -> Generator:
    """The generator of a kind; its module is imported now. Raises ``RunFileError``."""
    if not isinstance(kind, str) or kind not in _MODULES:
        hint = did_you_mean(kind, tuple(_MODULES), path="generator.kind")
        raise RunFileError("generator.kind", "missing or not known", allowed=" | ".join(_MODULES), hint=hint)
    return Generator.of(kind, cast("GeneratorModule", importlib.import_module(_MODULES[kind])))


def check_access(source: Generator, config: GeneratorConfig, *, top_logprobs: int) -> None:
    """Whether a model that shows the ``top_logprobs`` likeliest tokens is enough. Raises ``NotSupported``."""
    if source.access == "logits":
        others = [kind for kind in _MODULES if generator(kind).access != "logits"]
        raise NotSupported(
            f"{source.kind} needs the logits of every token, and a server shows {top_logprobs}",
            hint='`model = {name = "smollm2-135m"}` shows them all'
            + (f"; a server is enough for {', '.join(others)}." if others else "."),
        )
    wanted = getattr(config, "top_k", 0)
    if source.access == "top" and not 0 < wanted <= top_logprobs:
        raise NotSupported(
            f"{source.kind} with top_k = {wanted} needs more tokens than the {top_logprobs} that the server shows",
            hint=f"At most `generator.top_k = {top_logprobs}`.",
        )
