"""What an experiment gave, as tables: one line a cell (CSV), and means over seeds (CSV, Markdown)."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from affidavit.experiments.comparing import LEVEL, Comparison
from affidavit.experiments.running import CellResult

__all__ = ["Summary", "cells_csv", "comparisons_csv", "markdown", "show_epsilon", "summaries", "summaries_csv"]


@dataclass(frozen=True, slots=True)
class Summary:
    """One setting over its seeds. ``deviation`` is that of a single run (n − 1); NaN for one seed.

    ``epsilon_upper`` is the certified ε of one run; ``tokens_per_second`` and ``calls_per_token`` are of the
    generation, over all seeds together, NaN where nothing was generated.
    """

    dataset: str
    method: str
    epsilon: float
    shots: int
    metric: str
    seeds: int
    mean: float
    deviation: float
    epsilon_upper: float
    delta: float
    relation: str
    values: str
    tokens_per_second: float
    calls_per_token: float
    refused: str = ""
    model: str = ""
    seconds_per_text: float = math.nan


def summaries(results: Sequence[CellResult]) -> tuple[Summary, ...]:
    """Means over seeds, in the order of the results."""
    groups: dict[tuple[str, str, str, float], list[CellResult]] = {}
    for result in results:
        groups.setdefault((result.model, result.dataset, result.method, result.epsilon), []).append(result)
    found: list[Summary] = []
    for group in groups.values():
        found += [_summary(group, shots) for shots in group[0].scores] or [_summary(group, 0)]
    return tuple(found)


def _summary(group: Sequence[CellResult], shots: int) -> Summary:
    first = group[0]
    scores = [one.scores[shots][one.metric] for one in group if shots in one.scores]
    tokens = sum(one.tokens for one in group)
    seconds = sum(one.seconds for one in group)
    texts = sum(one.texts for one in group)
    return Summary(
        dataset=first.dataset,
        method=first.method,
        epsilon=first.epsilon,
        shots=shots,
        metric=first.metric,
        seeds=len(scores),
        mean=statistics.fmean(scores) if scores else math.nan,
        deviation=statistics.stdev(scores) if len(scores) > 1 else math.nan,
        epsilon_upper=first.epsilon_upper,
        delta=first.delta,
        relation=first.relation,
        values=", ".join(f"{key} = {value:.6g}" for key, value in first.values.items()),
        tokens_per_second=tokens / seconds if seconds > 0.0 and tokens else math.nan,
        calls_per_token=sum(one.calls for one in group) / tokens if tokens else math.nan,
        refused=first.refused,
        model=first.model,
        seconds_per_text=seconds / texts if seconds > 0.0 and texts else math.nan,
    )


def cells_csv(results: Sequence[CellResult]) -> str:
    """One line a cell, number of shots and score."""
    rows = [
        (
            one.dataset, one.method, one.epsilon, one.seed, shots, name, value, one.epsilon_upper, one.delta,
            one.relation, one.texts, one.tokens, one.calls, f"{one.seconds:.3f}", one.refused, one.model,
        )
        for one in results
        for shots, scores in (one.scores or {0: {one.metric: math.nan}}).items()
        for name, value in scores.items()
    ]  # fmt: skip
    head = (
        "dataset", "method", "epsilon", "seed", "shots", "score", "value", "epsilon_upper", "delta",
        "relation", "texts", "tokens", "calls", "seconds", "refused", "model",
    )  # fmt: skip
    return _csv(head, rows)


def summaries_csv(found: Sequence[Summary]) -> str:
    """One line a setting."""
    names = tuple(Summary.__slots__)
    return _csv(names, [tuple(getattr(one, name) for name in names) for one in found])


def _csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return stream.getvalue()


def markdown(found: Sequence[Summary], compared: Sequence[Comparison] = (), *, title: str = "") -> str:
    """Per dataset: the score by method and ε, differences, and what each setting needs and costs.

    Where no method has two ε, several numbers of shots stand in one table; else each has a table by ε.
    """
    parts = [f"# {title}\n"] if title else []
    several = len({one.model for one in found}) > 1
    for model, dataset in dict.fromkeys((one.model, one.dataset) for one in found):
        here = [one for one in found if (one.model, one.dataset) == (model, dataset)]
        shots = sorted({one.shots for one in here} - {0})
        parts.append(f"## {dataset}, {model}\n" if several else f"## {dataset}\n")
        settings = {(one.method, one.epsilon) for one in here}
        repeated = len(shots) > 1 and len(settings) == len({method for method, _ in settings})
        for count in [] if repeated else shots or [0]:
            rows = [one for one in here if one.shots in (0, count)]
            shown = "1 demonstration" if count == 1 else f"{count} demonstrations"
            parts.append(_by_epsilon(rows, f"{here[0].metric}, {shown}, mean ± standard deviation"))
        if repeated:
            parts.append(_by_shots(here))
        parts += _differences([one for one in compared if (one.model, one.dataset) == (model, dataset)])
        parts.append(_costs(here))
        parts += [f"- {one.method} at ε = {show_epsilon(one.epsilon)}: {one.refused}" for one in here if one.refused]
    return "\n".join(parts).rstrip() + "\n"


def _by_epsilon(rows: Sequence[Summary], caption: str) -> str:
    columns = sorted({one.epsilon for one in rows})
    table = {(one.method, one.epsilon): _score(one) for one in rows}
    methods = list(dict.fromkeys(one.method for one in rows))
    head = ["method", *(f"ε = {show_epsilon(epsilon)}" for epsilon in columns)]
    body = [[method, *(table.get((method, epsilon), "") for epsilon in columns)] for method in methods]
    return _table(caption, head, body)


def _by_shots(rows: Sequence[Summary]) -> str:
    settings = list(dict.fromkeys((one.method, one.epsilon) for one in rows))
    counts = sorted({one.shots for one in rows})
    table = {(one.method, one.epsilon, one.shots): _score(one) for one in rows}
    body = [
        [method, show_epsilon(epsilon), *(table.get((method, epsilon, count), "") for count in counts)]
        for method, epsilon in settings
    ]
    caption = f"{rows[0].metric} by number of demonstrations, mean ± standard deviation"
    return _table(caption, ["method", "ε", *map(str, counts)], body)


def _differences(compared: Sequence[Comparison]) -> list[str]:
    """A table for each method that others are compared with."""
    tables = []
    for beside in dict.fromkeys(one.beside for one in compared):
        here = [one for one in compared if one.beside == beside]
        counts = sorted({one.shots for one in here})
        cells = {(one.method, one.epsilon, one.shots): _difference(one) for one in here}
        body = [
            [method, show_epsilon(epsilon), *(cells.get((method, epsilon, count), "") for count in counts)]
            for method, epsilon in dict.fromkeys((one.method, one.epsilon) for one in here)
        ]
        caption = (
            f"Difference to {beside} ± standard error, by number of demonstrations; * above, − below: after Holm's"
        )
        tables.append(_table(f"{caption} correction, at level {LEVEL:g}", ["method", "ε", *map(str, counts)], body))
    return tables


def _difference(one: Comparison) -> str:
    sign = "" if one.p_holm > LEVEL else " *" if one.difference > 0.0 else " −"
    return f"{one.difference:+.3f} ± {one.error:.3f}{sign}"


def comparisons_csv(compared: Sequence[Comparison]) -> str:
    """One line a comparison."""
    names = tuple(Comparison.__slots__)
    return _csv(names, [tuple(getattr(one, name) for name in names) for one in compared])


def _costs(rows: Sequence[Summary]) -> str:
    body = []
    for key in dict.fromkeys((one.method, one.epsilon) for one in rows):
        one = next(row for row in rows if (row.method, row.epsilon) == key)
        certified = one.delta > 0.0 and not one.refused
        body.append(
            [
                one.method,
                show_epsilon(one.epsilon),
                f"{_up(one.epsilon_upper)} at δ = {one.delta:g}, {one.relation}" if certified else "",
                one.values,
                _number(one.tokens_per_second),
                _number(one.seconds_per_text),
                _number(one.calls_per_token),
                str(one.seeds),
            ]
        )
    head = ["method", "ε", "certified", "setting", "tokens/s", "seconds a text", "model calls a token", "seeds"]
    return _table("What each needs and costs", head, body)


def _table(caption: str, head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in body]
    return f"{caption}:\n\n" + "\n".join(lines) + "\n"


def _score(one: Summary) -> str:
    if math.isnan(one.mean):
        return "not possible" if one.refused else ""
    spread = "" if math.isnan(one.deviation) else f" ± {one.deviation:.3f}"
    return f"{one.mean:.3f}{spread}"


def _up(value: float) -> str:
    """Three decimals, rounded up: a certified number is never shown too small."""
    return f"{math.ceil(value * 1000.0) / 1000.0:.3f}"


def _number(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.3g}"


def show_epsilon(epsilon: float) -> str:
    """ε as it stands in a table."""
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"
