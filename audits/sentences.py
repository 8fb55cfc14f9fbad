"""What a finding measured, as a sentence for whoever answers for the data: rates and counts, no statistic's name."""

from __future__ import annotations

from typing import assert_never

from affidavit.audits.finding import (
    CheckFinding,
    DiscoverableFinding,
    EchoFinding,
    ExtractionFinding,
    Finding,
    MembershipFinding,
    OneStepFinding,
    PerRunFinding,
    SearchFinding,
    Thresholded,
)
from affidavit.audits.leaks import Leakage, Overlap

__all__ = ["percent", "sentence"]


def percent(rate: float) -> str:
    """A rate as it is read: one decimal, with a space that does not break."""
    return f"{100.0 * rate:.1f}\N{NO-BREAK SPACE}%"


def sentence(item: Finding) -> str:
    """What was measured, and beside it what a true claim admits where that is known."""
    match item:
        case MembershipFinding():
            return _picked(item)
        case PerRunFinding():
            who = f"Over {item.runs:,} releases it calls the record used"
            return f"{who} {_rates(item, 'where it was', 'where it was not')}"
        case OneStepFinding():
            who = f"Over {item.runs:,} trials of the worst case it calls the record used"
            return f"{who} {_rates(item, 'where it was', 'where it was not')}"
        case ExtractionFinding():
            return _named(item.leakage) + "."
        case EchoFinding():
            told = f"From the text alone, {item.correct:,} of {item.guesses:,} guesses which canaries were in are right"
            return f"{told}; guessing gets half, and that many with probability {item.nothing_learnt:.3g}."
        case SearchFinding():
            copied = f"{item.overlap.verbatim:,} of {item.overlap.texts:,} texts hold a whole passage of a record"
            return f"{_named(item.leakage)}. {copied}{_nearly(item.overlap)}."
        case DiscoverableFinding():
            return _asked_out(item)
        case CheckFinding():
            chance = "" if item.p_value is None else f", p-value {item.p_value:.3g} against {item.alpha:.2g}"
            return f"{item.seen:,} looked at{chance}."
    assert_never(item)


def _picked(item: MembershipFinding) -> str:
    told = f"Of a record that was used and one that was not, it picks the used one {percent(item.auc)} of the time"
    if item.limit is None:
        return f"{told}, where guessing gives {percent(0.5)}."
    return f"{told}; guessing gives {percent(0.5)}, and a true certificate admits {percent(item.limit)}."


def _rates(item: Thresholded, used: str, unused: str) -> str:
    point = item.point
    seen = f"in {percent(point.true_positive_rate)} {used} and in {percent(point.false_positive_rate)} {unused}"
    if item.excess is None:
        return f"{seen}."
    sure, admitted = percent(point.true_positive_lower), point.true_positive_lower - item.excess
    told = f"{seen}. Chance apart, that is at least {sure} against at most {percent(point.false_positive_upper)}"
    if item.excess > 0.0:
        return f"{told}, more than the {percent(admitted)} that a true claim admits."
    return f"{told}; a true claim admits {percent(admitted)}."


def _nearly(overlap: Overlap) -> str:
    if overlap.near is None:
        return ""
    return (
        f"; {overlap.near.near:,} hold one nearly, and {overlap.near.held_out_near:,} one of a record that was not used"
    )


def _asked_out(item: DiscoverableFinding) -> str:
    told = (
        f"Asked {item.queries:,} times for what follows, it gives away {item.extractable:,} of {item.members:,} records"
    )
    told += f" with a chance of {percent(item.chance)} or more, and {item.held_out_extractable:,} of {item.held_out:,}"
    fewest = "none" if item.fewest is None else f"the first after {item.fewest:,}"
    return f"{told} that it never saw; of its own {fewest}."


def _named(leakage: Leakage) -> str:
    told = f"{leakage.leaked:,} of {leakage.at_risk:,} private identifiers stand in the text"
    told += f", of which anyone could have guessed {leakage.guessable:,}" if leakage.leaked else ""
    return told + f"; of records that were not in the data, {leakage.held_out_leaked:,}"
