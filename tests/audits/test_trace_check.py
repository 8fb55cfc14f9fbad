"""The trace check: what it accepts, what it finds, and how often it would be wrong."""

from __future__ import annotations

import itertools
import json
import math
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from scipy.stats import binom, hypergeom

from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Gaussian,
    Laplace,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
)
from affidavit.audits.checks import CheckReport
from affidavit.audits.trace import noise as noise_checks
from affidavit.audits.trace.check import check_trace
from affidavit.audits.trace.events import json_schema, parse, read
from affidavit.audits.trace.mersenne import MERSENNE_WORDS, find_seed, is_mersenne_twister
from affidavit.audits.trace.samples import equal_size_probability, overlap_tail

Line = dict[str, Any]


def _draws(*paths: str) -> list[Line]:
    """Draws at those paths in that order, numbered per path, each with its own digest."""
    counts: dict[str, int] = {}
    lines = []
    for number, path in enumerate(paths):
        use = counts.get(path, 0)
        counts[path] = use + 1
        lines.append({"event": "draw", "path": path, "use": use, "noise_sha256": f"{number:064x}"})
    return lines


def _check(lines: list[Line], plan: Plan, relation: str = "add-remove", alpha: float = 1e-3) -> CheckReport:
    return check_trace(parse(lines), plan, relation=relation, alpha=alpha)


def _statuses(report: CheckReport, name: str) -> list[str]:
    return [check.status for check in report.about(name)]


A, B, C = Exponential(1.0), Exponential(2.0), Pure(0.5)
ROUNDS = Repeat(3, Compose((A, B)))


@pytest.mark.parametrize(
    ("plan", "paths"),
    [
        (Repeat(3, A), ["plan.of"] * 3),
        (Repeat(3, A), ["plan.of"]),
        (ROUNDS, ["plan.of.parts[0]", "plan.of.parts[1]"] * 3),
        (ROUNDS, ["plan.of.parts[0]", "plan.of.parts[0]", "plan.of.parts[1]"]),  # the first B was left out
        (ROUNDS, ["plan.of.parts[1]", "plan.of.parts[0]"]),  # so was the first A
        (Compose((Repeat(2, A), C, B)), ["plan.parts[0].of", "plan.parts[2]"]),
        (Parallel((Repeat(2, A), Repeat(2, A))), ["plan.parts[1].of", "plan.parts[0].of", "plan.parts[1].of"]),
        (Parallel((Repeat(2, A), Repeat(2, B))), ["plan.parts[0].of", "plan.parts[1].of"]),
        (
            Parallel((ROUNDS, ROUNDS)),
            ["plan.parts[0].of.parts[0]", "plan.parts[0].of.parts[0]", "plan.parts[1].of.parts[0]"],
        ),
        (
            Parallel((Compose((C, C)), Compose((C, C)))),
            ["plan.parts[0].parts[1]", "plan.parts[1].parts[0]", "plan.parts[1].parts[1]"],
        ),
        (
            Parallel((Repeat(2, Compose((C, C))), Repeat(2, Compose((C, C))))),
            [
                "plan.parts[0].of.parts[0]",
                "plan.parts[1].of.parts[0]",
                "plan.parts[0].of.parts[0]",  # its own round left early, the other part untouched
                "plan.parts[1].of.parts[1]",
                "plan.parts[0].of.parts[1]",
            ],
        ),
    ],
)
def test_what_the_order_allows(plan, paths):
    report = _check(_draws(*paths), plan)
    assert _statuses(report, "order") == ["consistent"]
    assert _statuses(report, "draws") == ["consistent"]


@pytest.mark.parametrize(
    ("plan", "paths"),
    [
        (Compose((A, B)), ["plan.parts[1]", "plan.parts[0]"]),
        (ROUNDS, ["plan.of.parts[1]"] * 3 + ["plan.of.parts[0]"]),
        (Compose((Repeat(2, A), C)), ["plan.parts[0].of", "plan.parts[1]", "plan.parts[0].of"]),
        (Parallel((Repeat(2, A), Repeat(2, B))), ["plan.parts[1].of", "plan.parts[0].of"]),  # ranges differ: in turn
    ],
)
def test_a_draw_that_no_leaving_explains_is_out_of_order(plan, paths):
    report = _check(_draws(*paths), plan)
    assert _statuses(report, "order") == ["fault"]
    assert report.exit_code == 1


def test_too_many_draws_unknown_paths_and_wrong_numbers_are_faults():
    assert "4 draws, 3 are certified" in _check(_draws(*["plan.of"] * 4), Repeat(3, A)).about("draws")[0].detail
    assert "no mechanism" in _check(_draws("plan"), Repeat(3, A)).about("draws")[0].detail
    twice = [*_draws("plan.of"), {**_draws("plan.of")[0], "noise_sha256": "f" * 64}]
    assert "numbered" in _check(twice, Repeat(3, A)).about("draws")[0].detail


def test_an_empty_trace_says_that_nothing_was_checked():
    report = _check([], Repeat(3, Poisson(0.1, A)))
    assert {check.status for check in report.checks} == {"not checked"}
    assert report.exit_code == 5


@pytest.mark.parametrize(
    ("leaf", "stated", "expected"),
    [
        (Gaussian(1.52), {"noise_multiplier": 1.52}, "consistent"),
        (Gaussian(1.52), {"noise_multiplier": 1.52 * (1 + 1e-9)}, "consistent"),
        (Gaussian(1.52), {"noise_multiplier": 1.5}, "fault"),
        (Gaussian(1.52), {"noise_multiplier": 4.0}, "fault"),
        (Exponential(1e-9 + 2**-36), {"range": 1e-9}, "consistent"),
        (Exponential(0.6), {"range": 0.5}, "fault"),
        (Pure(1.0), {}, "not checked"),
        (Pure(1.0), {"something": 7}, "not checked"),
    ],
)
def test_parameters_in_force(leaf, stated, expected):
    lines = [{**line, **stated} for line in _draws("plan.of", "plan.of")]
    assert _statuses(_check(lines, Repeat(2, leaf)), "parameters in force") == [expected]


def test_rows_and_disjoint_parts():
    plan = Parallel((Repeat(2, A), Repeat(2, A)))
    first = {"event": "batch", "path": "plan.parts[0]", "members": ["a", "b"]}
    other = {"event": "batch", "path": "plan.parts[1].of", "members": ["c"], "rows": 1}
    draws = [{**line, "rows": 2} for line in _draws("plan.parts[0].of")]
    good = _check([first, other, *draws], plan)
    assert _statuses(good, "rows in the sum") == ["consistent"]
    assert _statuses(good, "disjoint parts") == ["consistent"]
    lost = _check([first, other, {**draws[0], "rows": 1}], plan)
    assert lost.about("rows in the sum")[0].detail == "2 members, but 1 rows in the sum"
    shared = _check([first, {**other, "members": ["b"]}], plan)
    assert "1 records are in more than one part" in shared.about("disjoint parts")[0].detail


def test_rows_of_fresh_samples_are_matched_where_each_has_one_draw():
    plan = Repeat(2, Poisson(0.5, Compose((A, A))))
    samples = [{"event": "sample", "path": "plan.of", "use": n, "members": ["a", "b"][: n + 1]} for n in range(2)]
    paths = ["plan.of.of.parts[0]"] * 2
    whole = [{**line, "rows": n + 1} for n, line in enumerate(_draws(*paths))]
    assert _statuses(_check([*samples, *whole], plan), "rows in the sum") == ["consistent"]
    lost = [whole[0], {**whole[1], "rows": 1}]
    assert _statuses(_check([*samples, *lost], plan), "rows in the sum") == ["fault"]
    assert _statuses(_check([*samples, whole[0]], plan), "rows in the sum") == ["not checked"]


# --- samples ---------------------------------------------------------------------------------------------------


def _samples(sets: list[Any], **more: Any) -> list[Line]:
    lines: list[Line] = []
    for use, (members, draw) in enumerate(zip(sets, _draws(*["plan.of.of"] * len(sets)), strict=True)):
        lines += [
            {"event": "sample", "path": "plan.of", "use": use, "members": [f"r{m}" for m in members], **more},
            draw,
        ]
    return lines


N, RATE, TIMES = 200, 0.2, 30
POISSON, FIXED = Repeat(TIMES, Poisson(RATE, A)), Repeat(TIMES, WithoutReplacement(N, 40, A))


def _poisson(rng: np.random.Generator, times: int = TIMES) -> list[Any]:
    return [np.flatnonzero(rng.random(N) < RATE) for _ in range(times)]


def _fixed(rng: np.random.Generator, times: int = TIMES) -> list[Any]:
    return [rng.choice(N, 40, replace=False) for _ in range(times)]


def _epochs(rng: np.random.Generator) -> list[Any]:
    return [piece for _ in range(TIMES // 5) for piece in np.split(rng.permutation(N), 5)]


@pytest.mark.parametrize("known", [True, False])
def test_honest_samples_have_no_fault_and_the_tests_have_power(known):
    stated = {"population": N} if known else {}
    rng = np.random.default_rng(1)
    for sets, plan in ((_poisson(rng), POISSON), (_fixed(rng), FIXED)):
        report = _check(_samples(sets, **stated), plan)
        assert not report.faults
        for name in ("sample sizes", "repeated samples", "independent samples", "one sample a use"):
            assert _statuses(report, name) == ["consistent"], name


@pytest.mark.parametrize(
    ("plan", "make", "number"),
    [
        (POISSON, _fixed, 1),
        (FIXED, _poisson, 1),
        (FIXED, _epochs, 2),
        (POISSON, lambda rng: _poisson(rng, 1) * TIMES, 2),
        (FIXED, lambda rng: _fixed(rng, 1) * TIMES, 2),
        (FIXED, lambda rng: _fixed(rng, 2) * (TIMES // 2), 2),
    ],
)
def test_another_scheme_or_a_kept_sample_is_found(plan, make, number):
    report = _check(_samples(make(np.random.default_rng(2)), population=N), plan)
    assert number in {check.number for check in report.faults}


def test_a_kept_sample_is_found_where_the_population_is_not_stated():
    report = _check(_samples(_poisson(np.random.default_rng(2), 1) * TIMES), POISSON)
    assert {check.number for check in report.faults} == {2}


def test_one_sample_for_every_draw_is_a_fact():
    lines = [_samples(_poisson(np.random.default_rng(3)))[0], *_draws(*["plan.of.of"] * TIMES)]
    (check,) = _check(lines, POISSON).about("one sample a use")
    assert (check.status, check.detail) == ("fault", "30 uses drew, but only 1 samples were taken")
    kept = Poisson(RATE, Repeat(TIMES, A))  # here one sample is what is certified
    lines = [{**lines[0], "path": "plan"}, *lines[1:]]
    assert _statuses(_check(lines, kept), "one sample a use") == ["consistent"]


def test_a_rate_above_the_certified_one_is_found_where_the_population_is_stated():
    rng = np.random.default_rng(4)
    sets = [np.flatnonzero(rng.random(N) < 1.3 * RATE) for _ in range(TIMES)]
    assert [check.name for check in _check(_samples(sets, population=N), POISSON).faults] == ["sampling rate"]
    assert _statuses(_check(_samples(sets), POISSON), "sampling rate") == ["not checked"]


def test_sizes_under_zero_out_may_lack_absent_records():
    sets = [members[:-1] for members in _fixed(np.random.default_rng(5))]
    assert _statuses(_check(_samples(sets), FIXED, "zero-out"), "sample sizes") == ["consistent"]
    assert _statuses(_check(_samples(sets), FIXED, "substitution"), "sample sizes") == ["fault"]


def test_two_samples_are_too_few():
    report = _check(_samples(_poisson(np.random.default_rng(6), 2)), POISSON)
    assert _statuses(report, "sample sizes") == ["underpowered"]
    assert report.exit_code == 5


@pytest.mark.parametrize("make", [_poisson, _fixed])
def test_a_plan_that_samples_once_leaves_nothing_to_repeat(make):
    """Not "underpowered": no trace of such a plan could show more. Too many samples are still a fault."""
    scheme = FIXED.of if make is _fixed else POISSON.of
    sets = make(np.random.default_rng(7), 2)
    report = _check(_samples(sets[:1], population=N), Repeat(1, scheme))
    assert _statuses(report, "independent samples") == ["not checked"]
    assert {check.status for check in report.checks if check.path == "plan.of"} == {"consistent", "not checked"}
    assert 2 in {check.number for check in _check(_samples(sets, population=N), Repeat(1, scheme)).faults}


@pytest.mark.parametrize("known", [True, False])
def test_false_faults_are_as_rare_as_alpha_says(known):
    """400 honest runs of each scheme at α = 0.2: the faults are at most α's share and three standard errors."""
    rng = np.random.default_rng(7)
    runs, alpha = 400, 0.2
    stated = {"population": N} if known else {}
    for make, plan in ((_poisson, Repeat(8, Poisson(RATE, A))), (_fixed, Repeat(8, WithoutReplacement(N, 40, A)))):
        faults = sum(bool(_check(_samples(make(rng, 8), **stated), plan, alpha=alpha).faults) for _ in range(runs))
        assert faults <= runs * alpha + 3 * math.sqrt(runs * alpha * (1 - alpha))


def test_the_equal_size_probability_is_the_collision_probability_and_falls_with_n():
    direct = sum(binom.pmf(k, 30, 0.3) ** 2 for k in range(31))
    assert equal_size_probability(30, rate=0.3) == pytest.approx(direct, rel=1e-12)
    values = [equal_size_probability(n, rate=0.3) for n in range(1, 60)]
    assert all(a > b for a, b in itertools.pairwise(values))


def test_the_overlap_bound_is_above_the_exact_tail_and_close_to_it():
    """Two pairs of samples of 40 of 200: the sum of two hypergeometrics, convolved exactly."""
    one = hypergeom.pmf(np.arange(41), N, 40, 40)
    both = np.convolve(one, one)
    for shared in (20, 24, 30, 40):
        exact, bounded = both[shared:].sum(), overlap_tail([(40, 40)] * 2, population=N, shared=shared)
        assert exact <= bounded <= 5 * exact**0.65


# --- noise -----------------------------------------------------------------------------------------------------


def _noisy(values: np.ndarray) -> list[Line]:
    return [{**line, "noise": list(row)} for line, row in zip(_draws(*["plan.of"] * len(values)), values, strict=True)]


@pytest.mark.parametrize(
    ("leaf", "draw"),
    [
        (Gaussian(2.0), lambda rng, scale: rng.normal(0.0, 2.0 * scale, (20, 5))),
        (Laplace(3.0), lambda rng, scale: rng.laplace(0.0, 3.0 * scale, (40, 5))),
    ],
)
def test_the_scale_of_noise(leaf, draw, monkeypatch):
    monkeypatch.setattr(noise_checks, "find_seed", lambda _noise: None)
    rng = np.random.default_rng(8)
    plan = Repeat(40, leaf)
    assert _statuses(_check(_noisy(draw(rng, 1.0)), plan), "noise scale") == ["consistent"]
    for scale in (0.5, 2.0):
        assert _statuses(_check(_noisy(draw(rng, scale)), plan), "noise scale") == ["fault"]
    assert _statuses(_check(_noisy(draw(rng, 1.0)[:1]), plan), "noise scale") == ["underpowered"]


def test_false_alarms_about_the_scale_are_as_rare_as_alpha_says(monkeypatch):
    monkeypatch.setattr(noise_checks, "find_seed", lambda _noise: None)
    rng, runs, alpha = np.random.default_rng(9), 500, 0.2
    plan = Repeat(4, Gaussian(1.0))
    faults = sum(bool(_check(_noisy(rng.normal(size=(4, 4))), plan, alpha=alpha).faults) for _ in range(runs))
    assert abs(faults - runs * alpha) <= 3.5 * math.sqrt(runs * alpha * (1 - alpha))  # the test is exact


def test_noise_that_is_used_twice_is_found():
    lines = _noisy(np.random.default_rng(10).normal(size=(3, 4)))
    lines[2]["noise"] = lines[0]["noise"]
    (check,) = _check(lines, Repeat(3, Gaussian(1.0))).about("fresh noise")
    assert (check.status, check.number) == ("fault", 2)
    digests = _draws("plan.of", "plan.of")
    digests[1]["noise_sha256"] = digests[0]["noise_sha256"]
    assert _statuses(_check(digests, Repeat(2, A)), "fresh noise") == ["fault"]
    assert _statuses(_check(digests[:1], Repeat(2, A)), "fresh noise") == ["underpowered"]
    assert _statuses(_check(digests[:1], Repeat(1, A)), "fresh noise") == ["not checked"]


@pytest.mark.parametrize("skip", [0, 1, 1000])
def test_a_mersenne_twister_is_recognised_from_anywhere_in_its_stream(skip):
    rng = np.random.RandomState(123456)
    words = [int(word) for word in rng.randint(0, 2**32, size=skip + 700, dtype=np.uint64)][skip:]
    assert is_mersenne_twister(words) is True
    assert is_mersenne_twister(words[: MERSENNE_WORDS - 1]) is None
    changed = [*words[:650], words[650] ^ 1, *words[651:]]
    assert is_mersenne_twister(changed) is False


def test_other_generators_are_not_taken_for_one():
    words = np.random.default_rng(1).integers(0, 2**32, 2000)
    assert is_mersenne_twister([int(word) for word in words]) is False


@pytest.mark.parametrize(
    ("family", "values", "name"),
    [
        ("normal", np.random.RandomState(77).standard_normal(4), "numpy.random.RandomState: standard_normal"),
        ("normal", np.random.default_rng(42).standard_normal(3), "numpy.random.default_rng: standard_normal"),
        ("laplace", np.random.default_rng(7).laplace(size=3), "numpy.random.default_rng: laplace"),
    ],
)
def test_common_seeds_are_found(family, values, name):
    found = find_seed([(family, [0.5, 0.25, 0.125]), (family, list(values))], seeds=range(100))
    assert found is not None
    assert (found[0], found[2]) == (name, 1)


def test_a_gaussian_of_the_standard_library_is_found():
    import random

    source = random.Random(31)
    found = find_seed([("normal", [source.gauss(0.0, 1.0) for _ in range(3)])], seeds=range(50))
    assert found == ("random.Random: gauss", 31, 0)


@pytest.mark.parametrize(
    ("sampler", "status"),
    [
        ({"algorithm": "operating system"}, "consistent"),
        ({"algorithm": "ChaCha20", "seed": 5}, "fault"),
        ({"algorithm": "numpy PCG64"}, "fault"),
        ({"algorithm": "NO GUARANTEE: seeded with 7, reproducible, for tests only"}, "fault"),
        (None, "not checked"),
    ],
)
def test_the_stated_source(sampler, status):
    run = [{"event": "run", "sampler": sampler}] if sampler else []
    assert _statuses(_check([*run, *_draws("plan")], A), "noise source") == [status]


@pytest.mark.parametrize(
    ("source", "status"),
    [
        ({"algorithm": "numpy MT19937"}, "consistent"),
        ({"algorithm": "ChaCha20", "seed": 5}, "fault"),
        (None, "not checked"),
    ],
)
def test_the_stated_source_of_samples(source, status):
    run = [{"event": "run", "sampling": source}] if source else []
    assert _statuses(_check([*run, *_draws("plan.of")], Poisson(0.1, A)), "sample source") == [status]
    assert _statuses(_check([*run, *_draws("plan")], A), "sample source") == [], "nothing is sampled"


def test_parameters_for_another_relation_are_not_inert_ones():
    lines = [{"event": "run", "relation": "substitution"}, {**_draws("plan")[0], "noise_multiplier": 2.0}]
    report = _check(lines, Gaussian(4.0))
    assert [check.slug for check in report.faults] == ["relation"]
    assert _statuses(report, "parameters in force") == ["not checked"]
    (unsaid,) = _check(lines[1:], Gaussian(4.0)).faults
    assert unsaid.slug == "inert-parameter"
    assert "another relation" in unsaid.detail


# --- the format ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ([{"path": "plan"}], "line 1: no event"),
        ([*_draws("plan"), {"event": "draw", "path": "the plan", "use": 0}], "line 2: path"),
        ([{"event": "draw", "path": "plan", "use": -1}], "line 1: use"),
        ([{"event": "sample", "path": "plan", "use": 0}], "line 1: members"),
        ([*_draws("plan"), {"event": "run"}], "stands once, first"),
    ],
)
def test_a_malformed_line_is_named_by_number_and_field(lines, where):
    with pytest.raises(UsageError, match=where):
        parse(lines)


def test_a_parameter_that_is_no_number_is_refused_without_its_value():
    with pytest.raises(UsageError, match="noise_multiplier is not a number") as refusal:
        _check([{**_draws("plan")[0], "noise_multiplier": "secret words"}], Gaussian(1.0))
    assert "secret" not in str(refusal.value)


def test_files_are_read_by_line_and_other_events_are_left_alone(tmp_path):
    path = tmp_path / "trace.jsonl"
    lines = [{"event": "run"}, {"event": "weather", "rain": True}, *_draws("plan")]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    assert (read(path).ignored, len(read(path).draws)) == (1, 1)
    path.write_text('{"event": "run"}\nnot json\n', encoding="utf-8")
    with pytest.raises(UsageError, match="line 2: not a JSON object"):
        read(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "none.jsonl")


def test_the_packaged_schema_is_the_classes_schema_and_accepts_traces():
    packaged = json.loads(resources.files("affidavit.audits").joinpath("schemas/trace.schema.json").read_text())
    assert packaged == json_schema()
    jsonschema.Draft202012Validator.check_schema(packaged)
    for line in (*_samples(_poisson(np.random.default_rng(1), 2), population=N), {"event": "run", "generator": "x"}):
        jsonschema.validate(line, packaged)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"event": "draw", "path": "plan"}, packaged)


def test_the_page_shows_a_trace_that_is_one():
    page = (Path(__file__).resolve().parents[2] / "docs" / "trace.md").read_text(encoding="utf-8")
    block = page.partition("```jsonl\n")[2].partition("```")[0]
    lines = [json.loads(line) for line in block.splitlines()]
    assert {line["event"] for line in lines} == {"run", "batch", "sample", "draw"}
    for line in lines:
        jsonschema.validate(line, json_schema())
    assert not _check(lines, Compose((A, Repeat(1, Poisson(0.01, Gaussian(4.0)))))).faults
