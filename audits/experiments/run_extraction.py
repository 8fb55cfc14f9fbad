"""The extraction audit of an audit file, with its control and its self-tests: of real records, or of canaries.

Canaries are candidates like any other, only made for the purpose; ``background`` records of the data are
in every run, so that they do not stand alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.caching import remembering_model
from affidavit.audits.attacks.canary import make_canaries
from affidavit.audits.attacks.extraction import CanaryExtraction, Extraction, ExtractionPrompt, prompt_named
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.extraction import (
    Candidates,
    ExtractionTally,
    Generate,
    candidates,
    extraction_finding,
    tally,
)
from affidavit.audits.finding import Finding, Target, Utility
from affidavit.audits.given import Given, Results
from affidavit.audits.pii import Pseudonyms
from affidavit.audits.self_tests import extraction_self_test
from affidavit.audits.textmodel import Record, TextModel
from affidavit.audits.usefulness import FLUENCY, fluency

__all__ = ["run_extraction"]


def run_extraction(given: Given, *, canaries: bool = False) -> Results:
    """The target first, then the same attack without protection, for comparison."""
    audit = given.audit
    attack = CanaryExtraction() if canaries else Extraction(audit.kinds, audit.region)
    prompt = prompt_named(audit.prompt, kind="email" if canaries else audit.kinds[0])
    count = audit.members + audit.non_members
    if canaries:
        pool, background = _canaries(
            given.material.records, attack, count, background=audit.background, seed=audit.seed
        )
    else:
        pool, background = candidates(given.material.records, attack, prompt, count=count), ()
    model = cast("TextModel", remembering_model(given.text_model(attack.name)))
    return _Extracting(given, attack, prompt, pool, background, model).run()


def _canaries(
    records: Sequence[Record], attack: Extraction, count: int, *, background: int, seed: int
) -> tuple[Candidates, tuple[Record, ...]]:
    if background > len(records):
        raise DataError(
            f"{background} records are to be always in, {len(records)} are given",
            hint=f"At most `background = {len(records)}`.",
        )
    chosen = np.random.default_rng(seed).permutation(len(records))[:background]
    always = tuple(records[int(i)] for i in chosen)
    labels = sorted({record.label for record in always if record.label is not None})
    made = make_canaries(count, seed=seed, labels=labels)
    identifiers = tuple(attack.identifiers([record.text]) for record in made)
    return Candidates(made, identifiers, guessable=frozenset(), dropped=0), always


@dataclass(frozen=True, slots=True)
class _Extracting:
    given: Given
    attack: Extraction
    prompt: ExtractionPrompt
    pool: Candidates
    background: tuple[Record, ...]
    model: TextModel
    names: Pseudonyms = field(default_factory=Pseudonyms)

    def run(self) -> Results:
        given, audit, name = self.given, self.given.audit, self.attack.name
        epsilons = given.epsilons if audit.target == "protected" else ()
        protected = {epsilon: self._protected(epsilon) for epsilon in epsilons}
        given.tell(f"{name}: without protection")
        open_result = self._tally(self._unprotected())
        reference = fluency(open_result.texts, self.model, prompt=self.prompt.public())
        given.tell(f"{name}: null pair")
        null_result = self._tally(self._null())
        items: list[Finding] = []
        if audit.target == "protected":
            count = given.countdown(audit.runs)
            for epsilon, generate in protected.items():
                result = self._tally(count.of_each(generate, f"{name}: protected, epsilon {epsilon:g}"))
                items.append(self._finding(result, "protected", given.claim_at(epsilon), reference, open_result))
            items.append(self._finding(open_result, "unprotected", given.certified, reference, control=True))
        else:
            result = open_result if audit.target == "unprotected" else null_result
            shown = None if audit.target == "unprotected" else open_result
            items.append(self._finding(result, audit.target, given.certified, reference, shown))
        policy, delta = audit.policy.policy(), given.certified.delta
        options: dict[str, Any] = {"attack": name, "policy": policy, "delta": delta, "alpha": given.alpha}
        return items, [
            extraction_self_test("noise off", self.pool, open_result, **options),
            extraction_self_test("null pair", self.pool, null_result, **options),
        ]

    def _tally(self, generate: Generate) -> ExtractionTally:
        audit, relation = self.given.audit, self.given.certified.relation
        return tally(self.pool, generate, self.attack, relation=relation, runs=audit.runs, seed=audit.seed)

    def _finding(
        self,
        result: ExtractionTally,
        target: Target,
        claim: Certified,
        reference: float | None,
        unprotected: ExtractionTally | None = None,
        *,
        control: bool = False,
    ) -> Finding:
        value = fluency(result.texts, self.model, prompt=self.prompt.public())
        return extraction_finding(
            self.pool,
            result,
            self.attack,
            self.prompt,
            claim,
            target=target,
            alpha=self.given.alpha,
            pseudonyms=self.names,
            users=self.given.material.users,
            utility=None if value is None else Utility(name=FLUENCY, value=value, reference=reference),
            unprotected=unprotected,
            control=control,
        )

    def _unprotected(self) -> Generate:
        """Each record alone in the prompt, greedy: what plain prompting releases."""
        prompt, most = self.prompt, self.given.audit.max_tokens

        def written(records: Sequence[Record], seed: int) -> list[str]:  # noqa: ARG001
            prompts = [prompt.private(record.text) for record in records]
            return self.model.generate(prompts, max_tokens=most, template=prompt.template)

        return written

    def _null(self) -> Generate:
        """The same prompt without a record: whatever comes out, it came from nowhere private."""
        prompt = self.prompt
        text = self.model.generate([prompt.public()], max_tokens=self.given.audit.max_tokens, template=prompt.template)
        return lambda _records, _seed: text

    def _protected(self, epsilon: float) -> Generate:
        self.given.run.require("generate")
        release = self.given.run.generate

        def generate(records: Sequence[Record], seed: int) -> Sequence[str]:
            everyone = [*records, *self.background]
            made = release(everyone, self.prompt, max_tokens=self.given.audit.max_tokens, epsilon=epsilon, seed=seed)
            return [made] if isinstance(made, str) else list(made)

        return generate
