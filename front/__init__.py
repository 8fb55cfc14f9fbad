"""affidavit: certify what a run on private records costs, run it, and try to prove the claim false.

The names below load on first use, so that ``import affidavit`` stays quick and needs no
language-model package::

    from affidavit import bound

    plan = {"kind": "repeat", "count": 10, "of": {"kind": "gaussian", "noise_multiplier": 4.0}}
    print(bound(plan, relation="add-remove", delta=1e-5).epsilon_upper)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from affidavit.accountant.bound import Bound as Bound
    from affidavit.accountant.bound import bound as bound
    from affidavit.accountant.calibrate import calibrate as calibrate
    from affidavit.accountant.errors import AffidavitError as AffidavitError
    from affidavit.certification import certify as certify
    from affidavit.certification import plan_run as plan_run
    from affidavit.certification import verify as verify
    from affidavit.runfile import RunFile as RunFile
    from affidavit.runfile import load_run as load_run
    from affidavit.synthesis import generate as generate
    from affidavit.synthesis import open_permit as open_permit

__version__ = "0.1.0"

_HOME = {
    "AffidavitError": "affidavit.accountant.errors",
    "Bound": "affidavit.accountant.bound",
    "RunFile": "affidavit.runfile",
    "bound": "affidavit.accountant.bound",
    "calibrate": "affidavit.accountant.calibrate",
    "certify": "affidavit.certification",
    "generate": "affidavit.synthesis",
    "load_run": "affidavit.runfile",
    "open_permit": "affidavit.synthesis",
    "plan_run": "affidavit.certification",
    "verify": "affidavit.certification",
}

__all__ = [
    "AffidavitError",
    "Bound",
    "RunFile",
    "bound",
    "calibrate",
    "certify",
    "generate",
    "load_run",
    "open_permit",
    "plan_run",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'affidavit' has no attribute {name!r}")
    importlib.import_module("affidavit.mechanisms").load()  # before any plan is read
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(__all__) | set(globals()))
