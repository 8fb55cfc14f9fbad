"""The plots of claims and attacks: one function a plot, each returning a matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from affidavit.audits.report.numbers import fixed_upper
from affidavit.audits.report.style import (
    ACCENT,
    ACCENT_SOFT,
    ALARM,
    INK,
    MUTED,
    PAPER,
    QUIET,
    beside,
    canvas,
    label_rows,
    styled,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "AttackShown",
    "Bar",
    "LeakRow",
    "Mark",
    "PowerRow",
    "attack_power",
    "leaked_counts",
    "method_bars",
    "privacy_profile",
    "tradeoff",
]

_ATTACK_LINES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1.2, 1.6)), (0, (6, 2, 1.2, 2)))
_ATTACK_MARKS = ("o", "s", "^", "D")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """One test of a claim, all three as ε: what was certified, what was proved, what could have been."""

    label: str
    certified: float
    proved: float | None
    ceiling: float | None


@styled
def method_bars(bars: Sequence[Bar], *, delta: str) -> Figure:
    """ε by every method that applies, at the certified δ; the best is filled and named so."""
    figure, axes = canvas(410, 74 + 34 * len(bars))
    finite = [bar.epsilon_upper for bar in bars if bar.epsilon_upper is not None]
    reach = max(finite, default=1.0) or 1.0
    for row, bar in enumerate(bars):
        if bar.epsilon_upper is None:
            beside(axes, 0.0, row, "no finite bound", strong=False)
            continue
        face, hatch = (ACCENT, None) if bar.best else (PAPER, "////")
        axes.barh(row, bar.epsilon_upper, height=0.56, facecolor=face, edgecolor=ACCENT if bar.best else QUIET,
                  linewidth=1.0, hatch=hatch)  # fmt: skip
        beside(axes, bar.epsilon_upper, row, fixed_upper(bar.epsilon_upper) + ("  best" if bar.best else ""), bar.best)
    label_rows(axes, [bar.name for bar in bars])
    axes.set_xlim(0, 1.34 * reach)
    axes.set_xlabel(f"ε at δ = {delta}")
    return figure


@styled
def privacy_profile(points: Sequence[tuple[float, float]], claims: Sequence[Mark]) -> Figure:
    """The certified upper bound on δ for each ε, with the claimed points on it."""
    figure, axes = canvas(410, 330)
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


@styled
def tradeoff(curve: LimitingCurve, attacks: Sequence[AttackShown], *, limit_label: str) -> Figure:
    """What the certificate allows any attack to reach, and what the attacks reached.

    The shaded region lies between guessing and the certified limit TPR = 1 − f(FPR): a
    certificate that holds keeps every attack inside it.
    """
    figure, axes = canvas(410, 395 + 19 * len(attacks))
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


@styled
def leaked_counts(rows: Sequence[LeakRow]) -> Figure:
    """Distinct identifiers in each output: those only the records could give, and guessable ones."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = canvas(410, 74 + 44 * len(rows))
    reach = max([row.only_from_records + row.guessable for row in rows] + [1])
    for index, row in enumerate(rows):
        axes.barh(index, row.only_from_records, height=0.56, color=ALARM, linewidth=0)
        axes.barh(index, row.guessable, left=row.only_from_records, height=0.56, facecolor=PAPER, edgecolor=QUIET,
                  hatch="////", linewidth=1.0 if row.guessable else 0.0)  # fmt: skip
        total = row.only_from_records + row.guessable
        words = f"{row.only_from_records}" + (f" + {row.guessable} guessable" if row.guessable else "")
        beside(axes, total, index, words, strong=total > 0)
    label_rows(axes, [row.label for row in rows])
    axes.set_xlim(0, 1.85 * reach)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.set_xlabel("distinct private identifiers in the output")
    return figure


@styled
def attack_power(tests: Sequence[PowerRow]) -> Figure:
    """What each test could have proved and did prove, against what was certified."""
    figure, axes = canvas(410, 118 + 46 * len(tests))
    finite = [value for test in tests for value in (test.certified, test.ceiling or 0.0) if math.isfinite(value)]
    reach = 1.16 * (max(finite, default=1.0) or 1.0)
    shown: set[str] = set()

    def once(label: str) -> str | None:
        fresh = label not in shown
        shown.add(label)
        return label if fresh else None

    for row, test in enumerate(tests):
        ceiling = min(reach, test.ceiling or 0.0)
        able = (test.ceiling or 0.0) > test.certified
        face, edge, hatch = (ACCENT_SOFT, ACCENT, None) if able else (PAPER, QUIET, "////")
        label = "a perfect attack could have proved" + ("" if able else ": too little")
        axes.barh(row, ceiling, height=0.5, facecolor=face, edgecolor=edge, hatch=hatch, linewidth=1.0,
                  label=once(label), zorder=2)  # fmt: skip
        axes.plot([min(reach, test.certified)] * 2, [row - 0.37, row + 0.37], color=INK, linewidth=2.2,
                  label=once("certified"), zorder=3, solid_capstyle="butt")  # fmt: skip
        if test.proved is not None:
            refuted = test.proved > test.certified
            axes.plot([min(reach, test.proved)], [row], "D" if refuted else "o", markersize=8, markeredgecolor=PAPER,
                      color=ALARM if refuted else INK, zorder=4, clip_on=False, linestyle="none",
                      label=once("proved, more than certified" if refuted else "proved"))  # fmt: skip
    label_rows(axes, [test.label for test in tests])
    axes.set_xlim(0, reach)
    axes.set_xlabel("ε")
    figure.legend(loc="outside lower left", ncols=1, handlelength=2.2, borderpad=0.2, labelspacing=0.35)
    return figure
