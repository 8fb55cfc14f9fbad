"""A permit whose noise is digested as it is drawn, so that a private trace can show that every draw was fresh.

    witness = Witness(permit)
    chosen = joint_exponential.release(witness, path, counts, spec=spec)
    witness.sha256          of all the randomness behind ``chosen``

One witness a draw. It changes nothing: uses are charged to the permit, bits come from its noise.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.plan import Leaf
from affidavit.mechanisms.base import Noise, Permit

__all__ = ["Witness", "WitnessedNoise"]


class WitnessedNoise:
    """A noise source and the digest of what it has handed out."""

    def __init__(self, noise: Noise) -> None:
        self._noise = noise
        self._digest = hashlib.sha256()

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]:
        """As the source's own."""
        drawn = self._noise.integers(low, high, size=size)
        self._digest.update(drawn.tobytes())
        return drawn

    def standard_normal(self, size: int) -> NDArray[np.float64]:
        """As the source's own."""
        drawn = self._noise.standard_normal(size)
        self._digest.update(drawn.tobytes())
        return drawn

    @property
    def sha256(self) -> str:
        """Digest of everything drawn so far, as hex."""
        return self._digest.hexdigest()


class Witness:
    """A permit with witnessed noise."""

    def __init__(self, permit: Permit) -> None:
        self._permit = permit
        self._noise = WitnessedNoise(permit.noise)

    @property
    def noise(self) -> WitnessedNoise:
        """The permit's noise, digested."""
        return self._noise

    @property
    def sha256(self) -> str:
        """Digest of everything drawn through this witness."""
        return self._noise.sha256

    def use(self, path: str) -> Leaf:
        """Charged to the permit."""
        return self._permit.use(path)
