"""Paste the measured tables into docs/results.md: ``python -m benchmarks.results_page``.

    python -m benchmarks.results_page [--methods DIR] [--qwen DIR] [--search DIR] [--shots DIR] [--shots_all DIR]
                                      [--sga DIR] [--attacks TABLE.md]

DIR is what ``affidavit experiment`` wrote for the grid of that name in docs/examples/experiments/, TABLE.md what
``benchmarks.table_attacks`` wrote. What is named is copied to docs/results/ first; then every table of the page,
between its marks, is made anew from there. A test makes sure that the page shows what the files say.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from affidavit.experiments.comparing import Comparison
from affidavit.experiments.tables import Summary, markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "results"
PAGE = DOCS / "results.md"
EXPERIMENTS = ("methods", "qwen", "search", "shots", "shots_all", "sga", "noisy_public")
PLOTTED = ("methods", "qwen", "shots", "shots_all")
COMPARED = ("qwen", "methods")
MOST, CLEAR = 4.0, 2.0
"""The largest ε, and how many standard errors are a difference, in the table of gains."""
MARK = re.compile(r"(<!-- table: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


def read_summaries(path: Path) -> list[Summary]:
    """The settings of a ``table.csv``."""
    return [Summary(**row) for row in _rows(path, get_type_hints(Summary))]


def read_comparisons(path: Path) -> list[Comparison]:
    """The differences of a ``differences.csv``; none where there is no such file."""
    return [Comparison(**row) for row in _rows(path, get_type_hints(Comparison))] if path.is_file() else []


def _rows(path: Path, types: Mapping[str, Any]) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return [{name: types[name](value) for name, value in row.items()} for row in csv.DictReader(stream)]


def tables(folder: Path = FOLDER) -> dict[str, str]:
    """Each table of the page by its mark, a level lower than in the files it is from."""
    found = {
        name: markdown(
            read_summaries(folder / f"{name}.csv"), read_comparisons(folder / f"{name}.differences.csv")
        ).replace("## ", "### ")
        for name in EXPERIMENTS
    }
    found["gains"] = gains(folder)
    lines = (folder / "attacks.md").read_text(encoding="utf-8").splitlines()
    found["attacks"] = "\n".join(line for line in lines if line.startswith("|"))
    return found


def gains(folder: Path = FOLDER) -> str:
    """A line a data set and model: the methods at ε ≤ 4 that are two standard errors above public-only at both numbers
    of demonstrations; where there is none, the nearest to it."""
    lines = [
        "| model, data set | none | public-only | real | method | differences ± standard errors | p after Holm |",
        "|---" * 7 + "|",
    ]
    for name in COMPARED:
        scores = {
            (one.model, one.dataset, one.method, one.shots): one for one in read_summaries(folder / f"{name}.csv")
        }
        pairs: dict[tuple[str, str], list[list[Comparison]]] = {}
        for one in read_comparisons(folder / f"{name}.differences.csv"):
            here = pairs.setdefault((one.model, one.dataset), [])
            if one.epsilon > MOST:
                continue
            if here and (here[-1][0].method, here[-1][0].epsilon) == (one.method, one.epsilon):
                here[-1].append(one)
            else:
                here.append([one])
        for (model, dataset), found in pairs.items():
            found.sort(key=lambda pair: -min(one.errors for one in pair))
            above = [pair for pair in found if min(one.errors for one in pair) > CLEAR] or found[:1]
            means = [
                ", ".join(f"{scores[model, dataset, method, one.shots].mean:.3f}" for one in found[0])
                for method in ("public-only", "real")
            ]
            none = next(one.mean for key, one in scores.items() if key[:3] == (model, dataset, "zero-shot"))
            for number, pair in enumerate(above):
                first = f"{model}, {dataset} | {none:.3f} | {means[0]} | {means[1]}" if number == 0 else " | | | "
                said = ", ".join(f"{one.difference:+.3f} ± {one.error:.3f} ({one.errors:.1f})" for one in pair)
                chance = ", ".join(f"{one.p_holm:.3f}" for one in pair)
                lines.append(f"| {first} | {pair[0].method}, ε = {pair[0].epsilon:g} | {said} | {chance} |")
    return "\n".join(lines)


def pasted(page: str, found: dict[str, str]) -> str:
    """The page with every table between its marks replaced. Raises ``KeyError`` for a mark without a table."""
    return MARK.sub(lambda part: f"{part[1]}\n{found[part[2]].strip()}\n{part[3]}", page)


def main(arguments: Sequence[str] | None = None) -> None:
    """Copy what is named, then write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in EXPERIMENTS:
        parser.add_argument(f"--{name}", type=Path, metavar="DIR")
    parser.add_argument("--attacks", type=Path, metavar="TABLE.md")
    asked = vars(parser.parse_args(arguments))
    FOLDER.mkdir(exist_ok=True)
    for name in EXPERIMENTS:
        if asked[name] is not None:
            shutil.copyfile(asked[name] / "table.csv", FOLDER / f"{name}.csv")
            if (asked[name] / "differences.csv").read_text(encoding="utf-8").count("\n") > 1:
                shutil.copyfile(asked[name] / "differences.csv", FOLDER / f"{name}.differences.csv")
            if name in PLOTTED:
                shutil.copyfile(asked[name] / "figure.svg", FOLDER / f"{name}.svg")
    if asked["attacks"] is not None:
        shutil.copyfile(asked["attacks"], FOLDER / "attacks.md")
    draft = PAGE.with_suffix(".new")
    draft.write_text(pasted(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
    draft.replace(PAGE)


if __name__ == "__main__":
    main()
