"""Every row of the project's table of plans.

The references were computed outside this project (closed forms and exact sums in mpmath; other
discretisations), so they are independent of the code under test.
"""

from __future__ import annotations

import math

import pytest

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import PlanError
from affidavit.accountant.plan import parse_envelope
from support.references import claims, fault, plans


@pytest.mark.parametrize("row", plans("epsilon", "delta"), ids=lambda r: r["id"])
def test_bracket(row: dict) -> None:
    found = bound(row["plan"], relation=row["relation"], delta=row["delta"], epsilon=row["epsilon"])
    if row["verb"] == "epsilon":
        lower, upper, floor = found.epsilon_lower, found.epsilon_upper, 1e-6
    else:
        lower, upper, floor = found.delta_lower, found.delta_upper, 0.0
    assert upper >= row["lower"], "an underestimate"
    assert lower <= row["upper"], "the lower side exceeds the truth"
    if row["tight"]:
        assert math.isfinite(upper)
        assert upper - lower <= max(1e-3 * upper, floor)


def test_a_fixed_size_sample_against_another_accountant() -> None:
    """Without replacement, add-remove: the pair ((1-q)N(0)+qN(1), N(0)), which dp-accounting knows as Poisson's."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    gaussian = {"kind": "gaussian", "noise_multiplier": 0.4}
    sample = {"kind": "subsample", "scheme": "without-replacement", "population": 10000, "sample": 10, "of": gaussian}
    found = bound({"kind": "repeat", "count": 1000, "of": sample}, relation="add-remove", delta=1e-6)
    theirs = pld.from_gaussian_mechanism(0.4, sampling_prob=1e-3, value_discretization_interval=5e-4)
    pessimistic = theirs.self_compose(1000).get_epsilon_for_delta(1e-6)
    assert found.epsilon_lower <= pessimistic
    assert found.epsilon_upper >= fault("U13")["right_lower"]


@pytest.mark.parametrize("row", plans("error"), ids=lambda r: r["id"])
def test_refusal(row: dict) -> None:
    with pytest.raises(PlanError) as caught:
        parse_envelope({key: row[key] for key in ("relation", "delta", "plan")})
    assert caught.value.exit_code == 2
    assert caught.value.allowed


@pytest.mark.parametrize("row", claims("PRISM"), ids=lambda r: f"s{r['s']}-tau{r['tau']}")
@pytest.mark.parametrize(("relation", "widths"), [("zero-out", 1), ("substitution", 2)])
def test_prism(row: dict, relation: str, widths: int) -> None:
    eta = widths * row["c"] / (row["s"] * row["tau"])
    plan = {"kind": "repeat", "count": row["T"], "of": {"kind": "exponential", "range": eta}}
    found = bound(plan, relation=relation, delta=row["delta"])
    reference = row["exact_adaptive_zero_out" if relation == "zero-out" else "exact_adaptive_substitution"]
    assert found.epsilon_upper == pytest.approx(reference, rel=1.5e-3)
    assert found.epsilon_lower == pytest.approx(reference, rel=1.5e-3)
    if relation == "zero-out":
        assert bound(plan, relation=relation, delta=row["delta"], method="advanced").epsilon_upper == pytest.approx(
            row["advanced_full"], rel=1e-6
        )
        assert bound(plan, relation=relation, delta=row["delta"], method="optimal").epsilon_upper == pytest.approx(
            row["kov"], rel=1e-6
        )
