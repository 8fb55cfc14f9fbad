"""What every mechanism offers, and the registry that the conformance tests walk over.

A mechanism is a file: a frozen spec that says what one use costs (``leaf``) and draws (``release``).
They stand side by side so that the cost and the draw cannot drift apart: ``release`` compares, in exact
rational arithmetic, what it is about to do with the leaf that was certified (``charge``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import PermitViolation, UsageError
from affidavit.accountant.plan import Leaf, Plan, leaves
from affidavit.accountant.remedies import CERTIFY

__all__ = [
    "Drawing",
    "Keeper",
    "Mechanism",
    "Noise",
    "Permit",
    "Rational",
    "Spec",
    "Statistic",
    "Watch",
    "assumptions",
    "charge",
    "draw",
    "freeze",
    "positive",
    "public",
    "register",
    "registered",
    "samplers",
    "told",
    "uniform_below",
    "watched",
]

Rational: TypeAlias = int | float | Fraction
Outcome = TypeVar("Outcome")
Values_contra = TypeVar("Values_contra", contravariant=True)
Released_co = TypeVar("Released_co", covariant=True)
Given = TypeVar("Given")
Asked = TypeVar("Asked", bound=Leaf)


class Noise(Protocol):
    """The part of a noise source that mechanisms draw from; named as in ``numpy.random.Generator``."""

    def integers(self, low: int, high: int, size: int) -> NDArray[np.int64]: ...

    def standard_normal(self, size: int) -> NDArray[np.float64]: ...


class Permit(Protocol):
    """What a mechanism needs of a live permit (``affidavit.accountant.release.permit``)."""

    @property
    def noise(self) -> Noise: ...

    def use(self, path: str) -> Leaf:
        """Charge one use of the leaf at ``path``; raises ``PermitViolation`` at the first too many."""
        ...


class Spec(Protocol[Values_contra, Released_co]):
    """A mechanism with all its parameters, each of them public or released before."""

    def leaf(self) -> Leaf:
        """What one use costs, rounded to the safe side."""
        ...

    def release(self, permit: Permit, path: str, values: Values_contra) -> Released_co:
        """One use over ``values``, charged to the leaf at ``path``. Generators ask for it by ``draw``."""
        ...


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A registered mechanism: ``kind`` is the plan leaf it is certified as.

    Several mechanisms may be certified as one kind (a projected mean is a ``gaussian``): they differ by ``name``.
    ``sampler``: how its randomness is drawn, in a few words for the receipt; the same for all of one kind.
    """

    kind: str
    spec: type[Any]
    sampler: str
    assumptions: tuple[str, ...]
    name: str = ""

    @property
    def called(self) -> str:
        """What it is registered as: its name, else its kind."""
        return self.name or self.kind


@dataclass(frozen=True, slots=True)
class Statistic:
    """What a release is about to hide: the values before their noise, and how large that noise is.

    ``moves``   how a change of the values is measured against the certified leaf: ``l1`` or ``l2`` norm; ``spread``,
                the largest less the smallest entry of the change, summed over the lists of values; ``two-spreads``,
                twice that, for counts of which two are compared; ``guarded``: a set and the gap that guards it,
                which moves, or, where the set is another one, of both sides together; ``not``: the values are public.
    ``scale``   of the noise, in the values' units: standard deviation, Laplace scale, temperature, 1/rate. Two, where
                a use draws two noises (threshold and query).
    """

    moves: Literal["l1", "l2", "spread", "two-spreads", "guarded", "not"]
    values: tuple[NDArray[Any], ...]
    scale: tuple[Fraction, ...]


class Watch(Protocol):
    """Someone who looks at a rehearsal: a permit that has one releases nothing (``affidavit.audits.sensitivity``)."""

    def release(self, path: str, statistic: Statistic, draw: Callable[[], Outcome]) -> Outcome:
        """What comes out of the use at ``path``: ``draw()``, or what came out in another rehearsal."""
        ...


@runtime_checkable
class Drawing(Protocol):
    """A permit that writes each draw down: its parameters in force, and what came out."""

    def draw(self, path: str, spec: Spec[Given, Outcome], values: Given) -> Outcome:
        """One use of ``spec`` over ``values`` at ``path``."""
        ...


@runtime_checkable
class Keeper(Protocol):
    """A permit that keeps what is drawn, so that a run that was stopped draws nothing twice."""

    def once(self, path: str, draw: Callable[[], Outcome]) -> Outcome:
        """``draw()``, kept; or what it gave before. Raises ``DrawLost`` where that is not known."""
        ...


_REGISTRY: dict[str, Mechanism] = {}
_frozen = False


def register(mechanism: Mechanism) -> None:
    """Add a mechanism. Registering the same one again is no fault.

    Raises ``ValueError`` for another one of its name, or for a new one after ``freeze``.
    """
    name = mechanism.called
    if name not in _REGISTRY and _frozen:
        raise ValueError(f"mechanism {name!r}: too late, the registry is frozen once mechanisms are loaded")
    if _REGISTRY.setdefault(name, mechanism) != mechanism:
        raise ValueError(f"a mechanism called {name!r} is registered already")


def freeze() -> None:
    """No mechanism may be added from here on."""
    global _frozen  # noqa: PLW0603
    _frozen = True


def registered() -> tuple[Mechanism, ...]:
    """All registered mechanisms, in order of registration."""
    return tuple(_REGISTRY.values())


def assumptions(plan: Plan) -> tuple[str, ...]:
    """What a certificate for ``plan`` has to assume about the samplers of its leaves."""
    kinds = {leaf.kind for _, leaf, _ in leaves(plan)}
    return tuple(dict.fromkeys(line for known in registered() if known.kind in kinds for line in known.assumptions))


def samplers(plan: Plan) -> tuple[str, ...]:
    """How the leaves of ``plan`` are drawn, a line for each kind that has a mechanism, in the plan's order."""
    drawn = {known.kind: known.sampler for known in registered()}
    kinds = dict.fromkeys(leaf.kind for _, leaf, _ in leaves(plan))
    return tuple(f"{kind}: {drawn[kind]}" for kind in kinds if drawn.get(kind))


def charge(permit: Permit, path: str, asked: Asked, covers: Callable[[Asked], bool]) -> None:
    """Charge one use at ``path``. Raises ``PermitViolation`` where its leaf is of another kind, or covers it not."""
    certified = permit.use(path)
    if not isinstance(certified, type(asked)) or not covers(certified):
        raise PermitViolation(
            f"{path}: the draw costs {_stated(asked)}, which the certified {_stated(certified)} does not cover",
            hint=f"Raise the noise, or {CERTIFY}",
        )


def _stated(leaf: Leaf) -> str:
    values = ", ".join(f"{each.name} = {getattr(leaf, each.name)}" for each in fields(leaf))
    return f"{leaf.kind} ({values})"


def watched(permit: Permit, path: str, statistic: Statistic, draw: Callable[[], Outcome]) -> Outcome:
    """``draw()``, by whoever keeps what is drawn (``Keeper``); all that is drawn anywhere is drawn here.

    Where the permit is a rehearsal's, its ``watch`` is told what is about to be hidden by how much.
    """
    watch: Watch | None = getattr(permit, "watch", None)
    if watch is not None:
        return watch.release(path, statistic, draw)
    return permit.once(path, draw) if isinstance(permit, Keeper) else draw()


def draw(permit: Permit, path: str, spec: Spec[Given, Outcome], values: Given) -> Outcome:
    """One use of ``spec`` over ``values`` at ``path``: how every draw of a generator is made.

    Where the permit writes draws down (``Drawing``), it does.
    """
    return permit.draw(path, spec, values) if isinstance(permit, Drawing) else spec.release(permit, path, values)


def told(permit: Permit, path: str, statistic: Statistic) -> None:
    """Tell a rehearsal's watch, if there is one, of something that is not drawn."""
    watch: Watch | None = getattr(permit, "watch", None)
    if watch is not None:
        watch.release(path, statistic, _nothing)


def public(permit: Permit, path: str, *values: Any) -> None:
    """Tell a rehearsal's watch of ``values`` that the use at ``path`` takes for public, or for released before."""
    told(permit, path, Statistic("not", tuple(np.asarray(value, dtype=np.float64) for value in values), ()))


def _nothing() -> None:
    """What a public value hides."""


def positive(value: Rational, *, name: str) -> Fraction:
    """``value`` as an exact positive rational. Raises ``UsageError``."""
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)) or value <= 0:
        raise UsageError(f"{name} is not a finite number > 0", hint=f"For example `{name} = 1`.")
    return Fraction(value)


def uniform_below(noise: Noise, bound: int) -> int:
    """A whole number in [0, ``bound``), exactly uniform, of any size (rejection on whole bits)."""
    if bound <= 0:
        raise ValueError("uniform_below: need a bound > 0")
    bits = (bound - 1).bit_length()
    words = max(1, -(-bits // 32))
    while True:
        drawn = 0
        for word in noise.integers(0, 1 << 32, size=words):
            drawn = (drawn << 32) | int(word)
        drawn >>= 32 * words - bits
        if drawn < bound:
            return drawn
