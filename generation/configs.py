"""What every generator's configuration shares."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

__all__ = ["Clip", "Count", "GeneratorConfig", "Labels", "Noise", "Positive", "one_of"]

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Positive = Annotated[float, Field(gt=0.0)]
Clip = Annotated[float, Field(ge=1e-3, le=1000.0)]
"""How far one record moves a score: some hundred steps of the grid on which scores are summed, or more."""
Noise = Annotated[float, Field(ge=1e-6, le=1e6)]
"""A noise multiplier, or the ε that sets one: what any run could want, and no number that a formula cannot square."""


def _as_tuple(value: object) -> object:
    """TOML arrays are lists; a frozen configuration holds tuples."""
    return tuple(value) if isinstance(value, list) else value


def _distinct(labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(labels)) != len(labels):
        raise ValueError("a label stands there twice")
    return labels


Labels = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")], ...],
    BeforeValidator(_as_tuple),
    AfterValidator(_distinct),
    Field(min_length=1),
]
"""Labels are an input, public and distinct; never read from private data."""


def one_of(names: Collection[str]) -> AfterValidator:
    """For ``Annotated[str, one_of(names)]``: what is not among ``names`` is refused with all of them."""

    def known(name: str) -> str:
        if name not in names:
            raise ValueError(f"not known; allowed: {' | '.join(names)}")
        return name

    return AfterValidator(known)


class GeneratorConfig(BaseModel):
    """Frozen and strict: unknown keys and wrong types are errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    @property
    def needs_public(self) -> bool:
        """Whether these settings need public records (``[data] public``)."""
        return False
