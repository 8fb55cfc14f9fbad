r"""Which of two cases costs more: sufficient tests, by which cases that cannot be the costliest are dropped.

**Gaussian, Laplace, pure.** Each of their pairs dominates the next exactly where its δ(0), t, is as large. A pair that
is the same in both orders has a profile D in x = e^ε with D(x) = 1 − x + x D(1/x), so −(1 − t)/2 is a slope of it at
x = 1; D is above that tangent and above 0, and the larger of the two is, from x = 1 on, the profile of the pure pair of
tanh(ε/2) = t. Laplace noise has 1 − D = (1 − t) e^{ε/2} up to its largest loss. For a Gaussian of shift μ, with
u = ε/μ + μ/2 and v = ε/μ − μ/2, g(ε) = (1 − D) e^{−ε/2} is 1 − t at 0 and falls:

    2 g' = e^{ε/2} Φ(−u) − e^{−ε/2} Φ(v) <= 0,

as Φ(v) − e^ε Φ(−u) is 0 at 0 and has the derivative e^ε φ(u) (2/μ − Φ(−u)/φ(u)), where Mills' ratio is below
1/u <= 2/μ. What is ρ-zCDP may be the Gaussian of ρ = μ²/2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import TYPE_CHECKING

from affidavit.accountant.cases.nodes import NOTHING, OneOf, exponential_uses, fixed, uses_of
from affidavit.accountant.leaves import facts
from affidavit.accountant.nodes import (
    Approximate,
    Compose,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Parallel,
    Plan,
    Poisson,
    Pure,
    Repeat,
    ZeroConcentrated,
)

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

__all__ = ["at_least_as_costly", "covers", "maximal", "undominated"]

NEARLY = 1.0 - 1e-12
"""Counts of uses are sums in float64."""
CLOSE, LEAST, LARGEST = 1e-10, 1e-200, 1e9
"""Room for float64, relative, and what is too small for it, in the comparison of ln(1 − δ(0)); the largest loss."""
_DEARER: dict[type[Plan], dict[str, int]] = {Poisson: {"rate": 1}, Repeat: {"count": 1}}
"""The fields whose growth costs more; of leaves: ``leaves``."""


def at_least_as_costly(a: Plan, b: Plan) -> bool:
    """Whether ``a`` costs at least ``b``: equal shapes field by field, or leaves of which one admits the other."""
    if a == b:
        return True
    if isinstance(a, OneOf) or isinstance(b, OneOf):
        larger, smaller = (node.options if isinstance(node, OneOf) else (node,) for node in (a, b))
        return all(any(at_least_as_costly(one, other) for one in larger) for other in smaller)
    if type(a) is not type(b):
        return _admits(a, b)
    signs = facts(a).dearer if isinstance(a, Leaf) else _DEARER.get(type(a), {})
    for field in fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if isinstance(x, Plan):
            if not isinstance(y, Plan) or not at_least_as_costly(x, y):
                return False
        elif isinstance(x, tuple) and x and isinstance(x[0], Plan):
            if not isinstance(y, tuple) or len(x) != len(y) or not all(map(at_least_as_costly, x, y)):
                return False
        elif field.name in signs:
            if (x - y) * signs[field.name] < 0:
                return False
        elif x != y:
            return False
    return True


@dataclass(frozen=True, slots=True)
class _Uses:
    """A case, use by use: exponential mechanisms by range, everything else by node."""

    plan: Plan
    steps: dict[float, int]
    fixed: Counter[Plan]

    @classmethod
    def of(cls, plan: Plan) -> _Uses:
        others = {node: n for node, n in uses_of(plan).items() if not isinstance(node, Exponential)}
        return cls(plan, exponential_uses(plan), Counter(others))


def _admits(a: Plan, b: Plan) -> bool:
    """Whether a mechanism of which only ``a`` is known may be one that costs all of ``b``.

    ρ-zCDP admits the Gaussian of ρ = 1/(2σ²) and less; ε-DP all that is ε-DP (its pair, randomised response, dominates
    theirs); (ε, δ)-DP all of ε-DP; an exponential mechanism randomised response of half its range.
    """
    match a, b:
        case ZeroConcentrated(rho=rho), Gaussian(noise_multiplier=sigma):
            return 2 * Fraction(rho) * Fraction(sigma) ** 2 >= 1
        case Gaussian() | ZeroConcentrated(), Laplace() if _dominates(a, b):
            return True
    match b:
        case Pure(epsilon=epsilon) | Exponential(range=epsilon):
            most = Fraction(epsilon)
        case Laplace(noise_multiplier=scale) if scale > 0.0:
            most = 1 / Fraction(scale)
        case _:
            return False
    match a:
        case Exponential(range=eta):
            return Fraction(eta) >= 2 * most
        case Pure(epsilon=epsilon) | Approximate(epsilon=epsilon) if Fraction(epsilon) >= most:
            return True
    return most < LARGEST and _dominates(a, Pure(float(most)))


def _dominates(a: Plan, b: Plan) -> bool:
    """Whether the pair of ``a`` has as large a δ(0) as that of ``b``, in float64 with room for its rounding."""
    kept = _log_kept(b)
    return math.isfinite(kept) and kept < 0.0 and _log_kept(a) <= kept * (1.0 + CLOSE)


def _log_kept(leaf: Plan) -> float:
    """ln(1 − δ(0)) of a leaf's pair; 0 where it is too small for a test, and for any other leaf."""
    match leaf:
        case Pure(epsilon=epsilon):
            kept = _log_kept_of_pure(epsilon)
        case Approximate(epsilon=epsilon, delta=delta):
            kept = _log_kept_of_pure(epsilon) + (math.log1p(-delta) if delta < 1.0 else -math.inf)
        case Laplace(noise_multiplier=scale):
            kept = -0.5 / scale if scale > 0.0 else -math.inf
        case Gaussian(noise_multiplier=sigma):
            kept = _log_kept_of_gaussian(1.0 / sigma) if sigma > 0.0 else -math.inf
        case ZeroConcentrated(rho=rho):
            kept = _log_kept_of_gaussian(math.sqrt(2.0 * rho))
        case _:
            return 0.0
    return kept if kept < -LEAST else 0.0


def _log_kept_of_pure(epsilon: float) -> float:
    """ln(2/(1 + e^ε))."""
    return -math.log1p(0.5 * math.expm1(epsilon)) if epsilon < 700.0 else math.log(2.0) - epsilon


def _log_kept_of_gaussian(mu: float) -> float:
    """ln erfc(μ/√8), and no more than −μ²/8 where that is nothing in float64."""
    at = mu / math.sqrt(8.0)
    if at > 20.0:
        return -at * at
    return math.log1p(-math.erf(at)) if at < 0.5 else math.log(math.erfc(at))


def covers(a: Plan, b: Plan, *, gaussians: bool = False) -> bool:
    """Whether case ``a`` costs at least what ``b`` does (a sufficient test): by shape, or use by use.

    Leaving a mechanism out never costs more, and what has a dominating pair may run in any order.
    ``gaussians``: also by Σ 1/σ².
    """
    return _covers(_Uses.of(a), _Uses.of(b), gaussians=gaussians)


def _covers(a: _Uses, b: _Uses, *, gaussians: bool = False) -> bool:
    if at_least_as_costly(a.plan, b.plan):
        return True
    if len(a.steps) > 1 or len(b.steps) > 1 or isinstance(a.plan, Parallel) or isinstance(b.plan, Parallel):
        return False
    if b.steps:
        ((eta, count),) = b.steps.items()
        if not any(width >= eta and uses >= count for width, uses in a.steps.items()):
            return False
        if b.fixed and not _fixed_first(a.plan):
            return False
    if gaussians:
        return _uses_cover(*_without_gaussians(a.fixed, b.fixed))
    return _uses_cover(a.fixed, b.fixed)


def _uses_cover(larger: Counter[Plan], smaller: Counter[Plan]) -> bool:
    """Whether every use of ``smaller`` has one of its own in ``larger`` that costs as much."""
    if smaller.total() > larger.total():
        return False
    rest, free = smaller - larger, larger - smaller
    for node, needed in rest.items():
        missing = needed
        for other in free:
            if missing and free[other] and at_least_as_costly(other, node):
                used = min(missing, free[other])
                missing, free[other] = missing - used, free[other] - used
        if missing:
            return False
    return True


def _without_gaussians(larger: Counter[Plan], smaller: Counter[Plan]) -> tuple[Counter[Plan], Counter[Plan]]:
    """Both without their Gaussians, if those of the first cost as much as those of the second."""
    squares, needed = (
        sum(n / g.noise_multiplier**2 for g, n in uses.items() if isinstance(g, Gaussian) and _noisy(g))
        for uses in (larger, smaller)
    )
    if needed <= squares * (1.0 - 1e-12) or needed == squares:
        return tuple(Counter({node: n for node, n in uses.items() if not _noisy(node)}) for uses in (larger, smaller))  # type: ignore[return-value]
    return larger, smaller


def _noisy(node: Plan) -> bool:
    return isinstance(node, Gaussian) and 1e-100 < node.noise_multiplier < 1e100


def _fixed_first(plan: Plan) -> bool:
    """Whether everything with a pair runs before all exponential mechanisms."""
    match plan:
        case Compose(parts=parts):
            begun = next((place for place, part in enumerate(parts) if exponential_uses(part)), len(parts))
            return all(map(_fixed_first, parts)) and all(fixed(part) == NOTHING for part in parts[begun + 1 :])
        case Repeat(count=count, of=of):
            mixed = bool(exponential_uses(of)) and fixed(of) != NOTHING
            return _fixed_first(of) and (count <= 1 or not mixed)
    return True


def maximal(parts: Iterable[Plan]) -> list[Plan]:
    """The parts that no other part dominates by shape; of equals, one."""
    kept: list[Plan] = []
    for part in parts:
        if any(at_least_as_costly(other, part) for other in kept):
            continue
        kept = [other for other in kept if not at_least_as_costly(part, other)]
        kept.append(part)
    return kept


def undominated(plans: Iterable[Plan]) -> list[Plan]:
    """The cases that no other one covers; of equals, one."""
    cases = [_Uses.of(plan) for plan in dict.fromkeys(plans)]
    if len(cases) < 2:
        return [uses.plan for uses in cases]
    above = _as_costly(cases)
    kept: list[int] = []
    for new, uses in enumerate(cases):
        here = above[kept]
        larger, smaller = here >= NEARLY * above[new], above[new] >= NEARLY * here
        if any(may and _covers(cases[other], uses) for other, may in zip(kept, larger.all(axis=1), strict=True)):
            continue
        pairs = zip(kept, smaller.all(axis=1), strict=True)
        kept = [*(other for other, may in pairs if not (may and _covers(uses, cases[other]))), new]
    return [cases[one].plan for one in kept]


def _as_costly(cases: Sequence[_Uses]) -> NDArray[float64]:
    """Per case and mechanism of any case, how many of the case's uses cost at least as much as that mechanism.

    A case that covers another has no fewer of any: each of the other's uses has one of its own there that costs as
    much, by shape as use by use, and what costs as much is transitive. So hardly two of many cases need be compared.
    """
    import numpy as np

    uses = [{**case.fixed, **{Exponential(eta): n for eta, n in case.steps.items()}} for case in cases]
    kinds = list(dict.fromkeys(node for one in uses for node in one))
    counts = np.array([[float(one.get(node, 0)) for node in kinds] for one in uses])
    order = np.array([[float(at_least_as_costly(a, b)) for b in kinds] for a in kinds])
    found: NDArray[float64] = counts @ order.reshape(len(kinds), len(kinds))
    return found
