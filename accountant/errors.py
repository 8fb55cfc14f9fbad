"""Every error that affidavit raises on purpose, as one tree.

    AffidavitError                      exit 70 (a fault of ours if nothing below fits)
    ├── DisagreementError               two accountants contradict each other
    ├── UsageError                      exit 2: the caller asked for something malformed
    │   ├── PlanError                   a plan or a privacy parameter is out of its range
    │   ├── RunFileError                a run or audit file has a wrong or unknown key
    │   ├── DataError                   the private data are not as declared (operator only)
    │   │   └── TableUnclear            a file of records can be read in several ways, or in none as asked
    │   ├── ModelMissing                a model is not installed, or not known
    │   ├── PackageMissing              a package outside the core is not installed
    │   ├── ModelUnavailable            a model's server does not answer, or not what is needed
    │   ├── NotSupported                well-formed, but no theorem here covers it
    │   └── NoValueFits                 calibration: no allowed value meets the target
    ├── CertificateError                exit 3
    │   ├── CertificateMissing          no certificate was given or found
    │   ├── SignatureInvalid            the envelope's bytes do not match its signature
    │   ├── UntrustedKey                signed by a key that is not trusted here
    │   ├── CertificateExpired          outside [notBefore, notAfter]
    │   ├── ClaimRefused                its plan costs more than it claims, or may
    │   └── WrongRun                    certified for another config, model, data or size
    └── BudgetError                     exit 4
        ├── BudgetExceeded              the account or the run file's budget is too small
        ├── LedgerMissing               no such ledger file or account
        ├── LedgerAltered               the hash chain does not verify
        └── PermitViolation             a mechanism drew more, or in another order, than certified

A message never holds private text: it names the field, the record's position or a keyed
digest. Every refusal carries a ``hint``: the command or the value that works, between backticks as it
is typed. Capitals (``RUN.toml``, ``CERT.json``) stand for files of the caller's; the command line fills them in.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from affidavit.accountant import remedies

__all__ = [
    "AffidavitError",
    "BudgetError",
    "BudgetExceeded",
    "CertificateError",
    "CertificateExpired",
    "CertificateMissing",
    "ClaimRefused",
    "DataError",
    "DisagreementError",
    "LedgerAltered",
    "LedgerMissing",
    "ModelMissing",
    "ModelUnavailable",
    "NoValueFits",
    "NotSupported",
    "PackageMissing",
    "PermitViolation",
    "PlanError",
    "RunFileError",
    "SignatureInvalid",
    "TableUnclear",
    "UntrustedKey",
    "UsageError",
    "Way",
    "WrongRun",
]


class AffidavitError(Exception):
    """Base of all deliberate errors; ``exit_code`` is what the command line returns."""

    exit_code: ClassVar[int] = 70

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class DisagreementError(AffidavitError):
    """Two accountants contradict each other beyond their stated errors; one of them is wrong."""


class UsageError(AffidavitError):
    """The request itself is malformed."""

    exit_code = 2


class PlanError(UsageError):
    """A plan node's field is missing, unknown or out of range.

    ``path`` names the node's field (``plan.of.noise_multiplier``), ``problem`` what is wrong there,
    ``allowed`` the range, of which the hint gives an example where none is given.
    """

    def __init__(self, path: str, problem: str, *, allowed: str, hint: str = "") -> None:
        super().__init__(f"{path}: {problem}; allowed: {allowed}", hint=hint or remedies.example(path, allowed))
        self.path = path
        self.problem = problem
        self.allowed = allowed


class RunFileError(UsageError):
    """A key of a run or audit file is unknown, missing or of a wrong type or value."""

    def __init__(self, key: str, problem: str, *, allowed: str = "", hint: str = "") -> None:
        hint = hint or remedies.example(key, allowed)
        super().__init__(f"{key}: {problem}" + (f"; allowed: {allowed}" if allowed else ""), hint=hint)
        self.key = key
        self.allowed = allowed


class DataError(UsageError):
    """The private data differ from what the run file declares. Shown to the operator only."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way on: ``when`` it is right, and the ``flags`` that take it, added to the command that was refused."""

    when: str
    flags: tuple[str, ...]


class TableUnclear(DataError):
    """A file of records can be read in several ways, or in none as asked.

    ``ways``: flags that would settle it; the command line shows them as whole commands.
    """

    def __init__(self, message: str, *, ways: Sequence[Way] = (), hint: str = "") -> None:
        shown = [f"{way.when}: {shlex.join(way.flags)}" for way in ways]
        super().__init__(message, hint="\n".join([*shown, hint] if hint else shown))
        self.ways = tuple(ways)
        self.advice = hint


class ModelMissing(UsageError):
    """A language model is not installed, or not known."""


class PackageMissing(UsageError):
    """A package that only this work needs is not installed; the hint is the command that installs it."""


class ModelUnavailable(UsageError):
    """A model's server does not answer, refuses, or answers something else than what is needed."""


class NotSupported(UsageError):
    """A well-formed request for which no sound theorem is implemented."""


class NoValueFits(UsageError):
    """Calibration found no value of the parameter, within its range, that meets the target.

    ``best_epsilon`` is the smallest ε that was seen.
    """

    def __init__(self, message: str, *, best_epsilon: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.best_epsilon = best_epsilon


class CertificateError(AffidavitError):
    """The certificate does not license what was asked."""

    exit_code = 3


class CertificateMissing(CertificateError):
    """No certificate was given, or the file does not exist."""


class SignatureInvalid(CertificateError):
    """The signed bytes were altered, or the envelope is not one of ours."""


class UntrustedKey(CertificateError):
    """The signer's key is not among the trusted ones."""


class CertificateExpired(CertificateError):
    """The clock is outside the certificate's validity. ``ended`` is None for one that has not begun."""

    def __init__(self, message: str, *, hint: str = "", ended: datetime | None = None) -> None:
        super().__init__(message, hint=hint)
        self.ended = ended


class ClaimRefused(CertificateError):
    """The claimed number is not what the certificate's own plan costs, whoever signed it."""


class WrongRun(CertificateError):
    """The certificate is for another configuration, model, data set or size.

    ``subject`` is one of ``config``, ``model``, ``data``, ``size``, ``text``.
    """

    def __init__(self, subject: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.subject = subject


class BudgetError(AffidavitError):
    """The privacy budget does not allow what was asked."""

    exit_code = 4


class BudgetExceeded(BudgetError):
    """More ε or δ was requested than remains.

    ``requested`` and ``remaining`` are (epsilon, delta) pairs.
    """

    def __init__(
        self, message: str, *, requested: tuple[float, float], remaining: tuple[float, float], hint: str = ""
    ) -> None:
        super().__init__(message, hint=hint)
        self.requested = requested
        self.remaining = remaining


class LedgerMissing(BudgetError):
    """The ledger file or the named account does not exist; none is made silently.

    ``accounts`` are the names that the ledger does have.
    """

    def __init__(self, message: str, *, hint: str = "", accounts: tuple[str, ...] = ()) -> None:
        super().__init__(message, hint=hint)
        self.accounts = accounts


class LedgerAltered(BudgetError):
    """The ledger's hash chain is broken; nothing can be granted on it.

    ``entry`` is the number of the first bad entry, from 1, or None if the whole is wrong.
    """

    def __init__(self, message: str, *, entry: int | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.entry = entry


class PermitViolation(BudgetError):
    """A mechanism asked for a draw that the certified plan does not contain."""
