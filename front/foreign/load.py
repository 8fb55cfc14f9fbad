"""``module:function``, or ``file.py:function``: the function of the records that runs somebody's generator."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import UsageError

__all__ = ["load_function"]

_FORM = "Such as `glue.py:run`: a file or a module, and a function of the records in it."


def load_function(name: str) -> Callable[..., Any]:
    """Import it; modules beside the working directory are found. Raises ``UsageError``."""
    where, _, function = name.rpartition(":")
    if not where or not function:
        raise UsageError(f"{name!r} names no function", hint=_FORM)
    path = Path(where)
    folder = str(path.parent.resolve() if path.suffix == ".py" else Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = _from_file(path) if path.suffix == ".py" else importlib.import_module(where)
    except ModuleNotFoundError as error:
        raise UsageError(f"{name!r} needs the module {error.name}", hint=f"Install it. {_FORM}") from None
    except FileNotFoundError:
        raise UsageError(f"there is no file {where}", hint=_FORM) from None
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
