"""What mechanisms release, as JSON and back, to the last bit: how a draw is written down while a run is under way.

An outcome is None, a truth value, a whole or a real number, an array, or a tuple of such.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

__all__ = ["decoded", "encoded"]


def encoded(outcome: object) -> Any:
    """As JSON. Raises ``TypeError`` for what no mechanism releases."""
    match outcome:
        case None | bool() | int():
            return outcome
        case float():
            return {"float": outcome.hex()}
        case np.bool_() | np.integer():
            return outcome.item()
        case np.floating():
            return {"float": float(outcome).hex()}
        case np.ndarray():
            content = base64.b64encode(np.ascontiguousarray(outcome).tobytes()).decode("ascii")
            return {"array": content, "dtype": outcome.dtype.str, "shape": list(outcome.shape)}
        case tuple():
            return {"tuple": [encoded(item) for item in outcome]}
    raise TypeError(f"a {type(outcome).__name__} is no outcome of a mechanism")


def decoded(written: Any) -> Any:
    """What ``encoded`` was given."""
    match written:
        case {"float": value}:
            return float.fromhex(value)
        case {"array": content, "dtype": dtype, "shape": shape}:
            return np.frombuffer(bytearray(base64.b64decode(content)), dtype=np.dtype(dtype)).reshape(shape)
        case {"tuple": items}:
            return tuple(decoded(item) for item in items)
    return written
