"""Uses that cost at least as much as each of many cases: where the cases are too many to list, or to bound one by one.

Uses of kinds 1, 2, …; m_j is the most uses of the first j kinds that a case has. Put each case's uses in order of their
kinds: from place m_{j−1} + 1 to m_j every case has a use of a kind from j on, or none. ``OneOf`` these kinds costs at
least that: the largest of several hockey-stick curves is convex in α, 1 at α = 0 and at least (1 − α)₊, so it is the
curve of a pair, which dominates each of them, and doing nothing (``pld.largest``). Dominating pairs compose in
whatever order (Zhu, Dong and Wang 2022, theorem 10), so m_j − m_{j−1} uses of it, for each j, dominate every case, what
all of them have in common left as it is. Where something has no pair, the largest ρ does the same for zCDP, and the
largest range for exponential mechanisms; or all that has a ρ is one statement of the largest Σρ. So with n uses of
which each is any one of several cases: each number is n times that of one use, and nothing need be listed. Only an
upper side: no data set need reach it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from affidavit.accountant.cases.dominance import at_least_as_costly, maximal
from affidavit.accountant.cases.nodes import AnyOrder, Moved, OneOf, uses_of
from affidavit.accountant.leaves import facts
from affidavit.accountant.nodes import (
    Approximate,
    Compose,
    Exponential,
    Gaussian,
    Leaf,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
    unrolled,
)
from affidavit.accountant.rounding import STATED

__all__ = ["any_of", "by_rho", "concentrated", "likely_size", "mean_loss", "rho_of", "together"]

WEAK = 2.0
"""Range of an exponential mechanism up to which η²/8-zCDP (Cesar and Rogers 2021, lemma 3.4) says more than η-DP."""
NEARLY = 1.2
"""A ρ that is so much more than the mean loss says hardly less than the pair."""
SAFE = 1.0 - STATED
"""Of a noise multiplier that stands for several: less noise costs more."""


def likely_size(node: Plan) -> float:
    """About ρ, and ρ itself of what has one; puts cases and kinds in order."""
    match node:
        case Compose() | Repeat():
            return math.fsum(count * likely_size(one) for one, count in unrolled(node))
        case Poisson() | WithoutReplacement():
            return node.rate**2 * likely_size(node.of)
        case OneOf(options=options):
            return max(map(likely_size, options))
        case AnyOrder(of=of) | Moved(node=of):
            return likely_size(of)
        case Leaf():
            return facts(node).size
    return math.inf


def any_of(cases: Sequence[Plan], count: int) -> tuple[Plan, ...]:
    """What costs at least as much as ``count`` uses of which each is any one of ``cases``, in any order."""
    options = [uses_of(case) for case in cases]
    common = _common(options)
    rest = [one - common for one in options]
    ways = [together(rest), together([*map(_merged, rest)])]
    if (stated := by_rho(rest)) is not None:
        ways.append(stated)
    found = Counter({node: uses * count for node, uses in min(ways, key=_likely_total).items()})
    found.update({node: uses * count for node, uses in common.items()})
    return tuple(Repeat(uses, node) for node, uses in found.items())


def _likely_total(uses: Counter[Plan]) -> float:
    return math.fsum(mean_loss(node) * count for node, count in uses.items())


def mean_loss(node: Plan) -> float:
    """About that of one use, which is what many of them cost; no more than ρ."""
    match node:
        case OneOf(options=options):
            return max(map(mean_loss, options))
        case Leaf():
            return facts(node).mean
    return likely_size(node)


def rho_of(node: Plan) -> float | None:
    """ρ of one use, or None if the node has no zCDP guarantee."""
    match node:
        case OneOf(options=options):
            each = [rho_of(option) for option in options]
            return None if None in each else max(rho for rho in each if rho is not None)
        case Leaf():
            return facts(node).rho
    return None


def _merged(uses: Counter[Plan]) -> Counter[Plan]:
    """The same with one Gaussian for all, and one statement of zCDP, of no smaller cost."""
    result = Counter(uses)
    gaussians = {one: n for one, n in uses.items() if isinstance(one, Gaussian) and 1e9 > one.noise_multiplier > 1e-9}
    stated = {one: n for one, n in uses.items() if isinstance(one, ZeroConcentrated)}
    if sum(gaussians.values()) > 1:
        square = math.fsum(n / node.noise_multiplier**2 for node, n in gaussians.items())
        result = result - Counter[Plan](gaussians) + Counter({Gaussian(SAFE / math.sqrt(square)): 1})
    if sum(stated.values()) > 1:
        rho = math.fsum(n * node.rho for node, n in stated.items())
        result = result - Counter[Plan](stated) + Counter({ZeroConcentrated(rho / SAFE): 1})
    return result


def by_rho(options: Sequence[Counter[Plan]]) -> Counter[Plan] | None:
    """What has a ρ as one statement of zCDP, the rest as in ``together``; None where nothing has, or no noise."""
    rest = apart(options, always=True)
    rho = max(math.fsum((rho_of(node) or 0.0) * count for node, count in one.items()) for one in rest)
    if not 0.0 < rho < math.inf:
        return None
    others = [Counter({node: count for node, count in one.items() if rho_of(node) is None}) for one in rest]
    return together(others) + Counter({ZeroConcentrated(rho / SAFE): 1})


def together(options: Sequence[Counter[Plan]]) -> Counter[Plan]:
    """What costs at least as much as any one of ``options``."""
    common = _common(options)
    rest = apart([one - common for one in options])
    result = common.copy()
    for fails in (False, True):  # a failure beside them costs less than one in the place of a mechanism
        result.update(_in_layers([_only(one, fails=fails) for one in rest]))
    return result


def _only(uses: Counter[Plan], *, fails: bool) -> Counter[Plan]:
    return Counter(
        {one: n for one, n in uses.items() if (isinstance(one, Approximate) and one.epsilon == 0.0) == fails}
    )


def _in_layers(rest: Sequence[Counter[Plan]]) -> Counter[Plan]:
    """m_j − m_{j−1} uses for each j (module docstring)."""
    result = Counter[Plan]()
    kinds = sorted(dict.fromkeys(node for one in rest for node in one), key=likely_size, reverse=True)
    before = 0
    for j in range(len(kinds)):
        most = max(sum(one[node] for node in kinds[: j + 1]) for one in rest)
        if most > before:
            result[_one_of(kinds[j:])] += most - before
        before = most
    return result


def apart(options: Sequence[Counter[Plan]], *, always: bool = False) -> Sequence[Counter[Plan]]:
    """The same, what is (ε, δ)-DP as an ε-DP mechanism and a failure of chance δ, where something has no pair."""
    if not always and not any(isinstance(node, (Exponential, ZeroConcentrated)) for one in options for node in one):
        return options
    found = []
    for one in options:
        split = Counter[Plan]()
        for node, count in one.items():
            match node:
                case Approximate(epsilon=epsilon, delta=delta) if epsilon > 0.0 and delta > 0.0:
                    split += Counter({Pure(epsilon): count, Approximate(0.0, delta): count})
                case _:
                    split[node] += count
        found.append(split)
    return found


def _common(options: Sequence[Counter[Plan]]) -> Counter[Plan]:
    common = options[0].copy()
    for one in options:
        common &= one
    return common


def _one_of(kinds: Iterable[Plan]) -> Plan:
    single = [one for kind in kinds for one in _single(kind)]
    ranges = [kind.range for kind in single if isinstance(kind, Exponential)]
    kept = maximal(kind for kind in single if not isinstance(kind, Exponential))
    if ranges and not any(at_least_as_costly(kind, Exponential(max(ranges))) for kind in kept):
        kept = maximal((*kept, Exponential(max(ranges))))
    return kept[0] if len(kept) == 1 else OneOf(tuple(kept))


def concentrated(uses: Iterable[tuple[Plan, int]]) -> tuple[float, list[tuple[Plan, int]]]:
    """Σρ of what is only known to be concentrated, rounded up, and the rest; weak exponential mechanisms beside it too.

    Of things that run on the same data, samples of them not unrolled.
    """
    every = list(uses)
    costs: list[float] = []
    rest: list[tuple[Plan, int]] = []
    for node, count in every:
        match node:
            case ZeroConcentrated(rho=rho):
                costs.append(count * rho if count else 0.0)
            case Exponential(range=eta) if eta <= WEAK:
                costs.append(count * eta * eta / 8.0 if count else 0.0)
            case OneOf(options=options) if (any_rho := _rho_of_any(options)) is not None:
                costs.append(count * any_rho if count else 0.0)
            case _:
                rest.append((node, count))
    if not any(isinstance(one, ZeroConcentrated) for node, _ in every for one in _single(node)):
        return 0.0, every
    return math.fsum(costs) * (1.0 + 1e-15), rest


def _single(node: Plan) -> tuple[Plan, ...]:
    return node.options if isinstance(node, OneOf) else (node,)


def _rho_of_any(options: tuple[Plan, ...]) -> float | None:
    """The largest ρ; None where something has none, or where that says less of it than its pair does."""
    rho = rho_of(OneOf(options))
    if rho is None or not any(isinstance(option, ZeroConcentrated) for option in options):
        return None
    return rho if rho <= NEARLY * max(map(mean_loss, options)) else None
