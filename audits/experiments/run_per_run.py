"""The per-run game of an audit file, with control and self-tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.caching import Remembering, remembering_model
from affidavit.audits.attacks.protocol import MembershipAttack
from affidavit.audits.attacks.registry import MembershipName, membership_attack
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.demonstrating import Demonstrating, attack_settings
from affidavit.audits.experiments.membership import Demonstrate
from affidavit.audits.experiments.per_run import per_run_finding, play
from affidavit.audits.finding import Finding, Target
from affidavit.audits.findings import SelfTest
from affidavit.audits.given import Given, Results
from affidavit.audits.self_tests import per_run_self_test
from affidavit.audits.statistics.auc import ScoredRun
from affidavit.audits.textmodel import Record

__all__ = ["run_per_run"]


def run_per_run(given: Given, names: Sequence[MembershipName]) -> Results:
    """Each attack's findings and self-tests; every attack plays runs of its own."""
    given = given.asking(remembering_model(given.answering_model(names[0])))
    made = Demonstrating(given, names[0])
    records, _ = made.unique(given.material.records)
    if given.audit.background >= len(records):
        raise DataError(
            f"one record and {given.audit.background} others from {len(records)} records",
            hint=f"At most `background = {max(0, len(records) - 1)}`.",
        )
    pool, rest = records[: given.audit.background + 1], records[given.audit.background + 1 :]
    settings = attack_settings(given, names, pool, rest)
    epsilons = given.epsilons if given.audit.target == "protected" else ()
    count = given.countdown(len(names) * (given.audit.members + given.audit.non_members))
    protected = {
        epsilon: count.of_each(made.protected(epsilon), f"protected, epsilon {epsilon:g}") for epsilon in epsilons
    }
    items: list[Finding] = []
    tests: list[SelfTest] = []
    for name in names:
        attack = Remembering(membership_attack(name, settings))
        found = _Playing(given, made, attack, pool[0], pool[1:]).run(protected)
        items += found[0]
        tests += found[1]
    return items, tests


@dataclass(frozen=True, slots=True)
class _Playing:
    """One attack on one record."""

    given: Given
    made: Demonstrating
    attack: MembershipAttack
    record: Record
    background: tuple[Record, ...]

    def run(self, protected: Mapping[float, Demonstrate]) -> Results:
        given, name, target = self.given, self.attack.name, self.given.audit.target
        given.tell(f"{name}: real record in the prompt, or another")
        open_scores = self._play(self.made.unprotected)
        given.tell(f"{name}: null pair")
        null_scores = self._play(self.made.null((self.record, *self.background)))
        items: list[Finding] = []
        if target == "protected":
            for epsilon, shown in protected.items():
                given.tell(f"{name}: protected, epsilon {epsilon:g}")
                scores = self._play(shown)
                items.append(self._finding(scores, target, given.claim_at(epsilon), open_scores))
            items.append(self._finding(open_scores, "unprotected", given.certified, control=True))
        else:
            chosen = open_scores if target == "unprotected" else null_scores
            items.append(
                self._finding(chosen, target, given.certified, None if target == "unprotected" else open_scores)
            )
        delta = given.certified.delta
        return items, [
            per_run_self_test("noise off", name, open_scores, delta=delta, alpha=given.alpha, seed=given.audit.seed),
            per_run_self_test("null pair", name, null_scores, delta=delta, alpha=given.alpha, seed=given.audit.seed),
        ]

    def _play(self, demonstrate: Demonstrate) -> ScoredRun:
        audit = self.given.audit
        return play(
            self.record,
            self.background,
            demonstrate,
            self.attack,
            self.given.answering_model(self.attack.name),
            relation=self.given.certified.relation,
            members=audit.members,
            non_members=audit.non_members,
            seed=audit.seed,
        )

    def _finding(
        self,
        scores: ScoredRun,
        target: Target,
        claim: Certified,
        unprotected: ScoredRun | None = None,
        *,
        control: bool = False,
    ) -> Finding:
        return per_run_finding(
            scores,
            self.attack,
            claim,
            target=target,
            thresholds=self.given.audit.thresholds,
            alpha=self.given.alpha,
            seed=self.given.audit.seed,
            unprotected=unprotected,
            control=control,
        )
