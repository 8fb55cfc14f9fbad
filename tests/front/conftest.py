"""A workplace of its own for each test: home, data, run file; and the command line, in process."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.unit import RECORD
from affidavit.cli import run

RUN = """\
relation = "zero-out"
unit = "record"
[budget]
epsilon = 4.0
delta = 1e-3
[data]
name = "letters"
path = "train.jsonl"
size = 24
[model]
name = "toy"
[generator]
kind = "prism"
labels = ["north", "south"]
max_tokens = 4
max_record_tokens = 12
batch_size = 10
clip = 4.0
temperature = 1.0
minibatch_rows = 8
"""


@dataclass(frozen=True)
class Outcome:
    """What a command did."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(frozen=True)
class Workplace:
    """A folder with a run file and data in it; commands run with its own AFFIDAVIT_HOME."""

    folder: Path
    keyring: Keyring
    command: Callable[..., Outcome]

    @property
    def run_file(self) -> Path:
        return self.folder / "run.toml"

    @property
    def data(self) -> Path:
        return self.folder / "train.jsonl"

    @property
    def certificate(self) -> Path:
        return self.folder / "certificate.json"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def ledger(self) -> Ledger:
        return Ledger(keyring=self.keyring)

    def edit(self, old: str, new: str) -> None:
        """Replace exactly one passage of the run file."""
        text = self.run_file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        self.run_file.write_text(text.replace(old, new), encoding="utf-8")
        tomllib.loads(text)

    def records(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.data.read_text(encoding="utf-8").splitlines()]

    def write_records(self, records: list[dict[str, str]]) -> None:
        self.data.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")

    def open_account(self, *, epsilon: str = "4", delta: str = "0.001") -> None:
        self.ledger.init_account("letters", relation="zero-out", unit=RECORD, epsilon=epsilon, delta=delta)

    def certify(self) -> Outcome:
        return self.command("certify", self.run_file, "-o", self.certificate)

    def generate(self, *flags: str, certificate: bool = True) -> Outcome:
        named = ["--certificate", self.certificate] if certificate else []
        return self.command("generate", self.run_file, *named, "-o", self.out, *flags)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run the command line in this process."""

    def run_command(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run_command


@pytest.fixture
def empty_workplace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Callable[..., Outcome], same_entropy: None
) -> Workplace:
    """Run file and data; neither keys nor ledger. What is drawn in this process is the same in every run."""
    home = tmp_path / "home"
    monkeypatch.setenv("AFFIDAVIT_HOME", str(home))
    monkeypatch.delenv("AFFIDAVIT_LEDGER", raising=False)
    place = Workplace(tmp_path, Keyring(home), command)
    place.run_file.write_text(RUN, encoding="utf-8")
    place.write_records(
        [
            {"id": f"r{n:02d}", "text": f"the {label} wind number {n}", "label": label}
            for n, label in ((n, "north" if n % 2 else "south") for n in range(24))
        ]
    )
    return place


@pytest.fixture
def workplace(empty_workplace: Workplace) -> Workplace:
    """With keys, an account that pays for one run, and a certificate for the run."""
    empty_workplace.keyring.init()
    empty_workplace.open_account()
    certified = empty_workplace.certify()
    assert certified.code == 0, certified.err
    return empty_workplace
