"""What an audit was given: its file, the claim, a model, and callables that make protected output.

The generators are not imported by the audits. What needs them is handed in by the front door:

    protected_generate(records, prompt, max_tokens=, epsilon=, seed=) -> released texts
    protected_demonstrate(records, epsilon=, seed=) -> released demonstrations, as records
    protected_endpoint(records, epsilon=, seed=) -> a model that answers from them

All are run under the mechanism's own randomness; ``seed`` is for tests only. What they make from
private records stays with the operator: an audit spends no budget because it releases nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from affidavit.accountant.errors import UsageError
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.attacks.extraction import ExtractionPrompt
from affidavit.audits.auditfile import AuditFile, CheckName
from affidavit.audits.certified import Certified
from affidavit.audits.checks import CheckReport
from affidavit.audits.findings import Finding, SelfTest
from affidavit.audits.textmodel import AnsweringModel, Record, TextModel

__all__ = [
    "GeneratorCheck",
    "Given",
    "Progress",
    "ProtectedDemonstrate",
    "ProtectedEndpoint",
    "ProtectedGenerate",
    "Results",
]

GeneratorCheck: TypeAlias = Callable[[], CheckReport]
"""A check of the generator behind the claim, made when called."""

Progress: TypeAlias = Callable[[str], None]
Results: TypeAlias = tuple[list[Finding], list[SelfTest]]


class ProtectedGenerate(Protocol):
    """Text made from records under protection, in answer to an extraction prompt."""

    def __call__(
        self, records: Sequence[Record], prompt: ExtractionPrompt, *, max_tokens: int, epsilon: float, seed: int
    ) -> Sequence[str]: ...


class ProtectedDemonstrate(Protocol):
    """Labelled demonstrations made from records under protection."""

    def __call__(self, records: Sequence[Record], *, epsilon: float, seed: int) -> Sequence[Record]: ...


class ProtectedEndpoint(Protocol):
    """A service that answers from records under protection; the caller never sees a demonstration."""

    def __call__(self, records: Sequence[Record], *, epsilon: float, seed: int) -> AnsweringModel: ...


@dataclass(frozen=True, slots=True)
class Given:
    """Everything that one attack's runner needs. ``alpha`` is its share for one test."""

    audit: AuditFile
    certified: Certified
    alpha: float
    records: tuple[Record, ...] = field(default=(), repr=False)
    users: Mapping[str, str] | None = field(default=None, repr=False)
    released: tuple[str, ...] = field(default=(), repr=False)
    held_out: tuple[Record, ...] = field(default=(), repr=False)
    model: AnsweringModel | None = None
    generate: ProtectedGenerate | None = None
    demonstrate: ProtectedDemonstrate | None = None
    endpoint: ProtectedEndpoint | None = None
    checks: Mapping[CheckName, GeneratorCheck] = field(default_factory=dict)
    tell: Progress = lambda _: None

    @property
    def epsilons(self) -> tuple[float, ...]:
        """At which ε protected output is wanted: those of the file, else the certified one."""
        return self.audit.epsilons or (self.certified.epsilon,)

    def claim_at(self, epsilon: float) -> Certified:
        """The claim at another ε: only that one point of a curve is known of it."""
        if epsilon == self.certified.epsilon:
            return self.certified
        return replace(
            self.certified,
            epsilon=epsilon,
            curve=PrivacyCurve(((epsilon, self.certified.delta),)),
            subject=f"the same generator at epsilon {epsilon:g}",
        )

    def text_model(self, attack: str) -> TextModel:
        """The model, which has to tell log-probabilities here. Raises ``UsageError``."""
        if self.model is None:
            raise UsageError(
                f"the attack {attack} needs a language model",
                hint="For example `model = ToyModel()`, of affidavit.generation.models.toy.",
            )
        if not isinstance(self.model, TextModel):
            raise UsageError(
                f"the attack {attack} needs log-probabilities, {self.model.name} shows text only",
                hint='`attack = "gap"` needs answers alone, as inquiry, repeat and brainwash do.',
            )
        return self.model

    def answering_model(self, attack: str) -> AnsweringModel:
        """The model. Raises ``UsageError``."""
        if self.model is None:
            raise UsageError(
                f"the attack {attack} needs a language model",
                hint="For example `model = ToyModel()`, of affidavit.generation.models.toy.",
            )
        return self.model
