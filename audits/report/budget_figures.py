"""The plots of a ledger account: what is spent and left, and how it was spent over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from affidavit.audits.report.numbers import short
from affidavit.audits.report.style import ACCENT, ACCENT_SOFT, INK, MUTED, PAPER, QUIET, canvas, label_rows, styled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Charge", "SpentRow", "budget_timeline", "spent_budget"]


@dataclass(frozen=True, slots=True)
class SpentRow:
    """One budget of the account, in shares of its total."""

    label: str
    before: float
    this_run: float
    left: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One reservation, and what share of the budget is spent after it. ``ours``: its run is on this page."""

    when: datetime
    epsilon: float
    delta: float
    ours: bool
    committed: bool


@styled
def spent_budget(rows: Sequence[SpentRow], *, ours: str = "this run") -> Figure:
    """The ledger account: earlier runs, this run, and what is left, each as a share of the whole."""
    figure, axes = canvas(410, 64 + 58 * len(rows))
    for index, row in enumerate(rows):
        axes.barh(index, 1.0, height=0.5, facecolor=PAPER, edgecolor=MUTED, linewidth=0.9)
        axes.barh(index, row.before, height=0.5, facecolor=QUIET, edgecolor=MUTED, linewidth=0.9)
        axes.barh(index, row.this_run, left=row.before, height=0.5, facecolor=ACCENT, edgecolor=ACCENT, linewidth=0.9)
        axes.text(1.0, index - 0.3, row.left, ha="right", va="bottom", fontsize=12, color=MUTED)
    label_rows(axes, [row.label for row in rows])
    axes.set_xlim(0, 1)
    axes.set_xticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_xlabel(f"% of the account's budget ({short(100 * max(row.this_run for row in rows))} % by {ours})")
    return figure


@styled
def budget_timeline(charges: Sequence[Charge], *, opened: datetime, until: datetime) -> Figure:
    """Shares of the ε and δ budgets spent, from the day the account was opened; a mark for each run."""
    import matplotlib.dates

    dates: Any = matplotlib.dates  # the one part of matplotlib without types
    figure, axes = canvas(410, 360)
    times = [dates.date2num(moment) for moment in (opened, *(charge.when for charge in charges), until)]
    spent = [0.0, *(charge.epsilon for charge in charges)]
    slack = [0.0, *(charge.delta for charge in charges)]
    axes.fill_between(times, [*spent, spent[-1]], step="post", color=ACCENT_SOFT, linewidth=0, zorder=1)
    axes.step(times, [*spent, spent[-1]], where="post", color=ACCENT, linewidth=1.8, label="ε spent", zorder=3)
    axes.step(times, [*slack, slack[-1]], where="post", color=INK, linewidth=1.2, linestyle=(0, (5, 2)),
              label="δ spent", zorder=3)  # fmt: skip
    axes.axhline(1.0, color=MUTED, linewidth=1.0, zorder=2)
    kinds = (
        ("runs on this page", True, True, "o", ACCENT),
        ("other runs", False, True, "o", PAPER),
        ("reserved, never committed", None, False, "x", INK),
    )
    for label, ours, committed, mark, face in kinds:
        chosen = [charge for charge in charges if charge.committed == committed and ours in (None, charge.ours)]
        if chosen:
            marks = [dates.date2num(charge.when) for charge in chosen], [charge.epsilon for charge in chosen]
            axes.plot(*marks, mark, color=face, markeredgecolor=INK, markersize=7.5, markeredgewidth=1.4, label=label,
                      zorder=4, clip_on=False)  # fmt: skip
    axes.set_ylim(0, 1.08)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", "25", "50", "75", "100"])
    axes.set_ylabel("% of the budget")
    margin = 0.02 * max(times[-1] - times[0], 1e-6)
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    locator = dates.AutoDateLocator(minticks=3, maxticks=6)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, usetex=False))
    figure.legend(loc="outside lower left", ncols=2, handlelength=2.2, borderpad=0.2, labelspacing=0.35)
    return figure
