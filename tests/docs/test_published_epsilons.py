"""docs/published-epsilons.md: every figure is made again, and the published ones come out of the published account."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def accounts():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT))
        yield importlib.import_module("benchmarks.published_epsilons")


def test_the_page_shows_what_is_computed(accounts):
    page = accounts.PAGE.read_text(encoding="utf-8")
    found = {"accounts": accounts.table()}
    assert accounts.pasted(page, found) == page
    changed = page.replace("| 2.922 ", "| 2.382 ")
    assert changed != page
    assert accounts.pasted(changed, found) == page, "a changed figure would not be seen"


@pytest.mark.parametrize("index", range(4))
def test_each_step_lowers_the_number_and_a_peer_agrees(accounts, index):
    setting = accounts.SETTINGS[index]
    found = accounts.ours(setting)
    assert f"{found.old_conversion:.2f}" == setting.published
    assert found.old_conversion > found.better_conversion >= found.any_order > found.epsilon_upper > found.epsilon_lower
    old, better, exact = accounts.theirs(setting)
    # Its divergences at orders that are not whole are upper bounds, by at most 3e-4 of ε here.
    assert found.old_conversion == pytest.approx(old, rel=3e-4)
    assert found.better_conversion == pytest.approx(better, rel=4e-4)
    # Its PLD is discretised pessimistically; the default interval of 1e-4 costs less than this.
    assert found.epsilon_lower <= exact
    assert found.epsilon_upper == pytest.approx(exact, rel=1e-4)


def test_the_prose_says_what_the_table_says(accounts):
    text = accounts.PAGE.read_text(encoding="utf-8")
    by_noise = {setting.noise: accounts.ours(setting) for setting in accounts.SETTINGS}
    assert f"takes 3.01 to {by_noise[1.1].better_conversion:.2f}" in text
    (end,) = re.findall(r"([\d.]+) is where this road ends", text)
    assert float(end) <= by_noise[1.1].epsilon_lower < float(end) + 1e-4
