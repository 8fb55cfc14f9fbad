"""Run an audit: an AUDIT file, a claim and callables in; findings out.

The generators are not imported here. What needs them is handed in by the front door:

    protected_generate(records, prompt, max_tokens=, epsilon=, seed=) -> released texts
    protected_demonstrate(records, epsilon=, seed=) -> released demonstrations, as records

Both are run under the mechanism's own randomness; ``seed`` is for tests only. What they make from
private records here stays with the operator: an audit spends no budget because it releases
nothing, and its findings hold digests and numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.audits.attacks.caching import Remembering
from affidavit.audits.attacks.cases import Release
from affidavit.audits.attacks.extraction import Extraction, ExtractionPrompt, prompt_named
from affidavit.audits.attacks.label_probability import LabelProbability
from affidavit.audits.attacks.prompting import LabelPrompt, label_of
from affidavit.audits.attacks.reference import Reference
from affidavit.audits.auditfile import AuditFile
from affidavit.audits.certified import Certified
from affidavit.audits.deduplicate import drop_near_copies
from affidavit.audits.experiments.extraction import (
    Candidates,
    ExtractionTally,
    Generate,
    candidates,
    extraction_finding,
    tally,
)
from affidavit.audits.experiments.membership import Demonstrate, Demonstrated, membership_finding, score_runs
from affidavit.audits.experiments.one_step import one_step_finding, prepare
from affidavit.audits.experiments.released import prepare_search
from affidavit.audits.findings import Finding, Findings, SelfTest, Target, Utility
from affidavit.audits.pii import Pseudonyms
from affidavit.audits.self_tests import extraction_self_test, membership_self_test, one_step_self_tests
from affidavit.audits.statistics.auc import ScoredRun
from affidavit.audits.textmodel import Record, TextModel
from affidavit.audits.usefulness import FLUENCY, fluency

if TYPE_CHECKING:
    from affidavit.mechanisms.base import Noise

__all__ = ["Progress", "ProtectedDemonstrate", "ProtectedGenerate", "run_audit"]

Progress = Callable[[str], None]

_PUBLIC_DEMONSTRATION = "The harbour town of Merrow has a lighthouse, two bakeries and a market on Thursdays."


class ProtectedGenerate(Protocol):
    """Text made from records under protection, in answer to an extraction prompt."""

    def __call__(
        self, records: Sequence[Record], prompt: ExtractionPrompt, *, max_tokens: int, epsilon: float, seed: int
    ) -> Sequence[str]: ...


class ProtectedDemonstrate(Protocol):
    """Labelled demonstrations made from records under protection."""

    def __call__(self, records: Sequence[Record], *, epsilon: float, seed: int) -> Sequence[Record]: ...


def run_audit(
    audit: AuditFile,
    certified: Certified,
    *,
    records: Sequence[Record] = (),
    model: TextModel | None = None,
    protected_generate: ProtectedGenerate | None = None,
    protected_demonstrate: ProtectedDemonstrate | None = None,
    release: Release | None = None,
    noise: Noise | None = None,
    users: Mapping[str, str] | None = None,
    released: Sequence[str] = (),
    held_out: Sequence[Record] = (),
    progress: Progress | None = None,
) -> Findings:
    """Everything the audit file asks for, with its self-tests.

    ``users`` says whose record each is, by its id. ``released`` and ``held_out`` are for the
    search of released text.
    ``release`` is the mechanism under the one-step audit (default: the package's own), ``noise``
    where it draws from (default: the operating system). Raises ``UsageError`` when something
    that the attack needs is not given, ``DataError`` when there are too few usable records.
    """
    tell = progress or (lambda _: None)
    if audit.attack == "one-step":
        items, self_tests = _one_step(audit, certified, release, noise, tell)
    elif audit.attack == "released-text":
        items, self_tests = _released(audit, records, released, held_out, users, tell)
    elif model is None:
        raise UsageError(f"the attack {audit.attack} needs a language model", hint="pass model=")
    elif audit.attack == "extraction":
        items, self_tests = _Extracting(audit, certified, model, protected_generate, users, tell).run(records)
    else:
        items, self_tests = _Inferring(audit, certified, model, protected_demonstrate, tell).run(records)
    return Findings(
        certificate_sha256=certified.sha256,
        items=tuple(items),
        self_tests=tuple(self_tests),
        policy=audit.policy.policy(),
    )


Results = tuple[list[Finding], list[SelfTest]]


def _one_step(
    audit: AuditFile, certified: Certified, release: Release | None, noise: Noise | None, tell: Progress
) -> Results:
    from affidavit.accountant.randomness import SecureNoise

    prepared = prepare(certified, noise or SecureNoise(), trials=audit.members, alpha=audit.alpha)
    case = prepared.design.case
    mechanism = case.release if release is None else release
    tell(f"one-step: {prepared.design.trials} trials a side, {prepared.design.uses} uses each")
    under_audit = case.noise_off() if audit.target == "unprotected" else mechanism
    result = prepared.run(under_audit, null=audit.target == "null")
    tell("one-step: self-tests")
    return [one_step_finding(prepared, result, target=audit.target)], list(one_step_self_tests(prepared))


def _released(
    audit: AuditFile,
    records: Sequence[Record],
    released: Sequence[str],
    held_out: Sequence[Record],
    users: Mapping[str, str] | None,
    tell: Progress,
) -> Results:
    tell(f"released-text: {len(released)} texts against {len(records)} records")
    search = prepare_search(records, held_out, detector=Extraction(audit.kinds), alpha=audit.alpha, users=users)
    finding = search.finding(released, target=audit.target, seed=audit.seed)
    tell("released-text: self-tests")
    return [finding], list(search.self_tests(audit.policy.policy()))


def _at_epsilon(certified: Certified, epsilon: float) -> Certified:
    """The claim at another ε: only that one point of a curve is known of it."""
    from affidavit.accountant.tradeoff import PrivacyCurve

    if epsilon == certified.epsilon:
        return certified
    curve = PrivacyCurve(((epsilon, certified.delta),))
    return replace(certified, epsilon=epsilon, curve=curve, subject=f"the same generator at epsilon {epsilon:g}")


@dataclass(frozen=True, slots=True)
class _Extracting:
    """The extraction audit, its control and its self-tests."""

    audit: AuditFile
    certified: Certified
    model: TextModel
    protected: ProtectedGenerate | None
    users: Mapping[str, str] | None
    tell: Progress

    def run(self, records: Sequence[Record]) -> Results:
        audit, attack, prompt = self.audit, Extraction(self.audit.kinds), prompt_named(self.audit.prompt)
        pool = candidates(records, attack, prompt, count=audit.members + audit.non_members)
        names = Pseudonyms()

        def find(result: ExtractionTally, target: Target, claim: Certified, *, control: bool = False) -> Finding:
            return extraction_finding(
                pool,
                result,
                attack,
                prompt,
                claim,
                target=target,
                alpha=audit.alpha,
                pseudonyms=names,
                users=self.users,
                utility=self._utility(result, prompt, reference),
                control=control,
            )

        reference: float | None = None
        self.tell("extraction: without protection")
        open_result = self._tally(pool, attack, self._unprotected(prompt))
        reference = fluency(open_result.texts, self.model, prompt=prompt.public())
        self.tell("extraction: null pair")
        null_result = self._tally(pool, attack, self._null(prompt))
        items: list[Finding] = []
        if audit.target == "protected":
            for epsilon in audit.epsilons or (self.certified.epsilon,):
                self.tell(f"extraction: protected, epsilon {epsilon:g}")
                result = self._tally(pool, attack, self._protected(prompt, epsilon))
                items.append(find(result, "protected", _at_epsilon(self.certified, epsilon)))
            items.append(find(open_result, "unprotected", self.certified, control=True))
        else:
            result = open_result if audit.target == "unprotected" else null_result
            items.append(find(result, audit.target, self.certified))
        policy, delta = audit.policy.policy(), self.certified.delta
        return items, [
            extraction_self_test("noise off", pool, open_result, policy=policy, delta=delta, alpha=audit.alpha),
            extraction_self_test("null pair", pool, null_result, policy=policy, delta=delta, alpha=audit.alpha),
        ]

    def _tally(self, pool: Candidates, attack: Extraction, generate: Generate) -> ExtractionTally:
        return tally(
            pool, generate, attack, relation=self.certified.relation, runs=self.audit.runs, seed=self.audit.seed
        )

    def _unprotected(self, prompt: ExtractionPrompt) -> Generate:
        """Each record alone in the prompt, greedy: what plain prompting releases. Answers are kept."""
        answers: dict[str, str] = {}

        def generate(records: Sequence[Record], seed: int) -> Sequence[str]:  # noqa: ARG001 (greedy)
            prompts = [prompt.private(record.text) for record in records]
            fresh = list(dict.fromkeys(written for written in prompts if written not in answers))
            texts = self.model.generate(fresh, max_tokens=self.audit.max_tokens, template=prompt.template)
            answers.update(zip(fresh, texts, strict=True))
            return [answers[written] for written in prompts]

        return generate

    def _null(self, prompt: ExtractionPrompt) -> Generate:
        """The same prompt without a record: whatever comes out, it came from nowhere private."""
        text = self.model.generate([prompt.public()], max_tokens=self.audit.max_tokens, template=prompt.template)
        return lambda _records, _seed: text

    def _protected(self, prompt: ExtractionPrompt, epsilon: float) -> Generate:
        if self.protected is None:
            raise UsageError("no protected generator was given", hint="pass protected_generate=")
        release = self.protected

        def generate(records: Sequence[Record], seed: int) -> Sequence[str]:
            made = release(records, prompt, max_tokens=self.audit.max_tokens, epsilon=epsilon, seed=seed)
            return [made] if isinstance(made, str) else list(made)

        return generate

    def _utility(self, result: ExtractionTally, prompt: ExtractionPrompt, reference: float | None) -> Utility | None:
        value = fluency(result.texts, self.model, prompt=prompt.public())
        return None if value is None else Utility(name=FLUENCY, value=value, reference=reference)


@dataclass(frozen=True, slots=True)
class _Inferring:
    """A membership audit, its control and its self-tests."""

    audit: AuditFile
    certified: Certified
    model: TextModel
    protected: ProtectedDemonstrate | None
    tell: Progress

    def run(self, records: Sequence[Record]) -> Results:
        audit, prompt = self.audit, LabelPrompt()
        inner = LabelProbability(prompt) if audit.attack == "label-probability" else Reference(prompt)
        attack = Remembering(inner)  # pyright: ignore[reportArgumentType]  a class variable can be read as a property can
        unique = drop_near_copies(records, ())
        order = np.random.default_rng(audit.seed).permutation(len(unique.kept))
        pool = [unique.kept[i] for i in order[: audit.members + audit.non_members]]
        labels = sorted({label_of(record) for record in pool})

        def score(demonstrate: Demonstrate) -> tuple[ScoredRun, ...]:
            return score_runs(
                pool,
                demonstrate,
                attack,
                self.model,
                members=audit.members,
                non_members=audit.non_members,
                runs=audit.runs,
                seed=audit.seed,
            )

        def find(runs: tuple[ScoredRun, ...], target: Target, claim: Certified, *, control: bool = False) -> Finding:
            return membership_finding(
                runs,
                attack,
                claim,
                target=target,
                alpha=audit.alpha,
                seed=audit.seed,
                dropped=unique.dropped,
                control=control,
            )

        self.tell(f"{audit.attack}: real record in the prompt")
        open_runs = score(lambda members, _seed: Demonstrated((prompt.demonstration(members[0]),), (members[0],)))
        self.tell(f"{audit.attack}: null pair")
        public = prompt.demonstration(Record("public", _PUBLIC_DEMONSTRATION, labels[0]))
        null_runs = score(lambda members, _seed: Demonstrated((public,), tuple(members)))
        items: list[Finding] = []
        if audit.target == "protected":
            for epsilon in audit.epsilons or (self.certified.epsilon,):
                self.tell(f"{audit.attack}: protected, epsilon {epsilon:g}")
                runs = score(self._protected(prompt, epsilon))
                items.append(find(runs, "protected", _at_epsilon(self.certified, epsilon)))
            items.append(find(open_runs, "unprotected", self.certified, control=True))
        else:
            items.append(find(open_runs if audit.target == "unprotected" else null_runs, audit.target, self.certified))
        return items, [
            membership_self_test("noise off", attack.name, open_runs, alpha=audit.alpha),
            membership_self_test("null pair", attack.name, null_runs, alpha=audit.alpha),
        ]

    def _protected(self, prompt: LabelPrompt, epsilon: float) -> Demonstrate:
        if self.protected is None:
            raise UsageError("no protected generator was given", hint="pass protected_demonstrate=")
        release = self.protected

        def demonstrate(members: Sequence[Record], seed: int) -> Demonstrated:
            made = release(members, epsilon=epsilon, seed=seed)
            return Demonstrated(tuple(prompt.demonstration(record) for record in made), tuple(members))

        return demonstrate
