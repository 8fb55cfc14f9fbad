"""Experiments: a grid of methods and settings from one file to one table.

``gridfile`` is the file, ``cells`` what it expands to, ``settling`` finds the noise that a target ε needs
and certifies it, ``running`` generates and measures one cell, ``runner`` does them all and can be stopped
and started, ``tables`` and ``figure`` show what came out.
"""

from __future__ import annotations

if __name__ != "affidavit.experiments":
    raise ImportError("import affidavit.experiments, not the bare folder")
