from __future__ import annotations

import base64
import copy
import json
import multiprocessing
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.certificate import PAYLOAD_TYPE, Claim, verify_envelope
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.recheck import note
from affidavit.accountant.errors import (
    BudgetExceeded,
    CertificateError,
    CertificateExpired,
    CertificateMissing,
    ClaimRefused,
    LedgerAltered,
    LedgerMissing,
    PermitViolation,
    SignatureInvalid,
    UntrustedKey,
    UsageError,
    WrongRun,
)
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.plan import Exponential, parse_plan
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.permit import Permit, open_permit
from affidavit.accountant.unit import RECORD, Unit

Open = Callable[..., Any]


@pytest.fixture
def funded(ledger: Ledger) -> Ledger:
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=1, delta="2e-5")
    return ledger


@pytest.fixture
def enter(funded: Ledger, keyring: Keyring, clock: Any, make_subject: Any, make_certificate: Any) -> Open:
    def opened(**changes: Any) -> Any:
        facts = {"certificate": make_certificate(), "run": make_subject(), "dataset": "mail", "ledger": funded}
        return open_permit(**(facts | {"trusted": keyring.trusted(), "clock": clock} | changes))

    return opened


def test_a_run_from_beginning_to_end(enter: Open, funded: Ledger, make_subject: Any) -> None:
    with enter() as permit:
        [reservation] = funded.account("mail").reservations
        assert reservation.entry == permit.entry
        assert reservation.certificate_sha256 == permit.certificate.sha256
        assert reservation.ended is None
        assert permit.use("plan.of") == Exponential(0.16)
        assert permit.uses == {"plan.of": 1}
        assert (permit.plan, permit.relation) == (make_subject().plan, "zero-out")
        assert permit.noise.random(3).shape == (3,)
        permit.attach_receipt("f" * 64)
    [reservation] = funded.account("mail").reservations
    assert reservation.ended is not None
    assert reservation.receipt_sha256 == "f" * 64
    assert (reservation.epsilon, reservation.delta) == (
        permit.certificate.claim.epsilon,
        permit.certificate.claim.delta,
    )


def test_the_first_use_too_many_raises_and_draws_nothing(enter: Open) -> None:
    with enter() as permit:
        for _ in range(3):
            permit.use("plan.of")
        for path in ("plan.of", "plan", "plan.of.of"):
            with pytest.raises(PermitViolation):
                permit.use(path)
        assert permit.uses == {"plan.of": 3}


def test_uses_cannot_be_edited_from_outside(enter: Open) -> None:
    with enter() as permit:
        permit.uses["plan.of"] = -5
        permit.use("plan.of")
        assert permit.uses == {"plan.of": 1}


def test_after_the_run_nothing_can_be_drawn(enter: Open) -> None:
    with enter() as permit:
        permit.use("plan.of")
    actions: list[Callable[[], object]] = [
        lambda: permit.use("plan.of"),
        lambda: permit.finish("plan"),
        lambda: permit.noise,
        lambda: permit.attach_receipt("0" * 64),
    ]
    for action in actions:
        with pytest.raises(PermitViolation, match="closed") as refusal:
            action()
        assert refusal.value.hint
    assert permit.uses == {"plan.of": 1}
    assert permit.sampler.startswith("secure")


def test_stopping_early_is_allowed_and_not_refunded(enter: Open, funded: Ledger) -> None:
    with enter() as permit:
        permit.use("plan.of")
        permit.finish("plan")
        with pytest.raises(PermitViolation):
            permit.use("plan.of")
    assert [str(part) for part in funded.account("mail").spent] == ["0.5", "0.00001"]


@pytest.mark.parametrize("failure", [ValueError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_a_run_that_fails_has_spent_its_budget(enter: Open, funded: Ledger, failure: type[BaseException]) -> None:
    def run() -> None:
        with enter() as permit:
            permit.use("plan.of")
            permits.append(permit)
            raise failure

    permits: list[Permit] = []
    with pytest.raises(failure):
        run()
    [reservation] = funded.account("mail").reservations
    assert reservation.state == "reserved, never committed: spent"
    with pytest.raises(PermitViolation, match="closed"):
        permits[0].use("plan.of")


def test_every_run_is_charged_and_the_last_that_fits_is_granted(enter: Open, funded: Ledger) -> None:
    for _ in range(2):  # 0.5 + 0.5 within 1
        with enter():
            pass
    with pytest.raises(BudgetExceeded), enter():
        pytest.fail("the body ran")
    assert funded.account("mail").remaining == (0, 0)


@pytest.mark.parametrize(
    "case",
    [
        ({"relation": "substitution"}, "config"),
        ({"unit": Unit("user_id", 2)}, "config"),
        ({"config_sha256": "0" * 64}, "config"),
        ({"model_sha256": "0" * 64}, "model"),
        ({"data_hmac": "0" * 64}, "data"),
        ({"size": 1}, "size"),
        ({"plan": parse_plan({"kind": "pure", "epsilon": 0})}, "config"),
    ],
)
def test_another_run_is_refused_and_charged_nothing(
    enter: Open, funded: Ledger, make_subject: Any, case: tuple[dict[str, Any], str]
) -> None:
    change, subject = case
    with pytest.raises(WrongRun) as refusal, enter(run=make_subject(**change)):
        pytest.fail("the body ran")
    assert refusal.value.subject == subject
    assert funded.account("mail").reservations == ()


def test_bad_certificates_are_refused_and_charged_nothing(
    enter: Open, funded: Ledger, make_certificate: Any, clock: Any, tmp_path: Path
) -> None:
    good = make_certificate()
    envelope = json.loads(good)
    envelope["payload"] = ("A" if envelope["payload"][0] != "A" else "B") + envelope["payload"][1:]
    cases: list[tuple[dict[str, Any], type[CertificateError]]] = [
        ({"certificate": None}, CertificateMissing),
        ({"certificate": tmp_path / "none"}, CertificateMissing),
        ({"certificate": json.dumps(envelope).encode()}, SignatureInvalid),
        ({"certificate": b""}, SignatureInvalid),
        ({"certificate": good, "trusted": {}}, UntrustedKey),
    ]
    for change, error in cases:
        with pytest.raises(error), enter(**change):
            pytest.fail("the body ran")
    clock.advance(days=90, seconds=1)
    with pytest.raises(CertificateExpired), enter(certificate=good):
        pytest.fail("the body ran")
    assert funded.account("mail").reservations == ()


def test_ledger_refusals_come_before_the_body(
    enter: Open, funded: Ledger, keyring: Keyring, make_certificate: Any
) -> None:
    with pytest.raises(LedgerMissing), enter(dataset="letters"):
        pytest.fail("the body ran")
    with (
        pytest.raises(LedgerMissing),
        enter(ledger=Ledger(keyring=keyring, url=f"sqlite:///{keyring.home / 'none.db'}")),
    ):
        pytest.fail("the body ran")
    dear = make_certificate(claims=[Claim.of(epsilon_upper=1.5, delta=0)])
    with pytest.raises(BudgetExceeded) as refusal, enter(certificate=dear):
        pytest.fail("the body ran")
    assert (refusal.value.requested, refusal.value.remaining) == ((1.5, 0.0), (1.0, 2e-5))
    assert funded.account("mail").reservations == ()


def test_an_altered_ledger_grants_nothing(enter: Open, keyring: Keyring) -> None:
    with sqlite3.connect(keyring.home / "ledger.db") as connection:
        connection.execute("DROP TRIGGER ledger_entries_update")
        connection.execute("""UPDATE ledger_entries SET body = replace(body, '"1"', '"9"') WHERE number = 2""")
    connection.close()
    with pytest.raises(LedgerAltered) as refusal, enter():
        pytest.fail("the body ran")
    assert refusal.value.entry == 2


def test_the_keys_at_home_are_trusted_unless_others_are_named(enter: Open, keyring: Keyring, tmp_path: Path) -> None:
    with enter(trusted=None) as permit:
        assert permit.certificate.keyids == (keyring.signer().keyid,)
    stranger = Keyring(tmp_path / "stranger")
    stranger.init()
    with pytest.raises(UntrustedKey), enter(trusted=stranger.trusted()):
        pytest.fail("the body ran")


def test_a_certificate_can_be_a_file(enter: Open, make_certificate: Any, tmp_path: Path) -> None:
    path = tmp_path / "cert.json"
    path.write_bytes(make_certificate())
    with enter(certificate=path) as permit:
        permit.use("plan.of")


def test_a_seeded_run_is_reproducible_and_says_that_it_protects_nobody(enter: Open) -> None:
    with enter(randomness=7) as permit:
        first = permit.noise.standard_normal(size=5)
        assert permit.guarantee is False
        assert permit.sampler.startswith("NO GUARANTEE")
    with enter(randomness=7) as permit:
        assert (permit.noise.standard_normal(size=5) == first).all()


@pytest.mark.parametrize("randomness", ["fast", -1, True, 1.5, None])
def test_other_randomness_is_refused_before_the_charge(enter: Open, funded: Ledger, randomness: Any) -> None:
    with pytest.raises(UsageError, match="randomness"), enter(randomness=randomness):
        pytest.fail("the body ran")
    assert funded.account("mail").reservations == ()


def test_a_permit_is_not_made_by_hand_nor_copied(enter: Open) -> None:
    with enter() as permit:
        with pytest.raises(PermitViolation, match="by hand"):
            Permit(object(), permit.certificate, order=Order(permit.plan), entry="0" * 32, noise=permit.noise)
        for copier in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(PermitViolation, match="copied or pickled"):
                copier(permit)


def test_threads_share_one_count(enter: Open) -> None:
    refused = []
    with enter() as permit:

        def draw() -> None:
            try:
                permit.use("plan.of")
            except PermitViolation as error:
                refused.append(error)

        threads = [threading.Thread(target=draw) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert permit.uses == {"plan.of": 3}
    assert len(refused) == 5


def test_a_forked_process_cannot_draw(enter: Open) -> None:
    def child(permit: Permit, answers: Any) -> None:
        try:
            permit.use("plan.of")
        except PermitViolation as error:
            answers.put(error.message)
        else:
            answers.put("drew")

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    with enter() as permit:
        worker = context.Process(target=child, args=(permit, answers))
        worker.start()
        assert "another process" in answers.get()
        worker.join()


KILLED = """
import sys, time
from datetime import UTC, datetime
from pathlib import Path
from affidavit.accountant.attestation.certificate import RunSubject
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.permit import open_permit
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.unit import RECORD

ring = Keyring.default()
plan = parse_plan({"kind": "repeat", "count": 3, "of": {"kind": "exponential", "range": 0.16}})
run = RunSubject("zero-out", RECORD, plan, "c" * 64, "d" * 64, "e" * 64, 240)
noon = lambda: datetime(2026, 3, 1, 12, tzinfo=UTC)
with open_permit(Path(sys.argv[1]), run, "mail", Ledger(keyring=ring), trusted=ring.trusted(), clock=noon) as permit:
    permit.use("plan.of")
    print(permit.entry, flush=True)
    time.sleep(60)
"""


def test_kill_nine_in_the_middle_leaves_the_reservation_spent(
    funded: Ledger, keyring: Keyring, make_certificate: Any, tmp_path: Path
) -> None:
    path = tmp_path / "cert.json"
    path.write_bytes(make_certificate())
    environment = os.environ | {"AFFIDAVIT_HOME": str(keyring.home)}
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, env=environment
    ) as process:
        assert process.stdout is not None
        entry = process.stdout.readline().decode().strip()
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    [reservation] = funded.account("mail").reservations
    assert reservation.entry == entry
    assert reservation.state == "reserved, never committed: spent"
    assert funded.verify() == 4


def test_a_use_takes_microseconds(enter: Open, make_subject: Any, make_certificate: Any) -> None:
    plan = {
        "kind": "parallel",
        "parts": [{"kind": "repeat", "count": 10**6, "of": {"kind": "exponential", "range": 1e-7}}] * 400,
    }
    subject = make_subject(plan=parse_plan(plan))
    with enter(run=subject, certificate=make_certificate(subject)) as permit:
        started = time.thread_time()
        for _ in range(5000):
            permit.use("plan.parts[399].of")
        assert (time.thread_time() - started) / 5000 < 2e-4
        assert permit.uses["plan.parts[399].of"] == 5000
        assert permit.uses["plan.parts[0].of"] == 0


@pytest.mark.parametrize(
    ("plan", "claim"),
    [
        ({"kind": "repeat", "count": 3, "of": {"kind": "exponential", "range": 0.16}}, (1e-6, 0)),
        ({"kind": "repeat", "count": 4, "of": {"kind": "exponential", "range": 0.4}}, (1.0, 1e-3)),
        ({"kind": "repeat", "count": 100, "of": {"kind": "gaussian", "noise_multiplier": 20}}, (1.9, 1e-5)),
        ({"kind": "discrete-gaussian", "noise_multiplier": 4.0, "granularity": 0.25}, (0.5, 1e-5)),
    ],
)
def test_a_trusted_signature_under_a_wrong_number_opens_nothing(
    enter: Open,
    funded: Ledger,
    make_subject: Any,
    make_certificate: Any,
    plan: dict[str, Any],
    claim: tuple[float, Any],
) -> None:
    """The last plan has no second formula: what certified arithmetic would issue decides."""
    subject = make_subject(plan=parse_plan(plan))
    epsilon, delta = claim
    forged = make_certificate(subject, claims=[Claim.of(epsilon_upper=epsilon, delta=delta)])
    with pytest.raises(ClaimRefused) as refusal, enter(run=subject, certificate=forged):
        pytest.fail("the body ran")
    assert refusal.value.exit_code == 3
    assert funded.account("mail").reservations == ()


def test_a_certificate_signed_again_with_a_smaller_claim_opens_nothing(
    enter: Open, funded: Ledger, keyring: Keyring, make_certificate: Any, tmp_path: Path
) -> None:
    """By another key that is trusted here, after the right one was used and noted: nothing is left but to recompute."""
    stranger = Keyring(tmp_path / "stranger")
    stranger.init()
    keyring.trust(stranger.show()[0].pem)
    good = make_certificate()
    with enter(certificate=good, trusted=keyring.trusted()):
        pass
    entries = funded.verify()
    statement = json.loads(base64.b64decode(json.loads(good)["payload"]))
    statement["predicate"]["claims"] = [{"epsilon": "0.000001", "delta": "0"}]
    payload = json.dumps(statement, sort_keys=True, separators=(",", ":")).encode()
    signed = dsse.sign(payload, payload_type=PAYLOAD_TYPE, signer=stranger.signer())
    for _ in range(2):
        with pytest.raises(ClaimRefused), enter(certificate=signed, trusted=keyring.trusted()):
            pytest.fail("the body ran")
    assert funded.verify() == entries


def test_another_ledger_s_note_opens_nothing(
    enter: Open, funded: Ledger, clock: Any, make_certificate: Any, keyring: Keyring, tmp_path: Path
) -> None:
    """A process with two ledgers, of which somebody else has the one's key: what that one notes counts there alone."""
    stranger = Keyring(tmp_path / "stranger")
    stranger.init()
    theirs = Ledger(keyring=stranger, url=f"sqlite:///{tmp_path}/theirs.db", clock=clock)
    theirs.init_account("mail", relation="zero-out", unit=RECORD, epsilon=1, delta="2e-5")
    forged = make_certificate(claims=[Claim.of(epsilon_upper=1e-6, delta=0)])
    found = verify_envelope(forged, trusted=keyring.trusted(), clock=clock)
    with theirs._verified(write=True) as state:
        identity = state.history.identity
        state.append(**note(found, ledger=identity))
    assert theirs.confirm(found) is False
    with pytest.raises(ClaimRefused), enter(certificate=forged):
        pytest.fail("the body ran")
    assert funded.account("mail").reservations == ()
