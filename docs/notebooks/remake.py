"""Run a notebook's cells in order and store what they show: ``python docs/notebooks/remake.py``.

In this process, without a kernel: a kernel speaks over sockets and brings twenty packages. A cell shows what it
prints, and the value of its last expression as text and, where it has one, as HTML. The file is written as it would
be by Jupyter; a test runs the cells again and compares.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import nbformat

FOLDER = Path(__file__).resolve().parent


def run_cell(source: str, names: dict[str, Any], *, number: int) -> list[Any]:
    """The outputs of one cell, run in ``names``."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    where = f"<cell {number}>"
    value = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, where, "exec"), names)  # noqa: S102 - our own documentation
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)  # noqa: S307
    outputs = []
    if printed.getvalue():
        outputs.append(nbformat.v4.new_output("stream", name="stdout", text=printed.getvalue()))
    if value is not None:
        data = {"text/plain": repr(value)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_()
        outputs.append(nbformat.v4.new_output("execute_result", data=data, execution_count=number))
    return outputs


def remade(notebook: Any) -> Any:
    """The notebook with every code cell run, in order, in one namespace."""
    names: dict[str, Any] = {"__name__": "__main__"}
    codes = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(codes, start=1):
        cell.outputs = run_cell(cell.source, names, number=number)
        cell.execution_count = number
    return notebook


def main() -> None:
    """Every notebook of the folder, or those that are named."""
    for path in map(Path, sys.argv[1:]) if sys.argv[1:] else sorted(FOLDER.glob("*.ipynb")):
        notebook = remade(nbformat.read(path, as_version=4))
        nbformat.validate(notebook)
        nbformat.write(notebook, path)


if __name__ == "__main__":
    main()
