"""The verifier's answers: reference rows, edges, refusals, and what it may import."""

from __future__ import annotations

import ast
import math
from pathlib import Path

import pytest

from affidavit.accountant import verifier as package
from affidavit.accountant.errors import PlanError
from affidavit.accountant.verifier import check_claim, recompute
from support.references import plans

# Without replacement under substitution the upper side is a curve that no single pair reaches; the
# verifier's lower side is an explicit pair of data sets, so its bracket is wider by the difference.
ONE_SIDED = {"wor-substitution-a"}

GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.0}


def repeat(count: int, of: dict) -> dict:
    return {"kind": "repeat", "count": count, "of": of}


def compose(*parts: dict) -> dict:
    return {"kind": "compose", "parts": list(parts)}


@pytest.mark.parametrize("row", plans("epsilon"), ids=lambda r: r["id"])
def test_epsilon_of_the_reference_rows(row: dict) -> None:
    found = recompute(row["plan"], relation=row["relation"], delta=row["delta"])
    # The references carry about twelve digits.
    assert found.epsilon_upper >= row["lower"] * (1.0 - 1e-11)
    assert found.epsilon_lower <= row["upper"] * (1.0 + 1e-11)
    if row["tight"] and math.isfinite(row["upper"]) and row["id"] not in ONE_SIDED:
        assert found.epsilon_upper - found.epsilon_lower <= max(1e-3 * found.epsilon_upper, 1e-6)


@pytest.mark.parametrize("row", plans("delta"), ids=lambda r: r["id"])
def test_delta_of_the_reference_rows(row: dict) -> None:
    above = check_claim(row["plan"], relation=row["relation"], epsilon=row["epsilon"], delta=row["upper"] * 1.001)
    below = check_claim(row["plan"], relation=row["relation"], epsilon=row["epsilon"], delta=row["lower"] * 0.999)
    assert above.answer == "holds"
    assert below.answer == "does not hold"


@pytest.mark.parametrize(
    ("plan", "relation"),
    [
        (repeat(3, GAUSSIAN), "add-remove"),
        (repeat(20, {"kind": "exponential", "range": 0.3}), "zero-out"),
        (repeat(30, {"kind": "subsample", "scheme": "poisson", "rate": 0.05, "of": GAUSSIAN}), "add-remove"),
        (compose(GAUSSIAN, repeat(5, {"kind": "exponential", "range": 0.5})), "substitution"),
    ],
)
def test_a_claim_just_above_holds_and_just_below_does_not(plan: dict, relation: str) -> None:
    found = recompute(plan, relation=relation, delta=1e-5)
    assert 0.0 < found.epsilon_lower <= found.epsilon_upper
    assert check_claim(plan, relation=relation, epsilon=found.epsilon_upper * 1.001, delta=1e-5).answer == "holds"
    low = check_claim(plan, relation=relation, epsilon=found.epsilon_lower * 0.999, delta=1e-5)
    assert low.answer == "does not hold"
    assert low.recomputed.epsilon_lower > low.epsilon


def test_a_claim_inside_the_gap_between_curve_and_pair_is_undecided() -> None:
    """Without replacement under substitution: above the explicit pair, below the curve."""
    plan = repeat(
        80, {"kind": "subsample", "scheme": "without-replacement", "population": 1561, "sample": 80, "of": GAUSSIAN}
    )
    found = recompute(plan, relation="substitution", delta=1e-3)
    middle = 0.5 * (found.epsilon_lower + found.epsilon_upper)
    assert check_claim(plan, relation="substitution", epsilon=middle, delta=1e-3).answer == "undecided"


def test_parallel_cases() -> None:
    parts = {"kind": "parallel", "parts": [GAUSSIAN, {"kind": "gaussian", "noise_multiplier": 2.0}]}
    one = recompute(GAUSSIAN, relation="zero-out", delta=1e-5).epsilon_upper
    both = recompute(compose(*parts["parts"]), relation="substitution", delta=1e-5).epsilon_upper
    assert recompute(parts, relation="zero-out", delta=1e-5).epsilon_upper == one
    assert recompute(parts, relation="substitution", delta=1e-5).epsilon_upper == both
    assert recompute({**parts, "membership": "fixed"}, relation="substitution", delta=1e-5).epsilon_upper == one
    cheap = {"kind": "gaussian", "noise_multiplier": 4.0}
    moving = recompute({**parts, "moves": [cheap, cheap]}, relation="substitution", delta=1e-5).epsilon_upper
    assert moving == one  # two cheap moves cost less than staying


def test_edges_of_delta() -> None:
    pure = repeat(4, {"kind": "pure", "epsilon": 0.5})
    assert recompute(pure, relation="add-remove", delta=0.0).epsilon_upper == pytest.approx(2.0, rel=1e-15)
    assert check_claim(pure, relation="add-remove", epsilon=2.0000001, delta=0.0).answer == "holds"
    assert check_claim(pure, relation="add-remove", epsilon=1.99, delta=0.0).answer == "does not hold"
    assert recompute(GAUSSIAN, relation="add-remove", delta=0.0).epsilon_upper == math.inf
    assert recompute(GAUSSIAN, relation="add-remove", delta=1.0).epsilon_upper == 0.0
    silent = {"kind": "gaussian", "noise_multiplier": 0.0}
    assert recompute(silent, relation="add-remove", delta=0.5).epsilon_lower == math.inf
    assert check_claim(silent, relation="add-remove", epsilon=700.0, delta=0.5).answer == "does not hold"


NESTED = {
    "kind": "subsample",
    "scheme": "poisson",
    "rate": 0.5,
    "of": compose(GAUSSIAN, {"kind": "subsample", "scheme": "poisson", "rate": 0.1, "of": GAUSSIAN}),
}


@pytest.mark.parametrize("plan", [NESTED, {**NESTED, "of": {"kind": "zcdp", "rho": 0.1}}])
def test_samples_of_samples_and_of_what_is_concentrated_are_told(plan: dict) -> None:
    found = recompute(plan, relation="add-remove", delta=1e-5)
    assert 0.0 < found.epsilon_lower <= found.epsilon_upper < 1.3 * found.epsilon_lower
    for epsilon, answer in ((found.epsilon_upper, "holds"), (0.99 * found.epsilon_lower, "does not hold")):
        assert check_claim(plan, relation="add-remove", epsilon=epsilon, delta=1e-5).answer == answer


def test_bad_input_is_refused_by_name() -> None:
    with pytest.raises(PlanError, match=r"plan\.noise_multiplier"):
        recompute({"kind": "gaussian", "noise_multiplier": -1.0}, relation="add-remove", delta=0.1)
    with pytest.raises(PlanError, match="relation"):
        recompute(GAUSSIAN, relation="replace", delta=0.1)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="epsilon"):
        check_claim(GAUSSIAN, relation="add-remove", epsilon=math.nan, delta=0.1)


def test_it_imports_nothing_of_the_issuing_path() -> None:
    allowed = {"plan", "nodes", "errors", "show", "validate", "verifier"}
    allowed |= {"digits", "least_cost"}  # one lock; a search of which any answer is valid
    folder = Path(package.__file__).parent
    seen = set()
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            for module in modules:
                parts = module.split(".")
                if parts[0] == "affidavit" and len(parts) > 2:
                    assert parts[1] == "accountant"
                    seen.add(parts[2])
    assert seen
    assert seen <= allowed
