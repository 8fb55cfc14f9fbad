"""Paste the measured tables into docs/results.md: ``python -m benchmarks.results_page``.

    python -m benchmarks.results_page [--methods DIR] [--shots DIR] [--shots_all DIR] [--sga DIR]
                                      [--attacks TABLE.md]

DIR is what ``affidavit experiment`` wrote for the grid of that name in docs/examples/experiments/, TABLE.md what
``benchmarks.table_attacks`` wrote. What is named is copied to docs/results/ first; then every table of the page,
between its marks, is made anew from there. A test makes sure that the page shows what the files say.
"""

from __future__ import annotations

import argparse
import csv
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_type_hints

from affidavit.experiments.tables import Summary, markdown

DOCS = Path(__file__).resolve().parents[1] / "docs"
FOLDER = DOCS / "results"
PAGE = DOCS / "results.md"
EXPERIMENTS = ("methods", "shots", "shots_all", "sga")
PLOTTED = ("methods", "shots", "shots_all")
MARK = re.compile(r"(<!-- table: (\w+) -->\n).*?(\n<!-- end -->)", re.DOTALL)


def read_summaries(path: Path) -> list[Summary]:
    """The settings of a ``table.csv``."""
    types = get_type_hints(Summary)
    with path.open(encoding="utf-8", newline="") as stream:
        rows: list[dict[str, Any]] = list(csv.DictReader(stream))
    return [Summary(**{name: types[name](value) for name, value in row.items()}) for row in rows]


def tables(folder: Path = FOLDER) -> dict[str, str]:
    """Each table of the page by its mark, a level lower than in the files it is from."""
    found = {name: markdown(read_summaries(folder / f"{name}.csv")).replace("## ", "### ") for name in EXPERIMENTS}
    lines = (folder / "attacks.md").read_text(encoding="utf-8").splitlines()
    found["attacks"] = "\n".join(line for line in lines if line.startswith("|"))
    return found


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
            if name in PLOTTED:
                shutil.copyfile(asked[name] / "figure.svg", FOLDER / f"{name}.svg")
    if asked["attacks"] is not None:
        shutil.copyfile(asked["attacks"], FOLDER / "attacks.md")
    draft = PAGE.with_suffix(".new")
    draft.write_text(pasted(PAGE.read_text(encoding="utf-8"), tables()), encoding="utf-8")
    draft.replace(PAGE)


if __name__ == "__main__":
    main()
