"""Results at a prompt and in a notebook: short, rounded to the safe side, escaped, and without private parts."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.risk import risk_limits
from affidavit.accountant.show import MOST_ROWS, Facts, Shown, between, table
from affidavit.accountant.tradeoff import PrivacyCurve, privacy_curve
from affidavit.accountant.verifier import recompute

GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}
ALLOWED = {"div", "p", "table", "thead", "tbody", "tr", "th", "td"}


class Reader(HTMLParser):
    """Tags and text; fails on an attribute, and on a tag that is left open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[Any]) -> None:
        assert not attrs
        self.open.append(tag)
        self.tags.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data + " "


def at_delta(**options: Any) -> Any:
    return bound(GAUSSIAN, relation="add-remove", delta=1e-5, **options)


def test_a_bound_is_one_line():
    # Balle and Wang 2018, closed form: 4.3771780956812...
    assert repr(at_delta()) == "Bound(4.37717 <= ε <= 4.37718 at δ = 1e-05, add-remove, by gaussian)"
    of_delta = bound(GAUSSIAN, relation="zero-out", epsilon=1.0)
    assert re.fullmatch(r"Bound\(0\.12693\d <= δ <= 0\.12693\d at ε = 1, zero-out, by gaussian\)", repr(of_delta)), (
        repr(of_delta)
    )


@pytest.mark.parametrize(("asked", "says"), [({"epsilon": 1.0}, "ε = 1, δ = 0"), ({"delta": 1.0}, "ε = 0, δ = 1")])
def test_a_point_that_both_questions_share_says_no_more_than_it_is(asked, says):
    """Where both brackets are points, "1 <= ε <= 1 at δ = 0" would be false: ε is 0.5 there."""
    found = bound({"kind": "pure", "epsilon": 0.5}, relation="zero-out", **asked)
    assert repr(found).startswith(f"Bound({says}, zero-out")
    assert "<=" not in Reader(found.methods._repr_html_()).text or "epsilon" not in asked


def test_an_infinite_bound():
    found = bound({"kind": "gaussian", "noise_multiplier": 0.0}, relation="add-remove", delta=1e-5)
    assert repr(found) == "Bound(ε = inf, δ = 1e-05, add-remove, by gaussian)"
    assert "inf" in found._repr_html_()


def test_methods_say_why_they_do_not_apply():
    rows = {row.name: repr(row) for row in at_delta().methods}
    assert rows["gaussian"] == "MethodResult(gaussian: 4.37717 <= ε <= 4.37718 at δ = 1e-05)"
    assert rows["adaptive"] == "MethodResult(adaptive does not apply: needs an exponential leaf)"
    shown = Reader(at_delta().methods._repr_html_())
    assert {row.name for row in at_delta().methods} <= set(shown.text.split())
    assert "4.37718" in shown.text


def test_showing_a_bound_does_not_compute_its_table(monkeypatch):
    found = at_delta()
    monkeypatch.setattr("affidavit.accountant.bound._row", lambda *_: pytest.fail("the table was computed"))
    assert "4.37718" in repr(found)
    assert "noise_multiplier" in Reader(found._repr_html_()).text


def test_curves_limits_and_certified_bounds():
    curve = privacy_curve(GAUSSIAN, relation="add-remove", delta=1e-5)
    assert re.fullmatch(
        r"PrivacyCurve\(52 points, from δ <= 0\.3829\d* at ε = 0 to δ <= [\d.e-]+ at ε = 6\.56\d*\)", repr(curve)
    )
    assert repr(PrivacyCurve(())) == "PrivacyCurve(no points: nothing is known)"
    limits = repr(risk_limits(curve))
    assert limits.startswith("RiskLimits(area under the ROC curve <= 0.7")
    assert len(limits) < 200
    certified = recompute(GAUSSIAN, relation="add-remove", delta=1e-5)
    assert repr(certified) == "Recomputed(4.37717 <= ε <= 4.37718 at δ = 1e-05, add-remove, recomputed)"
    for shown in (curve, risk_limits(curve), certified, PrivacyCurve(())):
        assert Reader(shown._repr_html_()).tags <= ALLOWED


class Planted(Shown):
    """Markup wherever a text may stand."""

    __slots__ = ()

    def facts(self) -> Facts:
        return Facts("<b>&", ("<i>", "b"), tuple(("<script>x</script>", str(n)) for n in range(MOST_ROWS + 3)))


def test_everything_is_escaped_and_cut():
    html = Planted()._repr_html_()
    read = Reader(html)
    assert read.tags <= ALLOWED
    assert read.text.count("<script>x</script>") == MOST_ROWS
    assert "and 3 more" in read.text
    assert len(Reader(table("a" * 10_000, (), ())).text) < 400
    assert repr(Planted()) == "Planted(<b>&)"


def test_sides_are_rounded_outward():
    sides = {"epsilon_lower": 1.23456789, "epsilon_upper": 1.23456789e3, "delta_lower": 1e-5, "delta_upper": 1e-5}
    assert between(SimpleNamespace(**sides)) == "1.23456 <= ε <= 1234.57 at δ = 1e-05"
