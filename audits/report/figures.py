"""The report's plots: one function a plot, each returning a matplotlib figure.

Readable in grey: what colour says is also said by shape, hatching or words. Sizes are in CSS
pixels (one point is one pixel at 72 dpi); a plot shrinks with the page down to about 340 px.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol

from affidavit.audits.report.numbers import fixed_upper, short
from affidavit.audits.report.svg import PALETTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AttackShown",
    "Bar",
    "LeakRow",
    "Mark",
    "SpentRow",
    "leaked_counts",
    "method_bars",
    "privacy_profile",
    "spent_budget",
    "tradeoff",
]

INK, MUTED, RULE, PAPER = PALETTE["ink"], PALETTE["muted"], PALETTE["rule"], PALETTE["paper"]
ACCENT, ACCENT_SOFT, QUIET, ALARM = PALETTE["accent"], PALETTE["accent-soft"], PALETTE["quiet"], PALETTE["alarm"]

_STYLE: Any = {  # matplotlib spells its keys out as literals
    "axes.edgecolor": MUTED,
    "axes.facecolor": "none",
    "axes.labelcolor": INK,
    "axes.labelsize": 12.5,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.unicode_minus": True,
    "figure.dpi": 72,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 12.5,
    "hatch.linewidth": 0.9,
    "legend.fontsize": 12.5,
    "legend.frameon": False,
    "text.color": INK,
    "text.parse_math": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "xtick.labelsize": 12,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "ytick.labelsize": 12,
}
_ATTACK_LINES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)))
_ATTACK_MARKS = ("o", "s", "^", "D")

Parameters = ParamSpec("Parameters")


class LimitingCurve(Protocol):
    """What a certified curve has to answer (``affidavit.accountant.tradeoff.PrivacyCurve``)."""

    def false_negative_rate(self, rate: float, /) -> float:
        """A lower bound on the FNR of every test with this FPR."""
        ...


@dataclass(frozen=True, slots=True)
class Bar:
    """One method's ε; None where the method gives no finite bound."""

    name: str
    epsilon_upper: float | None
    best: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """A claimed point on the profile, and its words."""

    epsilon: float
    delta: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackShown:
    """One attack in the trade-off plot.

    ``roc``: (FPR, TPR) points. ``point``: the operating point (FPR, TPR) at which the attack was
    held against the curve, with ``worst`` = (upper limit of FPR, lower limit of TPR) at the
    audit's confidence; the certificate is refuted where ``worst`` lies above the limit.
    """

    label: str
    roc: Sequence[tuple[float, float]] = ()
    point: tuple[float, float] | None = None
    worst: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LeakRow:
    """Distinct identifiers found in one target's output."""

    label: str
    only_from_records: int
    guessable: int


@dataclass(frozen=True, slots=True)
class SpentRow:
    """One budget of the account, in shares of its total."""

    label: str
    before: float
    this_run: float
    left: str


def _styled(draw: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Draw under the report's style, without touching matplotlib's global state."""

    @wraps(draw)
    def styled(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return styled


def _canvas(width: float, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=4 / 72, h_pad=4 / 72)
    figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout=layout)
    return figure, figure.add_subplot()


def _rows(axes: Axes, labels: Sequence[str]) -> None:
    """Horizontal categories from top to bottom, without a left axis."""
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.45, -0.6)
    axes.tick_params(axis="y", length=0, pad=6)
    axes.spines["left"].set_visible(False)


def _beside(axes: Axes, x: float, row: int, text: str, strong: bool) -> None:
    """A bar's words, just right of its end."""
    axes.annotate(text, (x, row), xytext=(6, 0), textcoords="offset points", va="center",
                  weight="bold" if strong else "normal")  # fmt: skip


@_styled
def method_bars(bars: Sequence[Bar], *, delta: str) -> Figure:
    """ε by every method that applies, at the certified δ; the best is filled and named so."""
    figure, axes = _canvas(410, 74 + 34 * len(bars))
    finite = [bar.epsilon_upper for bar in bars if bar.epsilon_upper is not None]
    reach = max(finite, default=1.0) or 1.0
    for row, bar in enumerate(bars):
        if bar.epsilon_upper is None:
            _beside(axes, 0.0, row, "no finite bound", strong=False)
            continue
        face, hatch = (ACCENT, None) if bar.best else (PAPER, "////")
        axes.barh(row, bar.epsilon_upper, height=0.56, facecolor=face, edgecolor=ACCENT if bar.best else QUIET,
                  linewidth=1.0, hatch=hatch)  # fmt: skip
        _beside(axes, bar.epsilon_upper, row, fixed_upper(bar.epsilon_upper) + ("  best" if bar.best else ""), bar.best)
    _rows(axes, [bar.name for bar in bars])
    axes.set_xlim(0, 1.34 * reach)
    axes.set_xlabel(f"ε at δ = {delta}")
    return figure


@_styled
def privacy_profile(points: Sequence[tuple[float, float]], claims: Sequence[Mark]) -> Figure:
    """The certified upper bound on δ for each ε, with the claimed points on it."""
    figure, axes = _canvas(410, 330)
    shown = sorted((epsilon, delta) for epsilon, delta in points if epsilon >= 0 and delta > 0)
    if shown:
        epsilons, deltas = zip(*shown, strict=True)
        axes.fill_between(epsilons, deltas, 1.0, color=ACCENT_SOFT, linewidth=0, zorder=1)
        axes.plot(epsilons, deltas, color=ACCENT, linewidth=1.8, zorder=3)
    axes.set_yscale("log")
    below = [claim.delta for claim in claims if claim.delta > 0]
    floor = min([delta for _, delta in shown] + below, default=1e-6)
    bottom = max(floor, min(below, default=1.0) * 1e-4) / 3
    right = max([epsilon for epsilon, delta in shown if delta >= bottom] + [claim.epsilon for claim in claims] + [1e-9])
    axes.set_xlim(0, 1.04 * right)
    axes.set_ylim(bottom, 1.0)
    for claim in claims:
        epsilon, delta = claim.epsilon, claim.delta
        if delta <= 0:
            continue
        axes.plot([epsilon, epsilon, 0], [bottom, delta, delta], color=INK, linewidth=0.9, dashes=(3, 3), zorder=2)
        axes.plot([epsilon], [delta], "o", markersize=7, color=INK, markeredgecolor=PAPER, zorder=4, clip_on=False)
        above = epsilon < 0.6 * right
        axes.annotate(
            claim.label,
            (epsilon, delta),
            xytext=(9, 9) if above else (-9, -8),
            textcoords="offset points",
            ha="left" if above else "right",
            va="bottom" if above else "top",
            weight="bold",
        )
    _plain_log_ticks(axes, bottom)
    axes.set_xlabel("ε")
    axes.set_ylabel("δ", rotation=0, labelpad=8)
    return figure


def _plain_log_ticks(axes: Axes, bottom: float) -> None:
    """Powers of ten as 10⁻³ in plain characters: mathematical text would not stay text."""
    lowest = math.ceil(math.log10(bottom))
    step = max(1, math.ceil(-lowest / 6))
    powers = range(0, lowest - 1, -step)
    raised = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    axes.set_yticks(
        [10.0**power for power in powers],
        ["1" if power == 0 else f"10{str(power).translate(raised)}" for power in powers],
    )
    axes.minorticks_off()


@_styled
def tradeoff(curve: LimitingCurve, attacks: Sequence[AttackShown], *, limit_label: str) -> Figure:
    """What the certificate allows any attack to reach, and what the attacks reached.

    The shaded region lies between guessing and the certified limit TPR = 1 − f(FPR): a
    certificate that holds keeps every attack inside it.
    """
    figure, axes = _canvas(410, 395 + 19 * len(attacks))
    rates = [10.0 ** (-6 + 6 * i / 240) for i in range(241)]
    grid = sorted({0.0, *rates, *(i / 200 for i in range(201))})
    limit = [1.0 - curve.false_negative_rate(rate) for rate in grid]
    axes.fill_between(grid, grid, limit, color=ACCENT_SOFT, linewidth=0, zorder=1)
    axes.plot(grid, limit, color=ACCENT, linewidth=1.8, label=limit_label, zorder=3)
    axes.plot([0, 1], [0, 1], color=MUTED, linewidth=0.9, dashes=(2, 3), label="blind guessing", zorder=2)
    for index, attack in enumerate(attacks):
        line, mark = _ATTACK_LINES[index % len(_ATTACK_LINES)], _ATTACK_MARKS[index % len(_ATTACK_MARKS)]
        colour = INK if index % 2 == 0 else ALARM
        label: str | None = attack.label
        if attack.roc:
            roc = sorted({(0.0, 0.0), *map(tuple, attack.roc), (1.0, 1.0)})
            axes.plot([x for x, _ in roc], [y for _, y in roc], color=colour, linewidth=1.4, linestyle=line,
                      label=label, zorder=4)  # fmt: skip
            label = None
        if attack.point is not None:
            (x, y), (worst_x, worst_y) = attack.point, attack.worst or attack.point
            axes.errorbar(
                [x], [y], xerr=[[0.0], [max(0.0, worst_x - x)]], yerr=[[max(0.0, y - worst_y)], [0.0]],
                fmt=mark, markersize=6.5, color=colour, markeredgecolor=PAPER, elinewidth=1.2, capsize=3,
                label=label, zorder=5, clip_on=False,
            )  # fmt: skip
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")
    ticks = [0, 0.25, 0.5, 0.75, 1]
    axes.set_xticks(ticks, ["0", "25", "50", "75", "100"])
    axes.set_yticks(ticks, ["0", "25", "50", "75", "100"])
    axes.set_xlabel("false alarms, % of trials without the record")
    axes.set_ylabel("detected, % of trials with the record")
    figure.legend(loc="outside lower left", ncols=1, handlelength=2.6, borderpad=0.2, labelspacing=0.35)
    return figure


@_styled
def leaked_counts(rows: Sequence[LeakRow]) -> Figure:
    """Distinct identifiers in each output: those only the records could give, and guessable ones."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = _canvas(410, 74 + 44 * len(rows))
    reach = max([row.only_from_records + row.guessable for row in rows] + [1])
    for index, row in enumerate(rows):
        axes.barh(index, row.only_from_records, height=0.56, color=ALARM, linewidth=0)
        axes.barh(index, row.guessable, left=row.only_from_records, height=0.56, facecolor=PAPER, edgecolor=QUIET,
                  hatch="////", linewidth=1.0 if row.guessable else 0.0)  # fmt: skip
        total = row.only_from_records + row.guessable
        words = f"{row.only_from_records}" + (f" + {row.guessable} guessable" if row.guessable else "")
        _beside(axes, total, index, words, strong=total > 0)
    _rows(axes, [row.label for row in rows])
    axes.set_xlim(0, 1.85 * reach)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("distinct private identifiers in the output")
    return figure


@_styled
def spent_budget(rows: Sequence[SpentRow]) -> Figure:
    """The ledger account: earlier runs, this run, and what is left, each as a share of the whole."""
    figure, axes = _canvas(410, 64 + 58 * len(rows))
    for index, row in enumerate(rows):
        axes.barh(index, 1.0, height=0.5, facecolor=PAPER, edgecolor=MUTED, linewidth=0.9)
        axes.barh(index, row.before, height=0.5, facecolor=QUIET, edgecolor=MUTED, linewidth=0.9)
        axes.barh(index, row.this_run, left=row.before, height=0.5, facecolor=ACCENT, edgecolor=ACCENT, linewidth=0.9)
        axes.text(1.0, index - 0.3, row.left, ha="right", va="bottom", fontsize=12, color=MUTED)
    _rows(axes, [row.label for row in rows])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_xlabel(f"% of the account's budget ({short(100 * max(row.this_run for row in rows))} % by this run)")
    return figure
