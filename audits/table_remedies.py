"""What a wrong key of a strict table could be: the key that was meant, or one value that is allowed there.

A value is taken from the field itself (its examples, its default, its words), else the first plain one that the
field's own checks accept: so the remedy is never another mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

from affidavit.accountant.remedies import did_you_mean, known_key, setting

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo

__all__ = ["faults_of", "known_beside", "known_keys", "remedy", "words_at"]

_PLAIN: tuple[Any, ...] = (1, 0.5, 100, 10, 1e-5, "record", "letters", "US", True, ("first", "second"), (1,), ({},), {})


def known_keys(table: type[BaseModel]) -> list[str]:
    """The keys that may stand in a file: all fields but those that a caller fills in."""
    return [name for name, field in table.model_fields.items() if not field.exclude]


def faults_of(error: ValidationError) -> list[Mapping[str, Any]]:
    """Pydantic's faults without the values; an unknown key first, which may be a missing one misspelt."""
    faults = error.errors(include_url=False, include_input=False, include_context=True)
    return sorted(faults, key=lambda fault: fault["type"] != "extra_forbidden")


def remedy(table: type[BaseModel], fault: Mapping[str, Any], *, content: Mapping[str, Any], prefix: str = "") -> str:
    """The hint for one of pydantic's faults; empty where the field has no simple value. ``prefix``: of its table."""
    location = fault["loc"]
    key = prefix + ".".join(str(step)[:40] for step in location if not isinstance(step, int))
    if fault["type"] == "extra_forbidden":
        there = _content_at(content, location[:-1])
        return known_key(location[-1], known_beside(table, location), there, path=key)
    names = [step for step in location if not isinstance(step, int)]
    owner = _table_at(table, tuple(names[:-1])) if names else table
    field = owner.model_fields.get(str(names[-1])) if names else None
    if field is None:
        return ""
    given = _content_at(content, location)
    if fault["type"] == "literal_error" and (near := did_you_mean(given, _words(field), path=key)):
        return near
    value = _fitting(field)
    return "" if value is None else f"For example {setting(key, value)}."


def known_beside(table: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The keys that the table at ``location``'s parent knows."""
    return known_keys(_table_at(table, location[:-1]))


def words_at(table: type[BaseModel], location: tuple[int | str, ...]) -> str:
    """The words that may stand at ``location``, where only some words may."""
    field = _table_at(table, location[:-1]).model_fields.get(str(location[-1]))
    return "" if field is None else " | ".join(_words(field))


def _words(field: FieldInfo) -> list[str]:
    return [option for option in _options(field.annotation) if isinstance(option, str)]


def _options(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for each in get_args(annotation):
            yield from _options(each)


def _fitting(field: FieldInfo) -> Any:
    """A value that the field accepts, in the form of a file; None where none of the plain ones is."""
    from pydantic import TypeAdapter, ValidationError

    if field.examples:
        return field.examples[0]
    whole = TypeAdapter(_annotated(field))
    for value in _candidates(field):
        try:
            whole.validate_python(value, strict=True)
        except (ValidationError, ValueError, TypeError, KeyError, AttributeError):
            continue
        return list(value) if isinstance(value, tuple) else value
    return None


def _annotated(field: FieldInfo) -> Any:
    from typing import Annotated

    return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation


def _candidates(field: FieldInfo) -> Iterator[Any]:
    if isinstance(field.default, (bool, int, float, str)):
        yield field.default
    yield from _words(field)
    table = _table_in(field.annotation)
    if table is not None:
        yield {name: _fitting(each) for name, each in table.model_fields.items() if each.is_required()}
    yield from _PLAIN


def _content_at(content: Any, location: tuple[int | str, ...]) -> Any:
    for step in location:
        try:
            content = content[step]
        except (KeyError, IndexError, TypeError):
            return {}
    return content


def _table_at(table: type[BaseModel], location: tuple[int | str, ...]) -> type[BaseModel]:
    current: type[BaseModel] = table
    for step in location:
        if isinstance(step, int):
            continue
        field = current.model_fields.get(step)
        inner = None if field is None else _table_in(field.annotation)
        if inner is None:
            break
        current = inner
    return current


def _table_in(annotation: Any) -> type[BaseModel] | None:
    from pydantic import BaseModel

    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
