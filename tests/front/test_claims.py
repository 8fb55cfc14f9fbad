"""The papers' published rows: our numbers against the project's references, and the verdicts' rule."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest

from affidavit.claims import Claim, assess, published, tally, to_json, to_markdown, to_rows
from support.references import claims

# The references are rounded to five digits and computed on grids: 0.2 % (issue 3), plus half a digit.
CLOSE = 2e-3
HALF_DIGIT = 6e-6
TANG = [row for row in claims("Tang et al.") if "RNM" not in row["paper"]]


def name(row: dict) -> str:
    return (
        f"{row['paper']}-{row.get('dataset', row.get('s', ''))}-{row.get('claimed', row.get('tau', row.get('sigma')))}"
    )


def find(*, paper: str, relation: str, sampler: str, claimed: float, **numbers: object) -> Claim:
    """The one published claim with these facts; ``numbers`` are read from its setting."""
    found = [
        claim
        for claim in published()
        if claim.paper.startswith(paper)
        and claim.relation == relation
        and claim.sampler.startswith(sampler)
        and math.isclose(claim.claimed, claimed, rel_tol=1e-6)
        and all(
            re.search(rf"(^|[ ,]){key}[ :]*=? ?{re.escape(str(value))}(?![\d.])", claim.setting)
            for key, value in numbers.items()
        )
    ]
    assert len(found) == 1, [claim.setting for claim in found]
    return found[0]


def expected_verdict(row: dict) -> str:
    """The verdicts of the references' README, by data set."""
    dataset = row["dataset"]
    if row["paper"] == "AdaDPSyn":
        return "not supported" if "Abbreviation" in dataset else "holds"
    if "Abbreviation" in dataset:
        return "refuted"
    return "holds" if dataset in {"AGNews", "DBPedia"} else "not supported"


def tang(row: dict, relation: str, sampler: str) -> Claim:
    label = "TREC, label Abbreviation" if "Abbreviation" in row["dataset"] else row["dataset"]
    claim = find(
        paper="Tang et al. 2024",
        relation=relation,
        sampler=sampler,
        claimed=row["claimed"],
        n=row["n"],
        M=row["M"],
        sigma=f"{row['sigma']:g}",
    )
    assert claim.setting.startswith(label + ":")
    assert claim.delta == pytest.approx(row["delta"], rel=1e-7)
    return claim


@pytest.mark.parametrize("row", TANG, ids=name)
def test_tang_gaussian_as_run(row: dict) -> None:
    found = assess(tang(row, "substitution", "without replacement"))
    assert found.epsilon_upper == pytest.approx(row["epsilon_wor_substitution"], rel=CLOSE)
    assert found.verdict == expected_verdict(row)
    assert found.epsilon_lower is not None
    assert found.epsilon_lower < row["epsilon_wor_substitution"]
    if row["n"] == 86 and row["claimed"] == 1:
        assert found.epsilon_lower >= 11.1  # the references' explicit pair on the noisy sums
    if row["dataset"] in {"MIT-G", "MIT-D"}:  # "explicit pairs reach about the claimed value"
        assert found.epsilon_lower == pytest.approx(row["claimed"], rel=0.05)


@pytest.mark.parametrize("row", [r for r in TANG if "epsilon_poisson_add_remove" in r], ids=name)
def test_tang_gaussian_as_accounted(row: dict) -> None:
    found = assess(tang(row, "add-remove", "Poisson"))
    assert found.epsilon_upper == pytest.approx(row["epsilon_poisson_add_remove"], rel=CLOSE)
    assert found.verdict == "holds"


@pytest.mark.parametrize("row", claims("Tang et al. RNM"), ids=name)
def test_tang_noisy_max(row: dict) -> None:
    claimed = {2.73: 1, 3.34: 2, 3.95: 4, 4.57: 8}[row["sigma"]]
    claim = find(
        paper="Tang et al. 2024 (report",
        relation="substitution",
        sampler="without",
        claimed=claimed,
        sigma=row["sigma"],
    )
    found = assess(claim)
    # The references have four decimals here.
    assert found.epsilon_upper == pytest.approx(row["epsilon_pld_wor_substitution"], rel=CLOSE, abs=6e-5)
    assert found.verdict == "holds"


@pytest.mark.parametrize("row", claims("AdaDPSyn"), ids=name)
def test_adadpsyn(row: dict) -> None:
    claim = find(
        paper="Gao et al.",
        relation="substitution",
        sampler="without",
        claimed=row["claimed"],
        n=row["n"],
        sigma_0=f"{row['sigma0']:g}",
        sigma_1=f"{row['sigma1']:g}",
        sigma_2=f"{row['sigma2']:g}",
        T_hat=row["T_hat"],
    )
    assert claim.delta == pytest.approx(row["delta"], rel=1e-7)
    found = assess(claim)
    assert found.epsilon_upper == pytest.approx(row["epsilon_wor_substitution"], rel=CLOSE, abs=HALF_DIGIT)
    assert found.verdict == expected_verdict(row)


@pytest.mark.parametrize("relation", ["zero-out", "substitution"])
@pytest.mark.parametrize("row", claims("PRISM"), ids=name)
def test_prism(row: dict, relation: str) -> None:
    claim = find(
        paper="Bhusal",
        relation=relation,
        sampler="none",
        claimed=row["theorem1"],
        s=row["s"],
        tau=f"{row['tau']:g}",
        T=row["T"],
    )
    found = assess(claim)
    exact = row["exact_adaptive_" + relation.replace("-", "_")]
    assert found.epsilon_upper == pytest.approx(exact, rel=1.5e-3, abs=HALF_DIGIT)  # issue 2: 0.15 %
    assert found.epsilon_lower == pytest.approx(exact, rel=1.5e-3, abs=HALF_DIGIT)
    assert found.verdict == ("refuted" if exact > row["theorem1"] else "holds")


def test_what_is_not_stated_is_not_judged() -> None:
    silent = [claim for claim in published() if claim.paper.startswith("Joo")]
    assert len(silent) == 12  # two methods, two data sets, three budgets
    for claim in silent:
        found = assess(claim, noise=True)
        assert (found.verdict, found.epsilon_lower, found.epsilon_upper, found.noise_needed) == (
            "unstated",
            None,
            None,
            None,
        )


def test_the_noise_that_a_claim_needs_makes_it_hold() -> None:
    """TREC, σ = 1.36 for a claimed 1: a little more is needed, and with it the claim holds."""
    claim = next(c for c in published() if c.setting.startswith("TREC: n = 835") and c.claimed == 1)
    found = assess(claim, noise=True)
    assert found.verdict == "not supported"
    assert found.noise_needed is not None
    assert 1.36 < found.noise_needed < 1.40


def test_temperatures_are_reported_in_the_papers_unit() -> None:
    claim = next(c for c in published() if c.paper.startswith("Bhusal") and c.relation == "substitution")
    assert claim.noise is not None
    assert claim.noise.in_paper(claim.noise.in_paper(0.7)) == pytest.approx(0.7)
    eta = claim.plan.of.range  # type: ignore[union-attr]
    assert claim.noise.in_paper(eta) == pytest.approx(claim.noise.used)


def test_formats() -> None:
    some = [assess(claim) for claim in published() if claim.paper.startswith(("Joo", "Tang et al. 2024 (report"))]
    rows = to_json(some)
    assert set(rows[0]) == {
        "paper",
        "table",
        "setting",
        "claimed",
        "epsilon_lower",
        "epsilon_upper",
        "relation",
        "sampler",
        "assumption",
        "verdict",
    }
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    text = to_markdown(some)
    assert text.count("\n| ") >= len(some)
    for assessed, shown in zip(some, to_rows(some), strict=True):
        if assessed.epsilon_upper is not None:
            low, high = (float(part) for part in shown["ours"].split(" to "))
            assert low <= (assessed.epsilon_lower or 0.0)
            assert high >= assessed.epsilon_upper
    assert text.endswith(f"\n\n{tally(some)}\n")


def test_the_command_ends_with_a_tally_that_the_page_shows(command) -> None:
    """`claims` counted by its own rows; docs/theory/claims.md says the same, by the rows of its table."""
    done = command("claims", "--json")
    counts = Counter(row["verdict"] for row in done.json)
    said = re.fullmatch(
        r"holds (\d+), not supported (\d+), refuted (\d+), unstated (\d+) \(of (\d+)\)", _last(done.err)
    )
    assert said is not None
    assert [int(number) for number in said.groups()] == [
        *(counts[verdict] for verdict in ("holds", "not supported", "refuted", "unstated")),
        len(done.json),
    ]
    page = (Path(__file__).resolve().parents[2] / "docs" / "theory" / "claims.md").read_text(encoding="utf-8")
    rows = re.findall(r"\| (holds|not supported|refuted|unstated) \|[^|]*\|$", page, re.MULTILINE)
    assert Counter(rows) == counts
    assert _last(page) == _last(done.err)


def _last(text: str) -> str:
    return text.rstrip().splitlines()[-1]
