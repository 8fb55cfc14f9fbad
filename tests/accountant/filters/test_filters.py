"""Filters: the figures that runs are charged by, against brute force; and how many runs fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import affidavit
from affidavit.accountant import decimals
from affidavit.accountant.errors import BudgetError, BudgetExceeded, ClaimRefused, NotSupported, PlanError
from affidavit.accountant.filters.again import understated
from affidavit.accountant.filters.budgets import holding
from affidavit.accountant.filters.costs import ORDERS, Costs, RenyiPoint
from affidavit.accountant.filters.spend import costs_of
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.methods import rdp
from affidavit.accountant.plan import Repeat, parse_plan
from affidavit.accountant.release.permit import open_permit
from affidavit.accountant.unit import RECORD
from affidavit.accountant.verifier import recompute
from affidavit.runfile import load_run

EXACT = (4.296838855570966, 13.835685992792047, 13.843757289175116)
"""Of the demo's plan: ε of one run at δ = 1e-5, and both sides of ε of ten at δ = 1e-3, by certified arithmetic."""

DEMO = Path(affidavit.__file__).parent / "demo_data" / "run.toml"
GAUSSIAN = {"kind": "gaussian", "noise_multiplier": 1.3}
PLANS = {
    "gaussian": (GAUSSIAN, "add-remove"),
    "laplace": ({"kind": "laplace", "noise_multiplier": 2.0}, "add-remove"),
    "pure": ({"kind": "pure", "epsilon": 0.7}, "substitution"),
    "exponential": ({"kind": "exponential", "range": 3.0}, "add-remove"),
    "zcdp": ({"kind": "zcdp", "rho": 0.2}, "add-remove"),
    "discrete": ({"kind": "discrete-gaussian", "noise_multiplier": 2.0, "granularity": 0.25}, "add-remove"),
    "poisson": (
        {"kind": "repeat", "count": 80, "of": {"kind": "subsample", "scheme": "poisson", "rate": 0.05, "of": GAUSSIAN}},
        "zero-out",
    ),
    "without replacement": (
        {"kind": "subsample", "scheme": "without-replacement", "population": 1561, "sample": 80, "of": GAUSSIAN},
        "substitution",
    ),
    "on a sample": (
        {"kind": "subsample", "scheme": "poisson", "rate": 0.05, "of": {"kind": "exponential", "range": 0.5}},
        "add-remove",
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_float_engine_finds_the_same_divergences(name: str) -> None:
    plan, relation = PLANS[name]
    tree = parse_plan(plan)
    costs = costs_of(tree, relation=relation)
    curve = rdp.rdp(tree, relation)
    assert tuple(point.order for point in costs.renyi) == ORDERS
    # The float engine integrates between whole orders, where the stored figure is a chord above it.
    whole = [point for point in costs.renyi if point.order == int(point.order)]
    assert [float(point.rho) for point in whole] == pytest.approx([curve(float(p.order)) for p in whole], rel=1e-8)
    assert all(float(point.rho) >= curve(float(point.order)) * (1 - 1e-9) for point in costs.renyi)


def test_divergences_of_noise_by_integration() -> None:
    # By definition, (1/(α−1)) ln ∫ p^α q^{1−α}, on a grid of 2 million points: no closed form is used.
    x = np.linspace(-60.0, 61.0, 2_000_001)
    for plan, log_density in (
        ({"kind": "gaussian", "noise_multiplier": 1.3}, lambda z: norm.logpdf(z, scale=1.3)),
        ({"kind": "laplace", "noise_multiplier": 2.0}, lambda z: -np.abs(z) / 2.0 - math.log(4.0)),
    ):
        costs = costs_of(parse_plan(plan), relation="add-remove")
        for point in costs.renyi[:12]:
            order = float(point.order)
            moment = np.trapezoid(np.exp(order * log_density(x) + (1 - order) * log_density(x - 1.0)), x)
            assert float(point.rho) == pytest.approx(math.log(moment) / (order - 1), rel=1e-6)


def test_the_sampled_gaussian_in_both_directions_by_integration() -> None:
    rate, sigma, x = 0.05, 1.3, np.linspace(-40.0, 60.0, 1_000_001)
    costs = costs_of(
        parse_plan({"kind": "subsample", "scheme": "poisson", "rate": rate, "of": GAUSSIAN}), relation="add-remove"
    )
    null = norm.logpdf(x, scale=sigma)
    mixed = np.logaddexp(math.log1p(-rate) + null, math.log(rate) + norm.logpdf(x, loc=1.0, scale=sigma))
    for point in costs.renyi[:12]:
        order = float(point.order)
        both = [np.trapezoid(np.exp(order * p + (1 - order) * q), x) for p, q in ((mixed, null), (null, mixed))]
        assert float(point.rho) >= max(np.log(both)) / (order - 1) * (1 - 1e-8)


def test_gdp_of_a_pure_mechanism_is_the_least_that_covers_randomised_response() -> None:
    # The kink of ε-DP's trade-off curve lies at 1/(1 + e^ε) on the diagonal, where Φ(−μ/2) = that.
    costs = costs_of(parse_plan({"kind": "pure", "epsilon": 0.7}), relation="add-remove")
    assert float(costs.gdp or 0) == pytest.approx(-2 * norm.ppf(1 / (1 + math.exp(0.7))), rel=1e-10)

    # Far out, too: SciPy 1.17's inverse survival function at e^{−100}.
    costs = costs_of(parse_plan({"kind": "pure", "epsilon": 100.0}), relation="add-remove")
    assert float(costs.gdp or 0) == pytest.approx(2 * norm.isf(math.exp(-100.0)), rel=1e-10)


@pytest.mark.parametrize(
    "plan",
    [
        {"kind": "pure", "epsilon": 100.0},  # at 40 digits 1 − e^ε/(1 + e^ε) was 0, and its cost was refused
        {"kind": "pure", "epsilon": 1e50},
        {"kind": "exponential", "range": 200.0},
        {"kind": "exponential", "range": 1e-30},
        {"kind": "laplace", "noise_multiplier": 1e-40},
        {"kind": "subsample", "scheme": "poisson", "rate": 1e-20, "of": {"kind": "pure", "epsilon": 1e-20}},
    ],
    ids=lambda plan: plan["kind"],
)
def test_other_code_agrees_at_any_size(plan: dict[str, object]) -> None:
    tree = parse_plan(plan)
    costs = costs_of(tree, relation="add-remove")
    assert costs.renyi
    assert not understated(tree, costs, relation="add-remove")
    low = RenyiPoint(costs.renyi[5].order, costs.renyi[5].rho * Decimal("0.9"))
    assert understated(tree, Costs((low,)), relation="add-remove") == f"Rényi divergence of order {low.order}"


@pytest.mark.parametrize("name", PLANS)
def test_other_code_agrees_and_sees_what_is_too_small(name: str) -> None:
    plan, relation = PLANS[name]
    tree = parse_plan(plan)
    costs = costs_of(tree, relation=relation)
    assert not understated(tree, costs, relation=relation)
    for at in (0, 11, 20):
        low = costs.renyi[at].rho * Decimal("0.99999999")
        points = (*costs.renyi[:at], RenyiPoint(costs.renyi[at].order, low), *costs.renyi[at + 1 :])
        assert understated(tree, Costs(points), relation=relation) == f"Rényi divergence of order {ORDERS[at]}"
    if costs.zcdp is not None:
        low = costs.zcdp * Decimal("0.99999999")
        assert understated(tree, Costs(zcdp=low), relation=relation) == "zCDP"
    else:
        assert understated(tree, Costs(zcdp=Decimal(10**6)), relation=relation) == "zCDP"
    gdp = Decimal(10**6) if costs.gdp is None else costs.gdp * Decimal("0.99999999")
    assert understated(tree, Costs(gdp=gdp), relation=relation) == "GDP"


def test_what_has_no_theorem_has_no_cost() -> None:
    approximate = parse_plan({"kind": "approximate", "epsilon": 0.5, "delta": 1e-6})
    assert costs_of(approximate, relation="add-remove") == Costs()
    sampled = parse_plan(PLANS["poisson"][0])
    assert costs_of(sampled, relation="substitution") == Costs()
    assert costs_of(sampled, relation="add-remove").zcdp is None
    assert costs_of(parse_plan({**GAUSSIAN, "noise_multiplier": 0.0}), relation="add-remove") == Costs()


def test_a_record_that_moves_meets_two_parts() -> None:
    parts = parse_plan({"kind": "parallel", "parts": [{"kind": "pure", "epsilon": e} for e in (0.1, 0.5, 0.3)]})
    assert costs_of(parts, relation="zero-out").zcdp == Decimal("0.125")
    assert costs_of(parts, relation="substitution").zcdp == decimals.round_up(0.125 + 0.3**2 / 2)


def test_a_sample_from_parts_of_unknown_size_has_no_renyi_cost() -> None:
    """Nulls fill the sample up, so three records may stand in a place; as if sampled by Poisson, order 2 was 1.718e-4.

    One of 100 records is released with unit noise, each a corner of a triangle of side 1: r, null, the others.
    """
    x, y = np.meshgrid(np.linspace(-8.0, 9.0, 400), np.linspace(-8.0, 9.0, 400))
    corners = ((1.0, 0.0), (0.5, math.sqrt(0.75)), (0.0, 0.0))
    old, null, other = (np.exp(-((x - a) ** 2 + (y - b) ** 2) / 2) / (2 * math.pi) for a, b in corners)
    p, q = 0.01 * old + 0.99 * other, 0.01 * null + 0.99 * other
    reached = math.log(float(np.sum(p * p / q)) * (17.0 / 399) ** 2)
    assert reached == pytest.approx(2.05075e-4, rel=1e-4)
    unit = {"kind": "gaussian", "noise_multiplier": 1.0}
    sample = {"kind": "subsample", "scheme": "without-replacement", "population": 100, "sample": 1, "of": unit}
    nothing = {**sample, "population": 200, "of": {"kind": "pure", "epsilon": 0.0}}
    alone = costs_of(parse_plan(sample), relation="add-remove")
    order = Decimal(2)
    assert float(alone.rho_at(order) or 0) < reached
    for plan in ({"kind": "parallel", "parts": [sample] * 2}, {"kind": "compose", "parts": [sample, nothing]}):
        assert costs_of(parse_plan(plan), relation="add-remove").renyi == ()
        assert understated(parse_plan(plan), alone, relation="add-remove")


@pytest.mark.parametrize("delta", ["1e-3", "1e-9"])
@pytest.mark.parametrize("epsilon", ["0.3", "1", "8"])
def test_what_an_account_holds_is_what_its_guarantee_allows(epsilon: str, delta: str) -> None:
    e, d = float(epsilon), float(delta)
    order, rho = holding("renyi", epsilon=Decimal(epsilon), delta=Decimal(delta)) or (None, Decimal(0))
    a, r = float(order or 0), float(rho)
    # Canonne, Kamath, Steinke 2020, proposition 12, the other way round.
    assert math.exp((a - 1) * (r - e)) / (a - 1) * (1 - 1 / a) ** a == pytest.approx(d, rel=1e-9)
    _, square = holding("gdp", epsilon=Decimal(epsilon), delta=Decimal(delta)) or (None, Decimal(0))
    mu = math.sqrt(float(square))
    assert norm.cdf(-e / mu + mu / 2) - math.exp(e) * norm.cdf(-e / mu - mu / 2) == pytest.approx(d, rel=1e-4)
    _, concentrated = holding("zcdp", epsilon=Decimal(epsilon), delta=Decimal(delta)) or (None, Decimal(0))
    gaussian = parse_plan({"kind": "gaussian", "noise_multiplier": 1 / math.sqrt(2 * float(concentrated))})
    assert rdp.RenyiProfile(rdp.rdp(gaussian, "add-remove")).epsilon(d).upper == pytest.approx(e, rel=1e-4)


def test_budgets_that_a_filter_cannot_keep_are_refused() -> None:
    for name in ("renyi", "zcdp", "gdp"):
        with pytest.raises(NotSupported, match="between 0 and 1"):
            holding(name, epsilon=Decimal(1), delta=Decimal(0))
    with pytest.raises(NotSupported, match="holds nothing"):
        holding("renyi", epsilon=Decimal("0.1"), delta=Decimal("1e-9"), order=Decimal(2))
    with pytest.raises(PlanError, match="not a stored order"):
        holding("renyi", epsilon=Decimal(1), delta=Decimal("1e-5"), order=Decimal("2.7"))
    with pytest.raises(PlanError, match="has none"):
        holding("zcdp", epsilon=Decimal(1), delta=Decimal("1e-5"), order=Decimal(2))


def test_ten_runs_of_the_demo_fit_by_the_renyi_filter_where_basic_admits_three(ledger: Ledger) -> None:
    run = load_run(DEMO)
    plan, relation, delta = run.plan(), run.relation, 1e-5
    costs = costs_of(plan, relation=relation)
    each = decimals.round_up(recompute(plan, relation=relation, delta=delta).epsilon_upper)
    budget = {"relation": relation, "unit": RECORD, "epsilon": "16", "delta": "1e-3"}
    admitted = {}
    for name in ("basic", "renyi", "zcdp"):
        ledger.init_account(name, filter=name, **budget)
        cost = {"relation": relation, "unit": RECORD, "epsilon": each, "delta": str(delta), "costs": costs}
        while ledger.balance(name).admits(each, Decimal(str(delta)), costs):
            ledger.reserve(name, certificate_sha256="a" * 64, **cost)
        with pytest.raises(BudgetExceeded):
            ledger.reserve(name, certificate_sha256="a" * 64, **cost)
        account = ledger.account(name)
        assert account.fits_again(account.reservations[-1]) == 0
        admitted[name] = account.runs
    assert admitted == {"basic": 3, "renyi": 10, "zcdp": 10}
    # The same ten at once, as if they had been fixed beforehand: what adaptivity costs lies between this and 16.
    exact = recompute(Repeat(10, plan), relation=relation, delta=1e-3)
    assert (float(each), exact.epsilon_lower, exact.epsilon_upper) == pytest.approx(EXACT, rel=1e-3)


def test_a_run_without_a_cost_in_the_account_s_unit_is_refused(ledger: Ledger) -> None:
    facts: dict[str, Any] = {"relation": "add-remove", "unit": RECORD, "epsilon": "1", "delta": "1e-5"}
    ledger.init_account("mail", filter="zcdp", **facts)
    costs = costs_of(parse_plan(PLANS["poisson"][0]), relation="add-remove")
    with pytest.raises(BudgetError, match="no theorem gives this run's plan"):
        ledger.reserve("mail", certificate_sha256="a" * 64, costs=costs, **facts)
    assert ledger.account("mail").runs == 0


def test_what_filters_charged_is_there_after_a_checkpoint(ledger: Ledger) -> None:
    facts: dict[str, Any] = {"relation": "add-remove", "unit": RECORD, "delta": "1e-5"}
    ledger.init_account("mail", filter="renyi", epsilon="8", **facts)
    cost = Costs(tuple(RenyiPoint(order, Decimal("0.001")) for order in ORDERS))
    for _ in range(140):  # a checkpoint stands at 128
        ledger.reserve("mail", epsilon="0.01", certificate_sha256="a" * 64, costs=cost, data="f" * 64, **facts)
    assert ledger.balance("mail").charged == Decimal("0.14")
    assert ledger.balance("mail").data == ("f" * 64,)
    assert ledger.account("mail").charged == Decimal("0.14")
    ledger.verify()


def test_the_gate_refuses_costs_that_the_plan_exceeds(
    ledger: Ledger, make_certificate: Callable[..., bytes], make_subject: Callable[..., Any], clock: Any
) -> None:
    subject = make_subject()
    true = costs_of(subject.plan, relation=subject.relation)
    ledger.init_account("mail", relation="zero-out", unit=RECORD, epsilon="8", delta="1e-3", filter="renyi")
    free = Costs(tuple(RenyiPoint(point.order, Decimal(0)) for point in true.renyi))
    with (
        pytest.raises(ClaimRefused, match="less Rényi divergence"),
        open_permit(make_certificate(costs=free), subject, "mail", ledger, clock=clock),
    ):
        pass
    assert ledger.account("mail").runs == 0
    with open_permit(make_certificate(costs=true), subject, "mail", ledger, clock=clock):
        pass
    order = ledger.account("mail").order
    assert ledger.account("mail").charged == true.rho_at(order or Decimal(0))


def test_the_same_file_under_another_account_or_ledger_is_refused(
    ledger: Ledger, make_certificate: Callable[..., bytes], make_subject: Callable[..., Any], clock: Any
) -> None:
    facts: dict[str, Any] = {"relation": "zero-out", "unit": RECORD, "epsilon": "8", "delta": "1e-3"}
    mail, other = ledger.init_account("mail", **facts), ledger.init_account("other", **facts)
    subject = make_subject()
    with open_permit(make_certificate(account=mail.identity), subject, "mail", ledger, clock=clock):
        pass
    with (
        pytest.raises(BudgetError, match="this very file was charged to the account mail"),
        open_permit(make_certificate(), subject, "other", ledger, clock=clock),
    ):
        pass
    with (
        pytest.raises(BudgetError, match=f"for the account {mail.identity[:12]}"),
        open_permit(make_certificate(account=mail.identity), make_subject(), "other", ledger, clock=clock),
    ):
        pass
    assert other.identity != mail.identity
    assert ledger.account("other").runs == 0


@pytest.mark.parametrize("granularity", [1 / 3, 0.1, 1 / 7, 1.0, 1.0 + 5e-10, 1e-3 * (1.0 - 5e-10)])
def test_a_grid_written_in_decimals_costs_no_step_more(granularity: float) -> None:
    """1/g is the whole number that is meant: ρ = 1/(2σ²), as for the engines; g = 1/3 was charged (4/3)² of it."""
    plan = parse_plan({"kind": "discrete-gaussian", "noise_multiplier": 1.25, "granularity": granularity})
    costs = costs_of(plan, relation="add-remove")
    assert costs.zcdp == Decimal("0.32")
    assert not understated(plan, costs, relation="add-remove")
    assert not understated(plan, Costs(zcdp=Decimal("0.32")), relation="add-remove")
    assert understated(plan, Costs(zcdp=Decimal("0.3199")), relation="add-remove") == "zCDP"


def test_a_grid_between_whole_numbers_is_charged_the_next_step() -> None:
    plan = parse_plan({"kind": "discrete-gaussian", "noise_multiplier": 1.0, "granularity": 0.3})
    costs = costs_of(plan, relation="add-remove")
    assert float(costs.zcdp or 0) == pytest.approx(1.2**2 / 2, rel=1e-9)
    assert not understated(plan, costs, relation="add-remove")
