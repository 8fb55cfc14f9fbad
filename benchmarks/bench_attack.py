"""Hostile cases: extreme plans whose δ is known otherwise, against both engines.

``SEED``, ``COUNT``, ``WORKERS`` and ``SECONDS`` (in all; cases that no time is left for are not counted) are
environment variables, as are ``FAMILIES`` and ``PATIENCE``, the processor time of one case. A case is told by its seed
and number, so every run of one seed asks the same; each runs in a process of its own. What is compared:

    samples     one or two sampled Gaussians: a quadrature in balls of 256 bits over the first one's noise, of the
                other one's closed form at what is left of ε
    beside      a sampled Gaussian beside a mechanism of another kind: the same
    diluted     Poisson samples under substitution: how many hold the record is binomial, and they are one Gaussian
    binomial    exponential mechanisms, sampled or not: the losses of one choice made always are binomial (from below)
    contour     many samples: an integral in 64-bit mantissas (taken where half the steps and two thirds of them agree)
    peer        rare samples: dp-accounting's optimistic and pessimistic distributions
    engines     anything with anything: the other engine alone
    costlier    a random plan and one that costs at least as much (``costlier``)

A contradiction is an upper side below the truth or a lower side above it, of ε or of δ, or one engine's upper side
below the other's lower side. The last lines are the contradictions, as JSON.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from flint import arb, ctx
from scipy.special import gammaln

from affidavit.accountant.bound import bound
from affidavit.accountant.errors import AffidavitError, DisagreementError, NotSupported
from affidavit.accountant.verifier import recompute
from benchmarks.bench_plans import RELATIONS, random_plan
from benchmarks.costlier import Pair, pair_of

SEED = int(os.environ.get("SEED", "1"))
COUNT = int(os.environ.get("COUNT", "20"))
WORKERS = int(os.environ.get("WORKERS", "1"))
SECONDS = float(os.environ.get("SECONDS", "inf"))
PATIENCE = int(os.environ.get("PATIENCE", "60"))
BITS, ORDERS, MOST_PANELS = 256, (14, 20), 3000
AGREES = 1e-11
"""Relative, of δ: the quadrature's own error is far below; the issuing engine is float64."""

Node = dict[str, Any]


class Truth(NamedTuple):
    """δ lies between the two, at an ε."""

    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Case:
    """A plan, a question, and what is known of δ(ε) from elsewhere."""

    plan: Node
    relation: str
    delta: float
    truth: Callable[[float], Truth] | None
    pair: Pair | None = None


def _log(rng: random.Random, low: float, high: float) -> float:
    return float(f"{low * (high / low) ** rng.random():.4g}")


def _delta(rng: random.Random) -> float:
    return rng.choice((_log(rng, 1e-12, 0.5), _log(rng, 1e-12, 1e-2), _log(rng, 1e-60, 1e-8), _log(rng, 1e-290, 1e-50)))


def _rate(rng: random.Random) -> float:
    return rng.choice(
        (
            _log(rng, 1e-9, 1.0),
            _log(rng, 1e-4, 0.5),
            _log(rng, 1e-12, 1e-3),
            1.0 - _log(rng, 1e-9, 0.3),
            _log(rng, 1e-60, 1e-9),
        )
    )


def _sigma(rng: random.Random) -> float:
    return rng.choice((_log(rng, 0.3, 5.0), _log(rng, 0.3, 5.0), _log(rng, 0.02, 100.0), _log(rng, 1e-4, 1e6)))


def _gaussian(sigma: float) -> Node:
    return {"kind": "gaussian", "noise_multiplier": sigma}


def _poisson(rate: float, of: Node, **more: Node) -> Node:
    return {"kind": "subsample", "scheme": "poisson", "rate": rate, "of": of, **more}


def _repeat(count: int, of: Node) -> Node:
    return {"kind": "repeat", "count": count, "of": of}


def _compose(*parts: Node) -> Node:
    return {"kind": "compose", "parts": list(parts)}


# --- exact: closed forms of one use in balls; ε may be negative


def _phi(x: Any) -> Any:
    """P(Z > x)."""
    return (x * arb(0.5).sqrt()).erfc() / 2


def _certain(growth: Any) -> Any:
    return (1 - growth).max(arb(0))


class Use(NamedTuple):
    """δ of one use at e^ε = growth, removal or addition, and the ε's at which that has kinks."""

    delta: Callable[[Any], Any]
    kinks: tuple[float, ...]


def _sampled_gaussian(rate: float, sigma: float, *, removed: bool) -> Use:
    q, s = arb(rate), arb(sigma)
    mean = 1 / s

    def delta(growth: Any) -> Any:
        inner = 1 + (growth - 1) / q if removed else 1 + (1 / growth - 1) / q
        if not inner > 0:  # the loss is always beyond it (removed), or always below it
            return 1 - growth if removed else arb(0)
        x = s * inner.log() + mean / 2
        if removed:
            return (1 - q) * _phi(x) + q * _phi(x - mean) - growth * _phi(x)
        return _phi(-x) - growth * ((1 - q) * _phi(-x) + q * _phi(mean - x))

    edge = math.log1p(-rate) if rate < 1.0 else -math.inf
    return Use(delta, (edge if removed else -edge,))


def _plain_gaussian(sigma: float) -> Use:
    mu = 1 / arb(sigma)

    def delta(growth: Any) -> Any:
        at = growth.log() / mu
        return _phi(at - mu / 2) - growth * _phi(at + mu / 2)

    return Use(delta, ())


def _laplace(scale: float) -> Use:
    most = 1 / arb(scale)

    def delta(growth: Any) -> Any:
        epsilon = growth.log()
        if epsilon >= most:
            return arb(0)
        if epsilon <= -most:
            return 1 - growth
        return 1 - ((epsilon - most) / 2).exp()

    return Use(delta, (1.0 / scale, -1.0 / scale))


def _response(epsilon: float, failure: float = 0.0) -> Use:
    e = arb(epsilon).exp()
    kept = 1 - arb(failure)

    def delta(growth: Any) -> Any:
        more, less = (e - growth).max(arb(0)) / (1 + e), (1 - growth * e).max(arb(0)) / (1 + e)
        return arb(failure) + kept * (more + less)

    return Use(delta, (epsilon, -epsilon))


def _exponential(spread: float) -> Use:
    """The largest over t of p(1 − αe^{−t})₊ + (1−p)(1 − αe^{η−t})₊: at t = (η+ε)/2."""
    eta = arb(spread)

    def delta(growth: Any) -> Any:
        epsilon = growth.log()
        if epsilon >= eta:
            return arb(0)
        if epsilon <= -eta:
            return 1 - growth
        t = (eta + epsilon) / 2
        p = (1 - (t - eta).exp()) / (1 - (-eta).exp())
        return p * (1 - growth * (-t).exp())

    return Use(delta, (spread, -spread))


@lru_cache(maxsize=4)
def _nodes(order: int) -> list[tuple[Any, Any]]:
    return [arb.legendre_p_root(order, k, weight=True) for k in range(order)]


def _outer(rate: float, sigma: float, inner: Use, delta: float, epsilon: float, *, removed: bool) -> Any:
    """E over the noise of one sampled Gaussian, of ``inner`` at what is left of ε."""
    q, s = arb(rate), arb(sigma)
    mu, growth = 1.0 / sigma, arb(epsilon).exp()
    far = math.sqrt(2.0 * (150.0 - math.log(delta)))
    middle = 0.5 * mu + (math.log1p(-rate) - math.log(rate)) * sigma if rate < 1.0 else -math.inf
    ends = set()
    for kink in inner.kinks:  # the x where ε − l(x) is there
        left = (epsilon - kink) if removed else (kink - epsilon)
        inside = 1.0 + math.expm1(min(left, 700.0)) / rate
        if inside > 0.0:
            x = sigma * math.log(inside) + 0.5 * mu
            # Beside a rare sample the bend is as narrow as its rate: both orders would miss it.
            ends |= {x, *(x + side * 8.0**-k for k in range(1, 11) for side in (-1.0, 1.0))}
    ends |= {-far, far + mu, 0.0, mu, middle}
    points = sorted(x for x in ends if -far <= x <= far + mu)
    cuts = []
    for low, high in pairwise(points):
        x = low
        while x < high:
            near = abs(x - middle) * mu < 120.0 or rate > 0.5
            x = min(high, x + (min(1.0, 0.7 * sigma) if near else min(1.0, max(0.7 * sigma, abs(x - middle) / 4.0))))
            cuts.append(x)
    root = (2 * arb.pi()).sqrt()

    def panel(low: Any, high: Any) -> tuple[Any, Any, Any, float]:
        """It, its value, and by how much two orders disagree."""
        half, centre, found = (high - low) / 2, (high + low) / 2, []
        for nodes in ORDERS:
            total = arb(0)
            for point, weight in _nodes(nodes):
                x = centre + half * point
                ratio = 1 - q + q * (x / s - 1 / (2 * s * s)).exp()
                value = weight * (-x * x / 2).exp()
                total += value * (ratio * inner.delta(growth / ratio) if removed else inner.delta(growth * ratio))
            found.append(total * half / root)
        return low, high, found[1], float(abs(found[1] - found[0]).upper())

    panels = [panel(arb(low), arb(high)) for low, high in pairwise([points[0], *cuts])]
    while len(panels) < MOST_PANELS:
        total = sum((one[2] for one in panels), arb(0))
        most = float(total.upper()) * 1e-14 / len(panels)
        if all(one[3] <= most for one in panels):
            return total
        halves = []
        for low, high, value, apart in panels:
            middle = (low + high) / 2
            fine = apart <= most
            halves += [(low, high, value, apart)] if fine else [panel(low, middle), panel(middle, high)]
        panels = halves
    return None


def _two(rate: float, sigma: float, ways: Sequence[tuple[bool, Use]], delta: float, epsilon: float) -> Truth:
    with ctx.workprec(BITS):
        found = [_outer(rate, sigma, inner, delta, epsilon, removed=way) for way, inner in ways]
        if None in found:
            return Truth(0.0, math.inf)
        return Truth(max(float(one.lower()) for one in found), max(float(one.upper()) for one in found))


def two_samples(rates: tuple[float, float], sigmas: tuple[float, float], delta: float) -> Callable[[float], Truth]:
    """δ of two sampled Gaussians; ``delta`` is about how small it is."""
    with ctx.workprec(BITS):
        ways = [(way, _sampled_gaussian(rates[1], sigmas[1], removed=way)) for way in (True, False)]
    return partial(_two, rates[0], sigmas[0], ways, delta)


def _one(uses: Sequence[Use], epsilon: float) -> Truth:
    bits = BITS
    while True:  # more digits where terms cancel
        with ctx.workprec(bits):
            growth = arb(epsilon).exp()
            found = [use.delta(growth) for use in uses]
            if all(one.rel_accuracy_bits() > 60 or one == 0 for one in found) or bits > 8192:
                return Truth(max(float(one.lower()) for one in found), max(float(one.upper()) for one in found))
        bits *= 2


def _exact(rng: random.Random, others: Sequence[str]) -> Case:
    rate, sigma, delta = _rate(rng), _sigma(rng), _delta(rng)
    relation = rng.choice(("add-remove", "zero-out"))
    first = _poisson(rate, _gaussian(sigma))
    ways = (True, False)
    beside = rng.choice(others)
    if beside == "nothing" or not 0.05 <= sigma <= 1e3 or not 1e-30 <= rate < 1.0:
        with ctx.workprec(8192):
            alone = [_sampled_gaussian(rate, sigma, removed=way) for way in ways]
        return Case(first, relation, delta, partial(_one, alone))
    if beside == "same":
        return Case(_repeat(2, first), relation, delta, two_samples((rate, rate), (sigma, sigma), delta))
    if beside == "other":
        rates, sigmas = (rate, min(_rate(rng), 1.0 - 1e-9)), (sigma, _log(rng, 0.05, 300.0))
        second = _poisson(rates[1], _gaussian(sigmas[1]))
        return Case(_compose(first, second), relation, delta, two_samples(rates, sigmas, delta))
    with ctx.workprec(BITS):
        if beside == "gaussian":
            size = _log(rng, 0.1, 1e3)
            inner, second = [_plain_gaussian(size)] * 2, _gaussian(size)
        elif beside == "laplace":
            size = _log(rng, 0.05, 1e3)
            inner, second = [_laplace(size)] * 2, {"kind": "laplace", "noise_multiplier": size}
        elif beside == "exponential":
            size = _log(rng, 1e-4, 20.0)
            inner, second = [_exponential(size)] * 2, {"kind": "exponential", "range": size}
        else:
            size, failure = _log(rng, 1e-4, 20.0), 0.0
            second = {"kind": "pure", "epsilon": size}
            if beside == "approximate":
                failure = _log(rng, delta * 1e-6, min(0.4, 2.0 * delta))
                second = {"kind": "approximate", "epsilon": size, "delta": failure}
            inner = [_response(size, failure)] * 2
    plan = _compose(first, second)
    return Case(plan, relation, delta, partial(_two, rate, sigma, list(zip(ways, inner, strict=True)), delta))


# --- diluted: exact for every number of uses


def _binomial(count: int, rate: float, least: float) -> list[tuple[int, Any]]:
    """k and P[k of ``count``], all but about ``least``."""
    found = []
    q = arb(rate)
    mass = (count * (1 - q).log()).exp() if rate < 1.0 else arb(0)
    if rate >= 1.0:
        return [(count, arb(1))]
    k, mean = 0, count * rate
    while k <= count:
        found.append((k, mass))
        if k > mean and mass < least:
            break
        mass = mass * (count - k) * q / ((k + 1) * (1 - q))
        k += 1
    return found


def _diluted_delta(count: int, rate: float, sigma: float, delta: float, epsilon: float) -> Truth:
    bits = BITS
    while True:
        with ctx.workprec(bits):
            growth, total = arb(epsilon).exp(), arb(0)
            for k, mass in _binomial(count, rate, delta * 1e-25):
                if k:
                    mu = arb(k).sqrt() / arb(sigma)
                    at = arb(epsilon) / mu
                    total += mass * (_phi(at - mu / 2) - growth * _phi(at + mu / 2))
            if total.rel_accuracy_bits() > 60 or bits > 8192:
                return Truth(float(total.lower()), float(total.upper()) * (1.0 + 1e-20))
        bits *= 2


def _diluted(rng: random.Random) -> Case:
    rate, sigma, delta = _rate(rng), _sigma(rng), _delta(rng)
    count = int(_log(rng, 1, max(1.0, min(1e7, 300.0 / rate))))
    return Case(
        _repeat(count, _poisson(rate, _gaussian(sigma))),
        "substitution",
        delta,
        partial(_diluted_delta, count, rate, sigma, delta),
    )


# --- binomial: one choice of an exponential mechanism, made always; a lower side of the truth


def _choices(count: int, spread: float, rate: float, epsilon: float) -> Truth:
    best = 0.0
    slack = 1e-15 * (10.0 + math.lgamma(count + 1.0)) * 20.0
    for share in (0.03, 0.2, 0.35, 0.45, 0.5, 0.55, 0.65, 0.8, 0.97):
        t = share * spread
        q_near = -math.expm1(t - spread) / (math.exp(t) - math.exp(t - spread))
        near, far = 1.0 + rate * math.expm1(t), 1.0 + rate * math.expm1(t - spread)
        if min(q_near, 1.0 - q_near, far) <= 1e-300:
            continue
        # What is left out of a sum of positive terms only lowers it.
        ends = [count * share for share in (q_near, q_near * near)]
        reach = 50.0 * math.sqrt(max(ends)) + 50.0
        k = np.arange(max(0, int(min(ends) - reach)), min(count, int(max(ends) + reach)) + 1, dtype=np.float64)
        log_q = gammaln(count + 1.0) - gammaln(k + 1.0) - gammaln(count - k + 1.0)
        log_q += k * math.log(q_near) + (count - k) * math.log1p(-q_near)
        loss = k * math.log(near) + (count - k) * math.log(far)  # k near ones
        for way in (1.0, -1.0):
            log_p = log_q + loss if way > 0.0 else log_q
            gap = epsilon - way * loss
            value = float(
                np.sum(np.where(gap < 0.0, np.exp(np.minimum(log_p, 0.0)) * -np.expm1(np.minimum(gap, 0.0)), 0.0))
            )
            best = max(best, value)
    return Truth(best * (1.0 - slack), math.inf)


def _exponentials(rng: random.Random) -> Case:
    spread = rng.choice((_log(rng, 1e-3, 2.0), _log(rng, 1e-2, 1.0), _log(rng, 1.0, 12.0)))
    rate = rng.choice((1.0, 1.0, _log(rng, 1e-6, 1.0), _log(rng, 0.01, 0.5)))
    count = int(_log(rng, 1, rng.choice((30, 3000, 1e6, min(1e8, 1e4 / (rate * spread) ** 2)))))
    node: Node = {"kind": "exponential", "range": spread}
    node = _poisson(rate, node) if rate < 1.0 else node
    delta = rng.choice((_log(rng, 1e-12, 0.3), _log(rng, 1e-30, 1e-8)))
    return Case(
        _repeat(count, node), rng.choice(("add-remove", "zero-out")), delta, partial(_choices, count, spread, rate)
    )


# --- contour: many samples


def _longdouble_delta(kinds: Sequence[tuple[float, float, int]], epsilon: float, *, removed: bool) -> float | None:
    """δ by the integral of M(s) e^{−sε}/(s(s+1)), to about 1e-9; None where halving the step or the end disagrees."""
    real = np.longdouble
    points, weights = (np.asarray(part, dtype=real) for part in np.polynomial.legendre.leggauss(40))
    laws = []
    for rate, sigma, count in kinds:
        width = real(min(0.4, 0.4 * sigma))
        low, high = real(-11.0), real(11.0) + 1 / real(sigma)
        cells = math.ceil(float((high - low) / (2 * width)))
        if cells > 400:
            return None
        centres = low + width * (2 * np.arange(cells, dtype=real) + 1)
        x = (centres[:, None] + width * points).ravel()
        z = np.log1p(-real(rate)), np.log(real(rate)) + x / real(sigma) - real(0.5) / real(sigma) ** 2
        loss = np.logaddexp(*z)
        base = np.tile(weights * width, cells) * np.exp(-x * x / 2) / np.sqrt(2 * real(math.pi))
        laws.append((base * np.exp(loss) if removed else base, loss if removed else -loss, count))
    tilts = np.geomspace(0.01, 3e3, 80).astype(real)

    def logs(s: Any) -> Any:
        total = np.zeros(s.shape, dtype=s.dtype)
        for base, loss, count in laws:
            for begin in range(0, len(s), 200):
                part = s[begin : begin + 200]
                total[begin : begin + 200] += count * np.log1p((np.expm1(np.outer(part, loss)) * base).sum(axis=1))
        return total

    with np.errstate(over="ignore", invalid="ignore"):
        moments = logs(tilts)
        height = moments - tilts * epsilon - np.log(tilts * (tilts + 1))
    if not np.isfinite(height).any():
        return None
    tilt = tilts[int(np.nanargmin(np.where(np.isfinite(height), height, np.inf)))]
    step = real(0.06) * (min(real(1.0), tilt) if tilt < 1.0 else np.sqrt(tilt))
    t = step * np.arange(3000, dtype=real)
    s = tilt + 1j * t
    values = (np.exp(logs(s) - s * real(epsilon)) / (s * (s + 1))).real * step / real(math.pi)
    values[0] *= real(0.5)
    found, coarse, short = (float(one) for one in (values.sum(), 2.0 * values[::2].sum(), values[:2000].sum()))
    return found if found > 0.0 and max(abs(coarse / found - 1.0), abs(short / found - 1.0)) < 1e-8 else None


def _contour_delta(kinds: Sequence[tuple[float, float, int]], epsilon: float) -> Truth:
    found = [_longdouble_delta(kinds, epsilon, removed=way) for way in (True, False)]
    known = [one for one in found if one is not None]
    if not known:
        return Truth(0.0, math.inf)
    most = max(known)
    return Truth(most * (1.0 - 1e-7), most * (1.0 + 1e-7) if len(known) == 2 else math.inf)


def _contour(rng: random.Random) -> Case:
    kinds = []
    for _ in range(rng.choice((1, 1, 2))):
        rate, sigma = _log(rng, 1e-4, 0.6), _log(rng, 0.4, 8.0)
        kinds.append((rate, sigma, max(1, int(_log(rng, 5.0, 300.0) / rate))))
    parts = [_repeat(count, _poisson(rate, _gaussian(sigma))) for rate, sigma, count in kinds]
    return Case(
        parts[0] if len(parts) == 1 else _compose(*parts),
        rng.choice(("add-remove", "zero-out")),
        _log(rng, 1e-30, 0.1),
        partial(_contour_delta, kinds),
    )


# --- peer


def _peer_delta(count: int, rate: float, sigma: float, epsilon: float) -> Truth:
    from dp_accounting.pld import privacy_loss_distribution as peer

    sides = []
    for pessimistic in (False, True):
        law = peer.from_gaussian_mechanism(
            sigma,
            sampling_prob=rate,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-3,
            use_connect_dots=pessimistic,
        ).self_compose(count)
        sides.append(float(law.get_delta_for_epsilon(epsilon)))
    # Its FFT leaves noise of about 1e-13, and truncates 1e-15 of mass.
    return Truth(max(0.0, sides[0] - 1e-10), sides[1] + 1e-10)


def _peer(rng: random.Random) -> Case:
    rate, sigma = _log(rng, 1e-6, 0.3), _log(rng, 0.3, 4.0)
    count = int(_log(rng, 1, max(2.0, min(1e6, 10.0 / rate))))
    return Case(
        _repeat(count, _poisson(rate, _gaussian(sigma))),
        "add-remove",
        _log(rng, 1e-8, 0.1),
        partial(_peer_delta, count, rate, sigma),
    )


# --- engines


def _leaf(rng: random.Random) -> Node:
    return rng.choice(
        (
            lambda: _gaussian(_sigma(rng)),
            lambda: _gaussian(_log(rng, 0.2, 20.0)),
            lambda: {"kind": "laplace", "noise_multiplier": _log(rng, 0.01, 1e4)},
            lambda: {"kind": "pure", "epsilon": _log(rng, 1e-6, 40.0)},
            lambda: {"kind": "exponential", "range": _log(rng, 1e-3, 20.0)},
            lambda: {"kind": "approximate", "epsilon": _log(rng, 1e-6, 20.0), "delta": _log(rng, 1e-250, 0.3)},
            lambda: {"kind": "zcdp", "rho": _log(rng, 1e-12, 50.0)},
        )
    )()


def _worse(rng: random.Random, node: Node) -> Node:
    """The same tree with other parameters."""
    if "of" in node:
        return {**node, "of": _worse(rng, node["of"])}
    if "parts" in node:
        return {**node, "parts": [_worse(rng, part) for part in node["parts"]]}
    factor = rng.choice((0.1, 0.5, 0.5, 0.7, 1.0, 1.3, 2.0))
    return {
        key: value * factor if isinstance(value, float) and key != "delta" else value for key, value in node.items()
    }


def _part(rng: random.Random, relation: str) -> Node:
    """A leaf or some on a sample, some times."""
    inner = _leaf(rng)
    if rng.random() < 0.15:
        inner = _compose(inner, _leaf(rng))
    node = inner
    if rng.random() < 0.7:
        if rng.random() < 0.7:
            absent = {"absent": _worse(rng, inner)} if relation == "substitution" and rng.random() < 0.6 else {}
            node = _poisson(_rate(rng), inner, **absent)
        else:
            population = int(_log(rng, 2, 1e7))
            sample = rng.choice((1, max(1, population - 1), population, int(_log(rng, 1, population))))
            node = {
                "kind": "subsample",
                "scheme": "without-replacement",
                "population": population,
                "sample": sample,
                "of": inner,
            }
    return node if rng.random() < 0.4 else _repeat(int(_log(rng, 1, rng.choice((5, 100, 1e5)))), node)


def _engines(rng: random.Random) -> Case:
    relation = rng.choice(("add-remove", "zero-out", "substitution"))
    parts = [_part(rng, relation) for _ in range(rng.choice((1, 1, 2, 2, 3)))]
    plan = parts[0]
    if len(parts) > 1:
        plan = _compose(*parts)
        if rng.random() < 0.3:
            plan = {"kind": "parallel", "parts": parts}
            if relation == "substitution" and rng.random() < 0.5:
                plan["moves"] = [_worse(rng, part) for part in parts]
    return Case(plan, relation, _delta(rng), None)


def _costlier(rng: random.Random) -> Case:
    pair = pair_of(rng, lambda rng: random_plan(rng, rng.choice((1, 2, 3))), rng.choice(RELATIONS))
    return Case(*pair.more, _log(rng, 1e-12, 1e-2), None, pair)


FAMILIES: dict[str, Callable[[random.Random], Case]] = {
    "samples": partial(_exact, others=("nothing", "same", "same", "other", "other", "other")),
    "beside": partial(_exact, others=("gaussian", "laplace", "pure", "approximate", "exponential")),
    "diluted": _diluted,
    "binomial": _exponentials,
    "contour": _contour,
    "peer": _peer,
    "engines": _engines,
    "costlier": _costlier,
}
CHOSEN = os.environ.get(
    "FAMILIES", "samples samples samples beside diluted binomial contour peer engines engines costlier"
).split()


# --- asking


def _sides(found: Any, asked: str) -> tuple[float, float]:
    return (found.epsilon_lower, found.epsilon_upper) if asked == "delta" else (found.delta_lower, found.delta_upper)


def _out_of_order(pair: Pair, delta: float) -> list[str]:
    """Where the cheaper plan is said to cost more than the other one, or either more than what costs the same."""
    told: list[dict[str, tuple[float, float]]] = []
    for plan, relation in (pair.less, pair.more):
        sides = {}
        for name, engine in (("issued", bound), ("verified", recompute)):
            with suppress(NotSupported):
                sides[name] = _sides(engine(plan, relation=relation, delta=delta), "delta")
        told.append(sides)
    ways = [(told[0], told[1], "costs no more")] + [(told[1], told[0], "costs the same")] * pair.same
    return [
        f"{name} ε >= {low!r} of what {word}; {other} ε <= {high!r}"
        for one, two, word in ways
        for name, (low, _) in one.items()
        for other, (_, high) in two.items()
        if low > high * (1.0 + 1e-9)
    ]


def faults_of(case: Case) -> tuple[list[str], dict[str, float]]:
    """Contradictions, and relative widths of ε."""
    faults, widths = [], {}
    engines = {"issued": bound, "verified": recompute}
    found: dict[str, tuple[float, float]] = {}
    for name, engine in engines.items():
        try:
            low, high = found[name] = _sides(engine(case.plan, relation=case.relation, delta=case.delta), "delta")
        except NotSupported:
            continue
        widths[name] = (high - low) / high if 0.0 < high < math.inf else 0.0
    told = dict(found)
    middle = min((high for _, high in found.values()), default=math.inf)
    at: dict[str, tuple[float, float]] = {}
    if 0.0 < middle < 1e6:
        for name, engine in engines.items():
            if name in found:
                at[name] = _sides(engine(case.plan, relation=case.relation, epsilon=middle), "epsilon")
    for name, (low, high) in told.items():
        for other, (_, most) in told.items():
            if low > most * (1.0 + 1e-12):
                faults.append(f"{name} ε >= {low!r}, {other} ε <= {most!r}")
        if not low <= high:
            faults.append(f"{name} ε sides crossed: {low!r}, {high!r}")
        if case.truth is None:
            continue
        if high < 1e9 and (known := case.truth(high)).lower > case.delta * (1.0 + AGREES):
            faults.append(f"{name} ε <= {high!r}, where δ is {known.lower!r}")
        if 0.0 < low < 1e9 and (known := case.truth(low)).upper < case.delta * (1.0 - AGREES):
            faults.append(f"{name} ε >= {low!r}, where δ is {known.upper!r}")
    for name, (low, high) in at.items():
        for other, (_, most) in at.items():
            if low > most * (1.0 + 1e-11):
                faults.append(f"at ε = {middle!r}: {name} δ >= {low!r}, {other} δ <= {most!r}")
        if case.truth is not None:
            known = case.truth(middle)
            if high < known.lower * (1.0 - AGREES) or low > known.upper * (1.0 + AGREES):
                faults.append(
                    f"at ε = {middle!r}: {name} δ in [{low!r}, {high!r}], is [{known.lower!r}, {known.upper!r}]"
                )
    return faults, widths


def case_of(seed: int, number: int, families: Sequence[str] = CHOSEN) -> tuple[str, Case]:
    """A case, of the families in turn."""
    rng = random.Random(seed * 1_000_003 + number)  # noqa: S311 (plans, not noise)
    name = families[number % len(families)]
    return name, FAMILIES[name](rng)


def _apart(number: int) -> dict[str, Any]:
    """One case in a fork of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 1))
        name, case = case_of(SEED, number)
        told: dict[str, Any] = {"family": name, "faults": [], "widths": {}}
        try:
            told["faults"], told["widths"] = faults_of(case)
            told["faults"] += _out_of_order(case.pair, case.delta) if case.pair else []
        except DisagreementError as error:
            told["faults"] = [str(error)]
        except AffidavitError as error:
            told["refused"] = type(error).__name__
        except BaseException as error:  # a fault of the product: told by its kind, never swallowed
            told["faults"] = [f"{type(error).__name__}: {error}"[:200]]
        told["question"] = {"plan": case.plan, "relation": case.relation, "delta": case.delta}
        told["question"] |= {"less": case.pair.less} if case.pair else {}
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    os.wait4(child, 0)
    return dict(json.loads(text)) if text else {"family": CHOSEN[number % len(CHOSEN)], "late": True, "number": number}


def main() -> None:
    """Counts and widths by family, then the contradictions."""
    end = time.monotonic() + SECONDS

    def in_time(number: int) -> dict[str, Any] | None:
        return _apart(number) if time.monotonic() < end else None

    with ThreadPoolExecutor(WORKERS) as pool:
        found = [one for one in pool.map(in_time, range(COUNT)) if one is not None]
    by_family: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in found:
        by_family[one["family"]].append(one)
    print(f"{len(found)} cases, {sum(bool(one.get('faults')) for one in found)} with a contradiction")
    for name, ones in sorted(by_family.items()):
        late, refused = sum("late" in one for one in ones), sum("refused" in one for one in ones)
        bad = sum(bool(one.get("faults")) for one in ones)
        line = f"{name:9} {len(ones):5} cases, {bad} contradicted, {refused} refused, {late} not done;"
        for engine in ("issued", "verified"):
            widths = sorted(one["widths"][engine] for one in ones if engine in one.get("widths", {}))
            if widths:
                line += (
                    f"  {engine} width 50 % {widths[len(widths) // 2]:.1e}, 90 % {widths[int(0.9 * len(widths))]:.1e}"
                )
        print(line)
    for one in found:
        if one.get("faults"):
            print(json.dumps({"faults": one["faults"], **one["question"]}, ensure_ascii=False))


if __name__ == "__main__":
    main()
