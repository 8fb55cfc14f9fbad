"""The nodes of a plan: frozen values. Read by ``plan``; docs/theory/semantics.md says what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from affidavit.accountant import validate
from affidavit.accountant.validate import Relation

__all__ = [
    "Approximate",
    "Compose",
    "DiscreteGaussian",
    "Envelope",
    "Exponential",
    "Gaussian",
    "Laplace",
    "Leaf",
    "Parallel",
    "Plan",
    "Poisson",
    "Pure",
    "Repeat",
    "WithoutReplacement",
    "ZeroConcentrated",
    "outermost",
    "rebuilt",
    "unrolled",
    "walk",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """Any node."""

    kind: ClassVar[str] = ""

    @property
    def below(self) -> tuple[Plan, ...]:
        """The nodes right under it that run: its ``parts``, or what it is ``of``; not ``moves``, not ``absent``."""
        parts: tuple[Plan, ...] = getattr(self, "parts", ())
        of: Plan | None = getattr(self, "of", None)
        return parts if of is None else (of,)


@dataclass(frozen=True, slots=True)
class Compose(Plan):
    """The parts run one after another; each may depend on the outputs before it."""

    parts: tuple[Plan, ...]
    kind: ClassVar[str] = "compose"


@dataclass(frozen=True, slots=True)
class Repeat(Plan):
    """``count`` adaptive uses of the same node, each with fresh randomness."""

    count: int
    of: Plan
    kind: ClassVar[str] = "repeat"


@dataclass(frozen=True, slots=True)
class Parallel(Plan):
    """Each part sees its own disjoint part of the records, chosen by an intrinsic key.

    ``membership`` matters under substitution only: ``"fixed"`` promises that a replaced record
    stays in its part (a public slot), ``"moving"`` allows it to leave one part and enter
    another. ``moves``, one plan a part, gives what a part costs when a record leaves or enters
    it; without it the substitution cost of the part itself is taken (a part with a Poisson sample must
    state it). A record that a sample without replacement displaces moves freely.
    """

    parts: tuple[Plan, ...]
    membership: Literal["moving", "fixed"] = "moving"
    moves: tuple[Plan, ...] | None = None
    kind: ClassVar[str] = "parallel"


@dataclass(frozen=True, slots=True)
class Poisson(Plan):
    """Each record is in the sample independently with probability ``rate``.

    ``absent`` matters under substitution only, where ``of`` states what replacing a record on the
    sample costs: it states what taking one away from the sample costs (its zero-out parameters).
    Without it nothing is known of samples that miss the record (docs/theory/sampling.md).
    """

    rate: float
    of: Plan
    absent: Plan | None = None
    kind: ClassVar[str] = "subsample"
    scheme: ClassVar[str] = "poisson"


@dataclass(frozen=True, slots=True)
class WithoutReplacement(Plan):
    """A uniform sample of ``sample`` of the ``population`` records.

    The leaf below states its *substitution* sensitivity on the sample (docs/theory/sampling.md).
    """

    population: int
    sample: int
    of: Plan
    kind: ClassVar[str] = "subsample"
    scheme: ClassVar[str] = "without-replacement"

    @property
    def rate(self) -> float:
        """The share of the records that are in the sample."""
        return self.sample / self.population if self.population else 0.0


@dataclass(frozen=True, slots=True)
class Leaf(Plan):
    """One use of a mechanism."""


@dataclass(frozen=True, slots=True)
class Gaussian(Leaf):
    """Gaussian noise of standard deviation ``noise_multiplier`` x (l2 sensitivity)."""

    noise_multiplier: float
    kind: ClassVar[str] = "gaussian"


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Leaf):
    """Discrete Gaussian on the grid ``granularity``; both in units of the sensitivity."""

    noise_multiplier: float
    granularity: float
    kind: ClassVar[str] = "discrete-gaussian"

    @property
    def is_coarse(self) -> bool:
        """Whether values on the grid that differ are further apart than the sensitivity, so that none need differ."""
        return self.granularity > 1.0 + 1e-9


@dataclass(frozen=True, slots=True)
class Laplace(Leaf):
    """Laplace noise of scale ``noise_multiplier`` x (l1 sensitivity)."""

    noise_multiplier: float
    kind: ClassVar[str] = "laplace"


@dataclass(frozen=True, slots=True)
class Pure(Leaf):
    """Any mechanism of which only (epsilon, 0)-DP is known."""

    epsilon: float
    kind: ClassVar[str] = "pure"


@dataclass(frozen=True, slots=True)
class Approximate(Leaf):
    """Any mechanism of which only (epsilon, delta)-DP is known."""

    epsilon: float
    delta: float
    kind: ClassVar[str] = "approximate"


@dataclass(frozen=True, slots=True)
class Exponential(Leaf):
    """Softmax sampling of bounded range.

    ``range`` is the bounded-range parameter: the supremum, over pairs of outputs, of the
    difference of their log-likelihood ratios between neighbours.
    """

    range: float
    kind: ClassVar[str] = "exponential"


@dataclass(frozen=True, slots=True)
class ZeroConcentrated(Leaf):
    """Any mechanism of which only rho-zCDP is known."""

    rho: float
    kind: ClassVar[str] = "zcdp"


FieldCheck = Callable[..., Any]

CORE: Mapping[type[Leaf], Mapping[str, FieldCheck]] = {
    Gaussian: {"noise_multiplier": validate.size},
    DiscreteGaussian: {
        "noise_multiplier": validate.size,
        "granularity": partial(validate.size, minimum=validate.LEAST),
    },
    Laplace: {"noise_multiplier": validate.size},
    Pure: {"epsilon": validate.size},
    Approximate: {"epsilon": validate.size, "delta": validate.fraction},
    Exponential: {"range": validate.size},
    ZeroConcentrated: {"rho": validate.size},
}
"""The core's own leaves, and what their fields may be; both engines know what they cost (``leaves``, ``verifier``)."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A plan with the relation its parameters are stated for, and the δ asked for (or None)."""

    relation: Relation
    plan: Plan
    delta: float | None = None


_Kind = TypeVar("_Kind", bound=Plan)


def walk(plan: Plan) -> Iterator[Plan]:
    """A plan and every node below it."""
    yield plan
    for node in plan.below:
        yield from walk(node)


def rebuilt(plan: _Kind, change: Callable[[Plan], Plan]) -> _Kind:
    """The same node with ``change`` made to all right under it, what ``moves`` and ``absent`` state as well."""

    def changed(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(change, value))
        return change(value) if isinstance(value, Plan) else value

    return replace(plan, **{field.name: changed(getattr(plan, field.name)) for field in fields(plan)})


def outermost(plan: Plan, kind: type[_Kind]) -> Iterator[_Kind]:
    """The nodes of ``kind`` that are below no other of them."""
    if isinstance(plan, kind):
        yield plan
        return
    for node in plan.below:
        yield from outermost(node, kind)


def unrolled(plan: Plan, uses: int = 1) -> Iterator[tuple[Plan, int]]:
    """What ``compose`` and ``repeat`` use, in declared order, and how often."""
    match plan:
        case Repeat(count=count, of=of):
            yield from unrolled(of, uses * count) if count else ()
        case Compose(parts=parts):
            for part in parts:
                yield from unrolled(part, uses)
        case _:
            yield plan, uses
