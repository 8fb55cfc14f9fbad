"""Which records a step sees: the two samplers of docs/theory/sampling.md, exact to the last bit.

A sample is a function of the noise and of public numbers alone (how many records, at what rate): never of
what a record holds. So it may be drawn before anything is read, and replacing a record leaves it as it was.

- ``poisson``: every record is in independently, with probability ``rate``. The rate of a plan is a float64,
  a dyadic rational; the sampler compares it with as many uniform bits as it takes, so the probability is
  that rational and not one near it.
- ``without_replacement``: a uniform sample of a fixed size, in uniformly random order (so that cutting it
  into subsets needs no second draw).

Both draw from a permit's noise: secret bits, because a sample that is known amplifies nothing. Every use of
a ``subsample`` node draws afresh; a sample kept for several steps is one use (compose first, amplify once).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import UsageError
from affidavit.mechanisms.base import Noise, Rational

__all__ = ["permutation", "poisson", "sample_event", "without_replacement"]

_BITS = 62


def poisson(count: int, *, rate: Rational, noise: Noise) -> list[int]:
    """The members of a Poisson sample of 0, …, ``count`` − 1, ascending.

    ``rate``: a number in [0, 1], taken exactly. A member's first 62 uniform bits nearly always tell whether
    it is in; where they equal the rate's, the next 62 decide, and so on. Raises ``UsageError``.
    """
    _whole(count, "count")
    if isinstance(rate, bool) or not 0 <= rate <= 1:
        raise UsageError("a sampling rate is not in [0, 1]", hint="For example `rate = 0.1`.")
    return np.flatnonzero(_bernoulli(count, Fraction(rate), noise)).tolist()


def without_replacement(count: int, *, sample: int, noise: Noise) -> list[int]:
    """A uniform sample of ``sample`` of 0, …, ``count`` − 1, in uniformly random order.

    Fisher and Yates's shuffle, stopped after ``sample`` places; each place by one exactly uniform integer.
    Raises ``UsageError`` where the sample is larger than the population.
    """
    _whole(count, "count")
    _whole(sample, "sample")
    if sample > count:
        raise UsageError(
            f"a sample of {sample} from {count} records without replacement",
            hint=f"At most `sample = {count}`.",
        )
    moved: dict[int, int] = {}
    chosen: list[int] = []
    for place in range(sample):
        other = int(noise.integers(place, count, size=1)[0])
        chosen.append(moved.get(other, other))
        moved[other] = moved.get(place, place)
    return chosen


def permutation(count: int, *, noise: Noise) -> list[int]:
    """0, …, ``count`` − 1 in uniformly random order."""
    return without_replacement(count, sample=count, noise=noise)


def sample_event(path: str, *, use: int, members: Iterable[str], population: int | None = None) -> dict[str, Any]:
    """The private trace's line for a fresh sample: ``path`` is the subsample node's, members are keyed digests.

    ``population``: how many there were to sample from; the trace check then tests the rate.
    """
    line: dict[str, Any] = {"event": "sample", "path": path, "use": use, "members": sorted(members)}
    return line if population is None else {**line, "population": population}


def _bernoulli(count: int, rate: Fraction, noise: Noise) -> NDArray[np.bool_]:
    """``count`` independent coins, each 1 with probability exactly ``rate``."""
    if rate in {0, 1} or count == 0:
        return np.full(count, rate == 1)
    scaled = rate * (1 << _BITS)
    threshold = scaled.numerator // scaled.denominator
    words = noise.integers(0, 1 << _BITS, size=count)
    coins: NDArray[np.bool_] = words < threshold
    tied = np.flatnonzero(words == threshold)
    if tied.size:
        coins[tied] = _bernoulli(int(tied.size), scaled - threshold, noise)
    return coins


def _whole(value: int, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise UsageError(f"{name} is not a whole number >= 0", hint=f"For example `{name} = 1`.")
