r"""Fresh noise (fault 2), of the certified size (faults 9 and 12), from a source nobody can predict (fault 13).

*Fresh*: no two draws show the same randomness: equal digests, or equal noise, of at least 64 bits each.

*Size*: of a ``gaussian`` leaf with noise multiplier σ, k coordinates x of noise (in units of the sensitivity; equal
vectors, which are a fault of their own, once) give Σ x²/σ² ~ χ²(k); of a ``laplace`` leaf with scale b, 2 Σ |x|/b ~
χ²(2k). Both exactly, so too little noise is found at the stated alpha. (A standard deviation taken for a variance is
off by a square root.) Too much noise is found too: what is certified is not what ran.

*Source*: as the run line states it, or as ``mersenne`` recognises it.
"""

from __future__ import annotations

from collections.abc import Iterable

from affidavit.accountant.plan import Gaussian, Laplace, Leaf, Plan, leaves
from affidavit.audits.checks import Check, Status
from affidavit.audits.trace.events import Draw, Trace
from affidavit.audits.trace.mersenne import MERSENNE_WORDS, SEEDS, Family, StandardNoise, find_seed, is_mersenne_twister

__all__ = ["PREDICTABLE", "fresh_noise", "noise_scale", "noise_scale_tests", "noise_source"]

PREDICTABLE = (
    "mt19937",
    "mersenne",
    "pcg",
    "philox",
    "xoshiro",
    "xorshift",
    "sfc64",
    "threefry",
    "linear congruential",
    "seeded",
)
"""Parts of the names of generators that are not made to resist prediction."""

_DETECTABLE = 2.0


def fresh_noise(trace: Trace, plan: Plan) -> Check:
    """No randomness is used for two draws, where the plan has two."""
    first: dict[object, Draw] = {}
    for draw in trace.draws:
        for mark in _marks(draw):
            earlier = first.setdefault(mark, draw)
            if earlier is not draw:
                detail = f"use {draw.use} shows the randomness of use {earlier.use} at {earlier.path}"
                return Check(
                    name="fresh noise", number=2, status="fault", path=draw.path, seen=len(first), detail=detail
                )
    if not first:
        return Check(name="fresh noise", number=2, status="not checked", detail="no draw shows its noise or a digest")
    if sum(uses for _, _, uses in leaves(plan)) == 1:
        return Check(name="fresh noise", number=2, status="not checked", detail="the plan draws once")
    status: Status = "consistent" if len(first) > 1 else "underpowered"
    detail = f"{len(first)} different digests or vectors"
    return Check(name="fresh noise", number=2, status=status, seen=len(first), detail=detail)


def _marks(draw: Draw) -> Iterable[object]:
    if draw.noise_sha256:
        yield draw.noise_sha256
    if draw.noise and len(draw.noise) >= 2:
        yield draw.noise
    if draw.noise_words and len(draw.noise_words) >= 2:
        yield draw.noise_words


def noise_scale_tests(plan: Plan) -> int:
    """How many one-sided tests ``noise_scale`` makes at most."""
    return 2 * sum(isinstance(leaf, (Gaussian, Laplace)) for _, leaf, _ in leaves(plan))


def noise_scale(trace: Trace, plan: Plan, *, alpha: float) -> tuple[Check, ...]:
    """One check for each mechanism with additive noise; ``alpha`` is one one-sided test's share."""
    checks = []
    for path, leaf, _ in leaves(plan):
        if isinstance(leaf, (Gaussian, Laplace)):
            vectors = dict.fromkeys(draw.noise for draw in trace.draws if draw.path == path and draw.noise)
            values = [value for vector in vectors for value in vector]
            if any(draw.path == path for draw in trace.draws):
                checks.append(_scale(path, leaf, values, alpha))
    return tuple(checks)


def _scale(path: str, leaf: Gaussian | Laplace, values: list[float], alpha: float) -> Check:
    from scipy.stats import chi2

    if not values:
        return Check(name="noise scale", number=12, status="not checked", path=path, detail="no draw shows its noise")
    scale = leaf.noise_multiplier
    if scale == 0.0:
        return Check(name="noise scale", number=12, status="not checked", path=path, detail="no noise is certified")
    if isinstance(leaf, Gaussian):
        statistic, degrees = sum((value / scale) ** 2 for value in values), len(values)
    else:
        statistic, degrees = 2.0 * sum(abs(value) / scale for value in values), 2 * len(values)
    p_value = min(float(chi2.cdf(statistic, degrees)), float(chi2.sf(statistic, degrees)))
    power = float(chi2.cdf(chi2.ppf(alpha, degrees) * _DETECTABLE ** (2 if isinstance(leaf, Gaussian) else 1), degrees))
    quiet: Status = "consistent" if power >= 0.5 else "underpowered"
    found = scale * (statistic / degrees) ** (0.5 if isinstance(leaf, Gaussian) else 1.0)
    return Check(
        name="noise scale",
        number=12,
        status="fault" if p_value <= alpha else quiet,
        path=path,
        seen=len(values),
        p_value=p_value,
        alpha=alpha,
        detail=f"{len(values)} coordinates of noise have scale {found:.4g}, certified is {scale:.4g}",
    )


def noise_source(trace: Trace, plan: Plan) -> tuple[Check, ...]:
    """What the trace states about its source, and what can be recognised in it."""
    return (_stated(trace), _recognised(trace, {path: leaf for path, leaf, _ in leaves(plan)}))


def _stated(trace: Trace) -> Check:
    name = "noise source"
    sampler = trace.run.sampler if trace.run else None
    if sampler is None:
        return Check(name=name, number=13, status="not checked", detail="no run line names the sampler")
    if sampler.seed is not None:
        return Check(
            name=name, number=13, status="fault", seen=1, detail="the noise was seeded: whoever knows the seed knows it"
        )
    plain = sampler.algorithm.casefold()
    known = next((part for part in PREDICTABLE if part in plain), None)
    if known is not None:
        detail = f"a {known} generator can be predicted from its outputs"
        return Check(name=name, number=13, status="fault", seen=1, detail=detail)
    return Check(name=name, number=13, status="consistent", seen=1, detail="as stated by the run, without a seed")


def _recognised(trace: Trace, plan_leaves: dict[str, Leaf]) -> Check:
    name = "predictable noise"
    words = [word for draw in trace.draws for word in draw.noise_words or ()]
    mersenne = is_mersenne_twister(words)
    if mersenne:
        detail = f"{len(words)} words obey the recurrence of MT19937, so that all others can be computed from them"
        return Check(name=name, number=13, status="fault", seen=len(words), detail=detail)
    shown = [draw for draw in trace.draws if draw.noise]
    standard = [_standardised(draw, plan_leaves.get(draw.path)) for draw in shown]
    found = find_seed(standard)
    if found is not None:
        generator, seed, index = found
        draw = shown[index]
        detail = f"the noise of use {draw.use} is that of {generator} with seed {seed}"
        return Check(name=name, number=13, status="fault", path=draw.path, seen=len(shown), detail=detail)
    looked = []
    if mersenne is not None:
        looked.append(f"{len(words)} words are not a Mersenne Twister's")
    if any(len(values) >= 3 for _, values in standard):
        looked.append(f"none of {len(SEEDS)} seeds that people write gives the noise shown")
    if not looked:
        detail = f"that takes {MERSENNE_WORDS} words, or three numbers of noise"
        return Check(name=name, number=13, status="not checked", detail=detail)
    return Check(name=name, number=13, status="consistent", seen=len(words) + len(shown), detail="; ".join(looked))


def _standardised(draw: Draw, leaf: Leaf | None) -> StandardNoise:
    """The noise of a draw at scale 1, with the name of its distribution where the leaf tells."""
    scale = leaf.noise_multiplier if isinstance(leaf, (Gaussian, Laplace)) and leaf.noise_multiplier else 1.0
    family: Family = "normal" if isinstance(leaf, Gaussian) else "laplace" if isinstance(leaf, Laplace) else "other"
    return family, tuple(value / scale for value in draw.noise or ())
