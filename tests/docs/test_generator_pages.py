"""The pages of the generators state what their own run files cost, to the digits that they show."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from affidavit.certification import plan_run
from affidavit.runfile import parse_run

DOCS = Path(__file__).resolve().parents[2] / "docs"
STATED = {
    "few-shot": r"the run file above \| ε = ([\d.]+),",
    "adadpsyn": r"certified \| ε = ([\d.]+) at",
    "invisible-ink": r"the run file above \| ε = ([\d.]+),",
    "private-prediction": r"the run file above \| ε = ([\d.]+),",
    "ksa": r"certified \| ε = ([\d.]+) at δ = 4e-4",
    "sga": r"certified \| ε = ([\d.]+) at",
}


@pytest.mark.parametrize("page", STATED)
def test_a_page_shows_what_its_run_file_costs(page: str) -> None:
    """Either rounded to the next digit up, as commands print it, or to the nearest."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    content = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    stated = re.search(STATED[page], text)
    assert content is not None
    assert stated is not None
    digits = len(stated.group(1).partition(".")[2])
    cost = plan_run(parse_run(tomllib.loads(content.group(1)))).cost.epsilon_upper
    above = (float(stated.group(1)) - cost) * 10.0**digits
    assert -0.5 <= above < 1.0, (page, stated.group(1), cost)
