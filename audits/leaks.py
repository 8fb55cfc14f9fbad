"""What leaked, as findings write it down: counts, digests and spans, never the text itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from affidavit.audits.pii.identifier import IdentifierKind

if TYPE_CHECKING:
    from pydantic import ConfigDict

__all__ = ["ExposedKind", "Exposure", "Leak", "Leakage", "NearOverlap", "Overlap", "OverlapSpan"]

ExposedKind = IdentifierKind | Literal["any"]

_STRICT: ConfigDict = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """One leaked identifier: its HMAC under the run's key, and where it stands in the output."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    identifier_hmac: str
    kind: IdentifierKind
    guessable: bool
    output: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """How many identifiers, records or users (``unit``) that hold a ``kind`` were exposed.

    ``leaked`` of ``at_risk`` have an identifier in the output, ``beyond_guessable`` one that no
    guesser would have produced; ``held_out_leaked`` of ``held_out_at_risk`` is the same count
    over records that were not in the data. ``interval`` is for leaked / at_risk.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    unit: Literal["identifier", "record", "user"]
    kind: ExposedKind
    at_risk: int
    leaked: int
    beyond_guessable: int
    interval: tuple[float, float]
    interval_method: str
    held_out_at_risk: int = 0
    held_out_leaked: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Leakage:
    """Identifiers of members that stand in the output.

    ``leaked`` of ``at_risk`` distinct ones, ``guessable`` of them anyone could have guessed; ``held_out_leaked``
    counts identifiers of records that were not in the data. ``interval`` is for leaked / at_risk. ``exposures``
    counts the same per identifier, record and user, for each kind.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    at_risk: int
    leaked: int
    guessable: int
    held_out_leaked: int
    interval: tuple[float, float] | None = None
    interval_method: str = ""
    dropped_near_copies: int = 0
    leaks: tuple[Leak, ...] = ()
    exposures: tuple[Exposure, ...] = ()

    @property
    def beyond_guessable(self) -> int:
        """Distinct leaked identifiers that a guesser would not have produced."""
        return max(0, self.leaked - self.guessable)

    @property
    def share(self) -> float | None:
        """Leaked / at risk; None where nothing was at risk."""
        return self.leaked / self.at_risk if self.at_risk else None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapSpan:
    """Words that a released text shares with a private record, which is named by its HMAC.

    ``edits``: how many words the closest window in it differs by; 0 where it is word for word.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    record_hmac: str
    held_out: bool
    output: int
    start: int
    end: int
    words: int
    edits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NearOverlap:
    """Near copies: windows of ``words`` words that released text holds with at most ``edits`` words edited.

    ``near`` of ``texts`` (those long enough) hold one of a member's where no held-out record has one,
    ``held_out_near`` the other way round. ``records`` members and ``held_out_records`` others are nearly copied
    anywhere; ``chance``: of so many members among them, if the text does not depend on who is one.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    words: int
    edits: int
    texts: int
    near: int
    held_out_near: int
    records: int
    held_out_records: int
    chance: float
    spans: tuple[OverlapSpan, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Whole passages of private records in released text, beside those of records that were not in the data.

    ``verbatim`` of ``texts`` (those of at least ``words`` words) hold a run of ``words`` words of
    a member that no held-out record holds, ``held_out_verbatim`` the other way round.
    ``rouge_l`` is the mean over texts of the closest member's ROUGE-L F1, against as many
    held-out records in ``held_out_rouge_l``; ``margin`` is the mean difference. ``near``: copies that are not word for
    word.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    words: int
    texts: int
    members: int
    held_out: int
    verbatim: int
    held_out_verbatim: int
    verbatim_interval: tuple[float, float] | None
    longest: int
    held_out_longest: int
    compared: int
    rouge_l: float | None
    held_out_rouge_l: float | None
    highest_rouge_l: float | None
    margin: float | None
    margin_interval: tuple[float, float] | None
    interval_method: str = ""
    dropped_near_copies: int = 0
    spans: tuple[OverlapSpan, ...] = ()
    near: NearOverlap | None = None
