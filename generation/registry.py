"""Generators by kind: what a run file's ``[generator]`` table is parsed into, and what then runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Plan
from affidavit.generation.configs import GeneratorConfig

__all__ = ["Generator", "generator", "kinds"]

_MODULES = {
    "prism": "affidavit.generation.prism",
    "few-shot": "affidavit.generation.few_shot",
    "adadpsyn": "affidavit.generation.adadpsyn",
    "private-prediction": "affidavit.generation.private_prediction",
    "invisible-ink": "affidavit.generation.invisible_ink",
}


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator's module, as a value.

    ``plan(config, *, relation, size)``: what a run costs.
    ``run(permit, config, records, model, *, size, progress, public)``: the run itself.
    ``check(config, model, *, public)``: raises what can be said against a run from its settings, model and
    public records alone, before anything is charged; absent where there is nothing to check.
    """

    kind: str
    config: type[GeneratorConfig]
    plan: Callable[..., Plan]
    run: Callable[..., Any]
    presets: Mapping[str, Mapping[str, Any]]
    check: Callable[..., None] | None = None


def kinds() -> tuple[str, ...]:
    """The known generators."""
    return tuple(_MODULES)


def generator(kind: object) -> Generator:
    """The generator of a kind; its module is imported now. Raises ``RunFileError``."""
    if not isinstance(kind, str) or kind not in _MODULES:
        raise RunFileError("generator.kind", "missing or not known", allowed=" | ".join(_MODULES))
    module = importlib.import_module(_MODULES[kind])
    return Generator(kind, module.CONFIG, module.plan, module.run, module.PRESETS, getattr(module, "check", None))
