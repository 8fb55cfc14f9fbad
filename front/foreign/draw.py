"""A draw that the plan knows, named by where it happens, with what it ran with read from the running frame.

Nothing is typed that their code could contradict: an expression is evaluated where their function stands when it draws,
over its variables, and ``call`` holds the arguments of the draw itself (``call.scale``, ``call.p``, ``call.result``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType, SimpleNamespace
from typing import Any, TypeVar

from affidavit.accountant.errors import UsageError

__all__ = ["Draw", "draw", "draws", "draws_of", "evaluate", "find_frame", "placed"]

Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "__affidavit_draws__"
_IN_PATH = re.compile(r"\{([^{}]*)\}")
_MOST_NAMES = 40


@dataclass(frozen=True, slots=True)
class Draw:
    """See ``draw``."""

    path: str
    call: str
    inside: str = ""
    when: str = ""
    sensitivity: str = ""
    sample: str = ""
    batch: str = ""
    members: str = ""
    population: str = ""
    rows: str = ""
    public: str = ""
    public_rows: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)


def draw(path: str, call: str, **expressions: str) -> Draw:
    """The draws of the mechanism at ``path`` of the plan.

    path         ``plan.parts[{i}].of``: what stands in braces is read from the frame, as every expression here.
    call         the generator's method that draws it: ``normal``, ``laplace``, ``choice``, ``multinomial``, …
    inside       the function whose frame is read; else the one that calls the generator.
    when         only where this holds.
    sensitivity  of additive noise: how far one record moves what it is added to. The noise multiplier in force is the
                 scale that the call was given, by this.
    sample       the path of the ``subsample`` node above, batch: of the fixed part of the data; one of both, if any.
    members      the records that take part, population: from how many they were sampled (a number, or a sequence).
    rows         what entered the sum, one row a member (an array, a sequence, or how many).
    public       what was computed of no record; public_rows: how many such rows ran in one batch with records' rows.
    others       parameters of the plan's leaf (``range``, ``epsilon``, …).

    Raises ``UsageError`` for what is no expression.
    """
    known = set(Draw.__slots__) - {"path", "call", "parameters"}
    for name, text in expressions.items():
        if name not in {"inside", "sample", "batch"}:
            _compiled(text, name)
    fixed = {name: text for name, text in expressions.items() if name in known}
    rest = {name: text for name, text in expressions.items() if name not in known}
    return Draw(path, call, parameters=rest, **fixed)


def draws(*named: Draw) -> Callable[[Function], Function]:
    """Says of a function which of the draws in it are the plan's."""

    def mark(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, named)
        return function

    return mark


def draws_of(function: Callable[..., Any]) -> Sequence[Draw]:
    """What was said of it; nothing, if nothing was."""
    found: Sequence[Draw] = getattr(function, _ATTRIBUTE, ())
    return found


def find_frame(frame: FrameType | None, inside: str) -> FrameType | None:
    """The frame, or of the functions that called it the innermost of that name; None where there is none."""
    while frame is not None and inside and frame.f_code.co_name != inside:
        frame = frame.f_back
    return frame


def evaluate(text: str, frame: FrameType, call: Mapping[str, Any]) -> Any:
    """The value of an expression there. Raises ``UsageError`` naming the expression, never a value."""
    scope = {**frame.f_globals, **frame.f_locals, "call": _Call(**call)}
    try:
        return eval(_compiled(text, "expression"), scope)  # noqa: S307 - their reviewer's own words, on this machine
    except Exception as error:
        names = ", ".join(sorted(name for name in frame.f_locals if not name.startswith("_"))[:_MOST_NAMES])
        raise UsageError(
            f"`{text}` cannot be read in {frame.f_code.co_name}: {type(error).__name__}",
            hint=f"There are: {names}; and `call`, with the arguments of the draw.",
        ) from None


class _Call(SimpleNamespace):
    """The arguments of a draw; those that were left out are None."""

    def __getattr__(self, name: str) -> None:
        return None


def placed(path: str, frame: FrameType, call: Mapping[str, Any]) -> str:
    """A path with what stands in braces read from the frame."""
    return _IN_PATH.sub(lambda found: str(evaluate(found[1], frame, call)), path)


def _compiled(text: str, name: str) -> CodeType:
    try:
        return compile(text.strip(), "<named draw>", "eval")
    except (SyntaxError, ValueError, TypeError):
        raise UsageError(
            f"{name} is no Python expression", hint='For example `sensitivity = "2**0.5"`: a text that Python can read.'
        ) from None
