"""The trace format: one JSON object a line, written by any generator (``docs/trace.md``).

    run     {schema, generator, sampler, ...}      at most one, first: where noise and samples come from
    batch   {path, members}                        a fixed, disjoint part of the records
    sample  {path, use, members}                   a fresh sample, for one use of a subsample node
    draw    {path, use, ...}                       one use of a mechanism
    claim   {epsilon, delta}                       what the run says afterwards that it cost

Paths are those of the plan (``plan.parts[0].of``). ``members`` are digests of record ids under a key of the
run; a trace is private all the same. Lines of other events are counted and not looked at, and so are
other keys, except that a ``draw`` may repeat the leaf's parameters as they were in force.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError

from affidavit.accountant import files
from affidavit.accountant.errors import UsageError
from affidavit.accountant.remedies import near_file
from affidavit.accountant.validate import Relation

if TYPE_CHECKING:
    from affidavit.accountant.plan import Leaf

__all__ = ["SCHEMA", "Batch", "Claimed", "Draw", "Run", "Sample", "Sampler", "Trace", "json_schema", "parse", "read"]

SCHEMA = "https://affidavit.dev/schemas/trace/v1"

_Whole = Annotated[int, Field(ge=0)]
_Path = Annotated[str, Field(pattern=r"^plan(\.of|\.parts\[(0|[1-9][0-9]*)\])*$", max_length=1000)]
_Members = tuple[Annotated[str, Field(min_length=1, max_length=200)], ...]
_Word = Annotated[int, Field(ge=0, lt=2**64)]


class _Event(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class Sampler(_Event):
    """Where noise came from: the algorithm's name, and its seed where one was set in code or configuration."""

    algorithm: Annotated[str, Field(max_length=200)]
    seed: int | None = None


class Run(_Event):
    """The first line.

    ``sampling``  where samples came from, if they are drawn apart from the noise; its seed if it has one.
    ``relation``  the relation for which the parameters on the draw lines hold.
    """

    event: Literal["run"]
    schema_: Annotated[str | None, Field(alias="schema")] = None
    generator: Annotated[str | None, Field(max_length=200)] = None
    sampler: Sampler | None = None
    sampling: Sampler | None = None
    relation: Relation | None = None


class Batch(_Event):
    """A fixed part of the records, for every use at or below ``path``; ``rows`` of them entered the sum."""

    event: Literal["batch"]
    path: _Path
    members: _Members
    rows: _Whole | None = None


class Sample(_Event):
    """A fresh sample: ``path`` is the subsample node's, ``population`` how many records it was drawn from."""

    event: Literal["sample"]
    path: _Path
    use: _Whole
    members: _Members
    population: _Whole | None = None
    rows: _Whole | None = None


class Draw(_Event):
    """One use of the mechanism at ``path``.

    ``noise_sha256``  a digest of the randomness behind it.
    ``noise``         the noise that was added to the first few coordinates, in units of the sensitivity.
    ``noise_words``   consecutive raw 32-bit outputs of the generator behind it, in order.
    ``rows``          how many records' rows entered the value that was released.
    ``public_rows``   how many rows that hold no record were computed in one batch with rows that do.
    Other numbers (``noise_multiplier``, ``range``, ...) are parameters in force, see ``stated``.
    """

    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)

    event: Literal["draw"]
    path: _Path
    use: _Whole
    noise_sha256: Annotated[str, Field(max_length=200)] | None = None
    noise: tuple[float, ...] | None = None
    noise_words: tuple[_Word, ...] | None = None
    rows: _Whole | None = None
    public_rows: _Whole | None = None

    def stated(self, leaf: Leaf) -> dict[str, float]:
        """The leaf's parameters that this line repeats. Raises ``UsageError`` for one that is no number."""
        found: dict[str, float] = {}
        for name in (field.name for field in fields(leaf)):
            value = (self.model_extra or {}).get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise UsageError(f"draw at {self.path}, use {self.use}: {name} is not a number", hint=_HINT)
            found[name] = float(value)
        return found


class Claimed(_Event):
    """What the run states, once it is over, that it cost."""

    event: Literal["claim"]
    epsilon: Annotated[float, Field(ge=0.0)]
    delta: Annotated[float, Field(ge=0.0, le=1.0)]


_HINT = 'Such a line is `{"event": "draw", "path": "plan", "use": 0}`; docs/trace.md says what else it may hold.'
_KNOWN: Mapping[str, type[_Event]] = {"run": Run, "batch": Batch, "sample": Sample, "draw": Draw, "claim": Claimed}


@dataclass(frozen=True, slots=True)
class Trace:
    """A trace in memory, in the order of its lines; ``ignored`` counts lines of other events."""

    run: Run | None
    batches: tuple[Batch, ...]
    samples: tuple[Sample, ...]
    draws: tuple[Draw, ...]
    claims: tuple[Claimed, ...] = ()
    ignored: int = 0


def parse(lines: Iterable[Mapping[str, Any]]) -> Trace:
    """A trace from its objects. Raises ``UsageError`` naming the line and the field, never a value."""
    events: list[_Event] = []
    ignored = 0
    for number, line in enumerate(lines, start=1):
        name = line.get("event")
        if not isinstance(name, str):
            raise UsageError(f"trace, line {number}: no event is named", hint=_HINT)
        if name not in _KNOWN:
            ignored += 1
            continue
        try:
            events.append(_KNOWN[name].model_validate(line, strict=False))
        except ValidationError as error:
            first = error.errors(include_input=False, include_url=False)[0]
            where = ".".join(str(step)[:40] for step in first["loc"])
            raise UsageError(f"trace, line {number}: {where}: {first['msg']}", hint=_HINT) from None
    runs = [event for event in events if isinstance(event, Run)]
    if len(runs) > 1 or (runs and events[0] is not runs[0]):
        raise UsageError(
            "trace: the run line stands once, first", hint='Keep one `{"event": "run"}`, as the first line.'
        )
    return Trace(
        runs[0] if runs else None,
        tuple(event for event in events if isinstance(event, Batch)),
        tuple(event for event in events if isinstance(event, Sample)),
        tuple(event for event in events if isinstance(event, Draw)),
        tuple(event for event in events if isinstance(event, Claimed)),
        ignored,
    )


def read(path: Path) -> Trace:
    """A trace from its file. Raises ``UsageError``."""
    try:
        content = files.read_bytes(path, most=files.DATA_BYTES)
    except OSError as error:
        hint = near_file(path)
        raise UsageError(f"the trace {path} cannot be read: {error.strerror}", hint=hint) from None
    return parse(_objects(content))


def _objects(content: bytes) -> Iterable[dict[str, Any]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise UsageError(f"trace, line {number}: not a JSON object", hint=_HINT)
        yield value


class _Line(RootModel[Annotated[Run | Batch | Sample | Draw | Claimed, Field(discriminator="event")]]):
    """One line of a trace."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of one line of a trace."""
    schema = _Line.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, **schema}
