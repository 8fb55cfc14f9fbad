"""Generators by kind: what a run file's ``[generator]`` table is parsed into, and what then runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from affidavit.accountant.errors import NotSupported, RunFileError
from affidavit.accountant.plan import Plan
from affidavit.accountant.remedies import did_you_mean
from affidavit.generation.configs import GeneratorConfig

__all__ = ["Access", "Generator", "check_access", "generator", "kinds"]

Access: TypeAlias = Literal["logits", "top", "text"]

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


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator's module, as a value.

    ``plan(config, *, relation, size)``: what a run costs.
    ``run(permit, config, records, model, *, size, progress, public)``: the run itself.
    ``check(config, model, *, public)``: raises what can be said against a run from its settings, model and
    public records alone, before anything is charged; absent where there is nothing to check.
    ``access``: what it needs to see of a model's next token: all ``logits``, the ``top`` K of a K in its
    settings (``top_k``), or only ``text``. A module says so in ``ACCESS``; unsaid, it needs all.
    """

    kind: str
    config: type[GeneratorConfig]
    plan: Callable[..., Plan]
    run: Callable[..., Any]
    presets: Mapping[str, Mapping[str, Any]]
    check: Callable[..., None] | None = None
    access: Access = "logits"


def kinds() -> tuple[str, ...]:
    """The known generators."""
    return tuple(_MODULES)


def generator(kind: object) -> Generator:
    """The generator of a kind; its module is imported now. Raises ``RunFileError``."""
    if not isinstance(kind, str) or kind not in _MODULES:
        hint = did_you_mean(kind, tuple(_MODULES), path="generator.kind")
        raise RunFileError("generator.kind", "missing or not known", allowed=" | ".join(_MODULES), hint=hint)
    module = importlib.import_module(_MODULES[kind])
    return Generator(
        kind,
        module.CONFIG,
        module.plan,
        module.run,
        module.PRESETS,
        check=getattr(module, "check", None),
        access=getattr(module, "ACCESS", "logits"),
    )


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
