"""JSON that somebody else wrote: exactly the expected fields, of exactly the expected types; and how it is written.

A ``Form`` says both for one kind of value. Reading raises ``PlanError`` naming the path and what is allowed.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin, get_type_hints

from affidavit.accountant import decimals, remedies, validate
from affidavit.accountant.clock import parse_instant, show_instant
from affidavit.accountant.errors import PlanError
from affidavit.accountant.unit import Unit, parse_unit

__all__ = [
    "AT_LEAST_0",
    "BASE64",
    "COUNT",
    "DIGEST",
    "FLAG",
    "ID",
    "PROBABILITY",
    "TEXT",
    "Form",
    "by_name",
    "exactly",
    "fields",
    "forms_of",
    "hexadecimal",
    "instant",
    "listed",
    "optional",
    "parse",
    "record",
]

_T = TypeVar("_T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+@-]{0,63}\Z")
_MAX_TEXT = 4000


@dataclass(frozen=True, slots=True)
class Form(Generic[_T]):
    """``read(value, path=...)`` takes what JSON holds for what it means, ``show`` writes it.

    ``states``: whether that says anything; False for what always stands there.
    """

    read: Callable[..., _T]
    show: Callable[[Any], Any]
    states: bool = True


def parse(content: bytes) -> Any:
    """UTF-8 JSON without repeated fields, NaN, infinities or halves of surrogate pairs. Raises ``ValueError``."""
    try:
        text = content.decode("utf-8")
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse, parse_float=validate.written)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if b"\\u" in content:
        json.dumps(found, ensure_ascii=False).encode()  # a half, which only an escape can spell, cannot be written
    return found


def fields(
    value: object,
    *,
    path: str,
    names: Collection[str],
    later: Collection[str] = (),
    examples: Mapping[str, object] = MappingProxyType({}),
) -> Mapping[str, Any]:
    """An object with exactly these fields; those that came ``later`` may be left out.

    ``examples``: one value of each field, for the hint.
    """
    allowed, before = ", ".join(names), f"{path}." if path else ""
    if not isinstance(value, Mapping):
        raise PlanError(path, "not an object", allowed=allowed)
    for name in value:
        if name not in names:
            shown = before + (name if isinstance(name, str) and len(name) <= 40 else "a key")
            meant = remedies.known_key(name, tuple(names), value, path=shown)
            raise PlanError(shown, "unknown key", allowed=allowed, hint=meant)
    for name in names:
        if name not in value and name not in later:
            at = f"{before}{name}"
            known = name in examples
            example = f"For example {remedies.setting(at, examples[name])}." if known else remedies.example(at, allowed)
            raise PlanError(at, "missing", allowed=allowed, hint=example)
    return value


def record(
    make: Callable[..., _T],
    forms: Mapping[str, Form[Any]] | None = None,
    *,
    called: Mapping[str, str] = MappingProxyType({}),
    later: Mapping[str, Any] = MappingProxyType({}),
) -> Form[_T]:
    """An object with a field for each attribute of what ``make`` makes; of a class, ``forms`` follow from its types.

    ``called``: fields that are not called as their attributes. ``later``: attributes whose fields came later, with
    what they are where those are left out; and there they are left out.
    """
    kinds = forms_of(make) if forms is None else forms
    names = {called.get(held, held): held for held in kinds}
    order = sorted(kinds.items(), key=lambda kind: kind[1].states)  # what a document is, before what it says

    def read(value: object, *, path: str) -> _T:
        stated = fields(value, path=path, names=names, later=[called.get(held, held) for held in later])
        spelt = {held: name for name, held in names.items() if name in stated}
        found = {
            held: form.read(stated[spelt[held]], path=f"{path}.{spelt[held]}") for held, form in order if held in spelt
        }
        return make(**{held: item for held, item in {**later, **found}.items() if kinds[held].states})

    def show(item: Any) -> dict[str, Any]:
        values = {held: getattr(item, held) if form.states else None for held, form in kinds.items()}
        kept = ((name, held) for name, held in names.items() if held not in later or values[held] != later[held])
        return {name: kinds[held].show(values[held]) for name, held in kept}

    return Form(read, show)


def forms_of(made: Any) -> dict[str, Form[Any]]:
    """The form of each attribute of a class, by its type; or the one that it is ``Annotated`` with."""
    hints = get_type_hints(made, include_extras=True)
    return {held: _of(hint) for held, hint in hints.items() if get_origin(hint) is not ClassVar}


def _of(hint: Any) -> Form[Any]:
    inner = get_args(hint)
    if hint in _BY_TYPE:
        return _BY_TYPE[hint]
    if inner and isinstance(inner[-1], Form):
        return inner[-1]
    if inner and inner[-1] is type(None):
        return optional(_of(inner[0]))
    if get_origin(hint) is tuple:
        return listed(_of(inner[0]))
    return by_name(_of(inner[1])) if get_origin(hint) is Mapping else record(hint)


def optional(form: Form[_T]) -> Form[_T | None]:
    """It, or null."""

    def read(value: object, *, path: str) -> _T | None:
        return None if value is None else form.read(value, path=path)

    return Form(read, lambda item: None if item is None else form.show(item))


def listed(form: Form[_T]) -> Form[tuple[_T, ...]]:
    """A list."""

    def read(value: object, *, path: str) -> tuple[_T, ...]:
        if not isinstance(value, list):
            raise PlanError(path, "not a list", allowed="a list")
        return tuple(form.read(item, path=f"{path}[{i}]") for i, item in enumerate(value))

    return Form(read, lambda items: [form.show(item) for item in items])


def by_name(form: Form[_T], *, names: re.Pattern[str] = _NAME) -> Form[Mapping[str, _T]]:
    """An object with short names for fields, in order of names."""

    def read(value: object, *, path: str) -> Mapping[str, _T]:
        if not isinstance(value, dict) or not all(names.match(name) for name in value):
            raise PlanError(path, "not an object of short names", allowed="letters, digits and _.+@-")
        return MappingProxyType({name: form.read(value[name], path=f"{path}.{name}") for name in sorted(value)})

    return Form(read, lambda items: {name: form.show(item) for name, item in items.items()})


def exactly(expected: str) -> Form[str]:
    """This string and no other."""

    def read(value: object, *, path: str) -> str:
        if value != expected:
            raise PlanError(path, "another kind of document", allowed=expected)
        return expected

    return Form(read, lambda _: expected, states=False)


def hexadecimal(value: object, *, path: str, digits: int = 64) -> str:
    """So many digits, in lower case: a SHA-256, unless it says otherwise."""
    if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{digits}}}", value):
        raise PlanError(path, f"not {digits} digits", allowed=f"{digits} lower-case hexadecimal digits")
    return value


def instant(value: object, *, path: str) -> datetime:
    """A time as ``clock.show_instant`` writes it."""
    try:
        return parse_instant(value)
    except ValueError:
        raise PlanError(path, "not a time", allowed="2026-01-31T12:00:00Z") from None


def _text(value: object, *, path: str) -> str:
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise PlanError(path, "not a text", allowed=f"at most {_MAX_TEXT} characters")
    return value


def _flag(value: object, *, path: str) -> bool:
    if not isinstance(value, bool):
        raise PlanError(path, "not true or false", allowed="true | false")
    return value


def _count(value: object, *, path: str) -> int:
    """No float, however round."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise PlanError(path, "not a count", allowed="whole numbers >= 0")
    return value


def _decoded(value: object, *, path: str) -> bytes:
    """Standard base64 with exact padding; one spelling a value."""
    try:
        found = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except ValueError:
        found = b""
    if _encoded(found) != value:
        raise PlanError(path, "not base64 in its one exact spelling", allowed="base64 with its padding")
    return found


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _number(value: object, *, path: str, most: int | None = None) -> Decimal:
    return decimals.within(decimals.parse(value, path=path), path=path, most=most)


def _same(value: Any) -> Any:
    return value


TEXT = Form(_text, _same)
"""Of bounded length."""
FLAG = Form(_flag, _same)
COUNT = Form(_count, _same)
DIGEST = Form(hexadecimal, _same)
ID = Form(partial(hexadecimal, digits=32), _same)
BASE64 = Form(_decoded, _encoded)
AT_LEAST_0 = Form(_number, decimals.show)
PROBABILITY = Form(partial(_number, most=1), decimals.show)
_BY_TYPE: dict[Any, Form[Any]] = {
    str: TEXT,
    bool: FLAG,
    int: COUNT,
    bytes: BASE64,
    datetime: Form(instant, show_instant),
    Decimal: Form(decimals.parse, decimals.show),
    validate.Relation: Form(validate.relation, _same),
    Unit: Form(parse_unit, Unit.to_json),
}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a repeated field")
    return result


def _refuse(constant: str) -> None:
    raise ValueError(constant)
