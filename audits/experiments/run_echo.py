"""The echo audit of an audit file, with its control and its self-tests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.echo import Echo, make_echo_canaries
from affidavit.audits.experiments.echo import EchoTally, Released, echo_finding, listen
from affidavit.audits.finding import Finding
from affidavit.audits.given import Given, Results
from affidavit.audits.self_tests import echo_self_test
from affidavit.audits.textmodel import Record

__all__ = ["run_echo"]


def run_echo(given: Given) -> Results:
    """The target first, then the same attack on the records themselves, for comparison."""
    audit, relation = given.audit, given.certified.relation
    records, count = given.material.records, audit.members + audit.non_members
    if audit.background + count > len(records):
        raise DataError(
            f"{audit.background} records that are always in and {count} canaries from {len(records)} records",
            hint=f"At most `background = {max(0, len(records) - count)}`.",
        )
    order = [records[int(i)] for i in np.random.default_rng(audit.seed).permutation(len(records))]
    background, rest = order[: audit.background], order[audit.background :]
    canaries = make_echo_canaries(rest, count=count, seed=audit.seed)
    attack = Echo(tuple(record.text for record in rest))

    def heard(released: Released) -> EchoTally:
        return listen(canaries, released, attack, relation=relation, runs=audit.runs, seed=audit.seed)

    def unprotected(members: Sequence[Record], seed: int) -> list[str]:  # noqa: ARG001
        return [record.text for record in (*members, *background)]

    def null(members: Sequence[Record], seed: int) -> list[str]:  # noqa: ARG001
        return [record.text for record in background]

    def protected(epsilon: float) -> Released:
        def release(members: Sequence[Record], seed: int) -> list[str]:
            made = given.run.demonstrate([*members, *background], epsilon=epsilon, seed=seed)
            return [record.text for record in made]

        return release

    if audit.target == "protected":
        given.run.require("demonstrate")
    given.tell("echo: the records themselves")
    open_result, null_result = heard(unprotected), heard(null)
    items: list[Finding] = []
    if audit.target == "protected":
        releases = given.countdown(audit.runs)
        for epsilon in given.epsilons:
            found = heard(releases.of_each(protected(epsilon), f"echo: protected, epsilon {epsilon:g}"))
            claim = given.claim_at(epsilon)
            items.append(echo_finding(found, claim, target="protected", alpha=given.alpha, unprotected=open_result))
        items.append(echo_finding(open_result, given.certified, target="unprotected", alpha=given.alpha, control=True))
    else:
        chosen, shown = (open_result, None) if audit.target == "unprotected" else (null_result, open_result)
        items.append(echo_finding(chosen, given.certified, target=audit.target, alpha=given.alpha, unprotected=shown))
    return items, [
        echo_self_test("noise off", open_result, alpha=given.alpha),
        echo_self_test("null pair", null_result, alpha=given.alpha),
    ]
