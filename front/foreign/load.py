"""``module:function``, or ``file.py:function``: the function of the records that runs somebody's generator.

Their code may do anything. What it raises is said to be theirs, and where it ends the process (``sys.exit(0)`` at the
end of a script) that is a failure too: an exit code is an answer of ours (``called``).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from affidavit.accountant.errors import AffidavitError, UsageError

__all__ = ["called", "load_function"]

_Given = TypeVar("_Given")
_Made = TypeVar("_Made")

_FORM = "Such as `glue.py:run`: a file or a module, and a function of the records in it."


class Ended(Exception):
    """In the place of ``SystemExit``: the code ended the process that called it."""


def called(function: Callable[[_Given], _Made], given: _Given, *, what: str = "the generator") -> _Made:
    """Somebody's function, called. Raises ``UsageError`` from whatever it raised: its type and place, no word of it.

    What of affidavit's own it raised on purpose stays as it is: it says what to do.
    """
    try:
        return function(given)
    except AffidavitError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(what, error) from (Ended() if isinstance(error, SystemExit) else error)


def _failed(what: str, error: BaseException) -> UsageError:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    file, line = frame.filename, frame.lineno
    if isinstance(error, SyntaxError) and error.filename is not None:
        file, line = error.filename, error.lineno
    place = "where it was called with one argument" if file == __file__ else f"at {Path(file).name}:{line}"
    did = "ended the process" if isinstance(error, SystemExit) else f"raised {type(error).__name__}"
    return UsageError(
        f"{what} {did} {place}",
        hint="This is not affidavit's code: mend it there. For the whole traceback, which may show private text: "
        "`export AFFIDAVIT_DEBUG=1`",
    )


def load_function(name: str) -> Callable[..., Any]:
    """Import it; modules beside the working directory are found. Raises ``UsageError``."""
    where, _, function = name.rpartition(":")
    path = Path(where)
    a_file = path.suffix == ".py"
    if not function or not (a_file or all(part.isidentifier() for part in where.split("."))):
        raise UsageError(f"{name!r} names no function", hint=_FORM)
    if a_file and not path.is_file():
        raise UsageError(f"there is no file {where}", hint=_FORM)
    folder = str(path.parent.resolve() if a_file else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = _from_file(path) if a_file else importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise UsageError(f"{name!r} needs the module {error.name}", hint=f"Install it. {_FORM}") from None
    except (Exception, SystemExit) as error:
        raise _failed(where, error) from (Ended() if isinstance(error, SystemExit) else error)
    found = getattr(module, function, None)
    if not callable(found):
        raise UsageError(f"{where} has no function {function}", hint=_FORM)
    return found  # type: ignore[no-any-return]


def _from_file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
