"""What the numbers mean, said so that a privacy officer can act on it.

Every sentence is implied by the certificate or the findings; where common practice rather than
a theorem speaks (how large an ε is still called small), the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Literal

from affidavit.accountant.attestation.statement import Certificate
from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.risk import guessing_limit
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation
from affidavit.audits.finding import CheckFinding, Header, Tested, leakage_of, overlap_of
from affidavit.audits.findings import Findings, SelfTest
from affidavit.audits.report.inputs import Recomputation
from affidavit.audits.report.numbers import (
    fixed_lower,
    fixed_upper,
    measured,
    one_in,
    percent_upper,
    upper,
)
from affidavit.audits.verdict import Verdict

__all__ = [
    "NO_VERDICTS",
    "VERDICTS",
    "Headline",
    "Limit",
    "attack_name",
    "capital",
    "count",
    "headline",
    "instant_in_words",
    "interval_in_words",
    "is_certified",
    "joined",
    "limits",
    "method_name",
    "most_leaked",
    "not_shown",
    "number_headline",
    "recomputation_in_words",
    "relation_in_words",
    "setting_name",
    "strength",
    "times_more_likely",
    "total_alpha",
    "unit_in_words",
]

Tone = Literal["holds", "unsure", "alarm"]

_RELATIONS: dict[Relation, str] = {
    "add-remove": "{unit} is added to the data or taken out of them",
    "zero-out": "{unit} is replaced by an empty one that contributes nothing",
    "substitution": "{unit} is replaced by any other one",
}
_TARGETS = {"protected": "certified output", "unprotected": "protection off", "null": "null pair"}
_OUTCOMES: dict[str, tuple[Tone, str]] = {
    "refuted": ("alarm", "Refuted"),
    "policy-failed": ("alarm", "Policy failed"),
    "inconclusive": ("unsure", "Inconclusive"),
    "holds": ("holds", "Not refuted"),
}


VERDICTS: dict[Verdict, str] = {
    "VIOLATION": "the attack did better than the certificate allows; the claim is false, but for the audit's "
    "own chance of error α",
    "CONSISTENT": "the test could have exposed a false claim of this size, and did not",
    "UNDERPOWERED": "this attack could not have exposed a false claim, for too few trials, or because it does not "
    "succeed without protection either; silence says nothing",
}
"""What each verdict means."""

NO_VERDICTS = {
    "COUNTED": "what was found is counted and held against the policy; no ε can be inferred from a count",
    "NOT CHECKED": "what there was to look at does not allow this check",
    "LEAKED, AS IT MUST": "a control: the same attack where nothing protects, and it succeeds; so it can",
    "DID NOT LEAK": "a control: the same attack fails where nothing protects; its silence elsewhere says nothing",
}
"""What stands in place of a verdict where no claim was put to the test."""


@dataclass(frozen=True, slots=True)
class Headline:
    """The page's first words: a status, and what happened in one or two sentences."""

    tone: Tone
    status: str
    sentences: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limit:
    """One row of "what ε means": the question, blind guessing, the certified limit, no protection."""

    question: str
    blind: str
    certified: str
    unprotected: str
    detail: str = ""


def unit_in_words(unit: Unit) -> str:
    """``one record``, or every record of one value of the key."""
    if unit.key is None:
        return "one record"
    return f"everything that shares one {unit.key} (at most {unit.max_records} records)"


def relation_in_words(relation: Relation, unit: Unit) -> str:
    """What distinguishes two neighbouring data sets."""
    return _RELATIONS[relation].format(unit=unit_in_words(unit))


_METHODS = {
    "adaptive": "exact adaptive composition",
    "advanced": "advanced composition",
    "basic": "basic composition",
    "certified": "certified arithmetic",
    "gaussian": "exact Gaussian composition",
    "optimal": "optimal composition of pure DP",
    "pld": "privacy loss distribution",
    "rdp": "Rényi DP",
    "zcdp": "concentrated DP (zCDP)",
}


def method_name(name: str) -> str:
    """A method's name for people; one that is not known here keeps its own."""
    return _METHODS.get(name, name)


def instant_in_words(instant: datetime) -> str:
    """``27 November 2026, 23:04 UTC``."""
    when = instant.astimezone(UTC)
    return f"{when.day} {when:%B %Y, %H:%M} UTC"


def attack_name(finding: Header | SelfTest) -> str:
    """The attack's identifier as words."""
    words = finding.attack.replace("_", " ").replace("-", " ").strip()
    return capital(words)


def check_name(finding: CheckFinding) -> str:
    """The check, without where in the plan it looked: that is its note's, or nobody's."""
    return attack_name(finding)


def is_certified(finding: Header) -> bool:
    """Whether it is about the certified output, or a part of what was certified, as it is."""
    return finding.target == "protected" and _elsewhere(finding) is None


def _elsewhere(finding: Header) -> float | None:
    """The ε at which the same generator was run, where that is another than the certificate's."""
    claim = finding.claim if isinstance(finding, Tested) else None
    return None if claim is None or not claim.subject.startswith("the same generator") else claim.epsilon


def setting_name(finding: Header) -> str:
    """What the attack was run on."""
    if finding.target == "protected" and (epsilon := _elsewhere(finding)) is not None:
        return f"protected, ε = {upper(epsilon)}"
    return _TARGETS[finding.target]


def most_leaked(items: Iterable[Header]) -> int:
    """The most identifiers, beyond the guessable, that any of them found."""
    return max((leakage.beyond_guessable for item in items if (leakage := leakage_of(item)) is not None), default=0)


_RECOMPUTATIONS: dict[Recomputation, str] = {
    "not tried": "as signed, not recomputed",
    "holds": "recomputed by an independent path: it holds",
    "undecided": "recomputed by an independent path, which could not decide it",
    "does not hold": "recomputed by an independent path: it does not hold",
}


def recomputation_in_words(recomputed: Recomputation) -> str:
    """What is known of the number beyond the signature."""
    return _RECOMPUTATIONS[recomputed]


def count(number: int, singular: str, plural: str = "") -> str:
    """``one attack``, ``eleven`` as digits."""
    words = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    shown = words[number] if number < len(words) else f"{number:,}"
    return f"{shown} {singular if number == 1 else plural or singular + 's'}"


def _of_them(number: int) -> str:
    return count(number, "of them", "of them")


def capital(words: str) -> str:
    """With a capital first letter."""
    return words[:1].upper() + words[1:]


def headline(findings: Findings, *, guarantee: str = "", recomputed: Recomputation = "not tried") -> Headline:
    """The worst outcome, and the counts behind it.

    A number that does not hold comes first. ``guarantee`` is the receipt's first line: where it
    denies the output a guarantee (seeded noise, an unprotected baseline), nothing else is said.
    """
    if recomputed == "does not hold":
        return Headline("alarm", "Wrong number", ("Recomputed by independent code, the plan costs more than claimed.",))
    if guarantee.startswith("NONE"):
        reason = guarantee.partition(":")[2].strip() or "the receipt says so"
        return Headline("alarm", "No guarantee", (f"The certificate does not cover this output: {reason}.",))
    tone, status = _OUTCOMES[findings.outcome]
    audited, tests = findings.audited, findings.tests
    tallies = {verdict: sum(item.verdict == verdict for item in tests) for verdict in VERDICTS}
    if not audited:
        return Headline("unsure", "Not audited", ("No attack has been run against this certificate.",))
    attacks = sum(not isinstance(item, CheckFinding) for item in tests)
    sentences = [f"{capital(count(attacks, 'attack'))} tried to prove the certificate false."] if attacks else []
    if len(tests) > attacks:
        checks = len(tests) - attacks
        sentences.append(f"{capital(count(checks, 'check'))} looked at how the text was made.")
    violations = tallies["VIOLATION"]
    if not tests:
        sentences = ["No attack tried to prove the certificate false; what is plainly there was counted."]
    elif violations:
        sentences.append("It did." if len(tests) == attacks == 1 else f"{capital(_of_them(violations))} did."
                         if len(tests) == attacks else f"{capital(_of_them(violations))} found a fault.")  # fmt: skip
    elif len(tests) == attacks:
        sentences.append("It did not." if attacks == 1 else "None did.")
    else:
        sentences.append("None found a fault.")
    if tallies["UNDERPOWERED"]:
        these = capital(count(tallies["UNDERPOWERED"], "attack" if len(tests) == attacks else "test"))
        sentences.append(f"{these} could not have: that silence means nothing.")
    leaked = most_leaked(audited)
    if leaked > findings.policy.max_leaked:
        tolerated = count(findings.policy.max_leaked, "are tolerated", "are tolerated").replace("no ", "none ")
        sentences.append(f"{capital(count(leaked, 'private identifier'))} leaked, where {tolerated}.")
    copied = max((found.verbatim for item in audited if (found := overlap_of(item)) is not None), default=0)
    if copied > findings.policy.max_verbatim:
        texts = count(copied, "released text holds", "released texts hold")
        sentences.append(f"{capital(texts)} a passage of a private record, word for word.")
    if (
        findings.outcome == "policy-failed"
        and leaked <= findings.policy.max_leaked
        and copied <= findings.policy.max_verbatim
    ):
        sentences.append("More of the records can be had than is tolerated, nearly word for word or by asking.")
    if any(not test.passed for test in findings.self_tests):
        sentences.append("A self-test of the audit failed, so the audit itself is in doubt.")
    return Headline(tone, status, tuple(sentences))


def number_headline(*, signed: bool, recomputed: Recomputation) -> Headline:
    """What is known of the certificate's number, whatever audits found."""
    if not signed:
        return Headline("unsure", "Not verified", ("Whoever made this page did not check who signed it.",))
    said = "The signature was verified with a trusted key"
    if recomputed == "holds":
        return Headline("holds", "Holds", (f"{said}, and code that did not issue the number derived it again.",))
    if recomputed == "undecided":
        return Headline("unsure", "Undecided", (f"{said}; an independent derivation could not decide the number.",))
    return Headline("unsure", "Signed", (f"{said}; the number was not derived again. Check it as told below.",))


def total_alpha(findings: Findings) -> str:
    """How likely it is that any of the tests calls a true certificate refuted: at most the sum of their levels."""
    tests = findings.tests
    if not tests:
        return ""
    total = upper(findings.total_alpha)
    if len(tests) == 1:
        return f"A true certificate would be called refuted with a probability of at most α = {total}."
    return (
        f"{capital(count(len(tests), 'test'))}: that any of them calls a true certificate refuted has a probability of "
        f"at most {total}, the sum of their α."
    )


def limits(certificate: Certificate, risk: dict[str, Decimal]) -> tuple[Limit, ...]:
    """What an observer of the released text can do at most, whatever the attack.

    ``risk``: the limits of ``affidavit.accountant.risk``, from the certified curve. The last row
    is e^ε L/R + δ for one guess at a secret among R (``accountant.risk``).
    """
    claim = certificate.claim
    secret = guessing_limit(
        epsilon=float_at_least(claim.epsilon), delta=float_at_least(claim.delta), candidates=10**6, guesses=1
    )
    success = (1 + risk["advantage"]) / 2
    odds = "" if success >= 1 else f"odds of {upper(success / (1 - success), digits=3)} to 1"
    return (
        Limit(
            "Shown the text and asked whether your record was used, at fair odds: how often is the best guess right?",
            "50\u00a0%",
            f"at most {percent_upper(success)}",
            "100\u00a0%",
            odds,
        ),
        Limit(
            "Allowed to accuse 1\u00a0% of the innocent: how many of those who were used can be named?",
            "1\u00a0%",
            f"at most {percent_upper(risk['true_positive_rate_at_1_percent'])}",
            "100\u00a0%",
        ),
        Limit(
            "Over all thresholds: the largest area under the attack's ROC curve (AUC)",
            "0.5",
            f"at most {fixed_upper(risk['area_under_roc'])}",
            "1",
        ),
        Limit(
            "One guess at a random six-digit number that stands in your record: how likely is it right?",
            "1 in 1,000,000",
            f"at most {one_in(secret)}",
            "certain",
        ),
    )


def strength(success: Decimal) -> str:
    """How strong the promise is on paper, from the best guess it allows (1/2 is blind guessing)."""
    bet = f"A limit of {percent_upper(success)} on the best guess"
    if success <= Decimal("0.6"):
        return f"{bet} is a strong promise: no attack can do much better than a coin."
    if success <= Decimal("0.8"):
        return f"{bet} is a moderate promise: an attack may do clearly better than a coin, and is still often wrong."
    if success <= Decimal("0.95"):
        return f"{bet} is a weak promise: an attack may be right most of the time."
    return f"{bet} promises little on paper: by itself it rules out only an attack that is all but never wrong."


def times_more_likely(epsilon: Decimal) -> str:
    """e^ε, rounded up."""
    return "∞" if epsilon > 500 else upper(epsilon.exp(), digits=3)


def not_shown(
    certificate: Certificate, findings: Findings, *, recomputed: Recomputation, public: bool = False
) -> tuple[str, ...]:
    """The limits of the evidence, most important first; ``public``: on a page that holds no audit."""
    unit = certificate.unit
    per = "per record" if unit.key is None else f"per {unit.key}, for at most {unit.max_records} records"
    whose = (
        "A person who wrote several records, or who is written about in the records of others, has less protection."
        if unit.key is None
        else f"A person spread over several values of {unit.key} has less protection."
    )
    items = [
        f"The promise is {per}. {whose}",
        "What audits of the records found is not on this page: it follows from the records, and no certificate "
        "covers it."
        if public
        else "Attacks that found nothing do not prove that nothing can be found. The certificate limits every attack; "
        "the audit tried only those listed here.",
        f"δ = {upper(certificate.claim.delta)} is a slack in probability: at worst, a record may be exposed outright "
        "with that chance.",
        "What many records have in common may show in the text, and is meant to: differential privacy protects "
        "the contribution of each, not the facts about all.",
        "Nothing here speaks about what the language model learnt before this run, about whether the text is true, "
        "fair or useful, or about the files that stay private (trace, ledger, findings and this page).",
        "Another run on the same data costs more. Only the ledger adds the runs up, and only those made through it.",
    ]
    if recomputed == "undecided":
        items.insert(2, "The independent path could not decide whether the certified number holds.")
    if recomputed == "not tried":
        items.insert(
            2,
            "Whoever made this page did not recompute the certified number. A signature proves who said it, not "
            "that it is right; “affidavit verify --recompute” does.",
        )
    if not public and any(item.verdict == "UNDERPOWERED" for item in findings.tests):
        items.append("An UNDERPOWERED attack is no evidence either way; its note says what it lacks.")
    return tuple(items)


def interval_in_words(interval: tuple[float, float]) -> str:
    """``low to high``, rounded outwards."""
    low, high = interval
    shown_low = measured(low) if low == round(low) else fixed_lower(low)
    shown_high = measured(high) if high == round(high) else fixed_upper(high)
    return f"{shown_low} to {shown_high}"


def joined(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
