"""Run files: what will be run, on which data, under which relation and budget.

TOML, strict: an unknown key or a wrong type is a ``RunFileError`` that names the key. Nothing
here reads the data; ``size`` and ``labels`` are declared public facts.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.validate import Relation
from affidavit.strict import StrictTable, checked, read_toml

__all__ = ["Budget", "Data", "GroupUnit", "Model", "Randomness", "RunFile", "Seeded", "load_run", "parse_run"]

Name = Annotated[str, Field(min_length=1, max_length=200)]


class GroupUnit(StrictTable):
    """All records that share ``key``, of which at most ``max_records`` are used, are one thing."""

    key: Name
    max_records: Annotated[int, Field(ge=1)]


class Budget(StrictTable):
    """What the run may cost: (ε, δ) under the run's relation."""

    epsilon: Annotated[float, Field(ge=0.0)]
    delta: Annotated[float, Field(ge=0.0, le=1.0)]


class Data(StrictTable):
    """The private records: ledger account, file (JSON Lines), declared public size."""

    name: Name
    path: Name
    size: Annotated[int, Field(ge=1)]
    public: Name | None = None


class Model(StrictTable):
    """A packaged model's name, a local folder, or ``toy`` for tests."""

    name: Name


class Seeded(StrictTable):
    """Reproducible noise: for tests only, the output carries no guarantee."""

    seed: Annotated[int, Field(ge=0)]


class Randomness(StrictTable):
    """Where noise comes from."""

    noise: Literal["secure"] | Seeded = "secure"


class RunFile(StrictTable):
    """A whole run file. ``folder`` is where it stands; relative paths start there."""

    relation: Relation
    unit: Literal["record"] | GroupUnit
    budget: Budget
    data: Data
    model: Model
    generator: dict[str, Any]
    randomness: Randomness = Randomness()
    folder: Annotated[Path, Field(exclude=True)] = Path()
