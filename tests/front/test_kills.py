"""Commands and database servers killed at random moments: nothing granted is lost or charged twice, no text is free."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support import postgresql as postgres
from support.kills import Kills

FEW, MANY, PARTS = 16, 1_000, 10


@pytest.fixture(params=["sqlite", "postgresql"])
def kills(request: pytest.FixtureRequest, empty_workplace: Any) -> Iterator[Kills]:
    """A server of its own, which may crash."""
    place = empty_workplace
    place.keyring.init()

    def made(url: str, server: postgres.Server | None) -> Kills:
        return Kills(place.folder, place.keyring, url, place.run_file, server)

    if request.param == "sqlite":
        yield made(f"sqlite:///{place.folder}/ledger.db", None)
        return
    found = postgres.programs()
    if found is None:
        pytest.skip(postgres.HOW)
    with postgres.running(found) as server:
        killing = made(server.new_place(), server)
        yield killing
        killing.stop()


def _killed(kills: Kills, first: int, count: int) -> None:
    kills.prepare()
    kills.kill(first, count)
    print(dict(kills.counts))
    assert kills.faults == []
    assert kills.killed == count
    assert kills.counts["process"] > count // 4
    assert kills.counts["charged"]
    assert (kills.counts["server"] > 0) == (kills.server is not None)


def test_a_few_kills(kills: Kills) -> None:
    _killed(kills, 0, FEW)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS // 2))
def test_a_thousand_kills(kills: Kills, part: int) -> None:
    """A tenth of them."""
    _killed(kills, MANY * (part + 1), MANY // PARTS)
