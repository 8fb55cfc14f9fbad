"""The report: one self-contained HTML file, readable for years without a network."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from affidavit.accountant import files
from affidavit.accountant.extras import require
from affidavit.audits.report.inputs import ReportInput
from affidavit.audits.report.view import page_context

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["render", "require_packages", "write"]


def require_packages() -> None:
    """Raises ``PackageMissing`` where no report can be made with what is installed."""
    require("audit", "jinja2", "markupsafe", "matplotlib", purpose="the report")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("affidavit.audits.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(report: ReportInput, *, public: bool = False) -> str:
    """The page as HTML; ``public``: of certificates alone, to be shared.

    Everything but our own drawings is escaped. Raises ``PackageMissing``.
    """
    require_packages()
    return _environment().get_template("report.html.j2").render(page_context(report, public=public))


def write(report: ReportInput, path: Path, *, public: bool = False) -> None:
    """Write the page atomically, readable by the owner only, unless ``public``: it tells what attacks found."""
    content = render(report, public=public).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, content, mode=0o644 if public else 0o600)
