"""Chosen inputs: for each mechanism, the pair of neighbours that its certificate fears most.

One file a family of mechanisms. ``cases_of(leaf)`` gives the rivals among which the one-step audit chooses;
a mechanism from elsewhere adds its own by ``register``.

softmax         exponential, bounded-range, joint-exponential
gaussian        gaussian, projected-mean, coverage, good-radius
counts          laplace, discrete-gaussian
noisy_max       noisy-max
testing         propose-test-release, above-threshold
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Leaf
from affidavit.accountant.remedies import setting
from affidavit.audits.attacks.cases import counts, gaussian, noisy_max, softmax, testing
from affidavit.audits.attacks.cases.base import Case, EventCase, Inputs, Release

if __name__ != "affidavit.audits.attacks.cases":
    raise ImportError("import affidavit.audits.attacks.cases, not the bare folder")

__all__ = ["Case", "EventCase", "Inputs", "Maker", "Release", "cases_of", "covered", "register"]

Maker: TypeAlias = Callable[[Leaf], tuple[Case, ...]]
"""The worst pairs of a leaf; none for a leaf of another kind, or one without any noise."""

_MAKERS: dict[str, Maker] = {
    "exponential": softmax.exponential,
    "bounded-range": softmax.bounded_range,
    "joint-exponential": softmax.joint,
    "gaussian": gaussian.gaussian,
    "projected-mean": gaussian.projected_mean,
    "coverage": gaussian.coverage,
    "good-radius": gaussian.good_radius,
    "laplace": counts.laplace,
    "discrete-gaussian": counts.discrete_gaussian,
    "noisy-max": noisy_max.noisy_max,
    "propose-test-release": testing.propose_test_release,
    "above-threshold": testing.above_threshold,
}


def register(mechanism: str, maker: Maker) -> None:
    """Add the cases of a mechanism, by the name that it is registered under. Raises ``ValueError`` for a known one."""
    if _MAKERS.setdefault(mechanism, maker) is not maker:
        raise ValueError(f"the mechanism {mechanism!r} has cases already")


def covered() -> tuple[str, ...]:
    """The mechanisms that have cases."""
    return tuple(_MAKERS)


def cases_of(leaf: Leaf, *, mechanism: str = "") -> tuple[Case, ...]:
    """The worst pairs of a leaf as ``mechanism`` draws it; by default the one named as the leaf's kind.

    Raises ``NotSupported`` where there are none.
    """
    maker = _MAKERS.get(mechanism or leaf.kind)
    found = maker(leaf) if maker is not None else ()
    if not found:
        as_drawn = f" as {mechanism} draws it" if mechanism else ""
        others = [name for name, make in _MAKERS.items() if make(leaf)]
        named = setting("mechanism", leaf.kind if leaf.kind in others else others[0]) if others else ""
        raise NotSupported(
            f"no chosen inputs for a leaf {leaf.kind!r}{as_drawn} with these parameters",
            hint=f"For this leaf: {named}." if named else f"Covered are {', '.join(_MAKERS)}, with some noise.",
        )
    return found
