"""What an audit was given: its file, the claim, the run under test, and material beside it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from affidavit.accountant.errors import UsageError
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.auditfile import AuditFile
from affidavit.audits.certified import Certified
from affidavit.audits.countdown import Countdown
from affidavit.audits.finding import Finding
from affidavit.audits.findings import SelfTest
from affidavit.audits.textmodel import AnsweringModel, Record, TextModel
from affidavit.audits.under_test import RunUnderTest

__all__ = ["Given", "Material", "Progress", "Results"]

Progress: TypeAlias = Callable[[str], None]
Results: TypeAlias = tuple[list[Finding], list[SelfTest]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """What stands beside the run: its records and whose each is (by id), the model that attacks ask, and for a
    search the released text with records that were not in the data."""

    records: Sequence[Record] = field(default=(), repr=False)
    users: Mapping[str, str] | None = field(default=None, repr=False)
    model: AnsweringModel | None = None
    released: Sequence[str] = field(default=(), repr=False)
    held_out: Sequence[Record] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class Given:
    """Everything that one experiment needs. ``alpha`` is its share for one test."""

    audit: AuditFile
    certified: Certified
    alpha: float
    material: Material = field(default_factory=Material)
    run: RunUnderTest = field(default_factory=RunUnderTest)
    tell: Progress = lambda _: None

    @property
    def model(self) -> AnsweringModel | None:
        """The model that attacks ask, if there is one."""
        return self.material.model

    def asking(self, model: AnsweringModel) -> Given:
        """The same with another model, such as one that remembers its answers."""
        return replace(self, material=replace(self.material, model=model))

    @property
    def epsilons(self) -> tuple[float, ...]:
        """At which ε protected output is wanted: those of the file, else the certified one."""
        return self.audit.epsilons or (self.certified.epsilon,)

    def countdown(self, releases: int) -> Countdown:
        """Of an experiment that makes so many protected releases at each ε."""
        return Countdown(self.tell, len(self.epsilons) * releases)

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

    def answering_model(self, attack: str) -> AnsweringModel:
        """The model. Raises ``UsageError``."""
        if self.model is None:
            raise UsageError(
                f"the attack {attack} needs a language model",
                hint="For example `model = ToyModel()`, of affidavit.generation.models.toy.",
            )
        return self.model

    def text_model(self, attack: str) -> TextModel:
        """The model, which has to tell log-probabilities here. Raises ``UsageError``."""
        model = self.answering_model(attack)
        if not isinstance(model, TextModel):
            raise UsageError(
                f"the attack {attack} needs log-probabilities, {model.name} shows text only",
                hint='`attack = "gap"` needs answers alone, as inquiry, repeat and brainwash do.',
            )
        return model
