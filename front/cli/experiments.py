"""``experiment``: a grid of methods and settings, from one file to one table."""

from __future__ import annotations

from pathlib import Path

import click

from affidavit.cli._output import json_option, note, print_json
from affidavit.cli._progress import counting_progress

__all__ = ["experiment"]


@click.command()
@click.argument("grid_file", type=click.Path(dir_okay=False, path_type=Path), metavar="GRID.toml")
@click.option("-o", "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR")
@click.option("--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
@click.option("--threads", type=click.IntRange(1, 256), help="Of each process's tensor library.")
@click.option("--so-far", is_flag=True, help="Run nothing: the tables of the cells that are done.")
@json_option
def experiment(*, grid_file: Path, out: Path, jobs: int, threads: int | None, so_far: bool, as_json: bool) -> None:
    """Run every cell of GRID.toml and write table.md, table.csv, differences.csv, cells.csv and figure.svg to DIR.

    Each cell's noise is solved for its ε, certified, and charged to a scratch account of its own.
    Stopped, it goes on where it was when the same command is given again.
    """
    from affidavit.experiments.comparing import comparisons
    from affidavit.experiments.figure import accuracy_figure, require_packages, svg
    from affidavit.experiments.gridfile import load_grid
    from affidavit.experiments.runner import done_so_far, run_experiment
    from affidavit.experiments.tables import cells_csv, comparisons_csv, markdown, summaries, summaries_csv
    from affidavit.writing import write_whole

    require_packages()
    grid = load_grid(grid_file)
    if so_far:
        done = done_so_far(grid, out)
    else:
        with counting_progress() as progress:
            done = run_experiment(grid, out, jobs=jobs, threads=threads, progress=progress)
    found = summaries(done.results)
    compared = comparisons(done.results)
    text = markdown(found, compared, title=grid.title)
    write_whole(out / "table.md", text)
    write_whole(out / "table.csv", summaries_csv(found))
    write_whole(out / "differences.csv", comparisons_csv(compared))
    write_whole(out / "cells.csv", cells_csv(done.results))
    write_whole(out / "figure.svg", svg(accuracy_figure(found)))
    if done.found:
        note(f"{done.found} of {done.cells} cells were there already.")
    if as_json:
        print_json([{name: getattr(one, name) for name in one.__slots__} for one in found])
    else:
        click.echo(text, nl=False)
    note(f"Wrote table.md, table.csv, differences.csv, cells.csv and figure.svg to {out}.")
