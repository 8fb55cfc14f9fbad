"""The adaptive recursion against brute force, symmetries and its neighbours."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.accountant.bound import bound, profile_points
from affidavit.accountant.methods.recursion import compose, whole
from affidavit.accountant.methods.sampled_use import SampledUse
from affidavit.accountant.plan import Compose, Exponential, Gaussian, Laplace, Plan, Poisson, Pure, Repeat
from affidavit.accountant.validate import Relation
from affidavit.accountant.verifier import recompute


def exponential(count: int, eta: float) -> dict:
    return {"kind": "repeat", "count": count, "of": {"kind": "exponential", "range": eta}}


def strategy_delta(alpha: float, etas: list[float], rng: random.Random, first_t: float | None = None) -> float:
    """δ of one explicit adaptive strategy: t drawn anew at every node of the outcome tree."""
    if not etas:
        return max(0.0, 1.0 - alpha)
    eta = etas[0]
    t = rng.uniform(0.0, eta) if first_t is None else first_t
    p = math.exp(t) * (1.0 - math.exp(t - eta)) / (math.exp(t) - math.exp(t - eta))
    up = strategy_delta(alpha * math.exp(-t), etas[1:], rng)
    down = strategy_delta(alpha * math.exp(eta - t), etas[1:], rng)
    return p * up + (1.0 - p) * down


@settings(max_examples=25, deadline=None)
@given(
    etas=st.lists(st.floats(0.05, 3.0), min_size=1, max_size=3),
    epsilon=st.floats(0.0, 4.0),
    seed=st.integers(0, 2**32),
)
def test_no_explicit_strategy_exceeds_the_upper_side(etas: list[float], epsilon: float, seed: int) -> None:
    plan = {"kind": "compose", "parts": [{"kind": "exponential", "range": eta} for eta in etas]}
    found = bound(plan, relation="zero-out", epsilon=epsilon)
    rng = random.Random(seed)
    best = max(strategy_delta(math.exp(epsilon), etas, rng) for _ in range(40))
    assert best <= found.delta_upper * (1.0 + 1e-12) + 1e-15
    assert found.delta_lower <= found.delta_upper


def softmax_tree(
    probability: tuple[float, float], etas: list[float], tokens: int, rng: random.Random
) -> list[tuple[float, float]]:
    """(P, Q) of every output of an adaptive run of softmax sampling, scores drawn anew at every node of the tree.

    The change of score between neighbours spans exactly η; it leans to the ends, where attacks are strong.
    """
    if not etas:
        return [probability]
    eta = etas[0]
    scores = [rng.gauss(0.0, 1.5) for _ in range(tokens)]
    changes = [0.0, eta, *(rng.choice((0.0, eta, rng.uniform(0.0, eta))) for _ in range(tokens - 2))]
    rows = []
    for moved in (changes, [0.0] * tokens):
        weights = [math.exp(score + move) for score, move in zip(scores, moved, strict=True)]
        rows.append([weight / sum(weights) for weight in weights])
    return [
        leaf
        for p, q in zip(*rows, strict=True)
        for leaf in softmax_tree((probability[0] * p, probability[1] * q), etas[1:], tokens, rng)
    ]


@settings(max_examples=40, deadline=None)
@given(
    etas=st.lists(st.floats(0.05, 2.5), min_size=1, max_size=3),
    tokens=st.integers(2, 4),
    epsilon=st.floats(0.0, 3.0),
    seed=st.integers(0, 2**32),
)
def test_no_small_softmax_mechanism_exceeds_the_upper_side(
    etas: list[float], tokens: int, epsilon: float, seed: int
) -> None:
    """All outputs of real mechanisms of up to four tokens and three adaptive steps, added up in both directions."""
    plan = {"kind": "compose", "parts": [{"kind": "exponential", "range": eta} for eta in etas]}
    found = bound(plan, relation="zero-out", epsilon=epsilon)
    rng = random.Random(seed)
    for _ in range(30):
        leaves = softmax_tree((1.0, 1.0), etas, tokens, rng)
        for p, q in ((0, 1), (1, 0)):
            delta = sum(max(0.0, leaf[p] - math.exp(epsilon) * leaf[q]) for leaf in leaves)
            assert delta <= found.delta_upper * (1.0 + 1e-12) + 1e-15


@pytest.mark.parametrize("etas", [[1.0, 1.0], [0.7, 1.3], [1.1, 0.4, 0.9]])
def test_brute_force_over_trees_reaches_the_bracket(etas: list[float]) -> None:
    """The best tree of t's from a dense grid, each node by itself: inside the bracket, and the bracket is 1e-3 wide."""
    epsilon, steps = 0.3, 48

    def best(alpha: float, rest: list[float]) -> float:
        if not rest:
            return max(0.0, 1.0 - alpha)
        eta, scale = rest[0], math.expm1(rest[0])
        if len(rest) == 1:
            inside = min(max(alpha, math.exp(-eta)), math.exp(eta))
            closed = (math.exp(eta / 2.0) - math.sqrt(inside)) ** 2 / scale
            return closed if alpha >= math.exp(-eta) else 1.0 - alpha
        found = 0.0
        for j in range(steps + 1):
            t = eta * j / steps
            p = (math.exp(eta) - math.exp(t)) / scale
            up, down = best(alpha * math.exp(-t), rest[1:]), best(alpha * math.exp(eta - t), rest[1:])
            found = max(found, p * up + (1.0 - p) * down)
        return found

    plan = {"kind": "compose", "parts": [{"kind": "exponential", "range": eta} for eta in etas]}
    found = bound(plan, relation="zero-out", epsilon=epsilon)
    truth = best(math.exp(epsilon), etas)
    assert truth <= found.delta_upper
    assert found.delta_lower <= truth * (1.0 + 1e-3)
    assert found.delta_upper - found.delta_lower <= 1e-3 * found.delta_upper


def non_adaptive(eta: float, count: int, t: float, delta: float) -> float:
    """ε of the two-point pair with losses t and t − η, used ``count`` times, by its binomial sum and bisection."""
    p = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
    heads = np.arange(count + 1)
    log_ways = np.array([math.lgamma(count + 1) - math.lgamma(h + 1) - math.lgamma(count - h + 1) for h in heads])
    masses = np.exp(log_ways + heads * math.log(p) + (count - heads) * math.log1p(-p))
    losses = heads * t + (count - heads) * (t - eta)
    low, high = 0.0, count * eta
    for _ in range(60):
        middle = 0.5 * (low + high)
        reached = float(masses @ np.maximum(0.0, -np.expm1(np.minimum(middle - losses, 0.0))))
        low, high = (middle, high) if reached > delta else (low, middle)
    return low


@settings(max_examples=30, deadline=None)
@given(
    eta=st.floats(0.02, 2.0),
    count=st.integers(1, 150),
    log_delta=st.floats(-40.0, -3.0),
    shares=st.lists(st.floats(0.05, 0.95), min_size=3, max_size=3),
)
def test_never_below_a_non_adaptive_attack_nor_above_zcdp(
    eta: float, count: int, log_delta: float, shares: list[float]
) -> None:
    """Any fixed t is a lower bound, η²/8-zCDP and pure DP are upper bounds."""
    delta = math.exp(log_delta)
    plan = exponential(count, eta)
    found = bound(plan, relation="zero-out", delta=delta)
    reached = max(non_adaptive(eta, count, share * eta, delta) for share in (0.5, *shares))
    assert found.epsilon_upper >= reached * (1.0 - 1e-9)
    for method in ("zcdp", "optimal"):
        # One upper side may be wider than another by its own tolerance.
        other = bound(plan, relation="zero-out", delta=delta, method=method).epsilon_upper
        assert found.epsilon_lower <= other * (1.0 + 1e-9)
        assert found.epsilon_upper <= other * (1.0 + 1e-3) + 1e-6


@settings(max_examples=20, deadline=None)
@given(eta=st.floats(0.05, 1.5), count=st.integers(2, 40), delta=st.floats(1e-9, 1e-2))
def test_count_n_equals_n_composes(eta: float, count: int, delta: float) -> None:
    once = {"kind": "exponential", "range": eta}
    repeated = bound(exponential(count, eta), relation="zero-out", delta=delta)
    listed = bound({"kind": "compose", "parts": [once] * count}, relation="zero-out", delta=delta)
    assert (listed.epsilon_lower, listed.epsilon_upper) == (repeated.epsilon_lower, repeated.epsilon_upper)


def test_far_from_the_answer_the_curve_stays_tight() -> None:
    """A profile composed for δ = 1e-6 answers everywhere: 1e-3 of ε is 5 % of δ out there."""
    plan = exponential(60, 0.4)
    at = bound(plan, relation="zero-out", delta=1e-6).epsilon_upper
    asked = [0.0, 0.25 * at, 0.7 * at, at, 1.2 * at]
    points = profile_points(plan, relation="zero-out", delta=1e-6, epsilons=asked, tolerance=1e-3)
    for epsilon, delta_upper in points:
        near = bound(plan, relation="zero-out", epsilon=epsilon)
        assert near.delta_lower <= delta_upper <= near.delta_upper * 1.05


@pytest.mark.parametrize("runs", [[(0.5, 30), (0.31, 30)], [(0.2, 50), (0.9, 2)]])
def test_unequal_ranges_are_bracketed_as_tightly(runs: list[tuple[float, int]]) -> None:
    parts = [exponential(count, eta) for eta, count in runs]
    found = bound({"kind": "compose", "parts": parts}, relation="zero-out", delta=1e-6)
    assert found.epsilon_upper - found.epsilon_lower <= 1e-3 * found.epsilon_upper
    rho = sum(count * eta * eta / 8.0 for eta, count in runs)
    zcdp = bound({"kind": "zcdp", "rho": rho}, relation="zero-out", delta=1e-6, method="zcdp")
    assert found.epsilon_upper <= zcdp.epsilon_upper


def test_one_use_is_the_envelope_of_the_two_point_family() -> None:
    """T = 1: δ(ε) = max over t of p_t (1 − e^{ε − t}), by a dense scan."""
    eta = 1.3
    t = np.linspace(0.0, eta, 200_001)
    p = np.exp(t) * -np.expm1(t - eta) / (np.exp(t) - np.exp(t - eta))
    for epsilon in (0.0, 0.2, 0.7, 1.2):
        truth = float(np.max(p * np.maximum(0.0, -np.expm1(epsilon - t))))
        found = bound(exponential(1, eta), relation="zero-out", epsilon=epsilon, tolerance=1e-5)
        assert found.delta_lower <= truth * (1 + 1e-8)
        assert found.delta_upper >= truth * (1 - 1e-9)
        assert found.delta_upper - found.delta_lower <= 1e-3 * truth


def test_adaptivity_beats_the_non_adaptive_optimum() -> None:
    """Range 1, two uses, ε = 0.25: 0.220924 by an explicit strategy, 0.216055 without adaptivity."""
    found = bound(exponential(2, 1.0), relation="zero-out", epsilon=0.25, tolerance=1e-4)
    assert 0.2209 <= found.delta_lower <= 0.220924342 + 5e-5
    assert 0.220924342 <= found.delta_upper <= 0.22096


@pytest.mark.parametrize(("count", "eta", "delta"), [(100, 0.3, 1e-5), (300, 0.05, 1e-6), (20, 1.5, 1e-30)])
def test_between_the_non_adaptive_optimum_and_zcdp(count: int, eta: float, delta: float) -> None:
    """At least randomised response with ε = η/2 at every use, at most the η²/8-zCDP conversion."""
    found = bound(exponential(count, eta), relation="zero-out", delta=delta)
    half = {"kind": "repeat", "count": count, "of": {"kind": "pure", "epsilon": eta / 2}}
    assert found.epsilon_upper >= bound(half, relation="zero-out", delta=delta).epsilon_upper
    zcdp = bound(exponential(count, eta), relation="zero-out", delta=delta, method="zcdp")
    assert found.epsilon_upper <= zcdp.epsilon_upper
    assert found.epsilon_upper - found.epsilon_lower <= 1e-3 * found.epsilon_upper


@pytest.mark.parametrize("order", ["first", "last", "between"])
def test_mixed_with_a_gaussian(order: str) -> None:
    """Each order's bracket holds the brute-force value of a dense two-dimensional computation."""
    gauss = {"kind": "gaussian", "noise_multiplier": 2.0}
    soft = {"kind": "exponential", "range": 0.8}
    parts = {"first": [gauss, soft, soft], "last": [soft, soft, gauss], "between": [soft, gauss, soft]}[order]
    found = bound({"kind": "compose", "parts": parts}, relation="zero-out", epsilon=0.5, tolerance=1e-3)
    truth = _brute_force(parts, 0.5)
    assert found.delta_lower <= truth * (1 + 1e-4)
    assert found.delta_upper >= truth * (1 - 1e-4)
    width = found.delta_upper - found.delta_lower
    assert width <= (2e-3 if order != "between" else 0.1) * truth


def _brute_force(parts: list[dict], epsilon: float) -> float:
    """Backward recursion with dense interpolation in ε; neither side is rigorous, error about 1e-5."""
    x = np.linspace(-14.0, 14.0, 28_001)
    h = np.maximum(0.0, -np.expm1(np.minimum(x, 0.0)))
    for part in reversed(parts):
        if part["kind"] == "exponential":
            eta = part["range"]
            best = h.copy()
            for t in np.linspace(0.0, eta, 161)[1:-1]:
                p = (math.exp(eta) - math.exp(t)) / math.expm1(eta)
                best = np.maximum(best, p * np.interp(x - t, x, h) + (1 - p) * np.interp(x + eta - t, x, h))
            h = best
        else:
            mu = 1.0 / part["noise_multiplier"]
            loss = np.linspace(mu * mu / 2 - 8 * mu, mu * mu / 2 + 8 * mu, 1601)
            weight = np.exp(-0.5 * ((loss - mu * mu / 2) / mu) ** 2)
            weight /= weight.sum()
            h = sum(w * np.interp(x - value, x, h, left=1.0, right=0.0) for w, value in zip(weight, loss, strict=True))
    return float(np.interp(epsilon, x, h))


def test_range_zero_and_huge_ranges() -> None:
    assert bound(exponential(50, 0.0), relation="zero-out", delta=1e-6).epsilon_upper == 0.0
    huge = bound(exponential(5, 500.0), relation="zero-out", delta=1e-6)
    assert 2499.0 <= huge.epsilon_upper <= 2500.0


@pytest.mark.parametrize("delta", [1e-2, 1e-8])
def test_delta_and_epsilon_questions_agree(delta: float) -> None:
    plan = exponential(20, 0.4)
    at = bound(plan, relation="zero-out", delta=delta)
    back = bound(plan, relation="zero-out", epsilon=at.epsilon_upper)
    assert back.delta_lower <= delta * (1 + 1e-9)
    assert back.delta_upper >= delta * (1 - 5e-2)


@pytest.mark.parametrize(
    ("plan", "relation"),
    [
        (Compose((Repeat(20, Poisson(0.05, Gaussian(1.0))), Repeat(20, Exponential(0.3)))), "zero-out"),
        (Compose((Repeat(20, Exponential(0.3)), Repeat(20, Poisson(0.05, Gaussian(1.0))))), "zero-out"),
        (Compose((Repeat(5, Laplace(2.0)), Repeat(20, Exponential(0.3)))), "add-remove"),
        (Repeat(5, Compose((Laplace(2.0), Exponential(0.3)))), "zero-out"),
    ],
    ids=["sampled first", "sampled last", "laplace first", "in turns"],
)
def test_beside_sampled_mechanisms_the_bracket_meets_the_verifiers(plan: Plan, relation: Relation) -> None:
    found, again = bound(plan, relation=relation, delta=1e-5), recompute(plan, relation=relation, delta=1e-5)
    assert found.method == "adaptive"
    assert found.epsilon_upper <= found.epsilon_lower * 1.003
    assert again.epsilon_lower <= found.epsilon_upper
    assert found.epsilon_lower <= again.epsilon_upper
    rows = {row.name: row for row in found.methods if row.applies}
    assert found.epsilon_lower <= rows["pld"].epsilon_upper
    assert rows["pld"].epsilon_upper < rows["basic"].epsilon_upper


def test_tiny_ranges_beside_large_losses_take_little_memory_and_time() -> None:
    """A lattice of a few range's cells across losses that are thousands of ranges wide."""
    plan = Compose((Exponential(0.0025), Exponential(0.0025), Pure(1.0)))
    found = bound(plan, relation="zero-out", delta=1e-29)
    assert found.epsilon_lower <= 1.005 <= found.epsilon_upper <= 1.0054
    assert bound(plan, relation="zero-out", epsilon=0.9).delta_lower > 0.0


@pytest.mark.parametrize(("noise", "delta"), [(0.05, 1e-9), (0.5, 1e-5), (20.0, 1e-4)])
def test_the_lattice_reaches_as_far_as_what_runs_after(noise: float, delta: float) -> None:
    """Losses of 200 beside a range of .02: within the Gaussian's own ε and that of one more pure mechanism."""
    parts = (Exponential(0.02), Exponential(0.03), Gaussian(noise))
    found = bound(Compose(parts), relation="zero-out", delta=delta)
    least = bound(Gaussian(noise), relation="zero-out", delta=delta).epsilon_lower
    most = bound(Compose((Pure(0.05), Gaussian(noise))), relation="zero-out", delta=delta).epsilon_upper
    assert least * (1 - 1e-6) <= found.epsilon_lower <= found.epsilon_upper <= most * (1 + 2e-6)  # its grid's width
    assert found.epsilon_upper <= found.epsilon_lower * (1 + 2e-3)


def test_many_losses_beside_take_little_memory_and_time() -> None:
    """Gaussian and 927 two-point uses. As a sum over 928 losses at each lattice point it took 1.8 GB."""
    plan = Compose((Repeat(6, Exponential(0.05)), Repeat(927, Pure(1.27)), Gaussian(71.0), Exponential(0.292)))
    found = bound(plan, relation="zero-out", delta=1e-8)
    assert found.epsilon_upper <= found.epsilon_lower * 1.01


def test_a_coarse_lattice_multiplies_no_rounding() -> None:
    """Tangents of rounded slopes below 0 were 4e11 after 60 uses, and beyond float64 after 500."""
    runs = ((SampledUse(12.52, 1.0, "forward"), 200),)
    values, slopes = compose(runs, whole(runs, 12.52 / 8, width=2504.0, mirrored=True), above=False).lines
    assert values.max() <= 1.0 + 1e-12
    assert slopes.min() >= 0.0
