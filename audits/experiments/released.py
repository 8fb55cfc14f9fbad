"""The released text itself, searched for what private records hold: identifiers and whole passages.

No coin decides here which records are in the data, so nothing is inferred about ε: the finding
counts, and only the audit's policy judges it. Each count has its counterfactual, the same search
for what records hold that were *not* in the data; what both sides hold is nobody's secret and is
not searched for. Members that nearly copy a held-out record are dropped and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from affidavit.accountant.errors import DataError
from affidavit.audits.attacks.extraction import Extraction
from affidavit.audits.deduplicate import drop_near_copies
from affidavit.audits.exposure import exposures, holders
from affidavit.audits.finding import SearchFinding, Target
from affidavit.audits.findings import Policy, SelfTest
from affidavit.audits.guessing import is_guessable, names_in
from affidavit.audits.leaks import Leakage
from affidavit.audits.overlap import measure_overlap
from affidavit.audits.pii import Identifier, Pseudonyms
from affidavit.audits.textmodel import Record

__all__ = ["ATTACK", "Search", "prepare_search"]

ATTACK = "released-text"


@dataclass(frozen=True, slots=True)
class Search:
    """What to look for: the members' own identifiers and passages, and those of held-out records."""

    members: tuple[Record, ...] = field(repr=False)
    held_out: tuple[Record, ...] = field(repr=False)
    own: Mapping[str, frozenset[Identifier]] = field(repr=False)
    others: Mapping[str, frozenset[Identifier]] = field(repr=False)
    guessable: frozenset[Identifier] = field(repr=False)
    detector: Extraction
    users: Mapping[str, str] | None = field(repr=False)
    dropped: int
    alpha: float

    def finding(
        self, texts: Sequence[str], *, target: Target = "protected", seed: int = 0, rouge: bool = True
    ) -> SearchFinding:
        """What the texts hold: counts, as a search is no test of ε."""
        names = Pseudonyms()
        found = self.detector.identifiers(texts)
        own = frozenset().union(*self.own.values())
        leaked, held_out_leaked = found & own, found & frozenset().union(*self.others.values())
        exposed = exposures(
            holders(self.own, self.users),
            leaked,
            alpha=self.alpha,
            guessable=self.guessable,
            held_out=holders(self.others),
            held_out_leaked=held_out_leaked,
        )
        every = next((item for item in reversed(exposed) if item.unit == "identifier"), None)
        return SearchFinding(
            attack=ATTACK,
            target=target,
            verdict="COUNTED",
            members=len(self.members),
            held_out=len(self.held_out),
            texts=len(texts),
            alpha=self.alpha,
            correction="counts only; each interval by itself",
            leakage=Leakage(
                at_risk=len(own),
                leaked=len(leaked),
                guessable=len(leaked & self.guessable),
                held_out_leaked=len(held_out_leaked),
                interval=None if every is None else every.interval,
                interval_method="" if every is None else every.interval_method,
                dropped_near_copies=self.dropped,
                leaks=self.detector.leaks(texts, leaked, guessable=self.guessable, pseudonyms=names),
                exposures=exposed,
            ),
            overlap=measure_overlap(
                texts, self.members, self.held_out, alpha=self.alpha, pseudonyms=names, seed=seed, rouge=rouge
            ),
            note=f"{len(texts):,} texts searched; no membership was drawn, so no ε is tested",
        )

    def self_tests(self, policy: Policy) -> tuple[SelfTest, ...]:
        """An echo of the members must be caught, an echo of the held-out records must not."""
        echo, other = (
            self.finding([each.text for each in side], rouge=False) for side in (self.members, self.held_out)
        )
        return (
            SelfTest(
                name="noise off",
                attack=ATTACK,
                expected="caught",
                observed="caught" if policy.broken_by(echo) else "not caught",
                detail=_seen("the members", echo),
            ),
            SelfTest(
                name="null pair",
                attack=ATTACK,
                expected="not caught",
                observed="caught" if policy.broken_by(other) else "not caught",
                detail=_seen("held-out records", other),
            ),
        )


def _seen(whose: str, item: SearchFinding) -> str:
    return f"an echo of {whose}: {item.leakage.leaked} identifiers, {item.overlap.verbatim} texts with a whole passage"


def prepare_search(
    members: Sequence[Record],
    held_out: Sequence[Record],
    *,
    detector: Extraction,
    alpha: float,
    users: Mapping[str, str] | None = None,
) -> Search:
    """Read both sides. Raises ``DataError`` without held-out records, or if they are copies of the members."""
    unique = drop_near_copies(members, held_out)
    if not held_out or not unique.kept:
        raise DataError(
            "the released text is searched against records that were not in the data, and there are none"
            if not held_out
            else "every member nearly copies a held-out record",
            hint='Records like the members\' that were not in the data: `held_out = "held_out.jsonl"`',
        )
    inside = {record.id: detector.identifiers([record.text]) for record in unique.kept}
    outside = {record.id: detector.identifiers([record.text]) for record in held_out}
    shared = frozenset().union(*inside.values()) & frozenset().union(*outside.values())
    guessable = frozenset(
        identifier
        for record in unique.kept
        for identifier in inside[record.id] - shared
        if is_guessable(identifier, names_in(record.text))
    )
    return Search(
        members=unique.kept,
        held_out=tuple(held_out),
        own={name: own - shared for name, own in inside.items()},
        others={name: own - shared for name, own in outside.items()},
        guessable=guessable,
        detector=detector,
        users=users,
        dropped=unique.dropped,
        alpha=alpha,
    )
