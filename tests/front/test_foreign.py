"""Somebody else's generators: what the watch sees, what is a fault, and that sound ones are not accused."""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pytest

from affidavit import foreign
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import parse_envelope
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import parse
from affidavit.cli import run as affidavit
from affidavit.foreign.watch import Watch
from affidavit.generation.dataset import Record
from support import foreign_generators as theirs

SAMPLERS = ("sample", "coins", "system coins", "vector", "permutation", "dealt", "choice", "seeded")


@pytest.fixture(autouse=True)
def _the_same_draws(monkeypatch):
    """Generators that seed themselves from the operating system would make every run of a test another one."""
    numbers = iter(range(10**6))
    fresh, of_numpy = random.Random, np.random.default_rng
    monkeypatch.setattr(
        np.random, "default_rng", lambda seed=None: of_numpy(next(numbers) + 2**70 if seed is None else seed)
    )
    monkeypatch.setattr(random.SystemRandom, "random", lambda _: fresh(next(numbers)).random())
    random.seed(11)
    np.random.seed(12)


def _records(count: int = 40, *, rare: int = 0) -> list[Record]:
    found = [Record(f"r{n}", f"letter {n} of the harbour" + " and more" * (n % 5), "north") for n in range(count)]
    return [*found, *(Record(f"x{n}", f"another letter, {n}", "south") for n in range(rare))]


def _slugs(report) -> set[str]:
    return {check.slug for check in report.faults}


def _statuses(report) -> dict[str, str]:
    return {check.name: check.status for check in report.checks}


def _plan(of: dict, *, relation: str = "add-remove") -> dict:
    return {"relation": relation, "delta": 1e-5, "plan": of}


def _poisson(count: int, rate: float) -> dict:
    gaussian = {"kind": "gaussian", "noise_multiplier": 4.0}
    return _plan(
        {
            "kind": "repeat",
            "count": count,
            "of": {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": gaussian},
        }
    )


def _check(function, records, content):
    envelope = parse_envelope(content)
    lines = foreign.trace(function, records).trace()
    return check_trace(parse(lines), envelope.plan, relation=envelope.relation, delta=envelope.delta)


# --- the watch ------------------------------------------------------------------------------------------------------


def test_seeds_are_seen_wherever_they_are_set():
    from numpy.random import RandomState

    with Watch(_records()) as watch:
        np.random.seed(1)
        np.random.normal(size=3)
        np.random.RandomState(2).laplace(size=3)
        np.random.default_rng(3).gumbel(size=3)
        np.random.Generator(np.random.PCG64(4)).normal(size=3)
        random.seed(5)
        random.gauss(0.0, 1.0)
        random.Random(6).sample(range(9), 3)
        np.random.RandomState().normal(size=3)
        random.SystemRandom().shuffle([1, 2, 3])
    seen = [(call.source.library, call.source.seed) for call in watch.calls]
    assert seen == [
        *(("numpy", seed) for seed in (1, 2, 3, 4)),
        ("random", 5),
        ("random", 6),
        ("numpy", None),
        ("random", None),
    ]
    assert watch.calls[-1].source.algorithm == "operating system"
    assert np.random.RandomState is RandomState, "everything is put back"
    assert "built-in" in repr(random.random)


def test_draws_of_torch_are_seen():
    torch = pytest.importorskip("torch")
    with Watch(()) as watch:
        torch.manual_seed(8)
        torch.randn(4)
        torch.multinomial(torch.ones(5), 2, generator=torch.Generator().manual_seed(9))
        torch.nn.Linear(3, 3)
    assert [(call.name, call.source.seed) for call in watch.calls] == [("randn", 8), ("multinomial", 9)]


def test_what_a_module_made_or_imported_before_is_watched(monkeypatch):
    monkeypatch.setattr(theirs, "kept", np.random.RandomState(3), raising=False)
    monkeypatch.setattr(theirs, "drawn", np.random.normal, raising=False)
    before = theirs.kept
    with Watch(()) as watch:
        theirs.kept.normal(size=2)
        theirs.drawn(size=2)
    assert len(watch.calls) == 2
    assert theirs.kept is before


def test_a_watch_changes_no_draw():
    first = theirs.run_sampled(_records())
    np.random.seed(12)
    random.seed(11)
    with Watch(_records()):
        assert theirs.run_sampled(_records()) == first


def test_parameters_are_read_from_the_frame():
    lines = foreign.trace(theirs.by_sampler("sample", sigma=2.5), _records()).trace()
    drawn = [line for line in lines if line["event"] == "draw"]
    sampled = [line for line in lines if line["event"] == "sample"]
    assert {line["noise_multiplier"] for line in drawn} == {2.5}
    assert {line["population"] for line in sampled} == {40}
    assert {line["rows"] for line in drawn} == {10}
    assert not any(record.id in str(lines) or record.text in str(lines) for record in _records()), "names are keyed"


def test_an_expression_that_cannot_be_read_names_what_there_is():
    @foreign.draws(foreign.draw("plan.of.of", "normal", inside="voting", sensitivity="no_such_name"))
    def run(records):
        return theirs.voting([r.text for r in records], sampler="sample", sigma=1.0, tokens=1)

    with pytest.raises(UsageError, match=r"`no_such_name` cannot be read in voting: NameError") as refused:
        foreign.trace(run, _records())
    assert "sigma" in refused.value.hint
    assert "letter" not in refused.value.message + refused.value.hint


# --- sound generators -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("relation", ["add-remove", "zero-out", "substitution"])
@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_sound_sampler_is_not_accused(sampler, relation):
    report = foreign.neighbours(theirs.by_sampler(sampler), _records(), relation=relation, seeds=(2,))
    assert not report.faults
    assert _statuses(report)["other records' places"] == "consistent"
    assert _statuses(report)["public facts"] == "consistent", "whole runs were compared"


@pytest.mark.parametrize("relation", ["zero-out", "substitution"])
def test_sound_batches_are_not_accused(relation):
    report = foreign.neighbours(theirs.run_batched_sound, _records(12), relation=relation)
    assert not report.faults
    assert _statuses(report)["other records' rows"] == "consistent"
    assert _statuses(report)["public rows"] == "consistent"


def test_a_sound_generator_follows_its_plan_and_repeats_nothing():
    report = _check(theirs.by_sampler("system coins", tokens=12), _records(), _poisson(12, 0.25))
    assert _slugs(report) == {"predictable-noise"}, "numpy's legacy generator, and nothing else"
    assert not foreign.repeat(theirs.run_sampled, _records()).faults


# --- the faults of four published generators --------------------------------------------------------------------------


def test_batches_that_drop_pad_and_count_what_the_data_hold():
    report = foreign.neighbours(theirs.run_batched, _records(12), relation="zero-out")
    assert _slugs(report) == {"private-support", "dropped-records", "shape-dependent-rows"}
    part = {"kind": "repeat", "count": 20, "of": {"kind": "exponential", "range": 0.1}}
    checked = _check(
        theirs.run_batched, _records(12), _plan({"kind": "parallel", "parts": [part, part]}, relation="zero-out")
    )
    assert _slugs(checked) == {
        "lost-rows",
        "public-row-in-private-batch",
        "ex-post-epsilon",
        "predictable-noise",
    }


def test_a_seed_set_in_the_loop():
    watch = foreign.trace(theirs.run_reseeded, _records())
    assert _slugs(foreign.watch_report(watch)) == {"predictable-noise", "reused-randomness"}
    assert _slugs(foreign.repeat(theirs.run_reseeded, _records())) == {"predictable-noise"}
    report = _check(theirs.run_reseeded, _records(), _poisson(12, 0.25))
    assert {"reused-randomness", "predictable-noise"} <= _slugs(report)


def test_a_rate_over_all_records_and_samples_within_one_label():
    records = [Record(f"r{n}", f"letter {n}", "abc"[n % 3]) for n in range(90)]
    report = _check(theirs.run_by_label, records, _poisson(30, 10 / 90))
    assert _slugs(report) == {"sampling-scheme", "predictable-noise"}
    (rate,) = report.about("sampling rate")
    assert rate.status == "fault"
    assert "have 300 members, expected 100" in rate.detail


def test_a_sampler_with_a_public_seed_hides_nobody():
    report = _check(theirs.by_sampler("seeded"), _records(), _poisson(12, 0.25))
    (source,) = report.about("sample source")
    assert source.status == "fault"
    told = float(source.detail.rpartition("at least ")[2])
    phi = NormalDist().cdf  # Balle and Wang 2018, theorem 8, at sensitivity 1 and σ = 4
    assert phi(0.125 - 4 * told) - math.exp(told) * phi(-0.125 - 4 * told) == pytest.approx(1e-5, rel=2e-3)


def test_a_crash_and_labels_that_depend_on_the_data():
    few = [*_records(20), *(Record(f"x{n}", f"another letter, {n}", "south") for n in range(10))]
    report = foreign.neighbours(theirs.run_by_label, few, relation="add-remove")
    (crash,) = [check for check in report.checks if check.name == "crash"]
    assert crash.status == "fault"
    assert "ValueError on one neighbour" in crash.detail
    assert "letter" not in crash.detail


def test_raw_text_is_found():
    assert "raw-text-fallback" in _slugs(foreign.neighbours(theirs.run_raw, _records(), relation="substitution"))


# --- the commands -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    lines = [{"id": r.id, "text": r.text, "label": r.label} for r in _records()]
    (tmp_path / "letters.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "plan.json").write_text(json.dumps(_poisson(12, 0.25)), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AFFIDAVIT_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("CI", raising=False)
    return tmp_path


def test_neighbours_says_what_repeats_and_what_is_seeded(folder, capsys):
    glue = Path(theirs.__file__)
    code = affidavit(["neighbours", f"{glue}:run_reseeded", "letters.jsonl", "--relation", "add-remove"])
    printed = capsys.readouterr()
    assert code == 1
    assert "reused-randomness: see docs/faults.md" in printed.out
    assert "nothing is signed" in printed.err
    assert not (folder / "home").exists(), "no key, no ledger"


def test_an_audit_of_a_claim_needs_no_certificate(folder, capsys):
    glue = Path(theirs.__file__)
    arguments = ["audit", "--plan", "plan.json", "--records", "letters.jsonl", "--generator", f"{glue}:run_sampled"]
    assert affidavit([*arguments, "--claim", "0.1", "-o", "out"]) == 1
    assert "ε 0.1 is claimed, the plan costs" in " ".join(capsys.readouterr().out.split())
    written = json.loads((folder / "out" / "findings.json").read_text(encoding="utf-8"))
    assert written["certificate_sha256"] is None
    assert (folder / "out" / "trace.jsonl").exists()
    assert not (folder / "home").exists()


def test_a_mechanism_with_a_fixed_seed_is_refuted(folder, capsys):
    plan = _plan({"kind": "gaussian", "noise_multiplier": 2.0})
    (folder / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
    audit = 'attack = "one-step"\nmembers = 1000\nnon_members = 1000\n'
    (folder / "audit.toml").write_text(audit, encoding="utf-8")
    glue = Path(theirs.__file__)
    arguments = ["audit", "audit.toml", "--plan", "plan.json", "--records", "letters.jsonl", "-o", "out", "--json"]
    assert affidavit([*arguments, "--release", f"{glue}:release"]) == 1
    items = json.loads(capsys.readouterr().out)["items"]
    (fresh,) = [item for item in items if "fresh outputs" in item["attack"]]
    assert fresh["verdict"] == "VIOLATION"
    assert "CONSISTENT" not in {item["verdict"] for item in items if item["attack"] == "one-step"}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import sys\ndef run(records): sys.exit(0)", "the generator ended the process at broken.py:2"),
        ("import sys\nsys.exit(0)", "broken.py ended the process at broken.py:2"),
        ("def run(records): raise ValueError(records[0].text)", "the generator raised ValueError at broken.py:1"),
        ("def run(records, more): pass", "the generator raised TypeError where it was called with one argument"),
        ("def run(records: pass", "broken.py raised SyntaxError at broken.py:1"),
        ("open('not-there')", "broken.py raised FileNotFoundError at broken.py:1"),
    ],
)
@pytest.mark.parametrize("command", ["neighbours", "audit"])
def test_what_their_code_does_is_no_answer_of_ours(folder, capsys, command, code, said):
    """Whatever it exits with or raises: ``sys.exit(0)`` was taken for "holds", any exception for a fault of ours."""
    (folder / "broken.py").write_text(code, encoding="utf-8")
    sys.modules.pop("broken", None)
    arguments = {
        "neighbours": ["neighbours", "broken.py:run", "letters.jsonl", "--relation", "add-remove", "-o", "out"],
        "audit": ["audit", "--plan", "plan.json", "--records", "letters.jsonl", "--generator", "broken.py:run"],
    }[command]
    assert affidavit([*arguments, "-o", "out"]) == 2
    printed = capsys.readouterr()
    assert said in printed.err
    assert printed.out == ""
    assert "letter" not in printed.err
    assert not (folder / "out" / "findings.json").exists()


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("inputs[0] + noise", 0),
        ("inputs + noise", 0),
        ("float('nan')", 2),
        ("float('inf')", 2),
        ("'0.5'", 2),
        ("[0.5, 0.5]", 2),
        ("None", 2),
        ("exit(0)", 2),
    ],
)
def test_a_mechanism_gives_one_finite_number(folder, capsys, value, code):
    """A NaN is on neither side of a threshold: it was counted as silence, and the audit said CONSISTENT."""
    (folder / "plan.json").write_text(json.dumps(_plan({"kind": "gaussian", "noise_multiplier": 2.0})), "utf-8")
    audit = 'attack = "one-step"\nmembers = 2000\nnon_members = 2000\nalpha = 1e-6\n'
    (folder / "audit.toml").write_text(audit, encoding="utf-8")
    mechanism = f"import random\ndef release(inputs):\n    noise = random.gauss(0.0, 2.0)\n    return {value}\n"
    (folder / "theirs.py").write_text(mechanism, encoding="utf-8")
    sys.modules.pop("theirs", None)
    arguments = ["audit", "audit.toml", "--plan", "plan.json", "--records", "letters.jsonl", "-o", "out"]
    assert affidavit([*arguments, "--release", "theirs.py:release"]) == code
    assert ("the mechanism" in capsys.readouterr().err) == (code == 2)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["neighbours", "glue.py:run", "letters.jsonl"], "--relation add-remove"),
        (["neighbours", "no_such_file.py:run", "letters.jsonl", "--relation", "add-remove"], "glue.py:run"),
        (["neighbours", "json:run", "letters.jsonl", "--relation", "add-remove"], "glue.py:run"),
        (["audit", "--plan", "plan.json", "-o", "out"], "--records letters.jsonl"),
        (["audit", "--plan", "plan.json", "--records", "letters.jsonl", "-o", "out"], "--generator glue.py:run"),
        (["audit", "--claim", "1", "-o", "out"], "--plan plan.json"),
        (["audit", "-o", "out"], "affidavit audit audit.toml --certificate"),
    ],
)
def test_refusals_name_what_works(folder, capsys, arguments, hint):
    assert affidavit(arguments) == 2
    assert hint in capsys.readouterr().err
