"""From a report's input to what the template prints: the page around its chapters."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from affidavit.audits.finding import CheckFinding
from affidavit.audits.report import words
from affidavit.audits.report.budget import account_context
from affidavit.audits.report.chapter import chapter_context, chapter_headline
from affidavit.audits.report.inputs import Chapter, Exhibit, ReportInput
from affidavit.audits.report.numbers import upper

__all__ = ["page_context"]

Context = dict[str, Any]


def page_context(report: ReportInput, *, public: bool = False) -> Context:
    """What ``report.html.j2`` names; ``public``: of certificates alone, without what follows from records."""
    if public:
        report = replace(report, accounts=(), exhibit=None)
    several = len(report.chapters) > 1
    keys = [f"c{number}-" if several else "" for number in range(1, len(report.chapters) + 1)]
    entries = {str(run.receipt.get("ledger_entry")) for chapter in report.chapters for run in chapter.runs} - {"None"}
    return {
        "title": report.title,
        "public": public,
        "exhibit": _exhibit(report.exhibit),
        "made": words.instant_in_words(report.made),
        "chapters": [
            chapter_context(chapter, key=key, made=report.made, public=public)
            for chapter, key in zip(report.chapters, keys, strict=True)
        ],
        "overview": _overview(report, keys, public=public) if several else None,
        "accounts": [
            account_context(
                account,
                key="" if len(report.accounts) == 1 else f"a{number}-",
                entries=entries,
                certificates={chapter.certificate.sha256 for chapter in report.chapters},
                made=report.made,
            )
            for number, account in enumerate(report.accounts, start=1)
        ],
    }


def _overview(report: ReportInput, keys: list[str], *, public: bool) -> Context:
    """Several certificates at a glance: the worst outcome first, then one row each."""
    shown = [
        (chapter, key, chapter_headline(chapter, public=public))
        for chapter, key in zip(report.chapters, keys, strict=True)
    ]
    order = {"alarm": 0, "unsure": 1, "holds": 2}
    worst = min((headline for _, _, headline in shown), key=lambda headline: order[headline.tone])
    worse = [headline.status for _, _, headline in shown if headline.tone == worst.tone]
    runs = sum(len(chapter.runs) for chapter in report.chapters)
    attacks = sum(_attacks(chapter) for chapter in report.chapters)
    count = len(shown)
    counted = words.capital(words.count(count, "certificate"))
    counted += "." if public else f", {words.count(runs, 'run')}, {words.count(attacks, 'attack')}."
    well = "Each number holds." if public else "No attack refuted any certificate, and no audit was inconclusive."
    return {
        "count": words.count(count, "certificate"),
        "status": worst,
        "sentence": f"{counted} "
        + (
            well
            if worst.tone == "holds"
            else f"{words.capital(words.count(len(worse), 'certificate reads', 'certificates read'))} "
            f"{words.joined([f'“{status}”' for status in dict.fromkeys(worse)])}: begin there."
        ),
        "rows": [_overview_row(chapter, key, headline) for chapter, key, headline in shown],
    }


def _exhibit(exhibit: Exhibit | None) -> Context | None:
    """The unprotected text in pieces, those that leaked marked."""
    if exhibit is None:
        return None
    pattern = "|".join(re.escape(each) for each in sorted(exhibit.leaked, key=len, reverse=True))
    pieces = re.split(f"({pattern})", exhibit.unprotected) if pattern else [exhibit.unprotected]
    return {
        "record": exhibit.record,
        "protected": exhibit.protected,
        "unprotected": [{"text": piece, "leaked": piece in exhibit.leaked} for piece in pieces if piece],
    }


def _attacks(chapter: Chapter) -> int:
    return sum(not isinstance(item, CheckFinding) for item in chapter.findings.tests)


def _overview_row(chapter: Chapter, key: str, headline: words.Headline) -> Context:
    claim = chapter.certificate.claim
    return {
        "key": key,
        "name": chapter.certificate.sha256[:12],
        "when": words.instant_in_words(chapter.certificate.not_before),
        "epsilon": upper(claim.epsilon),
        "delta": upper(claim.delta),
        "relation": chapter.certificate.relation,
        "runs": f"{len(chapter.runs):,}",
        "attacks": f"{_attacks(chapter):,}",
        "leaked": f"{words.most_leaked(chapter.findings.audited):,}",
        "tone": headline.tone,
        "status": headline.status,
    }
