"""Damage to a valid file: bits, bytes and pieces of any file; values and fields of JSON; values and lines of TOML."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

ODD_TEXTS = ("", " ", "\x00", "\ud83d", "x" * 5000, "../../etc", "a" * 300, "\u202e", "é", "1e999", "nan", "-0", "\r\n")
ODD_NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, 10**30, -(10**30), 0.5, 1e-320, 1e308, -0.0, 1e-5, 3)
ODD_VALUES: tuple[Any, ...] = (*ODD_TEXTS, *ODD_NUMBERS, None, True, False, [], {}, [[]], {"": {}}, [None], ["a", "a"])

# What is no JSON of Python's, and what a parser may stumble over.
PIECES = (
    b"NaN",
    b"Infinity",
    b"1e999",
    b"1" * 5000,
    b"[" * 5000,
    b'{"a":' * 3000,
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\\ud83d",
    b'"',
    b"\n",
    b"\r",
    b",",
    b";",
    b"\t",
    b"#",
    b"[a]",
    b"[[a]]",
    b"x" * 70_000,
    b"-",
    b"e",
    b"'''",
    b"0x",
    b"1979-05-27",
)

TOML_VALUES = (
    '""', "''", "0", "-1", "1e308", "1e-320", "nan", "inf", "-inf", "true", "[]", "{}", "[[]]", "1979-05-27",
    "07:32:00", "9223372036854775807", "1" * 4500, '"\\u0000"', '"a"', '["a", "a"]', "[1, 'a']", "{a = {b = 1}}",
    "[" * 400 + "]" * 400, '"' + "x" * 5000 + '"', "0.5", "1", "2", "1e-9", "'../..'", "'/dev/zero'",
    "1_000_000_000", "0xFFFF",
)  # fmt: skip

Mutation = Callable[[bytes, random.Random], bytes]


def _bit(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 3, 10))):
        if changed:
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _byte(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8))):
        if changed:
            changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _span(content: bytes, chance: random.Random) -> tuple[int, int]:
    begin = chance.randrange(len(content) + 1)
    return begin, min(len(content), begin + chance.choice((1, 2, 5, 20, 100, len(content))))


def _dropped(content: bytes, chance: random.Random) -> bytes:
    begin, end = _span(content, chance)
    return content[:begin] + content[end:]


def _repeated(content: bytes, chance: random.Random) -> bytes:
    begin, end = _span(content, chance)
    return content[:end] + content[begin:end] * chance.choice((1, 1, 2, 50)) + content[end:]


def _pieced(content: bytes, chance: random.Random) -> bytes:
    begin, end = _span(content, chance)
    return content[:begin] + chance.choice(PIECES) + content[chance.choice((begin, end)) :]


def _noise(content: bytes, chance: random.Random) -> bytes:
    return chance.randbytes(chance.choice((0, 1, 10, 1000)))


BYTES: tuple[Mutation, ...] = (_bit, _bit, _byte, _dropped, _repeated, _pieced, _pieced, _noise)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a JSON document."""
    found = [at]
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            found += places(item, (*at, key))
    return found


def _odd(chance: random.Random) -> Any:
    """One of ``ODD_VALUES``, to be changed in its turn: the list itself stays as it is for the next input."""
    return copy.deepcopy(chance.choice(ODD_VALUES))


def mutated_value(value: Any, chance: random.Random) -> Any:
    """A JSON value with one to three places changed; the original is left as it is."""
    changed = json.loads(json.dumps(value))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at = chance.choice(places(changed))
        if not at:
            continue
        holder = changed
        for key in at[:-1]:
            holder = holder[key]
        match chance.randrange(6):
            case 0:
                del holder[at[-1]]
            case 1 if isinstance(holder, dict):
                holder[chance.choice(("", "x", "kind", "of", "schema", "\x00", "é"))] = _odd(chance)
            case 2:
                old = holder[at[-1]]
                holder[at[-1]] = chance.choice(([old], {"of": old}, [old, old], str(old)[:200]))
            case 3 if isinstance(holder[at[-1]], int | float):
                holder[at[-1]] *= chance.choice((-1, 2, 1000, 0.1, 10**9))
            case _:
                holder[at[-1]] = _odd(chance)
    return changed


def spelled(value: Any) -> bytes:
    """As JSON in UTF-8, half surrogates included."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def json_document(content: bytes, chance: random.Random) -> bytes:
    return spelled(mutated_value(json.loads(content), chance))


def json_lines(content: bytes, chance: random.Random) -> bytes:
    lines = content.splitlines()
    at = chance.randrange(len(lines))
    lines[at] = spelled(mutated_value(json.loads(lines[at]), chance))
    if chance.random() < 0.3:
        lines.insert(chance.randrange(len(lines)), chance.choice(lines))
    return b"\n".join(lines) + b"\n"


def toml_document(content: bytes, chance: random.Random) -> bytes:
    lines = content.decode().splitlines()
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        key, sign, _value = lines[at].partition("=")
        match chance.randrange(5):
            case 0:
                del lines[at]
                lines = lines or [""]
            case 1:
                lines.insert(chance.randrange(len(lines)), lines[at])
            case 2:
                lines.insert(
                    at, f"{chance.choice(('x', 'kind', 'name', 'path', 'a.b'))} = {chance.choice(TOML_VALUES)}"
                )
            case _ if sign:
                lines[at] = f"{key}= {chance.choice(TOML_VALUES)}"
            case _:
                lines[at] = chance.choice(("[x]", "[[data]]", "[data", "[generator.x]", ""))
    return ("\n".join(lines) + "\n").encode()
