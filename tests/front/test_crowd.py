"""Many runs at once on one account, killed at random moments: none is free, none overdraws, none draws twice."""

from __future__ import annotations

from typing import Any

import pytest

from support.crowd import Crowd


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Any) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    place: str = request.getfixturevalue("postgresql").new_place()
    return place


def _survive(place: Any, url: str, *, seed: int, folders: int, paid: int, rounds: int) -> None:
    place.keyring.init()
    crowd = Crowd(place, url, folders, paid, seed)
    crowd.prepare()
    for number in range(rounds):
        crowd.round(number)
    crowd.finish()
    print(dict(crowd.counts))
    assert crowd.faults == []
    assert crowd.counts["killed"] >= folders // 2
    assert crowd.counts["exit 4"]


def test_a_crowd_of_runs(empty_workplace: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIDAVIT_LEDGER", url)
    _survive(empty_workplace, url, seed=0, folders=6, paid=4, rounds=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))
def test_crowds_of_runs(empty_workplace: Any, url: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIDAVIT_LEDGER", url)
    _survive(empty_workplace, url, seed=seed, folders=16, paid=10, rounds=8)
