"""A named draw as it happened: what its expressions gave, as a line of a trace and as a step of a comparison."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.audits.neighbour import Step
from affidavit.foreign.draw import Draw, evaluate, placed
from affidavit.foreign.kinds import Kind, Method
from affidavit.foreign.naming import Names

__all__ = ["Happened", "Reading", "read_draw"]

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Happened:
    """One call of a generator: ``state`` is a digest of the generator's before it."""

    name: str
    kind: Kind
    method: Method
    arguments: Mapping[str, Any]
    result: Any
    state: str = ""

    def seen(self) -> dict[str, Any]:
        """What ``call`` holds in an expression."""
        loc = self.arguments.get(self.method.loc, 0.0) if self.method.loc else 0.0
        scale = self.arguments.get(self.method.scale, 1.0) if self.method.scale else 1.0
        return {**self.arguments, "loc": loc, "scale": scale, "result": self.result}

    def digest(self) -> str:
        """Of what was drawn: of a choice, of the randomness behind it, since equal outcomes are nothing unusual."""
        return self.state if self.kind == "choice" else hashlib.sha256(_bytes(self.result)).hexdigest()

    def support(self) -> Hashable:
        """What could have come out: the outcomes of a choice that have a chance, the shape of noise."""
        if self.kind == "choice":
            weights = next(
                (self.arguments[n] for n in ("p", "weights", "cum_weights", "input") if n in self.arguments), ()
            )
            return hashlib.sha256((_array(weights) > 0).tobytes()).hexdigest()
        return tuple(int(size) for size in _array(self.result).shape)


@dataclass(frozen=True, slots=True)
class Reading:
    """``lines`` of the trace, ``step`` of the comparison, ``public``: a digest of what was computed of no record."""

    lines: tuple[dict[str, Any], ...]
    step: Step
    public: Mapping[Hashable, tuple[Hashable, ...]] = field(default_factory=dict)


def read_draw(
    draw: Draw,
    happened: Happened,
    frame: FrameType,
    names: Names,
    *,
    use: Callable[[str], int],
    key: Callable[[str], str],
) -> Reading:
    """Everything that the draw's expressions say, evaluated now. ``use`` counts by path, ``key`` hides a name.

    Raises ``UsageError`` for an expression that cannot be read, or members that are no records.
    """
    call = happened.seen()

    def value(text: str) -> Any:
        return evaluate(text, frame, call)

    path = placed(draw.path, frame, call)
    number = use(path)
    line: dict[str, Any] = {"event": "draw", "path": path, "use": number}
    line |= {name: float(value(text)) for name, text in draw.parameters.items()}
    if happened.digest():
        line["noise_sha256"] = happened.digest()
    if happened.kind == "noise" and draw.sensitivity:
        sensitivity = float(value(draw.sensitivity))
        line["noise_multiplier"] = float(np.min(_array(call["scale"]))) / sensitivity
        centred = (_array(happened.result) - _array(call["loc"])).reshape(-1) / sensitivity
        line["noise"] = [float(each) for each in centred[:_SHOWN]]
    members = _members(draw, value, names)
    rows = value(draw.rows) if draw.rows else None
    if rows is not None:
        line["rows"] = _count(rows)
    if draw.public_rows:
        line["public_rows"] = int(value(draw.public_rows))
    lines = [line]
    if members is not None and (draw.sample or draw.batch):
        group: dict[str, Any] = {"members": [key(name) for name in members]}
        if draw.sample:
            above = placed(draw.sample, frame, call)
            group |= {"event": "sample", "path": above, "use": use(above)}
            if draw.population:
                group["population"] = _count(value(draw.population))
            lines.insert(0, group)
        elif use(placed(draw.batch, frame, call)) == 0:
            lines.insert(0, {"event": "batch", "path": placed(draw.batch, frame, call), **group})
    step = Step(
        f"{path}, use {number}",
        output=repr(happened.result) if happened.kind == "choice" else None,
        support=happened.support(),
        members=None if members is None else frozenset(members),
        rows=_rows(rows, members),
        stream=path.partition("]")[0],
        exchange=bool(draw.sample),
    )
    public: dict[Hashable, tuple[Hashable, ...]] = {}
    if draw.public:
        public[path, number] = (hashlib.sha256(_bytes(value(draw.public))).hexdigest(),)
    return Reading(tuple(lines), step, public)


def _members(draw: Draw, value: Callable[[str], Any], names: Names) -> list[str] | None:
    if not draw.members:
        return None
    found = names.flat(value(draw.members))
    if found is None:
        raise UsageError(
            f"`{draw.members}` holds something else than records",
            hint="It has to give the records that take part, or their texts, as they were handed over.",
        )
    return found


def _count(value: Any) -> int:
    """A number as it is; of an array, the rows that are not all zero; of a sequence, its length."""
    if isinstance(value, (int, np.integer)):
        return int(value)
    array = _array(value) if not isinstance(value, (list, tuple, dict, set)) else None
    if array is not None and array.ndim >= 1 and array.dtype != object:
        return int((array.reshape(len(array), -1) != 0).any(axis=1).sum())
    return len(value)


def _rows(rows: Any, members: Sequence[str] | None) -> dict[str, Hashable]:
    """A digest of each member's row, where there is one for each."""
    if members is None or rows is None or isinstance(rows, (int, np.integer)) or len(rows) != len(members):
        return {}
    return {name: hashlib.sha256(_bytes(row)).hexdigest() for name, row in zip(members, rows, strict=True)}


def _array(value: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if hasattr(value, "detach"):
        value = value.detach().to("cpu")
        value = value.float() if str(value.dtype) == "torch.bfloat16" else value
        return np.asarray(value.numpy())
    return np.asarray(value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, dict):
        return repr(sorted(value.items(), key=repr)).encode()
    array = _array(value)
    return repr(value).encode() if array.dtype == object else array.tobytes()
