"""The fifteen published faults, each built into a generator that works otherwise, and each caught.

Where a fault can be planted in a generator of this package it is; else in a small one written here. The test's
name ends in the fault's number, and ``docs/faults.md`` says the same as ``affidavit.audits.faults``.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import BudgetExceeded, PermitViolation
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.plan import Gaussian, Plan, Repeat, parse_envelope
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.accountant.unit import RECORD
from affidavit.audits.certified import Certified
from affidavit.audits.checks import CheckReport
from affidavit.audits.faults import FAULTS, fault
from affidavit.audits.neighbour import Observed, Step, neighbour_test
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.joint import epsilon_lower
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import parse
from affidavit.generation import batches, prism
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.registry import generator
from affidavit.mechanisms import above_threshold, propose_test_release
from affidavit.neighbours import Trial, try_neighbours
from affidavit.trial import TrialPermit
from support.odd_rows import Longest, Ragged, WithPublic

ROOT = Path(__file__).resolve().parents[2]
SIZE = 24
CONFIG = prism.PrismConfig(
    labels=["north", "south"],
    samples_per_label=2,
    max_tokens=6,
    max_record_tokens=24,
    batch_size=6,
    minibatch_rows=4,
    clip=4.0,
    temperature=0.4,
)


def _records(count: int = SIZE) -> list[Record]:
    return [Record(f"r{n}", f"the wind number {n} of the harbour", ("north", "south")[n % 2]) for n in range(count)]


def _found(report: CheckReport) -> set[int]:
    return {check.number for check in report.faults if check.number is not None}


# --- the trace check -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def foreign() -> ModuleType:
    """The documented example: a generator that is not ours, with its adapter."""
    spec = importlib.util.spec_from_file_location("foreign_generator", ROOT / "docs/examples/foreign_generator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def _same_samples_and_noise(same_entropy):
    """The foreign generator draws from the operating system, and a sound trace is accused once in a thousand."""


def _checked(foreign: ModuleType, lines: list[dict[str, Any]]) -> CheckReport:
    envelope = parse_envelope(foreign.PLAN)
    return check_trace(parse(lines), envelope.plan, relation=envelope.relation)


def test_the_example_as_planned_shows_no_fault(foreign):
    assert not _checked(foreign, foreign.trace("")).faults


def test_samples_without_replacement_accounted_as_poisson_1(foreign):
    assert _found(_checked(foreign, foreign.trace("sampling"))) == {1}


def test_one_sample_and_noise_vector_for_every_token_2(foreign):
    found = _found(_checked(foreign, foreign.trace("reseed")))
    assert {2, 13} <= found, "and the seed is seen"
    assert 1 not in found, "equal sizes of equal samples are not another fault"


def _prism_report(plan: Plan | None = None) -> CheckReport:
    permit = TrialPermit(plan or prism.plan(CONFIG, relation="zero-out", size=SIZE), "zero-out", SeededNoise(1))
    made = prism.run(permit, CONFIG, _records(), ToyModel(), size=SIZE)
    return check_trace(parse(made.trace), permit.plan, relation="zero-out")


def test_prism_as_it_is_shows_no_fault():
    assert not _prism_report().faults


def test_minibatches_counted_by_floor_division_8(monkeypatch):
    whole = batches.PrivateRows.__init__

    def floored(self, model, rows, texts, *, minibatch_rows, max_tokens):
        whole(self, model, rows, texts, minibatch_rows=minibatch_rows, max_tokens=max_tokens)
        self._parts = self._parts[: len(texts) // minibatch_rows]

    monkeypatch.setattr(batches.PrivateRows, "__init__", floored)
    assert _found(_prism_report()) == {8}


def test_a_temperature_that_nothing_reads_9(monkeypatch):
    """The generator always draws at 0.8, whatever is certified: hotter goes unnoticed by a permit, colder does not."""
    stated = prism.mechanism

    def hard_coded(temperature: float) -> Callable[..., Any]:
        return lambda config, *, relation: stated(
            config.model_copy(update={"temperature": temperature}), relation=relation
        )

    plan = prism.plan(CONFIG, relation="zero-out", size=SIZE)
    monkeypatch.setattr(prism, "mechanism", hard_coded(0.8))
    assert _found(_prism_report(plan)) == {9}
    monkeypatch.setattr(prism, "mechanism", hard_coded(0.2))
    with pytest.raises(PermitViolation):
        _prism_report(plan)


def test_a_stated_cost_that_stopping_made_smaller_5():
    """Eighty uses are certified, the run stopped after three and says what three would cost."""
    lines = [{"event": "draw", "path": "plan.of", "use": n} for n in range(3)]
    plan, cost = Repeat(80, Gaussian(2.0)), {"event": "claim", "delta": 1e-5}
    for epsilon, found in ((4.0, {5}), (60.0, set())):
        report = check_trace(parse([*lines, {**cost, "epsilon": epsilon}]), plan, relation="add-remove")
        assert _found(report) == found


def test_a_public_row_that_a_trace_shows_among_private_ones_7():
    for rows, found in ((1, {7}), (0, set())):
        lines = [{"event": "draw", "path": "plan", "use": 0, "public_rows": rows}]
        assert _found(check_trace(parse(lines), Gaussian(2.0), relation="add-remove")) == found


@pytest.mark.parametrize("shown", ["stated", "words", "seed"])
def test_mersenne_twister_with_a_public_seed_13(shown):
    """Known because the trace says so, by the recurrence of its outputs, or because a small seed gives the noise."""
    lines: list[dict[str, Any]] = []
    rng = np.random.RandomState(2026)
    if shown == "stated":
        lines.append({"event": "run", "sampler": {"algorithm": "numpy MT19937"}})
    for use in range(80):
        line: dict[str, Any] = {"event": "draw", "path": "plan.of", "use": use, "noise_sha256": f"{use:064x}"}
        if shown == "words":
            line["noise_words"] = [int(word) for word in rng.randint(0, 2**32, size=8, dtype=np.uint64)]
        if shown == "seed":
            line["noise"] = [2.0 * float(value) for value in rng.standard_normal(4)]
        lines.append(line)
    report = check_trace(parse(lines), Repeat(80, Gaussian(2.0)), relation="add-remove")
    assert _found(report) == {13}


# --- the permit ------------------------------------------------------------------------------------------------


def test_the_last_run_that_never_triggered_is_charged_4():
    """Charging a sparse-vector run when it triggers leaves the last one out; here starting one is what is charged."""
    spec = above_threshold.SparseVector(threshold_scale=20, query_scale=40, sensitivity=1)
    triggered = 2
    permit = TrialPermit(Repeat(triggered, spec.leaf()), "zero-out", SeededNoise(3))
    runs = 0

    def generate(queries: Iterator[int]) -> None:
        nonlocal runs
        while True:
            scan = spec.against(1000).release(permit, "plan.of", ())
            runs += 1
            while not scan.finished:
                query = next(queries, None)
                if query is None:
                    return
                scan.above(query)

    far = [0, 2000, 0, 2000, 0, 0, 0]
    with pytest.raises(PermitViolation):
        generate(iter(far))
    assert runs == triggered, "the third run, which would never have triggered, did not begin"


def test_stopping_early_is_not_cheaper_5(tmp_path):
    """Neither the permit nor the ledger takes back what a run did not use."""
    permit = TrialPermit(prism.plan(CONFIG, relation="zero-out", size=SIZE), "zero-out", SeededNoise(1))
    permit.use("plan.parts[0].of")
    permit.finish("plan.parts[0]")
    with pytest.raises(PermitViolation):
        permit.use("plan.parts[0].of")
    keyring = Keyring(tmp_path)
    keyring.init()
    ledger = Ledger(keyring=keyring)
    ledger.init_account("letters", relation="zero-out", unit=RECORD, epsilon=1.0, delta=1e-5)
    run = {"relation": "zero-out", "unit": RECORD, "epsilon": 0.7, "delta": 1e-6, "certificate_sha256": "a" * 64}
    ledger.commit(ledger.reserve("letters", **run), receipt_sha256="b" * 64)  # it stopped after one token of six
    with pytest.raises(BudgetExceeded):
        ledger.reserve("letters", **run)


# --- a statistical test ----------------------------------------------------------------------------------------


def _test_release(release: Callable[..., tuple[int, ...] | None], seed: int) -> float:
    """The ε that 300 releases a side prove, α = 1e-3: counts (50, 50, 0) against (50, 51, 0)."""
    spec = propose_test_release.TestedTopK(epsilon=1.0, delta=1e-3, gap_sensitivity=1)
    hits = []
    for counts in ([50, 51, 0], [50, 50, 0]):
        permit = TrialPermit(Repeat(300, spec.leaf()), "add-remove", SeededNoise(seed))
        values = np.asarray(counts)
        hits.append(sum(release(permit, "plan.of", values, size=1, spec=spec) == (1,) for _ in range(300)))
    return epsilon_lower(Counts(hits[0], 300, hits[1], 300), delta=1e-3, alpha=1e-3)


def test_a_gap_that_guards_another_set_10():
    def wrong(permit, path, counts, *, size, spec):
        """Tests the gap behind one more than it releases."""
        tested = spec.of_size(size + 1).release(permit, path, counts)
        return None if tested is None else (int(np.argmax(counts)),)

    def right(permit, path, counts, *, size, spec):
        return spec.of_size(size).release(permit, path, counts)

    assert _test_release(right, 1) <= 1.0
    assert _test_release(wrong, 1) > 3.0, "certified is 1"


def test_a_standard_deviation_taken_for_a_variance_12(foreign):
    """σ = 4 certified; the code hands σ to something that wants a variance, so that the noise has deviation 2."""
    from affidavit.audits.experiments.one_step import prepare

    certified = Certified.of_plan(Repeat(40, Gaussian(4.0)), relation="add-remove", delta=1e-5)
    audit = prepare(certified, SeededNoise(1), trials=1000, alpha=1e-3)

    def confused(permit, path, inputs):
        leaf = permit.use(path)
        return float(inputs[0] + np.sqrt(leaf.noise_multiplier) * permit.noise.standard_normal(1)[0])

    assert audit.run(confused).violated
    assert not audit.run(audit.design.case.release).violated
    lines = foreign.trace("")
    for line in lines:
        line.update({"noise": [value / 2.0 for value in line["noise"]]} if "noise" in line else {})
    assert _found(_checked(foreign, lines)) == {12}


# --- the neighbour test ----------------------------------------------------------------------------------------


def _trial(run: Callable[..., Any], relation: str = "zero-out") -> Trial:
    source = dataclasses.replace(generator("prism"), run=run)
    return Trial(source, CONFIG, ToyModel(), relation, SIZE)


def test_prism_as_it_is_moves_nothing_else():
    for relation in ("add-remove", "zero-out", "substitution"):
        assert not try_neighbours(_trial(prism.run, relation), _records()).faults


def _labels_from_data(permit, config, records, model, *, size, public=()):
    found = sorted({record.label for record in records})
    return prism.run(permit, config.model_copy(update={"labels": tuple(found)}), records, model, size=size)


def _length_from_data(permit, config, records, model, *, size, public=()):
    longest = max(len(model.encode(record.text)) for record in records)
    return prism.run(permit, config.model_copy(update={"max_tokens": min(6, longest // 6)}), records, model, size=size)


def _support_from_data(permit, config, records, model, *, size, public=()):
    """Only tokens that stand in some record may be drawn."""
    allowed = sorted({token for record in records for token in model.encode(record.text)})
    made = prism.run(permit, config, records, model, size=size)
    return dataclasses.replace(made, trace=tuple({**line, "support": allowed} for line in made.trace))


@pytest.mark.parametrize("run", [_labels_from_data, _length_from_data, _support_from_data])
def test_labels_lengths_and_support_read_from_private_data_3(run):
    last = Record("only", "a very long and unusual record, the only one with its label " * 2, "south")
    records = [*(record for record in _records() if record.label == "north"), last]
    assert 3 in _found(try_neighbours(_trial(run), records))


def _public_with_private(permit, config, records, model, *, size, public=()):
    return _run_with(WithPublic, permit, config, records, model, size)


def _padded_to_the_longest(permit, config, records, model, *, size, public=()):
    return _run_with(Longest, permit, config, records, model, size)


def _shape_of_the_rest(permit, config, records, model, *, size, public=()):
    return _run_with(Ragged, permit, config, records, model, size)


def _run_with(rows: type[batches.PrivateRows], permit, config, records, model, size):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "PrivateRows", rows)
        return prism.run(permit, config, records, model, size=size)


def test_the_public_prompt_in_the_private_batch_7():
    report = try_neighbours(_trial(_public_with_private), _records())
    assert {7, 14} & _found(report)


@pytest.mark.parametrize("run", [_padded_to_the_longest, _shape_of_the_rest])
def test_shapes_that_let_one_record_move_the_others_14(run):
    assert 14 in _found(try_neighbours(_trial(run, "zero-out"), _records()))


def _fallback_to_raw_text(permit, config, records, model, *, size, public=()):
    """Texts of fewer than 30 characters are thought to be failures, and a real example is shown instead."""
    made = prism.run(permit, config, records, model, size=size)
    samples = tuple(
        sample
        if len(sample.text) >= 30
        else dataclasses.replace(sample, text=[r.text for r in records if r.label == sample.label][-1])
        for sample in made.samples
    )
    return dataclasses.replace(made, samples=samples)


def test_a_fallback_that_emits_raw_private_text_11():
    assert _found(try_neighbours(_trial(_fallback_to_raw_text), _records(), seeds=range(1, 7))) == {11}


def _batched_by_position(records: Sequence[tuple[str, str]], seed: int) -> Observed:
    """Empty records are dropped first; then batches of four are filled in order."""
    kept = [(name, text) for name, text in records if text]
    steps = [
        Step(f"batch {number}", members=frozenset(name for name, _ in kept[4 * number : 4 * number + 4]))
        for number in range(len(records) // 4)
    ]
    return Observed(steps=steps)


def test_empty_records_dropped_before_batching_6():
    records = [(f"r{n}", f"text {n}") for n in range(16)]
    zeroed = [*records[:2], ("r2", ""), *records[3:]]
    report = neighbour_test(_batched_by_position, records, zeroed, changed=("r2",))
    assert _found(report) == {6}


def _coreset(records: Sequence[tuple[str, Sequence[float]]], seed: int) -> Observed:
    """k-means over the records' own embeddings, two clusters; the record nearest to each centre is the example."""
    points = np.array([point for _, point in records])
    centres = points[[0, len(points) // 2]]
    for _ in range(20):
        nearest = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
        centres = np.array([points[nearest == k].mean(axis=0) if (nearest == k).any() else centres[k] for k in (0, 1)])
    chosen = ((points[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=0)
    return Observed(steps=[Step("coreset", members=frozenset(records[index][0] for index in chosen))])


def test_private_embeddings_clustered_without_noise_15():
    rng = np.random.default_rng(5)
    records = [(f"r{n}", list(rng.normal((4.0 * (n >= 10), 0.0), 1.0))) for n in range(20)]
    moved = [*records[:19], ("r19", [40.0, 40.0])]
    report = neighbour_test(_coreset, records, moved, changed=("r19",))
    assert report.faults
    assert "other records came or went" in report.faults[0].detail


# --- the table -------------------------------------------------------------------------------------------------


def test_every_fault_has_a_test_here_and_a_row_in_the_table():
    tested = {int(name.rpartition("_")[2]) for name in globals() if name.startswith("test_") and name[-1].isdigit()}
    assert tested == {each.number for each in FAULTS} == set(range(1, 16))
    page = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
    for each in FAULTS:
        assert f"| {each.number} | `{each.slug}` | {each.title} | {', '.join(each.caught_by)} |" in page
        assert fault(each.number) is each
