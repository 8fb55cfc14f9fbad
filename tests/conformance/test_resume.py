"""A run of any generator may stop at any line that it writes: resumed, it draws nothing twice and says the same."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.plan import leaves
from affidavit.accountant.release.journal import NAME, Journal, Past
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import parse as parse_trace
from affidavit.generation.models import load_model
from affidavit.generation.outputs import Generated
from support.stopping import Died, KeptPermit, Stop, drawn, logging_draws, moments, stopping

SEED = 5
MOST = 4


class _Runs:
    """One generator, run again and again in folders of its own."""

    def __init__(self, case: Any, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.relation = case.relations[0]
        self.plan = case.plan(self.relation)
        self.model = load_model("toy")
        self._made = 0

    def place(self) -> Path:
        self._made += 1
        place = self.folder / f"run{self._made}"
        place.mkdir()
        return place

    def run(self, place: Path, stop: Stop | None = None, *, resume: bool = False) -> Generated | None:
        """What it made; None where it stopped."""

        def end() -> None:
            raise Died

        if resume:
            journal = Journal.reopen(place / NAME, home=place, at="2026-01-01T00:00:00Z")
        else:
            journal = Journal.begin(place / NAME, home=place, header={"ledger_entry": secrets.token_hex(8)})
        permit = KeptPermit(self.plan, self.relation, SeededNoise(SEED), journal)
        try:
            with stopping(stop, end), logging_draws(place / "log"):
                return self.case.source.run(
                    permit,
                    self.case.config(),
                    self.case.records(),
                    self.model,
                    size=self.case.size,
                    public=self.case.public(),
                )
        except Died:
            return None
        finally:
            journal.close()


@pytest.fixture
def runs(generator_case: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Runs:
    """These processes do not die: what they wrote is there without a wait for the disk (tests/front/test_resume.py)."""
    monkeypatch.setattr(os, "fsync", lambda _: None)
    monkeypatch.setattr(os, "fdatasync", lambda _: None, raising=False)
    return _Runs(generator_case, tmp_path)


@pytest.fixture
def whole(runs: _Runs) -> tuple[Generated, Past]:
    """A run that did not stop."""
    place = runs.place()
    generated = runs.run(place)
    assert generated is not None
    return generated, Past.read(place / NAME)


def _texts(generated: Generated) -> list[tuple[str, int, str]]:
    return [(sample.label, sample.number, sample.text) for sample in generated.samples]


def _loses(stop: Stop) -> bool:
    """Whether this is between an intent and its value."""
    return (stop.event, stop.when) == ("intent", "after") or (stop.event == "value" and stop.when != "after")


def test_wherever_it_stops_no_step_is_drawn_twice_and_the_texts_are_the_same(
    runs: _Runs, whole: tuple[Generated, Past]
) -> None:
    generated, past = whole
    for stop in moments(past, most=MOST):
        place = runs.place()
        assert runs.run(place, stop) is None, stop
        finished = Past.read(place / NAME).texts
        resumed = runs.run(place, resume=True)
        assert resumed is not None
        after = Past.read(place / NAME)
        counted = drawn(place / "log")
        assert max(counted.values()) == 1, stop
        assert (after.count("resumed"), after.lost) == (1, int(_loses(stop))), stop
        assert _texts(resumed)[: len(finished)] == _texts(generated)[: len(finished)], stop
        if not _loses(stop):
            assert _texts(resumed) == _texts(generated), stop
            assert resumed.trace == generated.trace, stop
            assert resumed.draws_per_node == generated.draws_per_node, stop
        allowed = {path: uses for path, _, uses in leaves(runs.plan)}
        assert all(uses <= allowed[path] for path, uses in resumed.draws_per_node.items()), stop
        report = check_trace(parse_trace(resumed.trace), runs.plan, relation=runs.relation)
        assert not report.faults, (stop, report.faults)


def test_it_may_stop_again_and_again(runs: _Runs, whole: tuple[Generated, Past]) -> None:
    generated, past = whole
    place = runs.place()
    values = past.count("value")
    assert runs.run(place, Stop("value", 0)) is None
    again = sum(runs.run(place, Stop("value", 0), resume=True) is None for _ in range(values - 1))
    done = runs.run(place, resume=True)
    assert done is not None
    assert again == values - 1  # each time one step further
    assert _texts(done) == _texts(generated)
    assert Past.read(place / NAME).count("resumed") == values
    assert max(drawn(place / "log").values()) == 1


def test_a_lost_draw_stays_lost(runs: _Runs) -> None:
    place = runs.place()
    assert runs.run(place, Stop("intent", 0)) is None
    assert runs.run(place, Stop("begin", 0, "before"), resume=True) is None
    done = runs.run(place, resume=True)
    assert done is not None
    assert Past.read(place / NAME).lost == 1
    lost = [line for line in done.trace if line.get("lost")]
    assert len(lost) == 1
    assert (lost[0]["path"], 0, 0) not in drawn(place / "log")
