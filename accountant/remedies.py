"""How a refusal states what works.

Between backticks stands what can be typed as it is: a command, a flag, or ``key = value`` for the file (or the
keyword) at hand. A file that only the caller knows is written as the command line's own metavariable
(``RUN.toml``, ``CERT.json``, ``DIR``); the command line puts the names of its call in their place.
"""

from __future__ import annotations

import difflib
import json
import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

__all__ = ["CERTIFY", "did_you_mean", "example", "known_key", "near_file", "nearest", "setting", "unused"]

CERTIFY = "certify what the program needs: `affidavit certify RUN.toml -o CERT.json`"

# What other libraries and papers call the same thing.
_OTHER_NAMES = {
    "unbounded": "add-remove",
    "add-or-remove": "add-remove",
    "addremove": "add-remove",
    "add-or-remove-one": "add-remove",
    "bounded": "substitution",
    "replace": "substitution",
    "replace-one": "substitution",
    "substitute": "substitution",
    "replace-special": "zero-out",
    "zero": "zero-out",
    "gauss": "gaussian",
    "normal": "gaussian",
    "laplacian": "laplace",
    "expmech": "exponential",
    "exponential-mechanism": "exponential",
    "rdp": "zcdp",
    "sequence": "compose",
    "composition": "compose",
    "sample": "subsample",
    "swor": "without-replacement",
}


def nearest(word: object, known: Sequence[str]) -> str | None:
    """The known word that was meant: the same but for case and separators, another name, its beginning, or nearly.

    A beginning ends where a part of the word does, and is that of no other one.
    """
    if not isinstance(word, str) or not 0 < len(word) <= 80:
        return None
    plain = _plain(word)
    by_plain = {_plain(one): one for one in known}
    for candidate in (plain, _OTHER_NAMES.get(plain, "")):
        if candidate in by_plain:
            return by_plain[candidate]
    begun = [one for one in by_plain if one.startswith(f"{plain}-")]
    near = begun if len(begun) == 1 else difflib.get_close_matches(plain, list(by_plain), n=1)
    return by_plain[near[0]] if near else None


def _plain(word: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", word.lower()).strip("-")


def did_you_mean(word: object, known: Sequence[str], *, path: str = "") -> str:
    """``Did you mean `…`?``, with the whole setting where ``path`` says what is set; empty where nothing is near."""
    near = nearest(word, known)
    if near is None:
        return ""
    return f"Did you mean {setting(path, near) if path else f'`{near}`'}?"


def known_key(key: object, known: Sequence[str], there: Collection[str], *, path: str) -> str:
    """What to do with an unknown key: the one that was meant, or away with it. ``there``: what stands beside it."""
    near = nearest(key, known)
    if near is not None and near not in there:
        return f"Did you mean `{near}`?"
    return f"Remove `{path}`" + (f": {near} is there already." if near else ".")


def setting(path: str, value: object) -> str:
    """``path`` set to ``value``, as it is typed: a flag, or a line of a file (a plan is JSON, other tables TOML)."""
    if path.startswith("-"):
        return f"`{path} {shlex.quote(str(value))}`"
    return f"`{path} = {json.dumps(value, ensure_ascii=False) if path.startswith('plan') else _toml(value)}`"


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def near_file(path: Path, key: str = "") -> str:
    """What to do about a file that is not there: the file beside it that was meant, else where it is looked for.

    ``key``: the setting that names the file, if the call itself does not.
    """
    try:
        beside = sorted(one.name for one in path.parent.iterdir() if one.is_file())
    except OSError:
        beside = []
    near = difflib.get_close_matches(
        path.stem, [Path(name).stem for name in beside if Path(name).suffix == path.suffix], n=1
    )
    if near:
        name = near[0] + path.suffix
        return f"Did you mean {setting(key, name) if key else f'`{shlex.quote(str(path.with_name(name)))}`'}?"
    return f"{key or 'The call'} names it: put the file there, or name the one that is meant."


def unused(path: Path) -> Path:
    """``path`` with the first number after its name that no file has: ``out`` becomes ``out-2``."""
    stem, suffix = (path.name, "") if path.is_dir() else (path.stem, path.suffix)
    number = 2
    while (found := path.with_name(f"{stem}-{number}{suffix}")).exists():
        number += 1
    return found


def example(path: str, allowed: str) -> str:
    """A hint with one value of what is ``allowed``, where that is a list of words or a range of numbers."""
    value = _value(path, allowed)
    if value is not None:
        return f"For example {setting(path, value)}."
    return f"Write {path} as {allowed}." if allowed else ""


def _value(path: str, allowed: str) -> object:
    first = allowed.partition(" | ")[0]
    if first == "true":
        return True
    if " | " in allowed:
        return first
    if match := re.fullmatch(r"a whole number >= (\d+)(?: and <= (\d+))?", allowed):
        least, most = int(match[1]), int(match[2]) if match[2] else None
        return max(1, least) if most is None else min(max(1, least), most)
    if match := re.match(r"a (?:finite )?number >=? ?([\d.e+-]+)?", allowed):
        return max(1.0, float(match[1] or 0.0))
    if match := re.match(r"(\d+) (?:\(all\) )?to \d", allowed):
        return int(match[1])
    if re.match(r"a number in [\[(]0, 1\]", allowed):
        return 1e-5 if path.rpartition(".")[2].endswith("delta") else 0.5
    return 1.0 if allowed == "a finite number" or "digits, between" in allowed or "digits such as" in allowed else None
