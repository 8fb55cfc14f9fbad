"""One small configuration for each registered generator: ``generators/KIND.toml``.

    size = 24                        private records, which ``GeneratorCase.records`` invents
    public = 0                       public records, likewise
    relations = ["zero-out", ...]    those that the generator supports
    labels = [...]                   of the records; default: the generator's own
    [generator]                      the run file's table
    [must_cost]                      another value of each of these settings is another plan

A generator is tested by putting its file there; a registered one without a file fails.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.plan import Plan
from affidavit.accountant.release.randomness import NoiseSource, SeededNoise
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import GeneratorConfig
from affidavit.generation.dataset import Record
from affidavit.generation.models import load_model
from affidavit.generation.outputs import Generated
from affidavit.generation.registry import Generator, generator, kinds
from affidavit.trial import TrialPermit

FOLDER = Path(__file__).parent / "generators"
_WORDS = [
    "harbour",
    "ledger",
    "window",
    "violin",
    "orchard",
    "lantern",
    "meadow",
    "copper",
    "saddle",
    "winter",
    "bridge",
    "marble",
]


@dataclass(frozen=True)
class GeneratorCase:
    """A registered generator with a configuration to run it in."""

    kind: str
    table: dict[str, Any] = field(repr=False)

    @property
    def size(self) -> int:
        return int(self.table["size"])

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(self.table["relations"])

    @property
    def source(self) -> Generator:
        return generator(self.kind)

    @property
    def must_cost(self) -> dict[str, Any]:
        return dict(self.table.get("must_cost", {}))

    def config(self, **changes: Any) -> GeneratorConfig:
        return self.source.config.model_validate({**self.table["generator"], **changes})

    def plan(self, relation: Relation, **changes: Any) -> Plan:
        return self.source.plan(self.config(**changes), relation=relation, size=self.size)

    def records(self) -> list[Record]:
        """``size`` private records, labels in turn."""
        return self._invented(self.size, "private")

    def public(self) -> list[Record]:
        return self._invented(int(self.table.get("public", 0)), "public")

    def _invented(self, count: int, kind: str) -> list[Record]:
        labels: Sequence[str] = self.table.get("labels") or self.table["generator"].get("labels") or ["record"]
        return [
            Record(
                f"{kind}-{n}",
                f"the {_WORDS[n % len(_WORDS)]} and the {_WORDS[(5 * n + 3) % len(_WORDS)]}, message {n}",
                labels[n % len(labels)],
            )
            for n in range(count)
        ]

    def run(
        self, relation: Relation, *, noise: NoiseSource | None = None, records: Sequence[Record] | None = None
    ) -> tuple[Generated, TrialPermit]:
        """One run on the toy model under this case's own plan."""
        permit = TrialPermit(self.plan(relation), relation, noise or SeededNoise(1))
        generated = self.source.run(
            permit,
            self.config(),
            self.records() if records is None else records,
            load_model("toy"),
            size=self.size,
            public=self.public(),
        )
        return generated, permit


def _case(kind: str) -> GeneratorCase:
    path = FOLDER / f"{kind}.toml"
    if not path.exists():
        pytest.fail(f"the generator {kind} is registered but has no configuration at {path.relative_to(FOLDER.parent)}")
    return GeneratorCase(kind, tomllib.loads(path.read_text(encoding="utf-8")))


@pytest.fixture(params=kinds())
def generator_case(request: pytest.FixtureRequest) -> GeneratorCase:
    """Each registered generator in turn."""
    return _case(request.param)


@pytest.fixture
def case_of() -> Callable[[str], GeneratorCase]:
    """The case of a generator by its kind."""
    return _case
