"""One certificate's part of the page: strings and drawings, decided here once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from affidavit.accountant.attestation.statement import Certificate, MethodSummary
from affidavit.accountant.clock import parse_instant
from affidavit.accountant.plan import Plan, to_dict
from affidavit.accountant.risk import risk_limits
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.finding import (
    AttackFinding,
    CheckFinding,
    DiscoverableFinding,
    ExtractionFinding,
    Finding,
    MembershipFinding,
    PerRunFinding,
    SearchFinding,
    Tested,
    leakage_of,
)
from affidavit.audits.findings import Findings
from affidavit.audits.measure import Measure
from affidavit.audits.report import drawings, words
from affidavit.audits.report.inputs import Chapter, Run
from affidavit.audits.report.leak_rows import exposure_rows, overlap_rows
from affidavit.audits.report.numbers import fixed_lower, fixed_upper, measured, percent_upper, short, upper
from affidavit.audits.report.plan_words import places_in_words, plan_in_words, uses_in_words
from affidavit.audits.report.rates import rate_panels
from affidavit.audits.sentences import sentence

__all__ = ["chapter_context", "chapter_headline"]

Context = dict[str, Any]

NOTHING = "–"


def chapter_context(chapter: Chapter, *, key: str = "", made: datetime, public: bool = False) -> Context:
    """Everything that a chapter of the template names; ``key`` begins every id in it.

    ``public``: of the certificate alone. What attacks found follows from the records, and no certificate covers it.
    """
    certificate, headline = chapter.certificate, chapter_headline(chapter, public=public)
    if public:
        chapter = replace(chapter, findings=Findings(certificate_sha256=certificate.sha256, items=()), runs=())
    findings = _worded(chapter.findings, certificate.plan)
    curve = drawings.certified_curve(certificate)
    risk = _risk(certificate, curve)
    return {
        "key": key,
        "name": f"{certificate.sha256[:12]}, {words.instant_in_words(certificate.not_before)}",
        "headline": headline,
        "card": _card(chapter),
        "rates": rate_panels(curve, () if public else findings.items),
        "run": "each of its runs" if len(chapter.runs) > 1 else "this run",
        "claim": _claim(certificate, made),
        "tiles": _tiles(chapter, risk, public=public),
        "limits": words.limits(certificate, risk),
        "strength": words.strength((1 + risk["advantage"]) / 2),
        "groups": _groups(findings.items),
        "checks": [_check(item) for item in findings.items if isinstance(item, CheckFinding)],
        "verdicts": _legend(findings.items),
        "total_alpha": words.total_alpha(findings),
        "power": drawings.draw_power(findings.items, prefix=key),
        "leaks": drawings.draw_leaks(findings.items, prefix=key),
        "exposures": exposure_rows(findings.items),
        "overlaps": overlap_rows(findings.items),
        "tradeoffs": drawings.draw_tradeoffs(findings.items, curve, prefix=key),
        "tradeoff_caption": drawings.TRADEOFF_CAPTION,
        "utilities": _utilities(findings.items),
        "self_tests": [
            {
                "name": test.name,
                "attack": words.attack_name(test),
                "expected": test.expected,
                "observed": test.observed,
                "detail": test.detail,
                "passed": test.passed,
            }
            for test in findings.self_tests
        ],
        "not_shown": words.not_shown(certificate, findings, recomputed=chapter.recomputed, public=public),
        "plan": {
            "sentence": _sentence(certificate),
            "json": json.dumps(to_dict(certificate.plan), indent=2),
        },
        "methods": _methods(certificate, key),
        "profile": drawings.draw_profile(certificate, prefix=key),
        "runs": [_run(run, several=len(chapter.runs) > 1) for run in chapter.runs],
        "assumptions": certificate.assumptions,
        "provenance": _provenance(chapter),
    }


def chapter_headline(chapter: Chapter, *, public: bool = False) -> words.Headline:
    """The worst outcome of a chapter, in words."""
    certificate = chapter.certificate
    guarantees = [str(run.receipt.get("guarantee", "")) for run in chapter.runs]
    denied = next((guarantee for guarantee in guarantees if guarantee.startswith("NONE")), "")
    if not denied and not certificate.guarantee:
        denied = "NONE: its noise is seeded, and can be drawn again"
    if public and not denied and chapter.recomputed != "does not hold":
        return words.number_headline(signed=bool(certificate.keyids), recomputed=chapter.recomputed)
    return words.headline(chapter.findings, guarantee=denied, recomputed=chapter.recomputed)


def _card(chapter: Chapter) -> Context:
    """How anyone can check the card, with nothing from whoever made it but the certificate and the key."""
    certificate = chapter.certificate
    return {
        "verify": "affidavit verify certificate.json --recompute --trust signer.pem",
        "covered": "affidavit verify certificate.json --receipt receipt.json --text synthetic.jsonl --trust signer.pem",
        "sha256": certificate.sha256,
        "keyids": certificate.keyids,
    }


def _worded(findings: Findings, plan: Plan) -> Findings:
    """The same findings with what stands at a place of the plan in place of its path."""

    def worded(item: Finding) -> Finding:
        told = replace(item, attack=places_in_words(item.attack, plan), note=places_in_words(item.note, plan))
        if isinstance(told, Tested) and told.claim is not None:
            subject = places_in_words(told.claim.subject, plan)
            told = replace(told, claim=replace(told.claim, subject=subject))
        return told

    return replace(findings, items=tuple(map(worded, findings.items)))


def _risk(certificate: Certificate, curve: PrivacyCurve) -> dict[str, Decimal]:
    """The signed limits, or those that follow from the signed curve where it states none."""
    return {name: Decimal(value) for name, value in risk_limits(curve).as_dict().items()} | dict(certificate.risk)


def _claim(certificate: Certificate, made: datetime) -> Context:
    certified = next(
        (words.method_name(method.name) for method in certificate.methods if method.certified), "the best valid method"
    )
    return {
        "epsilon": upper(certificate.claim.epsilon),
        "delta": upper(certificate.claim.delta),
        "points": [
            {"epsilon": upper(claim.epsilon, digits=6), "delta": upper(claim.delta)} for claim in certificate.claims
        ],
        "times": words.times_more_likely(certificate.claim.epsilon),
        "unit": words.unit_in_words(certificate.unit),
        "relation": certificate.relation,
        "relation_words": words.relation_in_words(certificate.relation, certificate.unit),
        "size": f"{certificate.size:,}",
        "method": certified,
        "arithmetic": certificate.arithmetic,
        "valid": f"{words.instant_in_words(certificate.not_before)} to {words.instant_in_words(certificate.not_after)}"
        + (": expired, no new run may rely on it" if made > certificate.not_after else ""),
    }


def _tiles(chapter: Chapter, risk: dict[str, Decimal], *, public: bool) -> list[Context]:
    claim, tests = chapter.certificate.claim, chapter.findings.tests
    success = (1 + risk["advantage"]) / 2
    tiles = [
        {
            "label": "Certified cost",
            "value": f"ε = {upper(claim.epsilon)}",
            "note": f"at δ = {upper(claim.delta)}, {chapter.certificate.relation}",
        },
        {
            "label": "A fair bet on who was used",
            "value": f"≤ {percent_upper(success)}",
            "note": "right, for the best attack there can be; blind guessing: 50\u00a0%",
        },
    ]
    if public:
        return tiles
    counted = [item for item in chapter.findings.items if leakage_of(item) is not None]
    if counted:
        inside = words.most_leaked(item for item in counted if item.target == "protected")
        open_ones = [item for item in counted if item.target == "unprotected"]
        outside = words.most_leaked(open_ones) if open_ones else None
        tiles.append(
            {
                "label": "Private identifiers leaked",
                "value": f"{inside:,}",
                "note": "guessable ones apart"
                if outside is None
                else f"{outside:,} with protection off; guessable ones apart",
            }
        )
    tally = {verdict: sum(item.verdict == verdict for item in tests) for verdict in words.VERDICTS}
    checked = any(isinstance(item, CheckFinding) for item in tests)
    tiles.append(
        {
            "label": f"{'Attacks and checks' if checked else 'Attacks'} that refuted it",
            "value": f"{tally['VIOLATION']} of {len(tests)}" if tests else NOTHING,
            "note": f"{tally['CONSISTENT']} consistent, {tally['UNDERPOWERED']} underpowered"
            if tests
            else "none has been run",
        }
    )
    return tiles


def _groups(items: Iterable[Finding]) -> list[Context]:
    """The audited items first, then the controls."""
    shown = [(item, _row(item)) for item in items if not isinstance(item, CheckFinding)]
    groups: list[Context] = [
        {"name": "Under protection", "rows": [row for item, row in shown if item.judged]},
        {"name": "Controls: the same attacks where they must succeed, or must fail", "rows": [
            row for item, row in shown if not item.judged]},
    ]  # fmt: skip
    for group in groups:
        _told_apart(group["rows"])
    return [group for group in groups if group["rows"]]


def _told_apart(rows: list[Context]) -> None:
    """No two rows of one name: those that share one are numbered."""
    often = Counter(row["attack"] for row in rows)
    seen: Counter[str] = Counter()
    for row in rows:
        name = row["attack"]
        if often[name] > 1:
            seen[name] += 1
            row["attack"] = f"{name}, audit {seen[name]}"


def _row(item: AttackFinding) -> Context:
    tested = item if isinstance(item, Tested) else None
    claim = tested.claim if tested is not None else None
    proved = tested.epsilon_lower if tested is not None else None
    return {
        "attack": words.attack_name(item) + ("" if words.is_certified(item) else f", {words.setting_name(item)}"),
        "trials": f"{_trials(item)}; α = {short(item.alpha)}",
        "subject": "" if claim is None or claim.subject == "certificate" else claim.subject,
        "access": ", ".join(item.access) if isinstance(item, MembershipFinding | PerRunFinding) else "",
        "said": sentence(item),
        "details": _details(item),
        "note": item.note,
        "epsilon_lower": NOTHING if proved is None else fixed_lower(proved),
        "ceiling": NOTHING if tested is None else fixed_lower(tested.ceiling),
        "certified": NOTHING if claim is None else fixed_upper(claim.epsilon),
        "verdict": item.badge,
    }


def _trials(item: AttackFinding) -> str:
    if isinstance(item, SearchFinding | DiscoverableFinding):
        return f"{item.members:,} used, {item.held_out:,} not"
    return f"{item.n_members:,} used, {item.n_non_members:,} not" + (f"; {item.runs:,} runs" if item.runs > 1 else "")


def _details(item: AttackFinding) -> list[str]:
    """The figures behind the sentence, for whoever checks it."""
    if isinstance(item, MembershipFinding):
        area = f"area under the ROC {measured(item.auc)} ({words.interval_in_words(item.interval)})"
        return [area, *(_measure(measure) for measure in item.measures)]
    leakage = leakage_of(item)
    if leakage is not None and leakage.interval is not None:
        return [f"share of identifiers, interval: {words.interval_in_words(leakage.interval)}"]
    return []


def _check(item: CheckFinding) -> Context:
    chance = None if item.p_value is None else f"p-value {measured(item.p_value)}, α = {short(item.alpha)}"
    return {
        "name": words.check_name(item),
        "seen": f"{item.seen:,} looked at",
        "note": item.note,
        "statistic": chance or "",
        "verdict": item.badge,
    }


def _measure(measure: Measure) -> str:
    value = NOTHING if measure.value is None else measured(measure.value)
    interval = "" if measure.interval is None else f" ({words.interval_in_words(measure.interval)})"
    return f"{measure.name}: {value}{interval}"


def _legend(items: Iterable[Finding]) -> list[tuple[str, str]]:
    """What each verdict means; those that are no verdict on a claim only where they occur."""
    shown = {item.badge for item in items}
    return [*words.VERDICTS.items(), *((name, told) for name, told in words.NO_VERDICTS.items() if name in shown)]


def _utilities(items: Iterable[Finding]) -> list[Context]:
    return [
        {
            "attack": f"{words.attack_name(item)}, {words.setting_name(item)}",
            "name": item.utility.name,
            "value": measured(item.utility.value),
            "reference": NOTHING if item.utility.reference is None else measured(item.utility.reference),
        }
        for item in items
        if isinstance(item, ExtractionFinding) and item.utility is not None
    ]


def _sentence(certificate: Certificate) -> str:
    said = plan_in_words(certificate.plan)
    return f"What runs: {said}. That makes {uses_in_words(certificate.plan)}."


def _methods(certificate: Certificate, key: str) -> Context:
    """Those that apply first, the tightest of them first."""

    def rank(method: MethodSummary) -> tuple[bool, bool, Decimal]:
        return (not method.applies, method.epsilon_upper is None, method.epsilon_upper or Decimal(0))

    ordered = sorted(certificate.methods, key=rank)
    return {
        "drawing": drawings.draw_methods(ordered, delta=certificate.claim.delta, prefix=key),
        "rows": [
            {
                "name": words.method_name(method.name),
                "best": method.certified,
                "lower": fixed_lower(method.epsilon_lower, places=4) if method.epsilon_lower else NOTHING,
                "upper": ("∞" if method.applies else NOTHING)
                if method.epsilon_upper is None
                else fixed_upper(method.epsilon_upper, places=4),
                "note": "certified" if method.certified else method.why,
            }
            for method in ordered
        ],
    }


def _run(run: Run, *, several: bool) -> Context:
    """A run's released text, and the receipt's facts."""
    shown, ended = len(run.samples), str(run.receipt.get("ended", ""))
    among = f"{shown:,} of {run.released:,} texts" if run.released > shown else "All of the text"
    return {
        "name": f"Run that ended in the hour from {_instant(ended)}" if several and ended else "",
        "note": f"{among}, as released. The certificate covers every use that is made of it.",
        "samples": run.samples,
        "facts": [
            (name, str(run.receipt[key]), digest)
            for name, key, digest in (
                ("Ledger entry", "ledger_entry", True),
                ("Guarantee", "guarantee", False),
                ("Noise", "noise", False),
                ("Sampler", "sampler", False),
            )
            if run.receipt.get(key)
        ]
        + ([("Ended", f"in the hour from {_instant(ended)}", False)] if ended else [])
        + _stopped(run),
    }


def _stopped(run: Run) -> list[tuple[str, str, bool]]:
    """What a run that was stopped on its way is not silent about."""
    resumed, lost = int(run.receipt.get("resumed") or 0), int(run.receipt.get("lost_draws") or 0)
    rows = []
    if resumed:
        rows.append(("Resumed", f"{words.count(resumed, 'time')} after it had stopped, under the same charge", False))
    if lost:
        rows.append(("Lost draws", f"{lost:,}: their texts end there, and nothing was drawn again", False))
    if run.receipt.get("closed"):
        rows.append(("Closed", "before all of its texts were written; the whole charge stands", False))
    return rows


def _instant(written: str) -> str:
    try:
        return words.instant_in_words(parse_instant(written))
    except ValueError:
        return written


def _provenance(chapter: Chapter) -> list[tuple[str, str, bool]]:
    """(name, value, whether it is a digest)."""
    certificate = chapter.certificate
    signed = bool(certificate.keyids)
    rows = [
        ("Certificate", certificate.sha256 or "not computed", bool(certificate.sha256)),
        ("Signature", "verified with a trusted key" if signed else "not checked by whoever made this page", False),
        *((("Key", keyid, True)) for keyid in certificate.keyids),
        ("Number", words.recomputation_in_words(chapter.recomputed), False),
        ("Configuration", certificate.config_sha256, True),
        ("Model weights", certificate.model_sha256, True),
        ("Data", f"{certificate.data_commitment} (keyed commitment)", True),
        ("Versions", ", ".join(f"{name} {version}" for name, version in certificate.versions.items()), False),
    ]
    return [row for row in rows if row[1]]
