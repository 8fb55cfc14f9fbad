"""The plots: what is drawn is what was given, and no words lie on other words."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.report import budget_figures, figures
from affidavit.audits.report.svg import PALETTE, inline_svg

CURVE = PrivacyCurve(((0.5, 0.1), (1.0, 0.01), (2.0, 1e-5)))
PROFILE = tuple(
    (epsilon, delta) for epsilon, delta in ((0.0, 0.4), (1.0, 0.1), (2.0, 0.02), (3.104, 1e-3), (4.5, 1e-6))
)
BARS = (
    figures.Bar("exact adaptive composition", 3.10341, True),
    figures.Bar("optimal composition of pure DP", 7.2108, False),
    figures.Bar("basic composition", 12.5, False),
    figures.Bar("privacy loss distribution", None, False),
)
ATTACKS = (
    figures.AttackShown(label="Label probability, certified output", roc=((0.2, 0.25), (0.6, 0.62))),
    figures.AttackShown(label="Label probability, protection off", roc=((0.1, 0.8),)),
    figures.AttackShown(label="One step, certified output", point=(0.1, 0.3), worst=(0.14, 0.24)),
)
LEAKS = (figures.LeakRow("Protection off", 41, 17), figures.LeakRow("Certified output", 0, 0))
SPENT = (
    budget_figures.SpentRow("ε", 0.2, 0.155, "12.89 of 20 left"),
    budget_figures.SpentRow("δ", 0.4, 0.2, "0.002 of 0.005 left"),
)

POWER = (
    figures.PowerRow(label="Extraction,\ncertified output", certified=3.104, proved=0.2, ceiling=5.6),
    figures.PowerRow(label="Reference,\ncertified output", certified=3.104, proved=None, ceiling=2.5),
    figures.PowerRow(label="One step,\ncertified output", certified=1.2, proved=1.9, ceiling=5.6),
)
OPENED = datetime(2026, 11, 1, 9, tzinfo=UTC)
CHARGES = tuple(
    budget_figures.Charge(
        when=OPENED + timedelta(days=7 * n), epsilon=0.2 * n, delta=0.1 * n, ours=n == 2, committed=n != 3
    )
    for n in (1, 2, 3, 4)
)


def _drawings() -> dict[str, Figure]:
    return {
        "methods": figures.method_bars(BARS, delta="0.001"),
        "profile": figures.privacy_profile(PROFILE, [figures.Mark(3.104, 1e-3, "claimed: ε = 3.104, δ = 0.001")]),
        "profile, claim near 0": figures.privacy_profile(
            PROFILE, [figures.Mark(0.3, 0.3, "claimed: ε = 0.3, δ = 0.3")]
        ),
        "trade-off": figures.tradeoff(CURVE, ATTACKS, limit_label="certified limit"),
        "leaks": figures.leaked_counts(LEAKS),
        "power": figures.attack_power(POWER),
        "timeline": budget_figures.budget_timeline(CHARGES, opened=OPENED, until=OPENED + timedelta(days=30)),
        "timeline of an hour": budget_figures.budget_timeline(
            CHARGES[:1], opened=CHARGES[0].when - timedelta(minutes=40), until=CHARGES[0].when + timedelta(minutes=20)
        ),
        "budget": budget_figures.spent_budget(SPENT),
    }


@pytest.mark.parametrize("name", list(_drawings()))
def test_no_words_overlap_and_none_are_cut(name: str) -> None:
    figure = _drawings()[name]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes: list[tuple[str, Bbox]] = []
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible() and text.get_text():
            boxes.append((text.get_text(), text.get_window_extent(renderer).padded(-0.5)))
    inside = [(words, box) for words, box in boxes if box.width > 0]
    assert len(inside) >= 5
    axes = figure.axes[0]
    ticks = {label.get_text() for axis in (axes.xaxis, axes.yaxis) for label in axis.get_ticklabels()}
    for (first, a), (second, b) in combinations(inside, 2):
        if first != second:
            shared = Bbox.intersection(a, b)
            assert shared is None or shared.width * shared.height < 1.0, (first, second)
    for words, box in inside:
        if words not in ticks:  # matplotlib keeps tick labels outside the limits, undrawn
            assert box.x0 >= -0.5, words
            assert box.x1 <= figure.bbox.width + 0.5, words


def test_the_tradeoff_draws_the_certified_limit() -> None:
    axes = figures.tradeoff(CURVE, ATTACKS, limit_label="certified limit").axes[0]
    limit = next(line for line in axes.lines if line.get_label() == "certified limit")
    x, y = limit.get_data()
    assert len(x) > 300
    assert (x[0], x[-1]) == (0.0, 1.0)
    for rate, allowed in zip(x, y, strict=True):
        assert allowed == 1.0 - CURVE.false_negative_rate(float(rate))
    assert y[0] == pytest.approx(1e-5), "at no false alarms: the smallest δ"


def test_the_tradeoff_draws_each_attack_as_given() -> None:
    axes = figures.tradeoff(CURVE, ATTACKS, limit_label="certified limit").axes[0]
    first = next(line for line in axes.lines if line.get_label() == ATTACKS[0].label)
    assert list(zip(*first.get_data(), strict=True)) == [(0, 0), (0.2, 0.25), (0.6, 0.62), (1, 1)]
    bars = [segment for bar in axes.containers for line in bar.lines[2] for segment in line.get_segments()]
    ends = {tuple(round(float(v), 12) for v in end) for segment in bars for end in segment}
    assert {(0.1, 0.3), (0.14, 0.3), (0.1, 0.24)} <= ends, "from the point to the unfavourable limits"
    styles = {str(line.get_linestyle()) for line in axes.lines if line.get_label() in {a.label for a in ATTACKS[:2]}}
    assert len(styles) == 2, "told apart without colour"


def test_bars_have_the_methods_lengths_and_the_best_is_solid() -> None:
    axes = figures.method_bars(BARS, delta="0.001").axes[0]
    assert [patch.get_width() for patch in axes.patches] == [3.10341, 7.2108, 12.5]
    assert [patch.get_hatch() for patch in axes.patches] == [None, "////", "////"]
    words = [text.get_text() for text in axes.texts]
    assert words == ["3.104  best", "7.211", "12.500", "no finite bound"]


def test_the_profile_is_logarithmic_and_marks_the_claim() -> None:
    axes = figures.privacy_profile(PROFILE, [figures.Mark(3.104, 1e-3, "claimed")]).axes[0]
    assert axes.get_yscale() == "log"
    curve = axes.lines[0].get_data()
    assert list(zip(*curve, strict=True)) == list(PROFILE)
    assert (3.104, 1e-3) in [
        tuple(float(v[0]) for v in line.get_data()) for line in axes.lines if len(line.get_xdata()) == 1
    ]
    low, high = axes.get_ylim()
    assert low < 1e-6
    assert high == 1.0
    assert axes.get_xlim()[1] >= 4.5


def test_a_profile_down_to_tiny_deltas_keeps_the_claim_in_sight() -> None:
    points = [(float(i), 10.0 ** (-3 * i)) for i in range(1, 40)]
    axes = figures.privacy_profile(points, [figures.Mark(2.0, 1e-6, "claimed")]).axes[0]
    low, _ = axes.get_ylim()
    assert 1e-12 < low < 1e-6
    assert axes.get_xlim()[1] < 6.0


def test_leaks_are_stacked_in_two_kinds() -> None:
    axes = figures.leaked_counts(LEAKS).axes[0]
    assert [(patch.get_x(), patch.get_width()) for patch in axes.patches] == [(0, 41), (41, 17), (0, 0), (0, 0)]
    assert axes.patches[1].get_hatch() == "////"
    assert [text.get_text() for text in axes.texts] == ["41 + 17 guessable", "0"]


def test_spent_shares_follow_one_another() -> None:
    axes = budget_figures.spent_budget(SPENT).axes[0]
    shares = [(round(patch.get_x(), 9), round(patch.get_width(), 9)) for patch in axes.patches]
    assert shares == [(0, 1), (0, 0.2), (0.2, 0.155), (0, 1), (0, 0.4), (0.4, 0.2)]


def test_power_is_drawn_to_scale_and_its_lack_is_hatched() -> None:
    axes = figures.attack_power(POWER).axes[0]
    assert [patch.get_width() for patch in axes.patches] == [5.6, 2.5, 5.6]
    assert [patch.get_hatch() for patch in axes.patches] == [None, "////", None]
    upright = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2]
    assert upright == [3.104, 3.104, 1.2]
    dots = [(line.get_xdata()[0], line.get_marker()) for line in axes.lines if len(line.get_xdata()) == 1]
    assert dots == [(0.2, "o"), (1.9, "D")], "what refutes looks different"


def test_power_without_bound_is_drawn_to_the_edge() -> None:
    row = figures.PowerRow(label="a", certified=math.inf, proved=0.0, ceiling=2.0)
    axes = figures.attack_power([row]).axes[0]
    assert math.isfinite(axes.get_xlim()[1])


def test_the_timeline_steps_when_a_run_is_charged() -> None:
    axes = budget_figures.budget_timeline(CHARGES, opened=OPENED, until=OPENED + timedelta(days=30)).axes[0]
    spent = next(line for line in axes.lines if line.get_label() == "ε spent")
    assert [round(float(y), 9) for y in spent.get_ydata()] == [0.0, 0.2, 0.4, 0.6, 0.8, 0.8]
    assert spent.get_drawstyle() == "steps-post"
    marks = {line.get_label(): len(line.get_xdata()) for line in axes.lines if line.get_marker() not in ("None", None)}
    assert marks == {"runs on this page": 1, "other runs": 2, "reserved, never committed": 1}


def test_drawing_leaves_matplotlib_s_settings_alone() -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    inline_svg(figures.leaked_counts(LEAKS), name="leaks", title="Leaks", description="None.")
    assert dict(mpl.rcParams) == before


def test_figures_carry_the_palette_so_that_themes_can_replace_it() -> None:
    axes = figures.method_bars(BARS, delta="0.001").axes[0]
    assert to_hex(axes.patches[0].get_facecolor()) == PALETTE["accent"]
    drawing = inline_svg(figures.method_bars(BARS, delta="0.001"), name="m", title="t", description="d")
    assert "var(--accent)" in drawing
    assert PALETTE["accent"] not in drawing


def test_words_in_a_drawing_are_escaped_and_never_mathematics() -> None:
    hostile = "<script>$\\frac{1}{2}$</script>"
    bars = (figures.Bar(hostile, 1.0, True),)
    drawing = inline_svg(figures.method_bars(bars, delta="1"), name="m", title=hostile, description=hostile)
    assert "<script" not in drawing
    assert drawing.count("&lt;script&gt;$\\frac{1}{2}$&lt;/script&gt;") == 3


def test_the_smallest_inputs_can_be_drawn() -> None:
    for figure in (
        figures.method_bars((figures.Bar("basic", 0.0, True),), delta="0"),
        figures.privacy_profile([(0.0, 0.0), (1.0, 0.0)], [figures.Mark(0.0, 0.0, "claimed")]),
        figures.tradeoff(PrivacyCurve(((math.inf, 0.0),)), (), limit_label="no limit"),
        figures.leaked_counts((figures.LeakRow("Certified output", 0, 0),)),
    ):
        assert "<svg" in inline_svg(figure, name="x", title="t", description="d")
