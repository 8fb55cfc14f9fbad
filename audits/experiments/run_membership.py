"""The membership audits of an audit file: every attack on the same runs, with control and self-tests.

What protects is drawn once a run and shown to all attacks: the level is shared among them
(Bonferroni), which holds whatever depends on what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.caching import Remembering, remembering_model
from affidavit.audits.attacks.protocol import MembershipAttack
from affidavit.audits.attacks.registry import MembershipName, membership_attack
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.demonstrating import Demonstrating, attack_settings
from affidavit.audits.experiments.membership import Demonstrate, Demonstrated, membership_finding, score_runs
from affidavit.audits.finding import Finding, Target
from affidavit.audits.findings import SelfTest
from affidavit.audits.given import Given, Results
from affidavit.audits.remedies import at_most_records
from affidavit.audits.self_tests import membership_self_test
from affidavit.audits.statistics.auc import ScoredRun
from affidavit.audits.textmodel import Record

__all__ = ["run_membership"]


def run_membership(given: Given, names: Sequence[MembershipName]) -> Results:
    """Each attack's findings and self-tests, in the order of ``names``."""
    audit = given.audit
    given = given.asking(remembering_model(given.answering_model(names[0])))
    made = Demonstrating(given, names[0])
    needed = audit.members + audit.non_members
    records, dropped = made.unique(given.material.records)
    if needed > len(records):
        raise DataError(
            f"{audit.members} members and {audit.non_members} non-members from {len(records)} records",
            hint=at_most_records(len(records)),
        )
    pool, rest = records[:needed], records[needed:]
    settings = attack_settings(given, names, pool, rest)
    open_source, null_source = _Once(made.unprotected), _Once(made.null(pool))
    epsilons = given.epsilons if audit.target == "protected" else ()
    count = given.countdown(audit.runs)
    protected = {
        epsilon: _Once(count.of_each(made.protected(epsilon), f"protected, epsilon {epsilon:g}"))
        for epsilon in epsilons
    }
    found: list[Finding] = []
    tests: list[SelfTest] = []
    for name in names:
        attack = Remembering(membership_attack(name, settings))
        runner = _Inferring(given, attack, pool, dropped)
        items, seen = runner.run(open_source, null_source, protected)
        found += items
        tests += seen
    return found, tests


@dataclass(slots=True)
class _Once:
    """What a run shows, made the first time that the run's seed is met."""

    make: Demonstrate
    _shown: dict[int, Demonstrated] = field(default_factory=dict, init=False, repr=False)

    def __call__(self, members: Sequence[Record], seed: int) -> Demonstrated:
        if seed not in self._shown:
            self._shown[seed] = self.make(members, seed)
        return self._shown[seed]


@dataclass(frozen=True, slots=True)
class _Inferring:
    """One attack."""

    given: Given
    attack: MembershipAttack
    pool: Sequence[Record]
    dropped: int

    def run(self, unprotected: Demonstrate, null: Demonstrate, protected: dict[float, _Once]) -> Results:
        given, name, target = self.given, self.attack.name, self.given.audit.target
        given.tell(f"{name}: real record in the prompt")
        open_runs = self._score(unprotected)
        given.tell(f"{name}: null pair")
        null_runs = self._score(null)
        items: list[Finding] = []
        if target == "protected":
            for epsilon, shown in protected.items():
                given.tell(f"{name}: protected, epsilon {epsilon:g}")
                items.append(self._finding(self._score(shown), target, given.claim_at(epsilon), open_runs))
            items.append(self._finding(open_runs, "unprotected", given.certified, control=True))
        else:
            chosen, shown_by = (open_runs, ()) if target == "unprotected" else (null_runs, open_runs)
            items.append(self._finding(chosen, target, given.certified, shown_by))
        tests: list[SelfTest] = [
            membership_self_test("noise off", name, open_runs, alpha=given.alpha),
            membership_self_test("null pair", name, null_runs, alpha=given.alpha),
        ]
        return items, tests

    def _score(self, demonstrate: Callable[[Sequence[Record], int], Demonstrated]) -> tuple[ScoredRun, ...]:
        audit = self.given.audit
        return score_runs(
            self.pool,
            demonstrate,
            self.attack,
            self.given.answering_model(self.attack.name),
            members=audit.members,
            non_members=audit.non_members,
            runs=audit.runs,
            seed=audit.seed,
        )

    def _finding(
        self,
        runs: Sequence[ScoredRun],
        target: Target,
        claim: Certified,
        unprotected: Sequence[ScoredRun] = (),
        *,
        control: bool = False,
    ) -> Finding:
        return membership_finding(
            runs,
            self.attack,
            claim,
            target=target,
            alpha=self.given.alpha,
            seed=self.given.audit.seed,
            dropped=self.dropped,
            unprotected=unprotected,
            control=control,
        )
