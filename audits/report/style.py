"""How every plot of the report looks: colours, type, the canvas, and rows of bars.

Readable in grey: what colour says is also said by shape, hatching or words. Sizes are in CSS
pixels (one point is one pixel at 72 dpi); a plot shrinks with the page down to about 340 px.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

from affidavit.audits.report.svg import PALETTE

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "ACCENT",
    "ACCENT_SOFT",
    "ALARM",
    "INK",
    "MUTED",
    "PAPER",
    "QUIET",
    "beside",
    "canvas",
    "label_rows",
    "styled",
]

INK, MUTED, PAPER = PALETTE["ink"], PALETTE["muted"], PALETTE["paper"]
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

_LINE = 14.5  # from one line of a label to the next

Parameters = ParamSpec("Parameters")


def styled(draw: Callable[Parameters, Figure]) -> Callable[Parameters, Figure]:
    """Draw under the report's style, without touching matplotlib's global state."""

    @wraps(draw)
    def drawn(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Figure:
        import matplotlib as mpl

        with mpl.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


def canvas(width: float, height: float) -> tuple[Figure, Axes]:
    """A figure of this many pixels, and its axes; the layout keeps words from being cut."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    layout = ConstrainedLayoutEngine(w_pad=4 / 72, h_pad=4 / 72)
    figure = Figure(figsize=(width / 72, height / 72), dpi=72, layout=layout)
    return figure, figure.add_subplot()


def label_rows(axes: Axes, labels: Sequence[str]) -> None:
    """Horizontal categories from top to bottom, without a left axis.

    Each line of a label is a text of its own: only so is it flush right in whatever font the page has.
    """
    axes.set_yticks(range(len(labels)), ["" if "\n" in label else label for label in labels])
    for row, label in enumerate(labels):
        lines = label.split("\n")
        for number, line in enumerate(lines if len(lines) > 1 else ()):
            above = _LINE * ((len(lines) - 1) / 2 - number)
            axes.annotate(line, (0, row), xycoords=("axes fraction", "data"), xytext=(-8, above), ha="right",
                          va="center", textcoords="offset points", fontsize=12, annotation_clip=False)  # fmt: skip
    axes.set_ylim(len(labels) - 0.45, -0.6)
    axes.tick_params(axis="y", length=0, pad=6)
    axes.spines["left"].set_visible(False)


def beside(axes: Axes, x: float, row: int, text: str, strong: bool) -> None:
    """A bar's words, just right of its end."""
    axes.annotate(text, (x, row), xytext=(6, 0), textcoords="offset points", va="center",
                  weight="bold" if strong else "normal")  # fmt: skip
