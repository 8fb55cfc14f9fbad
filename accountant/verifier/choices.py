"""Uses of which each is any one of several cases: one case that costs at least as much, where all are too many.

What the options have in common stays. Of the rest, mechanisms with a pair count by kinds 1, 2, …, from the most to the
least likely to cost much; m_j is the most uses of the first j kinds in one option. In order of their kinds, an option's
uses at places m_{j-1} + 1 … m_j are of kinds from j on, or missing, so as many uses of the pair of the largest of these
kinds' curves (``Either``) dominate them (Zhu, Dong and Wang 2022, Theorem 10), n times as many for n uses. An option's
Gaussians are one. An exponential mechanism is the pair of its largest curve (``envelope``), which dominates each use,
whatever came before; where no other kind is in its place, it stays what it is. What is zCDP is so for the largest Σρ;
alone, what has a pair counted beside it, or with the exponential mechanisms, or with all that has a ρ, what is
(ε, δ)-DP as an ε-DP mechanism and a failure (the product of the two pairs is its own). The one that is likely to cost
least is taken. An upper side.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import accumulate, pairwise

from affidavit.accountant.plan import Approximate, Exponential, Gaussian, Laplace, Pure
from affidavit.accountant.verifier.cases import Case, Either, Fixed, Use
from affidavit.accountant.verifier.ceiling import likely_cost, stated

__all__ = ["any_of"]

MOST_STATED = 16
"""(ε, δ) guarantees that are kept apart in one use; of more, several have the largest ε and δ of any of them."""
LOOSER, FEWER = 1.05, 1.0
"""About how much more zCDP lets many pairs cost than they do, and how much more than that, over the root of their
number, few ones, whose losses end where a Gaussian's go on."""
_WAYS: tuple[tuple[type, ...], ...] = (), (Exponential,), (Exponential, Gaussian, Pure, Approximate, Laplace)
"""What counts as zCDP."""


def any_of(options: Sequence[Case], count: int) -> Case:
    """What costs at least as much as ``count`` uses, each of any one of ``options``, in any order."""
    if any(option.blatant for option in options):
        return Case(blatant=True)
    pairs = [option.pairs for option in options]
    common = _common_of(pairs)
    rest = [_without(one, common) for one in pairs]
    ways = [_one_way(rest, concentrated) for concentrated in _WAYS]
    most = count * max(sum(n for _, n in one.uses) + bool(one.mu_squared) for one in rest)
    looser = LOOSER + FEWER / math.sqrt(max(most, 1))
    found = min(ways, key=lambda one: _likely_size(one) * (looser if one.rho else 1.0))
    whole = common.plus(found).times(count)
    steps = tuple((Fraction(use.range), n) for use, n in whole.uses if isinstance(use, Exponential))
    uses = tuple((use, n) for use, n in whole.uses if not isinstance(use, Exponential))
    return Case(replace(whole, uses=uses), tuple(sorted(steps)), interleaved=len(steps) > 1)


def _common_of(fixed: Sequence[Fixed]) -> Fixed:
    """What all of them have."""
    uses = Counter(dict(fixed[0].uses))
    for one in fixed:
        uses &= Counter(dict(one.uses))
    return Fixed(
        min(one.mu_squared for one in fixed),
        min(one.rho for one in fixed),
        tuple(sorted(uses.items(), key=repr)),
    )


def _without(fixed: Fixed, common: Fixed) -> Fixed:
    uses = Counter(dict(fixed.uses)) - Counter(dict(common.uses))
    return Fixed(fixed.mu_squared - common.mu_squared, fixed.rho - common.rho, tuple(uses.items()))


def _one_way(rest: Sequence[Fixed], concentrated: tuple[type, ...]) -> Fixed:
    """These kinds as zCDP with what is stated so, the others as pairs."""
    rhos: list[Fraction] = []
    others: list[Counter[Fixed]] = []
    for one in rest:
        rho, left = one.rho, Counter[Fixed]()
        if Gaussian in concentrated:
            rho += one.mu_squared / 2
        elif one.mu_squared:
            left[Fixed(mu_squared=one.mu_squared)] += 1
        for use, n in one.uses:
            each, remains = _rho_of(use) if isinstance(use, concentrated) else (Fraction(0), use)
            rho += n * each
            if remains is not None:
                left[Fixed(uses=((remains, 1),))] += n
        rhos.append(rho)
        others.append(left)
    return _in_layers(others).plus(Fixed(rho=max(rhos)))


def _rho_of(use: Use) -> tuple[Fraction, Use | None]:
    """ρ, and what has none (ε²/2 of ε-DP: Bun and Steinke 2016; η²/8 of a range: ``zcdp``)."""
    match use:
        case Exponential(range=spread):
            return Fraction(spread) ** 2 / 8, None
        case Pure() | Approximate() | Laplace():
            epsilon, delta = stated(use)
            return epsilon**2 / 2, Approximate(0.0, float(delta)) if delta else None
    return Fraction(0), use


def _in_layers(rests: Sequence[Counter[Fixed]]) -> Fixed:
    kinds = [*dict.fromkeys(kind for rest in rests for kind in rest)]
    kinds.sort(key=lambda one: (-_likely_size(one), repr(one)))
    parts: list[Fixed] = []
    for j, n in _layers(rests, kinds):
        kept = _costliest(kinds[j:])
        parts.append((kept[0] if len(kept) == 1 else Fixed(uses=((Either(kept), 1),))).times(n))
    return Fixed.joined(parts)


def _costliest(kinds: Sequence[Fixed]) -> tuple[Fixed, ...]:
    """Those that no other one covers."""
    kept: list[Fixed] = []
    for kind in kinds:
        if not any(other.covers(kind) for other in kept):
            kept = [other for other in kept if not kind.covers(other)]
            kept.append(kind)
    stated = sorted((use.epsilon, use.delta) for kind in kept for use, _ in kind.uses if isinstance(use, Approximate))
    if len(stated) <= MOST_STATED:
        return tuple(kept)
    step = -(-len(stated) // MOST_STATED)
    chunks = [stated[i : i + step] for i in range(0, len(stated), step)]
    others = [kind for kind in kept if not any(isinstance(use, Approximate) for use, _ in kind.uses)]
    larger = [Approximate(chunk[-1][0], max(delta for _, delta in chunk)) for chunk in chunks]
    return (*others, *(Fixed(uses=((use, 1),)) for use in larger))


def _layers(rests: Sequence[Counter[Fixed]], kinds: Sequence[Fixed]) -> list[tuple[int, int]]:
    """(j, m_j − m_{j−1}), where that is not 0."""
    sums = [accumulate([rest[kind] for kind in kinds]) for rest in rests]
    most = [0, *map(max, zip(*sums, strict=True))]
    return [(j, after - before) for j, (before, after) in enumerate(pairwise(most)) if after > before]


def _likely_size(fixed: Fixed, *, alone: bool = True) -> float:
    """About ρ of many uses: of a pure mechanism the mean of its loss, ε tanh(ε/2).

    Of an exponential mechanism η²/8, and no more than the mean of its pair's, which it has where it is not ``alone``.
    """
    total = float(fixed.rho + fixed.mu_squared / 2)
    for use, n in fixed.uses:
        match use:
            case Pure(epsilon=epsilon) | Approximate(epsilon=epsilon):
                total += n * epsilon * math.tanh(epsilon / 2)
            case Laplace(noise_multiplier=scale):
                total += n * (1 / scale + math.expm1(-1 / scale))
            case Exponential(range=eta):
                pair = eta / math.tanh(eta / 2) - 2.0 if eta > 1.0 else eta * eta / 6.0
                total += n * (min(pair, eta * eta / 8.0) if alone else pair)
            case Either(of=kinds):
                total += n * max(_likely_size(kind, alone=False) for kind in kinds)
            case _:
                total += n * likely_cost(Case(first=Fixed(uses=((use, 1),))))[1]
    return total
