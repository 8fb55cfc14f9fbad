"""One figure: the score of every method by ε, a panel a dataset; and by shots where several were measured."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from affidavit.accountant.extras import require
from affidavit.experiments.tables import Summary, show_epsilon

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["accuracy_figure", "require_packages", "svg"]

# Told apart without colour: by marker and line.
_MARKERS = "osD^vP*X"
_LINES = ("-", "--", "-.", ":")
_SHADES = ("0.0", "0.35", "0.55")


def require_packages() -> None:
    """Raises ``PackageMissing`` where no figure can be drawn with what is installed."""
    require("icl", "matplotlib", purpose="the figure of an experiment")


def accuracy_figure(found: Sequence[Summary]) -> Figure:
    """Panels: a column a dataset; the first row by ε, the second by shots if there are several."""
    require_packages()
    from matplotlib.figure import Figure

    datasets = list(dict.fromkeys((one.model, one.dataset) for one in found))
    models = len({model for model, _ in datasets})
    several = any(len({one.shots for one in found if (one.model, one.dataset) == name} - {0}) > 1 for name in datasets)
    rows = 2 if several else 1
    figure = Figure(figsize=(4.6 * len(datasets), 3.6 * rows), layout="constrained")
    panels = figure.subplots(rows, len(datasets), squeeze=False, sharey="col")
    for column, name in enumerate(datasets):
        here = [one for one in found if (one.model, one.dataset) == name and not math.isnan(one.mean)]
        _by_epsilon(panels[0][column], here, f"{name[1]}, {name[0]}" if models > 1 else name[1])
        if several:
            _by_shots(panels[1][column], here)
    handles: dict[str, Any] = {}
    for panel in panels.flat:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(list(handles.values()), list(handles), loc="outside lower center", ncols=3, frameon=False)
    return figure


def _by_epsilon(panel: Any, here: Sequence[Summary], name: str) -> None:
    most = max((one.shots for one in here), default=0)
    usual = min((one.shots for one in here if one.shots), key=lambda count: abs(count - 4), default=most)
    shown = [one for one in here if one.shots in (0, usual)]
    places = {epsilon: place for place, epsilon in enumerate(sorted({one.epsilon for one in here if one.epsilon}))}
    for number, method in enumerate(dict.fromkeys(one.method for one in shown)):
        points = [one for one in shown if one.method == method]
        style = _style(number)
        if len(points) == 1 and points[0].epsilon in (0.0, math.inf):
            panel.axhline(points[0].mean, label=method, color=style["color"], linestyle=style["linestyle"])
            continue
        panel.errorbar(
            [places[one.epsilon] for one in points],
            [one.mean for one in points],
            yerr=[0.0 if math.isnan(one.deviation) else one.deviation for one in points],
            label=method,
            capsize=2,
            **style,
        )
    panel.set_xticks(list(places.values()), [show_epsilon(epsilon) for epsilon in places])
    panel.set_xlabel("ε at most, as certified (∞: next to no noise)")
    panel.set_ylabel(f"{here[0].metric} ({usual} shots)" if here else "")
    panel.set_title(name)


def _by_shots(panel: Any, here: Sequence[Summary]) -> None:
    settings = list(dict.fromkeys((one.method, one.epsilon) for one in here if one.shots))
    methods = list(dict.fromkeys(one.method for one in here))
    largest = {method: max(epsilon for name, epsilon in settings if name == method) for method, _ in settings}
    finite = {
        method: max((e for name, e in settings if name == method and math.isfinite(e)), default=largest[method])
        for method, _ in settings
    }
    for method, epsilon in finite.items():
        points = sorted(
            (one for one in here if (one.method, one.epsilon) == (method, epsilon) and one.shots),
            key=lambda one: one.shots,
        )
        panel.plot(
            [one.shots for one in points], [one.mean for one in points], label=method, **_style(methods.index(method))
        )
    counts = sorted({one.shots for one in here if one.shots})
    panel.set_xscale("log", base=2)
    panel.set_xticks(counts, list(map(str, counts)))
    panel.minorticks_off()
    panel.set_xlabel("demonstrations (each method at its largest finite ε)")
    panel.set_ylabel(here[0].metric if here else "")


def _style(number: int) -> dict[str, Any]:
    return {
        "marker": _MARKERS[number % len(_MARKERS)],
        "linestyle": _LINES[number % len(_LINES)],
        "color": _SHADES[number % len(_SHADES)],
        "markersize": 5,
        "linewidth": 1.2,
    }


def svg(figure: Figure) -> bytes:
    """The figure as SVG, the same bytes for the same figure."""
    from matplotlib import rc_context

    stream = io.BytesIO()
    with rc_context({"svg.hashsalt": "affidavit"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
