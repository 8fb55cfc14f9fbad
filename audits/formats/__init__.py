"""Findings for other programs: one renderer a file, from ``Findings`` to text.

    wording     what every format says of one finding, in the same words
    junit       JUnit XML: a test case a finding (CI systems)
    sarif       SARIF 2.1.0: a result a finding that fails, and one a leaked span (code scanning); sarif-all: all
    markdown    a page that people look at (a job's summary)
    summary     the same page, appended to GitHub's job summary where there is one

All of them hold names, numbers, digests and positions; none holds text of a record or of an output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from affidavit.audits.findings import Findings

if __name__ != "affidavit.audits.formats":
    raise ImportError("import affidavit.audits.formats, not the bare folder: a second copy would be a second registry")

__all__ = ["FORMATS", "Format", "render"]

Format = Literal["json", "junit", "sarif", "sarif-all", "markdown"]

FORMATS: tuple[Format, ...] = get_args(Format)


def render(findings: Findings, form: Format) -> str:
    """The whole document, ending in a line feed."""
    if form == "junit":
        from affidavit.audits.formats import junit

        return junit.render(findings)
    if form in ("sarif", "sarif-all"):
        from affidavit.audits.formats import sarif

        return sarif.render(findings, everything=form == "sarif-all")
    if form == "markdown":
        from affidavit.audits.formats import markdown

        return markdown.render(findings)
    return findings.to_json()
