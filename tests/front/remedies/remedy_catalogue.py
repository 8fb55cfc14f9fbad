"""All cases, area by area; and the page that lists every refusal, as ``python remedy_catalogue.py`` writes it."""

from __future__ import annotations

import cases_accountant
import cases_api
import cases_audits
import cases_costs
import cases_data
import cases_findings
import cases_folders
import cases_foreign
import cases_generation
import cases_grids
import cases_init
import cases_ledger
import cases_machine
import cases_mechanisms
import cases_models
import cases_numbers
import cases_office
import cases_plans
import cases_rest
import cases_resume
import cases_runs
import cases_workers
from remedy_sites import PACKAGES, ROOT, Site, sites

CASES = [
    *cases_plans.CASES,
    *cases_runs.CASES,
    *cases_ledger.CASES,
    *cases_audits.CASES,
    *cases_grids.CASES,
    *cases_models.CASES,
    *cases_accountant.CASES,
    *cases_numbers.CASES,
    *cases_data.CASES,
    *cases_init.CASES,
    *cases_rest.CASES,
    *cases_resume.CASES,
    *cases_findings.CASES,
    *cases_generation.CASES,
    *cases_folders.CASES,
    *cases_foreign.CASES,
    *cases_machine.CASES,
    *cases_office.CASES,
    *cases_workers.CASES,
]

API = [
    *cases_api.CASES,
    *cases_mechanisms.CASES,
    *cases_accountant.API,
    *cases_costs.API,
    *cases_rest.API,
    *cases_resume.API,
    *cases_findings.API,
    *cases_generation.API,
    *cases_folders.API,
    *cases_foreign.API,
    *cases_machine.API,
    *cases_office.API,
    *cases_workers.API,
]
EXECUTED = {case.at for case in CASES} | {case.at for case in API}
PAGE = ROOT / "docs" / "refusals.md"

AREAS = {
    "front": "Commands and files",
    "accountant": "Plans, certificates, ledger",
    "mechanisms": "Mechanisms",
    "generation": "Generators and models",
    "audits": "Audits and reports",
}
HEAD = """# All refusals

Every deliberate error, with its [exit code](exit-codes.md) and its remedy. Between backticks stands what can be typed;
a capital word such as RUN.toml becomes the file of the call, and … is what is only known when it is said. A test makes
each refusal, does what the remedy says, and sees the call succeed (or get past this refusal). This page is made by
`python tests/front/remedies/remedy_catalogue.py`.
"""


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for package in PACKAGES:
        found = sorted({_row(site) for site in sites() if site.name.partition("/")[0] == package})
        parts.append(f"## {AREAS[package]}\n\n| code | refusal | remedy |\n|---|---|---|\n" + "\n".join(found) + "\n")
    return "\n".join(parts)


def _row(site: Site) -> str:
    message = site.message + ("" if site.allowed is None else f"; allowed: {site.allowed}")
    hint = site.hint if site.hint is not None else "an example of what is allowed"
    return "| " + " | ".join(_cell(cell) for cell in (str(site.code), message, hint)) + " |"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|").replace("<", "&lt;").strip()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
