"""The discoverable audit of an audit file, with its control and its self-tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.discoverable import Discoverable, Sampling
from affidavit.audits.experiments.demonstrating import PUBLIC_TEXT, Demonstrating, behind
from affidavit.audits.experiments.discoverable import DiscoverableTally, Serve, ask_out, discoverable_finding
from affidavit.audits.finding import Finding
from affidavit.audits.given import Given, Results
from affidavit.audits.self_tests import discoverable_self_test
from affidavit.audits.textmodel import Record, TextModel

__all__ = ["run_discoverable"]


def run_discoverable(given: Given) -> Results:
    """The target first, then the same attack on a service that shows its members, for comparison."""
    audit = given.audit
    attack = Discoverable(audit.prefix_words, audit.target_words, Sampling(audit.temperature, audit.top_k))
    model = given.text_model(attack.name)
    needed = audit.members + audit.non_members
    unique, _ = Demonstrating(given, attack.name).unique(given.material.records)
    pool = [record for record in unique if attack.can_ask(record)][:needed]
    if len(pool) < needed:
        raise DataError(
            f"{len(pool)} records show {audit.prefix_words + audit.target_words} words, {needed} are asked for",
            hint=f"At most `members = {len(pool) // 2}` and `non_members = {len(pool) // 2}`.",
        )

    def served(texts: Sequence[str]) -> TextModel:
        return cast("TextModel", behind(model, tuple(texts)))

    def unprotected(members: Sequence[Record], seed: int) -> TextModel:  # noqa: ARG001
        return served([attack.prompt.demonstration(record) for record in members])

    def null(members: Sequence[Record], seed: int) -> TextModel:  # noqa: ARG001
        return served([f"{attack.prompt.text_field}: {PUBLIC_TEXT}"])

    def protected(epsilon: float) -> Serve:
        serve = given.run.serve

        def service(members: Sequence[Record], seed: int) -> TextModel:
            found = serve(members, epsilon=epsilon, seed=seed)
            return given.asking(found).text_model(attack.name)

        return service

    def asked(serve: Serve) -> DiscoverableTally:
        return ask_out(pool, serve, attack, members=audit.members, runs=audit.runs, seed=audit.seed)

    if audit.target == "protected":
        given.run.require("serve")
    given.tell("discoverable: the records themselves in the prompt")
    open_result = asked(unprotected)
    given.tell("discoverable: null pair")
    null_result = asked(null)
    about: dict[str, Any] = {"queries": audit.queries, "chance": audit.chance}
    items: list[Finding] = []

    def found(result: DiscoverableTally, **changes: Any) -> None:
        items.append(discoverable_finding(result, attack, **{**about, "alpha": given.alpha, **changes}))

    if audit.target == "protected":
        count = given.countdown(audit.runs)
        for epsilon in given.epsilons:
            elsewhere = None if epsilon == given.certified.epsilon else epsilon
            serve = count.of_each(protected(epsilon), f"discoverable: protected, epsilon {epsilon:g}")
            found(asked(serve), target="protected", elsewhere=elsewhere)
        found(open_result, target="unprotected", control=True)
    else:
        found(open_result if audit.target == "unprotected" else null_result, target=audit.target)
    return items, [
        discoverable_self_test("noise off", open_result, **about, alpha=given.alpha),
        discoverable_self_test("null pair", null_result, **about, alpha=given.alpha),
    ]
