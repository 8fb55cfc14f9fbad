"""What every generator states about itself: the whole of what the front door asks, so that it guesses nothing.

A generator is a module with these names (``GeneratorModule``), two files in all: its settings with its text, and a
configuration for ``tests/conformance/generators``. A name that is missing, or of another shape, is an error of the type
checker (``registry``) and of the conformance tests; none has a default.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from affidavit.accountant.plan import Plan
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import GeneratorConfig

if TYPE_CHECKING:
    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, GeneratorPermit

__all__ = [
    "TEMPLATE_TOKENS",
    "Access",
    "Baseline",
    "Generator",
    "GeneratorModule",
    "Makes",
    "Work",
    "whole_minibatches",
]

Access: TypeAlias = Literal["logits", "top", "text"]
"""What is seen of a model's next token: all ``logits``, the ``top`` K of a K in the settings (``top_k``), ``text``."""

Makes: TypeAlias = Literal["texts", "answers"]
"""``texts`` of labels, whose prompts an audit may reword; ``answers`` to public questions."""

Baseline: TypeAlias = Literal["aggregation", "public-only"]
"""What can be run without private records, or without protection, on the generator's own settings."""

TEMPLATE_TOKENS = 48
"""About how many tokens a prompt has beside its records, for ``Work``."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a run asks of a model, over all rows: tokens ``read`` in prompts, and tokens ``decoded``."""

    read: float
    decoded: float


def whole_minibatches(rows: float, minibatch_rows: int) -> int:
    """As many rows as are computed for ``rows``."""
    return math.ceil(rows / minibatch_rows) * minibatch_rows


class _Check(Protocol):
    def __call__(self, config: Any, model: LanguageModel, *, public: Sequence[Record]) -> None: ...


class _Plan(Protocol):
    def __call__(self, config: Any, *, relation: Relation, size: int) -> Plan: ...


class _Run(Protocol):
    def __call__(
        self,
        permit: GeneratorPermit,
        config: Any,
        records: Sequence[Record],
        model: LanguageModel,
        *,
        size: int,
        progress: Callable[[Any], None] | None = None,
        public: Sequence[Record] = (),
    ) -> Generated: ...


class _SampleSize(Protocol):
    def __call__(self, config: Any, *, size: int) -> int | None: ...


class _Estimate(Protocol):
    def __call__(self, config: Any, *, size: int) -> Work: ...


class GeneratorModule(Protocol):
    """The names of a generator's module."""

    @property
    def CONFIG(self) -> type[GeneratorConfig]: ...  # noqa: N802
    @property
    def PRESETS(self) -> Mapping[str, Mapping[str, Any]]: ...  # noqa: N802
    @property
    def ACCESS(self) -> Access: ...  # noqa: N802
    @property
    def MAKES(self) -> Makes: ...  # noqa: N802
    @property
    def BASELINES(self) -> frozenset[Baseline]: ...  # noqa: N802
    @property
    def noise_keys(self) -> Callable[[Any], tuple[str, ...]]: ...
    @property
    def sample_size(self) -> _SampleSize: ...
    @property
    def trial_size(self) -> Callable[[Any], int | None]: ...
    @property
    def work(self) -> _Estimate: ...
    @property
    def check(self) -> _Check: ...
    @property
    def plan(self) -> _Plan: ...
    @property
    def run(self) -> _Run: ...


@dataclass(frozen=True, slots=True)
class Generator:
    """A generator's module as a value, with its ``kind``.

    ``noise_keys(config)``: the settings that, each alone, set how much noise there is, the one to solve for first;
    none where it takes several together.
    ``sample_size(config, size=)``: how many records are sampled for a token or a text; None where none are sampled.
    ``trial_size(config)``: the least declared size that its batches fit; None where a run has no batches.
    ``work(config, size=)``: what a run asks of the model, roughly.
    ``check(config, model, public=)``: raises what can be said against a run before anything is charged.
    ``plan(config, relation=, size=)``: what a run costs. ``run``: the run itself.
    """

    kind: str
    config: type[GeneratorConfig]
    presets: Mapping[str, Mapping[str, Any]]
    access: Access
    makes: Makes
    baselines: frozenset[Baseline]
    noise_keys: Callable[[Any], tuple[str, ...]]
    sample_size: _SampleSize
    trial_size: Callable[[Any], int | None]
    work: _Estimate
    check: _Check
    plan: _Plan
    run: _Run

    @classmethod
    def of(cls, kind: str, module: GeneratorModule) -> Generator:
        """The module's names, each of which it has to have."""
        return cls(
            kind,
            module.CONFIG,
            module.PRESETS,
            module.ACCESS,
            module.MAKES,
            module.BASELINES,
            module.noise_keys,
            module.sample_size,
            module.trial_size,
            module.work,
            module.check,
            module.plan,
            module.run,
        )
