"""TLS to PostgreSQL: a checked server is used, one that cannot be who it should be is not, and nothing falls back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetError
from affidavit.accountant.ledger import Ledger
from support import postgresql as postgres
from support.certificates import Authority
from tests.support.ledgers import init, reserve, run_sql

HOST = "localhost"


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.new()


@pytest.fixture(scope="module")
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def server(authority: Authority, port: int) -> Iterator[postgres.Server]:
    """It answers on the loopback as well, with a certificate for ``HOST``, and takes nobody there without TLS."""
    found = postgres.programs(tls=True)
    if found is None:
        pytest.skip(postgres.HOW_TLS)
    certificate, key = authority.server(HOST)
    files = {
        "server.crt": certificate,
        "server.key": key,
        "pg_hba.conf": b"local all all trust\nhostssl all all 127.0.0.1/32 trust\n",
    }
    with postgres.running(found, files=files, ssl="on", listen_addresses="127.0.0.1", port=str(port)) as running:
        yield running


@pytest.fixture
def opened(server: postgres.Server, keyring: Keyring, clock: Any, tmp_path: Path, authority: Authority) -> Any:
    """A ledger on it, in a schema of its own, by an address that asks for this of libpq."""
    place = server.new_place()
    schema = place.partition("&options=")[2]
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    (tmp_path / "other.pem").write_bytes(Authority.new().pem)

    def open_ledger(*, host: str = HOST, mode: str = "verify-full", ca: str = "ca.pem") -> Ledger:
        asked = f"sslmode={mode}&sslrootcert={quote(str(tmp_path / ca))}&hostaddr=127.0.0.1"
        url = f"postgresql://ledger@{host}:{server.port}/postgres?{asked}&options={schema}"
        return Ledger(keyring=keyring, url=url, clock=clock)

    return open_ledger


def test_a_checked_server_keeps_the_ledger(opened: Any) -> None:
    ledger = opened()
    init(ledger)
    reserve(ledger)
    assert ledger.verify() == 3
    said = run_sql(ledger, "SELECT ssl, version FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    assert said[0][0] is True
    assert said[0][1] in ("TLSv1.2", "TLSv1.3")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"host": "elsewhere.example"}, "certificate"),
        ({"ca": "other.pem"}, "SSL error"),
        ({"ca": "gone.pem"}, "does not exist"),
    ],
    ids=["another host", "another authority", "no authority"],
)
def test_another_server_is_refused(opened: Any, changed: dict[str, str], said: str) -> None:
    init(opened())
    before = opened().verify()
    for act in (init, reserve, Ledger.verify):
        with pytest.raises(BudgetError, match=said) as refusal:
            act(opened(**changed))
        assert "sslrootcert" in refusal.value.hint
        assert "Do not go on without TLS" in refusal.value.hint
    assert opened().verify() == before


def test_a_server_that_wants_tls_is_not_reached_without(opened: Any) -> None:
    init(opened())
    with pytest.raises(BudgetError, match="no encryption"):
        reserve(opened(mode="disable"))
