"""Every experiment that an audit file can ask for: its attacks, the keys it reads, what it needs, and what runs it.

An attack's name chooses its experiment (the membership attacks have two, one for each ``game``). A runner is imported
when it runs: who only reads an audit file loads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from affidavit.audits.attacks.registry import MEMBERSHIP_ATTACKS, SHADOWED, MembershipName

if TYPE_CHECKING:
    from affidavit.audits.auditfile import AuditFile
    from affidavit.audits.given import Given, Results

__all__ = [
    "CHECKS",
    "EXPERIMENTS",
    "KEYS",
    "AttackName",
    "CheckName",
    "Experiment",
    "Need",
    "chosen",
]

CheckName: TypeAlias = Literal["sensitivity", "neighbours"]
AttackName: TypeAlias = Literal[
    "extraction", "canary", "echo", "discoverable", "one-step", "released-text", CheckName, MembershipName
]

CHECKS: frozenset[CheckName] = frozenset(get_args(CheckName))
"""What is no attack: the generator's code is run on invented data, and what moves is compared exactly."""

Need: TypeAlias = Literal["records", "model", "released"]
"""What an experiment has to be given beside the run: records, a language model, released text with held-out records."""

Runner: TypeAlias = "Callable[[Given, Sequence[AttackName]], Results]"


@dataclass(frozen=True, slots=True)
class Experiment:
    """``keys`` of the audit file that others do not read, with ``only`` some of the attacks reading some of them.

    ``each_epsilon``: it is made at every ε that the file names, each a test of its own. ``run`` gets the attacks of
    the file that are this experiment's, together, since they share what is shown to them.
    """

    name: str
    attacks: frozenset[AttackName]
    run: Runner
    keys: frozenset[str] = frozenset()
    only: Mapping[str, frozenset[AttackName]] = field(default_factory=dict)
    needs: frozenset[Need] = frozenset()
    each_epsilon: bool = True
    is_check: bool = False

    def reads(self, key: str) -> frozenset[AttackName]:
        """Its attacks that read a key."""
        return self.only.get(key, self.attacks) if key in self.keys else frozenset()


def _membership(given: Given, names: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_membership import run_membership

    return run_membership(given, cast("Sequence[MembershipName]", names))


def _per_run(given: Given, names: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_per_run import run_per_run

    return run_per_run(given, cast("Sequence[MembershipName]", names))


def _extraction(given: Given, _: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_extraction import run_extraction

    return run_extraction(given)


def _canary(given: Given, _: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_extraction import run_extraction

    return run_extraction(given, canaries=True)


def _echo(given: Given, _: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_echo import run_echo

    return run_echo(given)


def _discoverable(given: Given, _: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_discoverable import run_discoverable

    return run_discoverable(given)


def _one_step(given: Given, _: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_one_step import run_one_step

    return run_one_step(given)


def _released(given: Given, _: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_released import run_released

    return run_released(given)


def _check(given: Given, names: Sequence[AttackName]) -> Results:
    from affidavit.audits.experiments.run_checks import run_check

    (name,) = names
    return run_check(given, cast("CheckName", name))


_MEMBERSHIP: frozenset[AttackName] = frozenset(MEMBERSHIP_ATTACKS)
_SHADOWED: dict[str, frozenset[AttackName]] = {
    "shadow_prompts": frozenset(SHADOWED),
    "population": frozenset({"rmia"}),
}
_ASKED: frozenset[Need] = frozenset({"records", "model"})

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "membership",
        _MEMBERSHIP,
        _membership,
        keys=frozenset({"game", "through", *_SHADOWED}),
        only=_SHADOWED,
        needs=_ASKED,
    ),
    Experiment(
        "per-run",
        _MEMBERSHIP,
        _per_run,
        keys=frozenset({"game", "through", "thresholds", "background", *_SHADOWED}),
        only=_SHADOWED,
        needs=_ASKED,
    ),
    Experiment(
        "extraction",
        frozenset({"extraction"}),
        _extraction,
        keys=frozenset({"prompt", "max_tokens", "kinds", "region"}),
        needs=_ASKED,
    ),
    Experiment(
        "canary",
        frozenset({"canary"}),
        _canary,
        keys=frozenset({"prompt", "max_tokens", "background"}),
        needs=_ASKED,
    ),
    Experiment("echo", frozenset({"echo"}), _echo, keys=frozenset({"background"}), needs=_ASKED),
    Experiment(
        "discoverable",
        frozenset({"discoverable"}),
        _discoverable,
        keys=frozenset({"prefix_words", "target_words", "queries", "chance", "temperature", "top_k"}),
        needs=_ASKED,
    ),
    Experiment("one-step", frozenset({"one-step"}), _one_step, keys=frozenset({"mechanism"}), each_epsilon=False),
    Experiment(
        "released-text",
        frozenset({"released-text"}),
        _released,
        keys=frozenset({"kinds", "region", "released", "held_out"}),
        needs=frozenset({"records", "released"}),
        each_epsilon=False,
    ),
    Experiment("sensitivity", frozenset({"sensitivity"}), _check, is_check=True),
    Experiment("neighbours", frozenset({"neighbours"}), _check, is_check=True),
)

KEYS: Mapping[str, frozenset[AttackName]] = {
    key: frozenset().union(*(each.reads(key) for each in EXPERIMENTS))
    for key in sorted(frozenset().union(*(each.keys for each in EXPERIMENTS)))
}
"""Keys that only some attacks read, and which."""


def chosen(audit: AuditFile) -> tuple[tuple[Experiment, tuple[AttackName, ...]], ...]:
    """The experiments that an audit file asks for, in its order, each with its attacks."""
    found: dict[str, tuple[Experiment, tuple[AttackName, ...]]] = {}
    for attack in audit.attacks:
        game = {"split": "membership", "per-run": "per-run"}[audit.game]
        experiment = next(
            each for each in EXPERIMENTS if attack in each.attacks and (attack not in _MEMBERSHIP or each.name == game)
        )
        _, before = found.get(experiment.name, (experiment, ()))
        found[experiment.name] = (experiment, (*before, attack))
    return tuple(found.values())
