"""What a membership attack is shown in a run: a real record, nothing private, or protected output.

As released demonstrations, or hidden behind an endpoint. In the null pair one demonstration that was
written here is shown in every run, so no member can differ from a non-member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from affidavit.audits.attacks.endpoint import PromptedEndpoint, TextEndpoint, digest_of
from affidavit.audits.attacks.prompting import LabelPrompt, label_of
from affidavit.audits.attacks.registry import SHADOWED, MembershipName, Settings
from affidavit.audits.attacks.shadow import Shadows, make_shadows
from affidavit.audits.deduplicate import drop_near_copies
from affidavit.audits.experiments.membership import Demonstrate, Demonstrated
from affidavit.audits.given import Given
from affidavit.audits.textmodel import AnsweringModel, Record, TextModel, TokenScoringModel

__all__ = ["PUBLIC_TEXT", "Demonstrating", "attack_settings", "behind"]

PUBLIC_TEXT = "The harbour town of Merrow has a lighthouse, two bakeries and a market on Thursdays."


@dataclass(frozen=True, slots=True)
class Demonstrating:
    """Makes them; ``attack`` is named in refusals only."""

    given: Given
    attack: str
    prompt: LabelPrompt = field(default_factory=LabelPrompt)

    def unique(self, records: Sequence[Record]) -> tuple[tuple[Record, ...], int]:
        """Records that are no near-copies of one another, in the audit's order, and how many were dropped."""
        found = drop_near_copies(records, ())
        order = np.random.default_rng(self.given.audit.seed).permutation(len(found.kept))
        return tuple(found.kept[int(i)] for i in order), found.dropped

    def unprotected(self, members: Sequence[Record], seed: int) -> Demonstrated:  # noqa: ARG002
        """The first member itself: what plain prompting does."""
        return self._shown([members[0]], used=(members[0],))

    def null(self, pool: Sequence[Record]) -> Demonstrate:
        """A demonstration that no record was used for, with a label of the task."""
        public = Record("public", PUBLIC_TEXT, min(label_of(record) for record in pool))
        return lambda members, _seed: self._shown([public], used=tuple(members))

    def protected(self, epsilon: float) -> Demonstrate:
        """Protected output. Raises ``UsageError`` if nobody can make it, before anything is computed."""
        return self._served(epsilon) if self.given.audit.through == "endpoint" else self._released(epsilon)

    def _released(self, epsilon: float) -> Demonstrate:
        self.given.run.require("demonstrate")
        release = self.given.run.demonstrate

        def demonstrate(members: Sequence[Record], seed: int) -> Demonstrated:
            made = release(members, epsilon=epsilon, seed=seed)
            return Demonstrated(tuple(self.prompt.demonstration(record) for record in made), tuple(members))

        return demonstrate

    def _served(self, epsilon: float) -> Demonstrate:
        self.given.run.require("serve")
        serve = self.given.run.serve

        def demonstrate(members: Sequence[Record], seed: int) -> Demonstrated:
            return Demonstrated((), tuple(members), serve(members, epsilon=epsilon, seed=seed))

        return demonstrate

    def _shown(self, shown: Sequence[Record], *, used: tuple[Record, ...]) -> Demonstrated:
        texts = tuple(self.prompt.demonstration(record) for record in shown)
        if self.given.audit.through == "text":
            return Demonstrated(texts, used)
        return Demonstrated((), used, behind(self.given.answering_model(self.attack), texts))


def behind(model: AnsweringModel, demonstrations: tuple[str, ...]) -> AnsweringModel:
    """``model`` as an endpoint that hides ``demonstrations``; it shows log-probabilities if ``model`` does."""
    if isinstance(model, TokenScoringModel):
        return PromptedEndpoint(model, demonstrations)

    def answer(prompts: Sequence[str], max_tokens: int) -> list[str]:
        return model.generate(["\n\n".join((*demonstrations, prompt)) for prompt in prompts], max_tokens=max_tokens)

    return TextEndpoint(f"{model.name} (text only)", digest_of(model, demonstrations), answer)


def attack_settings(
    given: Given, names: Sequence[MembershipName], pool: Sequence[Record], rest: Sequence[Record]
) -> Settings:
    """What the attacks need beside a view; shadow prompts are made from ``rest``, which is on neither side.

    Raises ``RunFileError`` where ``rest`` is too small for them.
    """
    audit = given.audit
    shadows = Shadows(())
    if SHADOWED & set(names):
        population = audit.population if "rmia" in names else 0
        shadows = make_shadows(rest, prompts=audit.shadow_prompts, shots=1, population=population, seed=audit.seed)
    own = given.model if isinstance(given.model, TextModel) else None
    return Settings(
        labels=tuple(sorted({label_of(record) for record in pool})),
        shadows=shadows,
        own_model=own if audit.through == "endpoint" else None,
    )
