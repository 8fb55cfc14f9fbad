"""torch's draws: every call of its functions passes a mode while a watch is on."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from affidavit.foreign.kinds import TORCH
from affidavit.foreign.sources import Hub, Source, Undo

__all__ = ["torch_replaced"]

_INITIALISERS = ("torch.nn.init", "transformers.initialization", "transformers.modeling_utils")
_NEAR = 6
_WRITTEN = 2**32
_DEFAULT_SEED = 67280421310721
"""What ``torch.Generator()`` is seeded with until it is given another: the same in every process."""


@dataclass(frozen=True, slots=True)
class _Call:
    function: Callable[..., Any]

    def draw(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As torch draws by itself."""
        return self.function(*args, **kwargs)


def torch_replaced(hub: Hub) -> Undo:
    """Tell ``hub`` of torch's draws, until the answer is called. Nothing, where torch was not imported."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return lambda: None
    from torch.overrides import TorchFunctionMode

    class Mode(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = getattr(function, "__name__", "")
            if name not in TORCH or _is_setting_up(args):
                return function(*args, **(kwargs or {}))
            generator = (kwargs or {}).get("generator")
            seed = hub.seed_of("torch") if generator is None else _seed(generator.initial_seed())
            algorithm = "MT19937" if generator is None or generator.device.type == "cpu" else "Philox"
            source = Source("torch", algorithm, seed, id(generator))
            return hub.called(source, _Call(function), name, TORCH[name], tuple(args), dict(kwargs or {}))

    before = torch.manual_seed

    def manual_seed(seed: Any) -> Any:
        hub.seeded("torch", int(seed))
        return before(seed)

    torch.manual_seed = torch.random.manual_seed = manual_seed
    mode: Any = Mode()
    mode.__enter__()

    def undo() -> None:
        mode.__exit__(None, None, None)
        torch.manual_seed = torch.random.manual_seed = before

    return undo


def _is_setting_up(args: tuple[Any, ...]) -> bool:
    """Whether weights are being made, which are no draw of a generator: without storage, or by an initialiser."""
    if args and getattr(args[0], "is_meta", False):
        return True
    frame = sys._getframe(2)
    for _ in range(_NEAR):
        if frame.f_globals.get("__name__") in _INITIALISERS:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False


def _seed(initial: int) -> int | None:
    return initial if initial < _WRITTEN or initial == _DEFAULT_SEED else None
