"""Tables of what leaked: who is exposed, and how much of the text is somebody's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from affidavit.audits.finding import Finding, leakage_of, overlap_of
from affidavit.audits.leaks import Exposure, Overlap
from affidavit.audits.report import words
from affidavit.audits.report.numbers import fixed_lower, fixed_upper, measured

__all__ = ["exposure_rows", "overlap_rows"]

NOTHING = "–"
_KINDS = {
    "email": "e-mail address",
    "phone": "phone number",
    "url": "web address",
    "account": "account number",
    "name": "name",
    "any": "identifier of any kind",
}


def exposure_rows(items: Iterable[Finding]) -> list[dict[str, Any]]:
    """One group a finding that counted them: each kind by itself, then records and users over all kinds."""
    groups = []
    for item in items:
        leakage = leakage_of(item)
        counted = () if leakage is None else leakage.exposures
        kinds = {exposure.kind for exposure in counted}
        whole = "any" if "any" in kinds else next(iter(kinds), "")
        chosen = [each for each in counted if each.unit == "identifier" or each.kind == whole]
        if chosen:
            name = f"{words.attack_name(item)}, {words.setting_name(item)}"
            groups.append({"name": name, "rows": [_exposure(each) for each in chosen]})
    return groups


def _exposure(exposure: Exposure) -> dict[str, str]:
    what = _KINDS[exposure.kind]
    subject = words.capital(what) if exposure.unit == "identifier" else f"{words.capital(exposure.unit)} with an {what}"
    if exposure.unit != "identifier" and what[0] not in "aeiou":
        subject = f"{words.capital(exposure.unit)} with a {what}"
    return {
        "subject": subject,
        "leaked": f"{exposure.leaked:,} of {exposure.at_risk:,}",
        "interval": _share(exposure.interval),
        "method": exposure.interval_method,
        "beyond": f"{exposure.beyond_guessable:,}",
        "held_out": f"{exposure.held_out_leaked:,} of {exposure.held_out_at_risk:,}"
        if exposure.held_out_at_risk
        else NOTHING,
    }


def _share(interval: tuple[float, float]) -> str:
    low, high = (100.0 * end for end in interval)
    return f"{fixed_lower(low, places=1)} to {fixed_upper(high, places=1)}\u00a0%"


def overlap_rows(items: Iterable[Finding]) -> list[dict[str, str]]:
    """One row a finding that measured overlap."""
    return [
        _overlap(f"{words.attack_name(item)}, {words.setting_name(item)}", overlap)
        for item in items
        if (overlap := overlap_of(item)) is not None
    ]


def _overlap(name: str, overlap: Overlap) -> dict[str, str]:
    interval = overlap.margin_interval
    return {
        "name": name,
        "searched": f"{overlap.members:,} records used, {overlap.held_out:,} not",
        "words": str(overlap.words),
        "verbatim": f"{overlap.verbatim:,} of {overlap.texts:,} texts",
        "verbatim_interval": "" if overlap.verbatim_interval is None else _share(overlap.verbatim_interval),
        "held_out_verbatim": f"{overlap.held_out_verbatim:,}",
        "near": _near(overlap),
        "longest": f"longest {overlap.longest:,} words" if overlap.longest else "",
        "rouge_l": NOTHING if overlap.rouge_l is None else measured(overlap.rouge_l),
        "held_out_rouge_l": NOTHING if overlap.held_out_rouge_l is None else measured(overlap.held_out_rouge_l),
        "margin": NOTHING if overlap.margin is None else measured(overlap.margin),
        "margin_interval": ""
        if interval is None
        else f"{fixed_lower(interval[0])} to {fixed_upper(interval[1])}, over {overlap.texts:,} texts",
    }


def _near(overlap: Overlap) -> str:
    """Near copies beside those of records that were not used, in words; empty where they were not looked for."""
    near = overlap.near
    if near is None:
        return ""
    told = f"{near.words} words with at most {near.edits} edited: {near.near:,} texts"
    return f"{told}, {near.held_out_near:,} of records not used; so often by chance {measured(near.chance)}"
