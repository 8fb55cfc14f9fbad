"""The extraction experiment: coins decide which records are in; does the text name those that are?

In every run each candidate record is in the data by its own fair coin. Text is generated from
the records that are in; a record whose identifier stands in the text is guessed "in", about the
others the attacker says nothing. Right guesses against all guesses give a valid ε bound (one-run
audit, fresh coins each run; for a number of guesses that follows from the output), and the identifiers of
records that were out are the control: what the model invents or knows from elsewhere shows there as well.

Such an attack can be right about the records that were in, and no others: that is its ceiling. And an attack that
does not show more than the claim where nothing protects can say nothing of the claim where something does.

A candidate has identifiers that no other candidate has, and is no near-copy of another;
otherwise its coin would not decide whether they are in the data. Under substitution a record
that is out is replaced by a fixed blank one, under add-remove and zero-out it is absent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from affidavit.accountant.errors import DataError
from affidavit.accountant.validate import Relation
from affidavit.audits.attacks.extraction import Extraction, ExtractionPrompt
from affidavit.audits.certified import Certified
from affidavit.audits.deduplicate import drop_near_copies
from affidavit.audits.exposure import Holder, exposures, holders
from affidavit.audits.finding import ExtractionFinding, Target, Utility
from affidavit.audits.guessing import is_guessable, names_in
from affidavit.audits.leaks import Leakage
from affidavit.audits.pii import Identifier, Pseudonyms
from affidavit.audits.remedies import at_most_records
from affidavit.audits.statistics.boundaries import of_curve
from affidavit.audits.statistics.ceilings import coins_needed
from affidavit.audits.statistics.clopper_pearson import rate_interval
from affidavit.audits.statistics.one_run import one_run_epsilon_lower
from affidavit.audits.statistics.one_run_curve import all_coins_epsilon_lower, all_coins_refutes
from affidavit.audits.textmodel import Record
from affidavit.audits.verdict import control_verdict, decide

__all__ = [
    "BLANK",
    "Candidates",
    "ExtractionTally",
    "Generate",
    "candidates",
    "extraction_ceiling",
    "extraction_finding",
    "shown_by",
    "tally",
]

Generate = Callable[[Sequence[Record], int], Sequence[str]]
"""The records that are in, and the run's seed → the texts that are released."""

BLANK = "(no text)"

_BOUNDS = 2


@dataclass(frozen=True, slots=True)
class Candidates:
    """Records whose coins decide whether their identifiers are in the data; ``dropped`` near-copies."""

    records: tuple[Record, ...]
    identifiers: tuple[frozenset[Identifier], ...]
    guessable: frozenset[Identifier]
    dropped: int

    @property
    def owner(self) -> dict[Identifier, int]:
        """Each identifier's record, by position."""
        return {identifier: i for i, own in enumerate(self.identifiers) for identifier in own}


def candidates(records: Sequence[Record], attack: Extraction, prompt: ExtractionPrompt, *, count: int) -> Candidates:
    """The first ``count`` usable records, in their order.

    Usable: identifiers, all within the part of the text that the prompt shows, none of them
    shared with another record of the file, and no near-copy of a record before it. Raises
    ``DataError`` when there are too few, saying how many there are.
    """
    unique = drop_near_copies(records, ())
    own = [attack.identifiers([record.text]) for record in unique.kept]
    seen = Counter(identifier for each in own for identifier in each)
    usable = [
        (record, identifiers)
        for record, identifiers in zip(unique.kept, own, strict=True)
        if identifiers
        and all(seen[identifier] == 1 for identifier in identifiers)
        and attack.identifiers([prompt.shown(record.text)]) == identifiers
    ][:count]
    if len(usable) < count:
        raise DataError(
            f"{len(usable)} records hold an identifier of their own, {count} are asked for",
            hint=at_most_records(len(usable)),
        )
    guessable = frozenset(
        identifier
        for record, identifiers in usable
        for identifier in identifiers
        if is_guessable(identifier, names_in(record.text))
    )
    return Candidates(
        tuple(record for record, _ in usable), tuple(each for _, each in usable), guessable, unique.dropped
    )


@dataclass(frozen=True, slots=True)
class ExtractionTally:
    """What all runs together showed. ``texts`` is private and goes into no file here."""

    coins: int
    members: int
    guesses: int
    correct: int
    leaked: frozenset[Identifier]
    held_out_leaked: frozenset[Identifier]
    ever_in: frozenset[Identifier]
    ever_out: frozenset[Identifier]
    runs: int
    texts: tuple[str, ...]

    @property
    def told(self) -> int:
        """Coins told right where silence means "out"."""
        return self.correct + (self.coins - self.members) - (self.guesses - self.correct)


def tally(
    pool: Candidates, generate: Generate, attack: Extraction, *, relation: Relation, runs: int, seed: int
) -> ExtractionTally:
    """Flip the coins, generate and count, ``runs`` times. The audit's seed moves the coins only."""
    owner = pool.owner
    generator = np.random.default_rng(seed)
    leaked: set[Identifier] = set()
    held_out: set[Identifier] = set()
    ever_in: set[Identifier] = set()
    ever_out: set[Identifier] = set()
    members = guesses = correct = 0
    texts: list[str] = []
    for _ in range(runs):
        coins = generator.integers(0, 2, size=len(pool.records)).astype(bool)
        released = list(generate(_present(pool.records, coins, relation), int(generator.integers(2**31))))
        texts.extend(released)
        found = attack.identifiers(released) & owner.keys()
        inside = {identifier for identifier in found if coins[owner[identifier]]}
        leaked |= inside
        held_out |= found - inside
        ever_in |= {identifier for identifier, i in owner.items() if coins[i]}
        ever_out |= {identifier for identifier, i in owner.items() if not coins[i]}
        members += int(coins.sum())
        guesses += len({owner[identifier] for identifier in found})
        correct += len({owner[identifier] for identifier in inside})
    return ExtractionTally(
        coins=runs * len(pool.records),
        members=members,
        guesses=guesses,
        correct=correct,
        leaked=frozenset(leaked),
        held_out_leaked=frozenset(held_out),
        ever_in=frozenset(ever_in),
        ever_out=frozenset(ever_out),
        runs=runs,
        texts=tuple(texts),
    )


def _present(
    records: Sequence[Record], coins: np.ndarray[tuple[int], np.dtype[np.bool_]], relation: Relation
) -> list[Record]:
    if relation == "substitution":
        return [record if coin else replace(record, text=BLANK) for record, coin in zip(records, coins, strict=True)]
    return [record for record, coin in zip(records, coins, strict=True) if coin]


def shown_by(result: ExtractionTally, *, delta: float, alpha: float) -> float:
    """The ε that the tally proves, by the better of two bounds at half of alpha each.

    One is of the records that were named, however many; the other takes silence for "out", so that every coin is
    guessed: the stronger of the two where nearly every record that is in is found.
    """
    named = one_run_epsilon_lower(
        records=result.coins,
        guesses=result.guesses,
        correct=result.correct,
        delta=delta,
        alpha=alpha / _BOUNDS,
        guesses_fixed=False,
    )
    told = all_coins_epsilon_lower(records=result.coins, correct=result.told, delta=delta, alpha=alpha / _BOUNDS)
    return max(named, told)


def extraction_ceiling(result: ExtractionTally, *, delta: float, alpha: float) -> float:
    """What it would have proved with every record found that was in, and none that was not."""
    perfect = replace(result, guesses=result.members, correct=result.members)
    return shown_by(perfect, delta=delta, alpha=alpha)


def _refutes(result: ExtractionTally, certified: Certified, *, alpha: float) -> bool:
    """Whether the tally refutes the claim: its ε, or its whole curve, at the same level."""
    boundary = of_curve(certified.curve)
    told = all_coins_refutes(boundary, records=result.coins, correct=result.told, alpha=alpha / _BOUNDS)
    return told or shown_by(result, delta=certified.delta, alpha=alpha) > certified.epsilon


def extraction_finding(
    pool: Candidates,
    result: ExtractionTally,
    attack: Extraction,
    prompt: ExtractionPrompt,
    certified: Certified,
    *,
    target: Target,
    alpha: float,
    pseudonyms: Pseudonyms,
    users: Mapping[str, str] | None = None,
    utility: Utility | None = None,
    unprotected: ExtractionTally | None = None,
    control: bool = False,
) -> ExtractionFinding:
    """The tally as a finding: leaks counted and named by digest, ε bound, ceiling, verdict.

    ``unprotected``: the same attack, by the same coins, without protection; its ε is the most that is believed of
    this one. A ``control`` is that attack itself: held against no claim.
    """
    delta = certified.delta
    lower = shown_by(result, delta=delta, alpha=alpha)
    ceiling = extraction_ceiling(result, delta=delta, alpha=alpha)
    trials = max(1, len(result.ever_in))
    note = f"prompt {prompt.name}; {len(pool.guessable)} of {sum(map(len, pool.identifiers))} identifiers guessable"
    if control:
        verdict = control_verdict(leaked=lower > 0.0 or bool(result.leaked - pool.guessable))
    else:
        shown = None if unprotected is None else shown_by(unprotected, delta=delta, alpha=alpha)
        best, ceiling = ceiling, ceiling if shown is None else min(ceiling, shown)
        refuted = _refutes(result, certified, alpha=alpha)
        verdict = decide(violated=refuted, perfect_attack_would_violate=ceiling > certified.epsilon)
        if verdict == "UNDERPOWERED":
            note += f"; {_missing(certified, unprotected, best=best, alpha=alpha)}"
    out = result.coins - result.members
    return ExtractionFinding(
        attack=attack.name,
        target=target,
        verdict=verdict,
        n_members=result.members,
        n_non_members=out,
        runs=result.runs,
        claim=None if control else certified.claim(),
        epsilon_lower=lower,
        ceiling=ceiling,
        alpha=alpha,
        correction="one run of independent coins: any number of guesses, or all of them told, half of alpha each",
        leakage=Leakage(
            at_risk=trials,
            leaked=len(result.leaked),
            guessable=len(result.leaked & pool.guessable),
            held_out_leaked=len(result.held_out_leaked),
            interval=rate_interval(len(result.leaked), trials, alpha=alpha),
            interval_method="Clopper-Pearson over identifiers; approximate, since texts share identifiers' fates",
            dropped_near_copies=pool.dropped,
            leaks=attack.leaks(result.texts, result.leaked, guessable=pool.guessable, pseudonyms=pseudonyms),
            exposures=exposures(
                _holders(pool, result.ever_in, users),
                result.leaked,
                alpha=alpha,
                guessable=pool.guessable,
                held_out=_holders(pool, result.ever_out, users),
                held_out_leaked=result.held_out_leaked,
            ),
        ),
        utility=utility,
        control=control,
        curve_points=_curve_points(result),
        note=note,
    )


def _holders(pool: Candidates, present: frozenset[Identifier], users: Mapping[str, str] | None) -> tuple[Holder, ...]:
    """The candidates whose identifiers were among ``present``, in any run."""
    return holders(
        {record.id: own for record, own in zip(pool.records, pool.identifiers, strict=True) if own <= present}, users
    )


def _missing(certified: Certified, unprotected: ExtractionTally | None, *, best: float, alpha: float) -> str:
    """Why it has no power, and what would give it some."""
    epsilon, delta = certified.epsilon, certified.delta
    if best <= epsilon or unprotected is None:
        why, share = f"with every record found that is in, it proves {best:.3f}", 0.5
    else:
        found, inside = unprotected.correct, unprotected.members
        shown = shown_by(unprotected, delta=delta, alpha=alpha)
        why = f"without protection it proves {shown:.3f}: of {inside} that are in it finds {found}"
        why += f", and {unprotected.guesses - found} that are not" if unprotected.guesses > found else ""
        share = found / unprotected.coins
    needed = coins_needed(epsilon, alpha=alpha / _BOUNDS, delta=delta, share=share) if share > 0.0 else None
    if needed is None:
        return f"{why}; no number of coins would do for this attack at this delta"
    return f"{why}; power at this epsilon needs {needed} coins ((members + non_members) x runs)"


def _curve_points(result: ExtractionTally) -> tuple[tuple[float, float], ...]:
    """The attack's one point: how often it names a record that is out, and one that is in."""
    out = result.coins - result.members
    if result.members == 0 or out == 0:
        return ()
    return (0.0, 0.0), ((result.guesses - result.correct) / out, result.correct / result.members), (1.0, 1.0)
