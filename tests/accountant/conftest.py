"""Fixtures for certificates, ledgers and permits: a home of one's own, a fixed clock, a small run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from affidavit.accountant.attestation.certificate import Claim, CurvePoint, MethodSummary, RunSubject, issue
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.unit import RECORD

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
PLAN = {"kind": "repeat", "count": 3, "of": {"kind": "exponential", "range": 0.16}}


class FixedClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **parts: float) -> None:
        self.now += timedelta(**parts)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def keyring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Keyring:
    monkeypatch.setenv("AFFIDAVIT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("AFFIDAVIT_LEDGER", raising=False)
    ring = Keyring.default()
    ring.init()
    return ring


@pytest.fixture
def make_subject() -> Callable[..., RunSubject]:
    def make(**changes: object) -> RunSubject:
        facts: dict[str, object] = {
            "relation": "zero-out",
            "unit": RECORD,
            "plan": parse_plan(PLAN),
            "config_sha256": "c" * 64,
            "model_sha256": "d" * 64,
            "data_hmac": "e" * 64,
            "size": 240,
        }
        return RunSubject(**(facts | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_certificate(
    keyring: Keyring, clock: FixedClock, make_subject: Callable[..., RunSubject]
) -> Callable[..., bytes]:
    def make(subject: RunSubject | None = None, **changes: object) -> bytes:
        facts: dict[str, object] = {
            "claims": [Claim.of(epsilon_upper=0.5, delta=1e-5)],
            "signer": keyring.signer(),
            "curve": [
                CurvePoint.of(epsilon=-0.1, delta_upper=0.3),
                CurvePoint.of(epsilon=0.5, delta_upper=1e-5),
            ],
            "methods": [
                MethodSummary.of("adaptive", epsilon_lower=0.4999, epsilon_upper=0.5, applies=True, certified=True),
                MethodSummary.of(
                    "gaussian", epsilon_lower=0.0, epsilon_upper=float("inf"), applies=False, why="no Gaussian leaf"
                ),
            ],
            "risk_upper": {"auc": 0.6224593312018546, "tpr_at_fpr_0.01": 0.0164972},
            "arithmetic": "outward-rounded balls, 128 bits",
            "assumptions": ["ideal real arithmetic"],
            "versions": {"affidavit": "0.1.0"},
            "clock": clock,
        }
        return issue(subject or make_subject(), **(facts | changes))  # type: ignore[arg-type]

    return make


@pytest.fixture
def ledger(keyring: Keyring, clock: FixedClock) -> Ledger:
    return Ledger(keyring=keyring, clock=clock)
