"""Calibration reproduces the papers' noise at their own account, and says what the sampler that runs needs."""

from __future__ import annotations

import math
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.bound import bound
from affidavit.runfile import RunFile, parse_run
from affidavit.solving import solve_run

DATA = tomllib.loads(files("affidavit").joinpath("claims_data.toml").read_text(encoding="utf-8"))
GAUSSIAN = {row["dataset"]: row for row in DATA["gaussian"][0]["rows"]}
CLAIMED = (1, 2, 4, 8)


def _run(relation: str, size: int, delta: float, epsilon: float, **generator: Any) -> RunFile:
    table = {"labels": ["all"], "task": "generic-completion", **generator}
    return parse_run(
        {
            "relation": relation,
            "unit": "record",
            "budget": {"epsilon": float(epsilon), "delta": delta},
            "data": {"name": "published", "path": "absent.jsonl", "size": size},
            "model": {"name": "toy"},
            "generator": table,
        }
    )


def _tang(dataset: str, index: int, relation: str, sampling: str, **changes: Any) -> RunFile:
    """A row of their table 9 for one label's data, with the published σ."""
    row = GAUSSIAN[dataset]
    settings = {
        "kind": "few-shot",
        "subsets": row["subsets"],
        "shots_per_subset": row["shots"],
        "max_tokens": row["steps"],
        "noise_multiplier": row["sigmas"][index],
        "sampling": sampling,
        "match_label": False,
    }
    size = row["population"]
    return _run(relation, size, 1 / row.get("delta_from", size), CLAIMED[index], **settings | changes)


def _epsilon(run: RunFile) -> float:
    return bound(run.plan(), relation=run.relation, delta=run.budget.delta).epsilon_upper


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize(
    "dataset", ["MIT-G", "MIT-D", *(pytest.param(name, marks=pytest.mark.slow) for name in ("AGNews", "DBPedia"))]
)
def test_tangs_noise_at_their_account(dataset: str, index: int) -> None:
    """Poisson sampling, one vector replaced: what their proof accounts for.

    They publish two decimals: our σ, rounded up to them, is theirs in all rows but DBPedia's first (0.617 for 0.63).
    """
    run = _tang(dataset, index, "zero-out", "poisson")
    found = solve_run(run, epsilon=CLAIMED[index], key="noise_multiplier")
    published = GAUSSIAN[dataset]["sigmas"][index]
    assert found.epsilon_upper <= CLAIMED[index]
    if (dataset, index) == ("DBPedia", 0):
        assert found.value == pytest.approx(published, rel=0.025)
    else:
        assert math.ceil(100 * found.value) / 100 == published


@pytest.mark.parametrize(
    ("relation", "sampling", "expected"),
    [
        ("substitution", "without-replacement", (1.02, 2.06, 4.17, 8.34)),
        ("substitution", "poisson", (0.76, 1.30, 2.27, 4.15)),
        ("add-remove", "poisson", (0.53, 0.97, 1.83, 3.57)),
        ("zero-out", "fixed-groups", (0.53, 0.97, 1.83, 3.57)),
    ],
)
def test_trec_by_relation_and_sampler(relation: str, sampling: str, expected: tuple[float, ...]) -> None:
    """N = 1: one noise, three costs. Two-decimal figures found by separate code."""
    found = [_epsilon(_tang("TREC", index, relation, sampling)) for index in range(4)]
    assert found == pytest.approx(expected, abs=0.0061)


def test_trec_needs_more_noise_where_it_is_sampled_as_described() -> None:
    run = _tang("TREC", 0, "substitution", "without-replacement")
    found = solve_run(run, epsilon=1.0, key="noise_multiplier")
    assert 1.36 < found.value == pytest.approx(1.3726, rel=2e-3)


def test_sampling_all_labels_costs_what_sampling_one_does() -> None:
    """Six labels of 835: M·N·6 of 5,010, records of other labels contributing nothing."""
    labels = [f"label {i}" for i in range(6)]
    one = _tang("TREC", 1, "zero-out", "poisson")
    generator = one.generator.model_dump() | {"labels": labels, "match_label": True}
    six = _run("zero-out", 6 * 835, 1 / 835, 2, **{k: v for k, v in generator.items() if v is not None})
    assert _epsilon(six) == pytest.approx(_epsilon(one), rel=2e-3)


def test_noisy_max_on_dbpedia() -> None:
    """The rates that meet the claims by the paper's analysis cost 0.32 to 1.04, and less by Poisson sampling.

    Two-decimal figures found by separate code. With N = 2 a subset's scores are replaced, whatever the relation.
    """
    row = DATA["noisy_max"][0]["rows"][0]
    size = row["population"]
    found: dict[str, list[float]] = {"without-replacement": [], "poisson": []}
    for sampling, costs in found.items():
        for sigma in row["sigmas"]:
            settings = {"subsets": row["subsets"], "shots_per_subset": row["shots"], "max_tokens": row["steps"]}
            run = _run(
                "substitution" if sampling == "without-replacement" else "zero-out",
                size,
                1 / size,
                8,
                kind="few-shot",
                mechanism="noisy-max",
                noise_epsilon=sigma,
                sampling=sampling,
                match_label=False,
                **settings,
            )
            costs.append(_epsilon(run))
    assert found["without-replacement"] == pytest.approx((0.32, 0.48, 0.71, 1.04), abs=0.0061)
    assert all(poisson < other for poisson, other in zip(found["poisson"], found["without-replacement"], strict=True))


def _gao(row: dict[str, Any], index: int) -> RunFile:
    """A row of their tables 13 to 17 for one label's data, with the published noise."""
    return _run(
        "substitution",
        row["population"],
        1 / row["delta_from"],
        CLAIMED[index],
        kind="adadpsyn",
        subsets=row["sample"],
        shots_per_subset=1,
        max_tokens=row["steps"],
        sampling="without-replacement",
        match_label=False,
        radius_noise_multiplier=float(row["radius"][index]),
        mean_noise_multiplier=float(row["mean"][index]),
        count_noise_multiplier=float(row["count"][index]),
        iterations=row["iterations"][index],
    )


def _gao_rows() -> list[Any]:
    return [
        pytest.param(row, index, id=f"{row['dataset']}-{claimed}")
        for row in DATA["adadpsyn"][0]["rows"]
        for index, claimed in enumerate(CLAIMED)
    ]


@pytest.mark.parametrize(("row", "index"), _gao_rows())
def test_adadpsyn_at_the_published_noise(row: dict[str, Any], index: int) -> None:
    """The generator's own plan costs what ``affidavit claims`` says of the published settings."""
    from affidavit.claims import published

    (claim,) = [
        claim
        for claim in published()
        if claim.paper.startswith("Gao")
        and claim.setting.startswith(f"{row['dataset']}: ")
        and claim.claimed == CLAIMED[index]
    ]
    assert claim.plan is not None
    theirs = bound(claim.plan, relation="substitution", delta=claim.delta).epsilon_upper
    assert _epsilon(_gao(row, index)) == pytest.approx(theirs, rel=2e-3)


def _table() -> list[Any]:
    """The rows of the table in docs/adadpsyn.md, with the published row that each belongs to."""
    page = (Path(__file__).parents[2] / "docs" / "adadpsyn.md").read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:2] == "| "]
    published = {row["dataset"]: row for row in DATA["adadpsyn"][0]["rows"]}
    return [
        pytest.param(published[name], CLAIMED.index(int(claimed)), epsilon, needed, id=f"{name}-{claimed}")
        for name, _, claimed, _, _, _, _, epsilon, needed in (
            row for row in cells if len(row) == 9 and row[0] in published
        )
    ]


@pytest.mark.parametrize(("row", "index", "epsilon", "needed"), _table())
def test_the_table_of_adadpsyns_page_is_computed(row: dict[str, Any], index: int, epsilon: str, needed: str) -> None:
    """ε rounded up to three digits; the σ1 shown meets the claim, and 2 % less does not."""
    run = _gao(row, index)
    assert 0.99 * float(epsilon) < _epsilon(run) <= float(epsilon)
    if needed == "—":
        assert _epsilon(run.with_generator(mean_noise_multiplier=1e6)) > CLAIMED[index]
        return
    assert _epsilon(run.with_generator(mean_noise_multiplier=float(needed))) <= CLAIMED[index]
    assert _epsilon(run.with_generator(mean_noise_multiplier=0.98 * float(needed))) > CLAIMED[index]


def test_the_table_is_whole() -> None:
    assert len(_table()) == len(_gao_rows()) == 24


@pytest.mark.parametrize("index", [0, 3])
def test_adadpsyns_mean_noise_that_its_claim_needs(index: int) -> None:
    """AG News, σ0, σ2 and T̂ as published: σ1 = 0.792 and 0.469 suffice for 1 and 8, where 1.23 and 0.58 were used."""
    run = _gao(DATA["adadpsyn"][0]["rows"][0], index)
    found = solve_run(run, epsilon=CLAIMED[index], key="mean_noise_multiplier")
    assert found.value == pytest.approx((0.79215, None, None, 0.46853)[index], rel=2e-3)
