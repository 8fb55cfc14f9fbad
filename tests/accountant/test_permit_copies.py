"""One charge, one run: no copy, thread, fork or leftover of a permit answers a second time."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from affidavit import mechanisms
from affidavit.accountant.attestation.certificate import Claim
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import PermitViolation
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.plan import parse_plan
from affidavit.accountant.release.permit import Permit, open_permit
from affidavit.accountant.unit import RECORD

mechanisms.load()

from affidavit.mechanisms.above_threshold import Scan, SparseVector  # noqa: E402

Enter = Callable[..., AbstractContextManager[Permit]]
COPIERS = [copy.copy, copy.deepcopy, pickle.dumps]
SPEC = SparseVector(threshold_scale=40, query_scale=80, sensitivity=10, positives=3)
FAR_ABOVE = 100_000


@pytest.fixture
def enter(ledger: Ledger, keyring: Keyring, clock: Any, make_subject: Any, make_certificate: Any) -> Enter:
    """A permit for one run of the sparse vector, which costs 1/4 + 2·3/8 = 1; claimed is a little more."""
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon=10, delta="1e-4")
    plan = {
        "kind": "above-threshold",
        "threshold_noise_multiplier": 4,
        "query_noise_multiplier": 8,
        "positives": 3,
        "monotone": False,
    }
    subject = make_subject(plan=parse_plan(plan))
    envelope = make_certificate(subject, claims=[Claim.of(epsilon_upper=1.001, delta=0)])

    def opened(**changes: Any) -> AbstractContextManager[Permit]:
        return open_permit(envelope, subject, "mail", ledger, trusted=keyring.trusted(), clock=clock, **changes)

    return opened


def _scan(permit: Permit) -> Scan:
    return SPEC.against(0).release(permit, "plan", ())


@pytest.mark.parametrize("copier", COPIERS)
def test_neither_noise_nor_a_sparse_vector_can_be_copied(enter: Enter, copier: Callable[[Any], Any]) -> None:
    with enter(randomness=7) as permit:
        for original in (permit.noise, _scan(permit)):
            with pytest.raises(PermitViolation, match="copied or pickled"):
                copier(original)


def test_sixteen_threads_get_the_answers_of_one(enter: Enter) -> None:
    answers: list[bool] = []
    with enter() as permit:
        scan = _scan(permit)

        def ask() -> None:
            try:
                while True:
                    answers.append(scan.above(FAR_ABOVE))
            except PermitViolation:
                return

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [True] * SPEC.positives


def test_nothing_kept_from_a_run_draws_after_its_end(enter: Enter) -> None:
    with enter() as permit:
        scan, noise = _scan(permit), permit.noise
        assert scan.above(FAR_ABOVE)
    draws: list[Callable[[], object]] = [
        lambda: scan.above(FAR_ABOVE),
        lambda: noise.random(3),
        noise.standard_normal,
        lambda: noise.integers(0, 5, 3),
    ]
    for draw in draws:
        with pytest.raises(PermitViolation, match="closed"):
            draw()


def _in_a_fork(act: Callable[[], object]) -> str:
    """What ``act`` does in a forked child: the refusal's message, or "done"."""

    def child(answers: Any) -> None:
        try:
            act()
        except PermitViolation as error:
            answers.put(error.message)
        else:
            answers.put("done")

    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    worker = context.Process(target=child, args=(answers,))
    worker.start()
    answer = str(answers.get())
    worker.join()
    return answer


def test_a_fork_draws_nothing_from_what_it_inherits(enter: Enter) -> None:
    with enter() as permit:
        scan, noise = _scan(permit), permit.noise
        assert "another process" in _in_a_fork(lambda: scan.above(FAR_ABOVE))
        assert "another process" in _in_a_fork(noise.standard_normal)
        assert scan.above(FAR_ABOVE)


def test_a_fork_that_leaves_the_block_commits_nothing(enter: Enter, ledger: Ledger) -> None:
    with enter():
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            [inside] = ledger.account("mail").reservations
            assert inside.ended is None
    if not pid:
        os._exit(0)
    [after] = ledger.account("mail").reservations
    assert after.ended is not None
