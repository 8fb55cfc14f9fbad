"""Ends noted elsewhere: a ledger rewritten by whoever holds its key is told from what it was."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError, LedgerAltered
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.ledger.witness import Witness
from support.ledgers import contents, init, overwrite, reserve, rewrite


@pytest.fixture(params=["file", "repository"])
def witness(request: pytest.FixtureRequest, tmp_path: Path) -> Witness:
    if request.param == "file":
        return Witness(tmp_path / "heads.jsonl")
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    return Witness(folder)


def test_every_end_is_noted_and_found_again(
    keyring: Keyring, clock: Any, witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFFIDAVIT_WITNESS", str(witness.place))
    ledger = Ledger(keyring=keyring, clock=clock)
    init(ledger)
    ledger.commit(reserve(ledger))
    assert ledger.verify() == 4
    place = witness.place / "heads.jsonl" if witness.place.is_dir() else witness.place
    noted = [json.loads(line) for line in place.read_text("utf-8").splitlines()]
    assert [one["count"] for one in noted] == [2, 3, 4]
    assert {name for one in noted for name in one} == {"ledger", "count", "mac", "at"}
    if witness.place.is_dir():
        log = subprocess.run(
            ["git", "log", "--format=%s"], cwd=witness.place, capture_output=True, text=True, check=True
        )
        assert log.stdout.split("\n")[:3] == ["Ledger at 4", "Ledger at 3", "Ledger at 2"]


def test_a_rewritten_ledger_verifies_alone_and_not_before_its_witness(
    ledger: Ledger, keyring: Keyring, witness: Witness
) -> None:
    init(ledger)
    reserve(ledger)
    assert ledger.witness(witness) == 3
    reserve(ledger)
    rewrite(ledger, keyring, "0.01")
    assert ledger.verify() == 4
    with pytest.raises(LedgerAltered, match="entry 3 is not the one that was witnessed"):
        ledger.verify(witness=witness)


def test_a_ledger_cut_short_is_seen(ledger: Ledger, keyring: Keyring, witness: Witness) -> None:
    init(ledger)
    rows = contents(ledger)
    reserve(ledger)
    ledger.witness(witness)
    overwrite(ledger, rows)
    for path in (keyring.home / "anchors").iterdir():
        path.unlink()
    assert ledger.verify() == 2
    with pytest.raises(LedgerAltered, match="entry 3"):
        ledger.verify(witness=witness)


def test_the_end_after_a_reservation_tells_a_rewritten_ledger(ledger: Ledger, keyring: Keyring) -> None:
    """What a receipt carries."""
    init(ledger)
    entry = reserve(ledger)
    end = ledger.end_after(entry)
    assert end[0] == 3
    reserve(ledger)
    assert ledger.reservation(entry, end=end, certificate_sha256="a" * 64).entry == entry
    for wrong in ({"certificate_sha256": "b" * 64}, {"end": (4, end[1])}, {"end": (9, end[1])}):
        with pytest.raises(LedgerAltered):
            ledger.reservation(entry, **({"end": end, "certificate_sha256": "a" * 64} | wrong))  # type: ignore[arg-type]
    rewrite(ledger, keyring, "0.01")
    assert ledger.verify() == 4
    with pytest.raises(LedgerAltered, match="entry 3 is not the one that the receipt names"):
        ledger.reservation(entry, end=end, certificate_sha256="a" * 64)


@pytest.mark.parametrize("content", ['{"ledger": 1', '{"ledger": "x"}\n[]', '{"a": 1}'])
def test_a_damaged_witness_is_said(ledger: Ledger, tmp_path: Path, content: str) -> None:
    init(ledger)
    (tmp_path / "heads").write_text(content, "utf-8")
    with pytest.raises(BudgetError, match=r"line [12] is damaged"):
        ledger.verify(witness=Witness(tmp_path / "heads"))


def test_a_witness_that_cannot_be_written_is_said(ledger: Ledger, tmp_path: Path) -> None:
    init(ledger)
    for place in (tmp_path / "none" / "heads", tmp_path):  # the second is a folder, and no repository
        with pytest.raises(BudgetError, match="cannot be used"):
            ledger.witness(Witness(place))
