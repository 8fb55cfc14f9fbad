"""A further figure of a finding, beside its statistic: a value, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from pydantic import ConfigDict

__all__ = ["Measure"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """``value`` is null where it is not defined (a precision where nothing was called a member).

    ``method`` says how ``interval`` was made, and that it is approximate where it is.
    """

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid", "allow_inf_nan": False}

    name: str
    value: float | None
    interval: tuple[float, float] | None = None
    method: str = ""
