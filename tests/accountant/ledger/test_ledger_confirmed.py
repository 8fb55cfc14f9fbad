"""The gate's notes: recomputed once on a ledger, and believed only there, for that statement, by the same code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant import decimals
from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation import recheck
from affidavit.accountant.attestation.certificate import Certificate, Claim, CurvePoint
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.recheck import note
from affidavit.accountant.errors import BudgetError, ClaimRefused, LedgerAltered
from affidavit.accountant.filters.costs import Costs
from affidavit.accountant.ledger import Ledger, book
from affidavit.accountant.risk import risk_limits
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.accountant.verifier import recomputed_curve
from tests.support.ledgers import contents, edit, init, reserve

Make = Callable[..., bytes]


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Claim]:
    """The claims that were recomputed. No process before this one remembers any."""
    seen: list[Claim] = []
    plain = recheck._recomputed

    def counting(certificate: Certificate, claim: Claim) -> Any:
        seen.append(claim)
        return plain(certificate, claim)

    monkeypatch.setattr(recheck, "_recomputed", counting)
    monkeypatch.setattr(recheck, "_confirmed", set())
    return seen


@pytest.fixture
def found(keyring: Keyring, clock: Any, make_certificate: Make) -> Certificate:
    return certificates.verify_envelope(make_certificate(), trusted=keyring.trusted(), clock=clock)


def forget() -> None:
    """As another process would."""
    recheck._confirmed.clear()


def test_a_certificate_is_recomputed_once_on_a_ledger(
    ledger: Ledger, found: Certificate, counted: list[Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 8)
    init(ledger)
    assert ledger.confirm(found) is True
    assert len(counted) == len(found.claims)
    for _ in range(20):
        reserve(ledger, "0.001", "1e-9")
    forget()
    assert ledger.confirm(found) is False
    assert len(counted) == len(found.claims)
    recheck.confirm(found)  # a note counts on its own ledger: this process computed nothing
    assert len(counted) == 2 * len(found.claims)
    ledger.verify()


def test_a_wrong_number_is_refused_each_time_and_noted_never(
    ledger: Ledger, found: Certificate, counted: list[Claim]
) -> None:
    init(ledger)
    ledger.confirm(found)
    entries = ledger.verify()
    wrong = replace(found, claims=(Claim(Decimal("0.000001"), Decimal(0)),))
    assert wrong.sha256 == found.sha256  # an object that was made of the right one
    for _ in range(2):
        forget()
        with pytest.raises(ClaimRefused):
            ledger.confirm(wrong)
    assert ledger.verify() == entries


def test_another_version_of_the_verifier_recomputes(
    ledger: Ledger, found: Certificate, counted: list[Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    init(ledger)
    ledger.confirm(found)
    forget()
    monkeypatch.setattr(recheck, "verifier", lambda: "f" * 64)
    assert ledger.confirm(found) is True
    forget()
    assert ledger.confirm(found) is False
    monkeypatch.setattr(recheck, "verifier", lambda: "")  # its code cannot be read
    for _ in range(2):
        forget()
        assert ledger.confirm(found) is True


def test_a_note_counts_in_its_own_ledger_only(
    ledger: Ledger,
    found: Certificate,
    counted: list[Claim],
    keyring: Keyring,
    clock: Any,
    new_url: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A row copied from another ledger under the same key, to where only a look for notes reads it."""
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 8)
    init(ledger)
    ledger.confirm(found)
    other = Ledger(keyring=keyring, url=new_url(), clock=clock)
    init(other)
    for _ in range(20):
        reserve(other, "0.001", "1e-9")
    number, body, mac = next(row for row in contents(ledger)["ledger_entries"] if '"kind":"confirm"' in row[1])
    edit(other, f"UPDATE ledger_entries SET body = '{body}', mac = '{mac}' WHERE number = {number}")  # noqa: S608
    forget()
    assert other.confirm(found) is True
    assert len(counted) == 2 * len(found.claims)
    with pytest.raises(LedgerAltered):
        other.verify()


def test_the_chain_takes_no_note_of_another_ledger(ledger: Ledger, found: Certificate) -> None:
    init(ledger)
    with ledger._verified(write=True) as state, pytest.raises(LedgerAltered, match="makes no sense"):
        state.append(**note(found, ledger="0" * 32))


def test_a_changed_note_is_no_note(
    ledger: Ledger, found: Certificate, counted: list[Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who can write the database makes the note of a right certificate one of a wrong one."""
    monkeypatch.setattr(book, "CHECKPOINT_EVERY", 8)
    init(ledger)
    ledger.confirm(found)
    for _ in range(20):
        reserve(ledger, "0.001", "1e-9")
    wrong = replace(found, claims=(Claim(Decimal("0.000001"), Decimal(0)),))
    right, forged = (note(one, ledger=_identity(ledger)) for one in (found, wrong))
    for name in ("entry", "statement_sha256"):
        edit(ledger, f"UPDATE ledger_entries SET body = replace(body, '{right[name]}', '{forged[name]}')")  # noqa: S608
    forget()
    with pytest.raises(LedgerAltered):
        ledger.confirm(wrong)


def _identity(ledger: Ledger) -> str:
    with ledger._verified(write=False) as state:
        return state.history.identity


def test_where_nothing_can_be_noted_it_is_recomputed(
    ledger: Ledger, found: Certificate, counted: list[Claim], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a user who may not write: the answer is the same, and nothing is remembered on the ledger."""
    init(ledger)
    entries = ledger.verify()
    transaction = ledger._database.transaction

    def reading(*, write: bool) -> Any:
        if write:
            raise BudgetError("may not", hint="")
        return transaction(write=write)

    monkeypatch.setattr(ledger._database, "transaction", reading)
    for _ in range(2):
        forget()
        assert ledger.confirm(found) is True
    assert ledger.verify() == entries


def test_the_verifier_s_digest_covers_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every module of the accountant that is loaded: what an answer rests on is among them."""
    read: set[Path] = set()
    real = Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: (read.add(self.resolve()), real(self))[1])
    recheck.verifier.cache_clear()
    assert len(recheck.verifier()) == 64
    loaded = {name: module for name, module in sys.modules.items() if name.startswith("affidavit.accountant.")}
    assert {"affidavit.accountant.verifier.contour", "affidavit.accountant.filters.again"} <= loaded.keys()
    assert {Path(str(module.__file__)).resolve() for module in loaded.values()} <= read


def _curve(found: Certificate, epsilons: Sequence[float]) -> tuple[CurvePoint, ...]:
    points = recomputed_curve(found.plan, relation=found.relation, points=epsilons)
    return tuple(CurvePoint.of(epsilon=epsilon, delta_upper=delta) for epsilon, delta in points)


def test_every_number_that_is_signed_is_held_against_the_plan(found: Certificate) -> None:
    """A true claim beside a false curve, a false risk limit or a false filter cost was said to hold."""
    right = replace(found, curve=_curve(found, (0.0, 0.25, 1.0, 2.0)))
    limits = risk_limits(PrivacyCurve(tuple((float(p.epsilon), float(p.delta)) for p in right.curve))).as_dict()
    right = replace(right, risk={name: decimals.round_up(limit) for name, limit in limits.items()})
    assert all(check.answer == "holds" for check in recheck.recheck(right))
    lower = [replace(p, delta=p.delta / 2) if p.epsilon else p for p in right.curve]
    for wrong, says in (
        (replace(right, curve=tuple(lower)), "less δ at ε = 0.25 than"),
        (replace(right, curve=(*right.curve, CurvePoint(Decimal("-0.5"), Decimal("0.1")))), "an ε below 0"),
        (replace(right, risk={**right.risk, "area_under_roc": Decimal("0.5")}), r"risk \(area_under_roc\)"),
        (replace(right, risk={"luck": Decimal("0.5")}), r"risk \(luck\)"),
        (replace(right, curve=()), "risk"),
        (replace(right, costs=Costs(zcdp=Decimal("1e-9"))), "zCDP"),
    ):
        with pytest.raises(ClaimRefused, match=says) as refused:
            recheck.recheck(wrong)
        assert "charged" not in refused.value.hint  # it never charges; what draws says that it did not
    with pytest.raises(ClaimRefused, match="zCDP") as refused:
        recheck.confirm(replace(right, costs=Costs(zcdp=Decimal("1e-9"))))
    assert "Nothing was charged" in refused.value.hint
