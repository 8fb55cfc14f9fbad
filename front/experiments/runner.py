"""All cells of a grid, one after another or in several processes; stopped at any time and started again.

What can be refused is refused first: the grid, every generator's settings, data and test files, the model.
Then every setting is solved and certified, and only then is text generated. A cell that is done is a
file; a run that was killed goes on with the cells that have none.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import RunFileError, UsageError
from affidavit.accountant.remedies import setting, unused
from affidavit.experiments.cells import Cell, expand
from affidavit.experiments.files import check_there, write_parts
from affidavit.experiments.gridfile import Grid
from affidavit.experiments.running import CellResult, read_result, run_cell
from affidavit.experiments.settling import Settled, settle
from affidavit.generation.icl.examples import load_examples
from affidavit.generation.icl.scores import require_packages
from affidavit.generation.models import load_model, model_digest
from affidavit.generation.models.places import accelerators, take_device

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel

__all__ = ["Experiment", "done_so_far", "run_experiment"]

Progress: TypeAlias = Callable[[str, int, int], None]

MARKER = ".affidavit-experiment"


@dataclass(frozen=True, slots=True)
class Experiment:
    """What a grid gave: its cells' results, in the grid's order, and how many of its ``cells`` were there already."""

    grid: Grid
    results: tuple[CellResult, ...]
    found: int
    cells: int


@dataclass(frozen=True, slots=True)
class _Task:
    """One cell's work, as it is sent to a process."""

    cell: Cell
    out: Path
    threads: int | None


_Execute: TypeAlias = Callable[[Callable[[_Task], Any], Sequence[_Task]], Iterator[Any]]


def run_experiment(
    grid: Grid,
    out: Path,
    *,
    jobs: int = 1,
    threads: int | None = None,
    model: LanguageModel | None = None,
    progress: Progress | None = None,
) -> Experiment:
    """Run what is missing of ``grid`` in ``out`` and return every cell's result.

    jobs: processes, each with its own copy of the model; they share the GPUs evenly. threads: of each process's tensor
    library. model: one that is loaded already, for ``jobs`` = 1. ``progress`` is told (what, done, all).
    Raises ``UsageError`` for a folder of something else, ``RunFileError``, ``DataError``, ``ModelMissing``
    before anything is generated.
    """
    grid = grid.model_copy(update={"parts": out.resolve() / "data"})
    cells = expand(grid)
    _check_inputs(grid, cells)
    keyring = _prepare_folder(out)
    write_parts(grid)
    missing = [cell for cell in cells if read_result(_place(out, cell)) is None]
    settings = list({cell.setting_id: cell for cell in missing}.values())
    with _workers(jobs, threads, model) as execute:
        _do("certifying", execute(_settle, [_Task(cell, out, threads) for cell in settings]), len(settings), progress)
        _do("running", execute(_run, [_Task(cell, out, threads) for cell in missing]), len(missing), progress)
    results = tuple(result for cell in cells if (result := read_result(_place(out, cell))) is not None)
    if not keyring.exists() or len(results) != len(cells):
        raise UsageError(
            f"{out} lost files while it was used",
            hint=f"Run it anew in a folder of its own: {setting('-o', unused(out))}.",
        )
    return Experiment(grid, results, len(cells) - len(missing), len(cells))


def done_so_far(grid: Grid, out: Path) -> Experiment:
    """The settings of ``grid`` of which every seed is done in ``out``; nothing is run.

    Raises ``UsageError`` where there is none.
    """
    grid = grid.model_copy(update={"parts": out.resolve() / "data"})
    cells = expand(grid)
    found = {cell.id: result for cell in cells if (result := read_result(_place(out, cell))) is not None}
    missing = {cell.setting_id for cell in cells if cell.id not in found}
    results = tuple(found[cell.id] for cell in cells if cell.setting_id not in missing)
    if not results:
        raise UsageError(
            f"no setting of the grid has all its seeds in {out}", hint="Go on with it: leave out `--so-far`."
        )
    return Experiment(grid, results, len(results), len(cells))


def _place(out: Path, cell: Cell) -> Path:
    return out / "cells" / f"{cell.id}.json"


def _keyring(out: Path) -> Keyring:
    return Keyring(out / "home")


def _prepare_folder(out: Path) -> Keyring:
    """The experiment's folder with keys of its own. Anything else that is there is refused."""
    if out.exists() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise UsageError(
            f"{out} is not empty and holds no experiment", hint=f"Choose a new folder: {setting('-o', unused(out))}."
        )
    try:
        for name in ("cells", "runs", "settled"):
            (out / name).mkdir(parents=True, exist_ok=True)
        (out / MARKER).touch()
    except OSError as error:
        raise UsageError(
            f"{out} cannot be written: {error.strerror}",
            hint=f"Choose another folder: {setting('-o', Path.home() / 'affidavit-experiment')}.",
        ) from None
    keyring = _keyring(out)
    keyring.init(keep_existing=True)
    return keyring


def _check_inputs(grid: Grid, cells: Sequence[Cell]) -> None:
    """Read every file that will be needed, and look for the model and the packages."""
    for model in grid.model:
        model_digest(model.name, base=grid.folder, server=model.server)
    for cell in {cell.dataset.name: cell for cell in cells}.values():
        require_packages(cell.task.kind)
        check_there(grid, cell.dataset)
        cell.test_examples()
        declared = cell.dataset.size
        others = {"public": cell.dataset.public_first or 0, "test": cell.dataset.test_last or 0}
        held = len(load_examples(grid.folder / cell.dataset.path, cell.task).examples)
        private = max(0, held - sum(others.values()))
        if held != declared + sum(others.values()):
            parts = " and ".join(f"{count} {what} ones" for what, count in others.items() if count)
            besides = f" besides {parts}" if parts else ""
            raise RunFileError(
                f"datasets.{cell.dataset.name}.size",
                f"{declared} is declared, the file holds {private}{besides}",
                hint=f"`datasets.size = {private}`, or keep the file to its declared size.",
            )


@contextmanager
def _workers(jobs: int, threads: int | None, model: LanguageModel | None) -> Iterator[_Execute]:
    """Yields something that does work for every task, in this process or in several."""
    if jobs == 1:
        if model is not None:
            _LOADED[""] = model
        try:
            yield map
        finally:
            _LOADED.clear()
        return
    if model is not None:
        raise UsageError("a loaded model cannot be shared by processes", hint="`jobs = 1`, or remove `model`.")
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)  # read by the processes that are started below
    context = multiprocessing.get_context("spawn")
    placing = (context.Value("i", 0), accelerators())
    with ProcessPoolExecutor(max_workers=jobs, mp_context=context, initializer=take_device, initargs=placing) as pool:

        def execute(work: Callable[[_Task], Any], tasks: Sequence[_Task]) -> Iterator[Any]:
            waiting = [pool.submit(work, task) for task in tasks]
            try:
                for future in as_completed(waiting):
                    yield future.result()
            finally:
                for future in waiting:
                    future.cancel()

        yield execute


def _do(what: str, outcomes: Iterator[Any], total: int, progress: Progress | None) -> None:
    if progress is not None:
        progress(what, 0, total)
    for done, _ in enumerate(outcomes, start=1):
        if progress is not None:
            progress(what, done, total)


_LOADED: dict[str, LanguageModel] = {}
"""The models of this process, by name, loaded by its first cells; by no name: one that serves all."""


def _settle(task: _Task) -> Settled:
    return settle(task.cell, task.out / "settled", keyring=_keyring(task.out))


def _run(task: _Task) -> CellResult:
    cell = task.cell
    settled = settle(cell, task.out / "settled", keyring=_keyring(task.out))
    return run_cell(cell, settled, task.out, model=_model(task), keyring=_keyring(task.out))


def _model(task: _Task) -> LanguageModel:
    model = task.cell.model
    given = _LOADED.get("") or _LOADED.get(model.name)
    if given is None:
        given = _LOADED[model.name] = load_model(model.name, base=task.cell.grid.folder, server=model.server)
        if task.threads is not None and "torch" in sys.modules:
            torch = sys.modules["torch"]  # a model may have chosen fewer, for rows that stay apart
            torch.set_num_threads(min(task.threads, torch.get_num_threads()))
    return given
