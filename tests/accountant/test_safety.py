"""What a passing run would not show: synchronised writes, locks, and where the bits come from. A planted fault each."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.attestation.certificate import Claim
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.order import Order
from affidavit.accountant.release.permit import open_permit
from affidavit.accountant.release.randomness import SecureNoise, noise_source
from affidavit.accountant.unit import RECORD


def _open(ledger: Ledger) -> None:
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=1, delta=1)


def _reserve(ledger: Ledger) -> str:
    return ledger.reserve("mail", relation="zero-out", unit=RECORD, epsilon="0.1", delta=0, certificate_sha256="a" * 64)


def test_sqlite_writes_are_on_disk_before_they_are_granted(ledger: Ledger) -> None:
    _open(ledger)
    with ledger._database.transaction(write=True) as connection:
        full = 2
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == full


def test_an_anchor_is_on_disk_before_it_replaces_the_last(
    ledger: Ledger, keyring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    _open(ledger)
    [anchor] = (keyring.home / "anchors").glob("*.json")
    before = anchor.read_bytes()
    synced: list[tuple[str, bool]] = []
    real = os.fsync

    def noting(descriptor: int) -> None:
        content = Path(f"/proc/self/fd/{descriptor}").read_text("utf-8")
        synced.append((content, anchor.read_bytes() == before))
        real(descriptor)

    monkeypatch.setattr("affidavit.accountant.files.os.fsync", noting)
    _reserve(ledger)
    assert synced == [(anchor.read_text("utf-8"), True)]


def test_a_use_is_counted_by_one_thread_at_a_time(
    ledger: Ledger, keyring: Keyring, clock: Any, make_subject: Any, make_certificate: Any, monkeypatch: Any
) -> None:
    """Two threads meet inside the count if they can: then both would be let through on the last use."""
    _open(ledger)
    inside, most = [0], [0]
    counted = Order.use

    def slowly(self: Order, path: str) -> Any:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.02)
        try:
            return counted(self, path)
        finally:
            inside[0] -= 1

    monkeypatch.setattr(Order, "use", slowly)
    certificate = make_certificate(claims=[Claim.of(epsilon_upper=0.5, delta=1e-5)])
    with open_permit(certificate, make_subject(), "mail", ledger, trusted=keyring.trusted(), clock=clock) as permit:

        def draw() -> None:
            try:
                permit.use("plan.of")
            except PermitViolation:
                return

        threads = [threading.Thread(target=draw) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert most == [1]


def test_every_word_of_secure_noise_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    """A generator that is seeded once from it would give other words, and the same ones in two processes."""
    asked: list[int] = []

    def known(count: int) -> bytes:
        asked.append(count)
        return bytes(i % 251 for i in range(count))

    monkeypatch.setattr("affidavit.accountant.release.randomness.os.urandom", known)
    source = noise_source("secure")
    assert isinstance(source, SecureNoise)
    for count in (1, 5, 1000):
        words = source._words(count)
        assert words.tobytes() == np.frombuffer(known(8 * count), np.uint64).tobytes()
    assert sum(asked) == 2 * 8 * 1006


def test_a_forked_child_s_noise_is_not_its_parent_s() -> None:
    source = noise_source("secure")
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, source._words(4).tobytes())
        os._exit(0)
    os.wait()
    assert os.read(reader, 32) != source._words(4).tobytes()
