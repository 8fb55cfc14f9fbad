"""Makes the helpers of this folder importable, and a fresh place for each alternative of a remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from remedy_cases import Place
from remedy_sites import Recorder


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Where errors were made, in the order of their making."""
    with Recorder() as found:
        yield found


@pytest.fixture
def new_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    same_entropy: None,
    request: pytest.FixtureRequest,
) -> Callable[[], Place]:
    """A folder of its own with a run file, records, keys, an account and a certificate; commands run in it."""
    count = iter(range(100))

    def make() -> Place:
        return Place.make(
            tmp_path / f"place-{next(count)}", monkeypatch, capsys, lambda: request.getfixturevalue("service")
        )

    return make
