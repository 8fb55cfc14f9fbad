"""The echo experiment: coins decide which canaries are in; the released text alone says which they were.

In every run each canary is in by its own fair coin, text is released from those that are in and the background, and
canaries are ranked by their echo. The first quarter is guessed "in", the last "out"; how many that are is fixed
beforehand, so the guesses of all runs together give a valid ε (``one_run``, Theorem 5.2 of Steinke, Nasr and Jagielski
2023), whatever the score is worth.

Beside the claim stands the question whether anything was learnt at all: if the text does not depend on the coins, the
number of right guesses is binomial with one half, whatever the ranking. That is the claim ε = 0, δ = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from affidavit.accountant.validate import Relation
from affidavit.audits.attacks.echo import Echo
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.extraction import BLANK
from affidavit.audits.finding import EchoFinding, Target
from affidavit.audits.statistics.one_run import one_run_epsilon_lower, one_run_p_value
from affidavit.audits.textmodel import Record
from affidavit.audits.verdict import control_verdict, decide

__all__ = ["EchoTally", "Released", "echo_finding", "guesses_a_run", "listen", "shown_by_echo"]

Released = Callable[[Sequence[Record], int], Sequence[str]]
"""The canaries that are in, and the run's seed → the texts that are released."""


@dataclass(frozen=True, slots=True)
class EchoTally:
    """What all runs together showed."""

    coins: int
    members: int
    guesses: int
    correct: int
    runs: int

    @property
    def nothing_learnt(self) -> float:
        """The chance of as many right guesses from text that does not depend on the coins."""
        return one_run_p_value(0.0, records=self.coins, guesses=self.guesses, correct=self.correct, delta=0.0)


def guesses_a_run(canaries: int) -> int:
    """A quarter guessed in and as many out: a number that no output changes."""
    return 2 * max(1, canaries // 4)


def listen(
    canaries: Sequence[Record], released: Released, attack: Echo, *, relation: Relation, runs: int, seed: int
) -> EchoTally:
    """Flip the coins, release, rank and guess, ``runs`` times. Equal scores are ranked by a coin of their own."""
    generator = np.random.default_rng([seed, 0x6563, 1])
    side = guesses_a_run(len(canaries)) // 2
    members = correct = 0
    for _ in range(runs):
        coins = generator.integers(0, 2, size=len(canaries)).astype(bool)
        present = [
            record if coin else replace(record, text=BLANK)
            for record, coin in zip(canaries, coins, strict=True)
            if coin or relation == "substitution"
        ]
        texts = released(present, int(generator.integers(2**31)))
        scores = np.asarray(attack.scores(texts, canaries))
        order = np.lexsort((generator.random(len(canaries)), scores))
        members += int(coins.sum())
        correct += int(coins[order[-side:]].sum()) + int((~coins[order[:side]]).sum())
    return EchoTally(runs * len(canaries), members, runs * 2 * side, correct, runs)


def shown_by_echo(result: EchoTally, *, delta: float, alpha: float) -> float:
    """The ε that the tally proves."""
    return one_run_epsilon_lower(
        records=result.coins, guesses=result.guesses, correct=result.correct, delta=delta, alpha=alpha
    )


def echo_finding(
    result: EchoTally,
    certified: Certified,
    *,
    target: Target,
    alpha: float,
    unprotected: EchoTally | None = None,
    control: bool = False,
) -> EchoFinding:
    """The tally held against the claim, and against "nothing was learnt".

    ``unprotected``: the same attack, by the same coins, on the records themselves; its ε is the most that is believed
    of this one. A ``control`` is that attack itself: held against no claim.
    """
    delta = certified.delta
    lower = shown_by_echo(result, delta=delta, alpha=alpha)
    ceiling = shown_by_echo(replace(result, correct=result.guesses), delta=delta, alpha=alpha)
    if unprotected is not None:
        ceiling = min(ceiling, shown_by_echo(unprotected, delta=delta, alpha=alpha))
    learnt = result.nothing_learnt < alpha
    if control:
        verdict = control_verdict(leaked=learnt)
    else:
        verdict = decide(violated=lower > certified.epsilon, perfect_attack_would_violate=ceiling > certified.epsilon)
    return EchoFinding(
        attack=Echo.name,
        target=target,
        verdict=verdict,
        n_members=result.members,
        n_non_members=result.coins - result.members,
        runs=result.runs,
        guesses=result.guesses,
        correct=result.correct,
        nothing_learnt=result.nothing_learnt,
        claim=None if control else certified.claim(),
        epsilon_lower=lower,
        ceiling=ceiling,
        alpha=alpha,
        correction="one-run audit over independent coins, for a number of guesses fixed beforehand",
        control=control,
        note="the text tells which canaries were in" if learnt else "no canary's echo is told from chance",
    )
