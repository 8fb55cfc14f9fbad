"""What a run leaves behind: whole files, public ones that say nothing about the data, a private trace."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.resources
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from affidavit import mechanisms
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Compose, Gaussian
from affidavit.generation import baselines, outputs, prism
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.outputs import Generated, Provenance

ENDED = datetime(2026, 3, 1, 14, 59, 59, tzinfo=timezone(timedelta(hours=2)))
CONFIG = prism.PrismConfig(labels=["World"], batch_size=5, max_tokens=4, max_record_tokens=30, minibatch_rows=4)
PLAN = prism.plan(CONFIG, relation="zero-out", size=10)
PROVENANCE = Provenance(certificate_sha256="c" * 64, ledger_entry="entry", noise="secure", guarantee=True, plan=PLAN)
SCHEMA = json.loads(
    (importlib.resources.files("affidavit.generation") / "schemas" / "receipt.schema.json").read_text("utf-8")
)


def _records(count: int) -> list[Record]:
    return [Record(f"id-{i}", f"write to person{i}@example.org", "World") for i in range(count)]


@pytest.fixture
def generate(open_plain: Callable[..., Any]) -> Callable[[Sequence[Record]], Generated]:
    mechanisms.load()

    def run(records: Sequence[Record]) -> Generated:
        permit = open_plain(prism.plan(CONFIG, relation="zero-out", size=10))
        return prism.run(permit, CONFIG, records, ToyModel(), size=10)

    return run


def test_writes_three_files_and_a_receipt_that_describes_them(
    tmp_path: Path, generate: Callable[[Sequence[Record]], Generated]
) -> None:
    generated = generate(_records(10))
    written = outputs.write(tmp_path / "out", generated, PROVENANCE, ended=ENDED)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "receipt.json", "synthetic.jsonl", "trace.jsonl"
    ]  # fmt: skip
    text = written.receipt.read_text("utf-8")
    receipt = json.loads(text)
    jsonschema.validate(receipt, SCHEMA)
    assert text.splitlines()[1].startswith('  "guarantee": "noise from the operating system')
    assert receipt["outputs_sha256"]["synthetic.jsonl"] == hashlib.sha256(written.synthetic.read_bytes()).hexdigest()
    assert written.receipt_sha256 == hashlib.sha256(written.receipt.read_bytes()).hexdigest()
    assert receipt["draws_per_node"] == dict(generated.draws_per_node)
    assert receipt["sampler"] == "exponential: inverse CDF over integer weights"
    assert receipt["ended"] == "2026-03-01T12:00:00Z"
    assert [json.loads(line)["text"] for line in written.synthetic.read_text("utf-8").splitlines()] == [
        sample.text for sample in generated.samples
    ]
    assert written.trace.stat().st_mode & 0o077 == 0
    first, *lines = map(json.loads, written.trace.read_text("utf-8").splitlines())
    assert first["event"] == "run"
    assert first["sampler"] == {"algorithm": "secure"}
    assert lines == list(generated.trace)


def test_public_files_of_neighbours_differ_in_released_tokens_only(
    tmp_path: Path, generate: Callable[[Sequence[Record]], Generated]
) -> None:
    """Two datasets that differ in one record, same tokens released: every public byte is the same."""
    released = generate(_records(10))
    neighbour = generate(_records(9))
    same_tokens = Generated(
        generator=neighbour.generator,
        samples=released.samples,
        trace=neighbour.trace,
        draws_per_node=released.draws_per_node,
        protected=True,
        versions=neighbour.versions,
    )
    first = outputs.write(tmp_path / "first", released, PROVENANCE, ended=ENDED)
    second = outputs.write(tmp_path / "second", same_tokens, PROVENANCE, ended=ENDED - timedelta(minutes=7))
    assert first.synthetic.read_bytes() == second.synthetic.read_bytes()
    assert first.receipt.read_bytes() == second.receipt.read_bytes()
    assert first.trace.read_bytes() != second.trace.read_bytes()


def test_private_text_and_ids_are_in_no_file(tmp_path: Path, generate: Callable[[Sequence[Record]], Generated]) -> None:
    written = outputs.write(tmp_path, generate(_records(10)), PROVENANCE, ended=ENDED)
    for path in (written.synthetic, written.receipt, written.trace):
        content = path.read_text("utf-8")
        assert "example.org" not in content
        assert "id-3" not in content


def test_a_seeded_run_and_a_baseline_say_so_first(
    tmp_path: Path, generate: Callable[[Sequence[Record]], Generated]
) -> None:
    seeded = outputs.write(tmp_path / "a", generate(_records(10)), Provenance(noise="seeded"), ended=ENDED)
    assert seeded.receipt.read_text("utf-8").splitlines()[1].startswith('  "guarantee": "NONE: the noise was seeded')
    bare = baselines.noise_off(CONFIG, _records(10), ToyModel(), size=10)
    written = outputs.write(tmp_path / "b", bare, Provenance(), ended=ENDED)
    receipt = json.loads(written.receipt.read_text("utf-8"))
    jsonschema.validate(receipt, SCHEMA)
    assert receipt["guarantee"].startswith("NONE: an unprotected baseline")
    assert receipt["protected"] is False
    assert receipt["sampler"] is None


def test_the_receipt_says_how_every_kind_of_leaf_was_drawn(
    generate: Callable[[Sequence[Record]], Generated],
) -> None:
    """One receipt, three plans: what it says follows the certified plan, not the generator's name."""
    generated = generate(_records(10))
    for plan, expected in (
        (Compose((Gaussian(2.0), PLAN)), "gaussian: normal noise in float64; exponential: inverse CDF over integer "),
        (Compose((PLAN, Gaussian(2.0))), "exponential: inverse CDF over integer weights; gaussian: normal noise in "),
        (Gaussian(2.0), "gaussian: normal noise in float64"),
    ):
        under = dataclasses.replace(PROVENANCE, plan=plan)
        stated = outputs.receipt(generated, under, synthetic_sha256="0" * 64, ended=ENDED)
        jsonschema.validate(stated, SCHEMA)
        assert stated["sampler"].startswith(expected)


def test_an_unwritable_folder_leaves_nothing(tmp_path: Path, generate: Callable[[Sequence[Record]], Generated]) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="cannot be written"):
        outputs.write(tmp_path / "file", generate(_records(10)), PROVENANCE, ended=ENDED)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "receipt.json").mkdir()
    (tmp_path / "out" / "receipt.json" / "full").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        outputs.write(tmp_path / "out", generate(_records(10)), PROVENANCE, ended=datetime.now(UTC))
    assert not [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]
