"""affidavit: certify what a run on private records costs, run it, and try to prove the claim false.

The names below load on first use, so that ``import affidavit`` stays quick and needs no
language-model package::

    from affidavit import settle

    plan = {"kind": "repeat", "count": 10, "of": {"kind": "gaussian", "noise_multiplier": 4.0}}
    print(settle(plan, relation="add-remove", delta=1e-5).epsilon_upper)

From records to certified text: ``load_run``, ``plan_run``, ``Keyring``, ``certify``, ``Ledger``, ``generate``,
``load_audit``, ``audit``, ``report``; docs/notebooks/first-hour.ipynb goes all the way.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from affidavit.accountant.attestation.keys import Keyring as Keyring
    from affidavit.accountant.bound import Bound as Bound
    from affidavit.accountant.bound import bound as bound
    from affidavit.accountant.calibrate import calibrate as calibrate
    from affidavit.accountant.errors import AffidavitError as AffidavitError
    from affidavit.accountant.ledger import Ledger as Ledger
    from affidavit.accountant.plan import parse_plan as parse_plan
    from affidavit.accountant.risk import risk_limits as risk_limits
    from affidavit.accountant.settle import settle as settle
    from affidavit.accountant.tradeoff import privacy_curve as privacy_curve
    from affidavit.accountant.validate import Relation as Relation
    from affidavit.auditing import audit as audit
    from affidavit.auditing import report as report
    from affidavit.audits.auditfile import load_audit as load_audit
    from affidavit.certification import certify as certify
    from affidavit.certification import plan_run as plan_run
    from affidavit.runfile import RunFile as RunFile
    from affidavit.runfile import load_run as load_run
    from affidavit.synthesis import generate as generate
    from affidavit.synthesis import open_permit as open_permit
    from affidavit.verification import verify as verify

__version__ = "0.1.0"

_HOME = {
    "AffidavitError": "affidavit.accountant.errors",
    "Bound": "affidavit.accountant.bound",
    "Keyring": "affidavit.accountant.attestation.keys",
    "Ledger": "affidavit.accountant.ledger",
    "Relation": "affidavit.accountant.validate",
    "RunFile": "affidavit.runfile",
    "audit": "affidavit.auditing",
    "bound": "affidavit.accountant.bound",
    "calibrate": "affidavit.accountant.calibrate",
    "certify": "affidavit.certification",
    "generate": "affidavit.synthesis",
    "load_audit": "affidavit.audits.auditfile",
    "load_run": "affidavit.runfile",
    "open_permit": "affidavit.synthesis",
    "parse_plan": "affidavit.accountant.plan",
    "plan_run": "affidavit.certification",
    "privacy_curve": "affidavit.accountant.tradeoff",
    "report": "affidavit.auditing",
    "risk_limits": "affidavit.accountant.risk",
    "settle": "affidavit.accountant.settle",
    "verify": "affidavit.verification",
}

__all__ = [
    "AffidavitError",
    "Bound",
    "Keyring",
    "Ledger",
    "Relation",
    "RunFile",
    "__version__",
    "audit",
    "bound",
    "calibrate",
    "certify",
    "generate",
    "load_audit",
    "load_run",
    "open_permit",
    "parse_plan",
    "plan_run",
    "privacy_curve",
    "report",
    "risk_limits",
    "settle",
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
    return sorted(__all__)
