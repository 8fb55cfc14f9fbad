"""From a report's input to what the template prints: strings and drawings, decided here once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from affidavit.accountant.clock import parse_instant
from affidavit.accountant.plan import to_dict
from affidavit.accountant.risk import risk_limits
from affidavit.accountant.statement import Certificate, MethodSummary
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.findings import Finding
from affidavit.audits.report import drawings, words
from affidavit.audits.report.inputs import ReportInput
from affidavit.audits.report.numbers import fixed_lower, fixed_upper, lower, measured, percent_upper, short, upper
from affidavit.audits.report.plan_words import plan_in_words, uses_in_words

__all__ = ["page_context"]

Context = dict[str, Any]

NOTHING = "–"
_SHOWN_CHARGES = 12


def page_context(report: ReportInput) -> Context:
    """Everything that ``report.html.j2`` names."""
    certificate, findings = report.certificate, report.findings
    curve = drawings.certified_curve(certificate)
    risk = _risk(certificate, curve)
    return {
        "title": report.title,
        "made": words.instant_in_words(report.made),
        "headline": words.headline(
            findings, guarantee=str((report.receipt or {}).get("guarantee", "")), recomputed=report.recomputed
        ),
        "claim": _claim(certificate),
        "tiles": _tiles(report, risk),
        "limits": words.limits(certificate, risk),
        "strength": words.strength((1 + risk["advantage"]) / 2),
        "groups": _groups(findings.items),
        "verdicts": list(words.VERDICTS.items()),
        "leaks": drawings.draw_leaks(findings.items),
        "tradeoffs": drawings.draw_tradeoffs(findings.items, curve),
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
        "not_shown": words.not_shown(certificate, findings, recomputed=report.recomputed),
        "plan": {
            "sentence": _sentence(certificate),
            "json": json.dumps(to_dict(certificate.plan), indent=2),
        },
        "methods": _methods(certificate),
        "profile": drawings.draw_profile(certificate),
        "account": _account(report),
        "samples": report.samples,
        "samples_note": _samples_note(report),
        "assumptions": certificate.assumptions,
        "provenance": _provenance(report),
    }


def _risk(certificate: Certificate, curve: PrivacyCurve) -> dict[str, Decimal]:
    """The signed limits, or those that follow from the signed curve where it states none."""
    return {name: Decimal(value) for name, value in risk_limits(curve).as_dict().items()} | dict(certificate.risk)


def _claim(certificate: Certificate) -> Context:
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
        "valid": f"{words.instant_in_words(certificate.not_before)} to {words.instant_in_words(certificate.not_after)}",
    }


def _tiles(report: ReportInput, risk: dict[str, Decimal]) -> list[Context]:
    claim, audited = report.certificate.claim, report.findings.audited
    success = (1 + risk["advantage"]) / 2
    tiles = [
        {
            "label": "Certified cost",
            "value": f"ε = {upper(claim.epsilon)}",
            "note": f"at δ = {upper(claim.delta)}, {report.certificate.relation}",
        },
        {
            "label": "A fair bet on who was used",
            "value": f"≤ {percent_upper(success)}",
            "note": "right, for the best attack there can be; blind guessing: 50\u00a0%",
        },
    ]
    counted = [item for item in report.findings.items if item.leaked is not None]
    if counted:
        inside = max((item.leaked_beyond_guessable for item in counted if item.target == "protected"), default=0)
        outside = max((item.leaked_beyond_guessable for item in counted if item.target == "unprotected"), default=None)
        tiles.append(
            {
                "label": "Private identifiers leaked",
                "value": f"{inside:,}",
                "note": "guessable ones apart"
                if outside is None
                else f"{outside:,} with protection off; guessable ones apart",
            }
        )
    tally = {verdict: sum(item.verdict == verdict for item in audited) for verdict in words.VERDICTS}
    tiles.append(
        {
            "label": "Attacks that refuted it",
            "value": f"{tally['VIOLATION']} of {len(audited)}" if audited else NOTHING,
            "note": f"{tally['CONSISTENT']} consistent, {tally['UNDERPOWERED']} underpowered"
            if audited
            else "none has been run",
        }
    )
    return tiles


def _groups(items: Iterable[Finding]) -> list[Context]:
    """The audited items first, then the controls."""
    shown = [(item, _row(item)) for item in items]
    groups = [
        {"name": "Under protection", "rows": [row for item, row in shown if not item.control]},
        {"name": "Controls: the same attacks where they must succeed, or must fail", "rows": [
            row for item, row in shown if item.control]},
    ]  # fmt: skip
    return [group for group in groups if group["rows"]]


def _row(item: Finding) -> Context:
    expected = item.control and item.verdict == "VIOLATION" and item.target == "unprotected"
    trials = f"{item.n_members:,} used, {item.n_non_members:,} not" + (f"; {item.runs:,} runs" if item.runs > 1 else "")
    return {
        "attack": words.attack_name(item) + ("" if words.is_certified(item) else f", {words.setting_name(item)}"),
        "trials": f"{trials}; α = {short(item.alpha)}",
        "subject": "" if item.claim is None or item.claim.subject == "certificate" else item.claim.subject,
        "statistic_name": item.statistic_name,
        "reached": words.reached(item),
        "limit": "" if item.limit is None else f"at most {upper(item.limit)}",
        "note": item.note,
        "epsilon_lower": NOTHING if item.epsilon_lower is None else fixed_lower(item.epsilon_lower),
        "ceiling": NOTHING if item.ceiling is None else fixed_lower(item.ceiling),
        "certified": NOTHING if item.claim is None else fixed_upper(item.claim.epsilon),
        "verdict": item.verdict,
        "expected": expected,
    }


def _utilities(items: Iterable[Finding]) -> list[Context]:
    return [
        {
            "attack": words.attack_name(item),
            "name": item.utility.name,
            "value": measured(item.utility.value),
            "reference": NOTHING if item.utility.reference is None else measured(item.utility.reference),
        }
        for item in items
        if item.utility is not None
    ]


def _sentence(certificate: Certificate) -> str:
    said = plan_in_words(certificate.plan)
    return f"What runs: {said}. That makes {uses_in_words(certificate.plan)}."


def _methods(certificate: Certificate) -> Context:
    """Those that apply first, the tightest of them first."""

    def rank(method: MethodSummary) -> tuple[bool, bool, Decimal]:
        return (not method.applies, method.epsilon_upper is None, method.epsilon_upper or Decimal(0))

    ordered = sorted(certificate.methods, key=rank)
    return {
        "drawing": drawings.draw_methods(ordered, delta=certificate.claim.delta),
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


def _account(report: ReportInput) -> Context | None:
    account = report.account
    if account is None:
        return None
    entry = (report.receipt or {}).get("ledger_entry")
    mine = [
        item
        for item in account.reservations
        if (item.entry == entry if entry else item.certificate_sha256 == report.certificate.sha256)
    ]
    left_epsilon, left_delta = account.remaining
    hidden = max(0, len(account.reservations) - _SHOWN_CHARGES)
    return {
        "sentence": f"Account {account.dataset}: {account.filter} filter, opened on "
        f"{words.instant_in_words(parse_instant(account.opened))}. "
        f"ε = {lower(left_epsilon)} of {short(account.epsilon, digits=6)} and "
        f"δ = {lower(left_delta)} of {short(account.delta, digits=6)} are left for all further runs on these data."
        + (f" The {hidden:,} oldest charges are not listed." if hidden else ""),
        "drawing": drawings.draw_account(account, mine),
        "charges": [
            {
                "certificate": item.certificate_sha256[:12],
                "this_run": item in mine,
                "state": "reserved, never committed: spent" if item.ended is None else "committed",
                "when": words.instant_in_words(parse_instant(item.reserved)),
                "epsilon": fixed_upper(item.epsilon),
                "delta": upper(item.delta),
            }
            for item in account.reservations[-_SHOWN_CHARGES:]
        ],
    }


def _samples_note(report: ReportInput) -> str:
    shown = len(report.samples)
    among = f"{shown:,} of {report.released:,} texts" if report.released > shown else "All of the text"
    return f"{among}, as released. The certificate covers every use that is made of it."


def _provenance(report: ReportInput) -> list[tuple[str, str, bool]]:
    """(name, value, whether it is a digest)."""
    certificate, receipt = report.certificate, report.receipt or {}
    signed = bool(certificate.keyids)
    rows = [
        ("Certificate", certificate.sha256 or "not computed", bool(certificate.sha256)),
        ("Signature", "verified with a trusted key" if signed else "not checked by whoever made this page", False),
        *((("Key", keyid, True)) for keyid in certificate.keyids),
        ("Number", words.recomputation_in_words(report.recomputed), False),
        ("Configuration", certificate.config_sha256, True),
        ("Model weights", certificate.model_sha256, True),
        ("Data", f"{certificate.data_commitment} (keyed commitment)", True),
    ]
    rows += [
        (name, str(receipt[key]), digest)
        for name, key, digest in (
            ("Ledger entry", "ledger_entry", True),
            ("Guarantee", "guarantee", False),
            ("Noise", "noise", False),
            ("Sampler", "sampler", False),
            ("Run ended", "ended", False),
        )
        if receipt.get(key)
    ]
    rows.append(("Versions", ", ".join(f"{name} {version}" for name, version in certificate.versions.items()), False))
    return [row for row in rows if row[1]]
