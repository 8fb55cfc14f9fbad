"""numpy's and Python's generators, replaced while a watch is on, and put back when it ends.

numpy's classes are of C and cannot be changed, so subclasses that tell of every call stand in their place; a
generator that a module made before the watch began is replaced by one that shares its state. Python's are changed in
place. What was taken out of these modules by ``from numpy.random import normal`` is found in the modules that hold it.
Instances kept elsewhere, in an attribute of an object made before, go unseen.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from affidavit.foreign.kinds import NUMPY, PYTHON, Method

__all__ = ["Hub", "Source", "replaced"]

_OURS = ("numpy", "random", "affidavit.foreign", "affidavit.audits", "affidavit.accountant")
_SMALL = 2**64
"""Entropy from the operating system has 128 bits: what is smaller was written by somebody."""

Undo: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Source:
    """Where a draw came from: ``seed`` if one was set, ``own`` an object of its own rather than the module's."""

    library: str
    algorithm: str
    seed: int | None = None
    key: int = 0


class Hub(Protocol):
    """What is told of a call, and answers it."""

    def called(
        self, source: Source, owner: Any, name: str, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The result of ``name`` of ``owner``, drawn by it or in its place."""
        ...

    def seeded(self, library: str, seed: Any) -> None:
        """The library's own generator was seeded."""
        ...

    def seed_of(self, library: str) -> int | None:
        """The last seed of the library's own generator."""
        ...


_HUBS: list[Hub] = []


def replaced(hub: Hub) -> Undo:
    """Tell ``hub`` of every call from now on, until the answer is called."""
    _HUBS.append(hub)
    undo: list[Undo] = []
    try:
        new: dict[int, tuple[Any, Any]] = {}
        _python(undo, new)
        kept = _numpy(hub, undo, new)
        _elsewhere(new, kept, undo)
    except BaseException:
        _undone(undo)
        raise
    return lambda: _undone(undo)


def _undone(undo: list[Undo]) -> None:
    for each in reversed(undo):
        each()
    undo.clear()
    _HUBS.pop()


def _set(owner: Any, name: str, value: Any, undo: list[Undo]) -> None:
    inherited = isinstance(owner, type) and name not in vars(owner)
    before = getattr(owner, name)
    setattr(owner, name, value)
    undo.append(lambda: delattr(owner, name) if inherited else setattr(owner, name, before))


# --- Python's ---------------------------------------------------------------------------------------------------


def _python(undo: list[Undo], new: dict[int, tuple[Any, Any]]) -> None:
    instance = getattr(random, "_inst")  # noqa: B009 - the generator behind the module's functions
    before = {name: getattr(random, name) for name in (*PYTHON, "seed")}
    for owner in (random.Random, random.SystemRandom):
        for name, method in PYTHON.items():
            if name in vars(owner) or (owner is random.Random and hasattr(owner, name)):
                _set(owner, name, _python_method(getattr(owner, name), name, method), undo)
    _set(random.Random, "seed", _python_seed(random.Random.seed, instance), undo)
    for name, original in before.items():
        wrapped = getattr(instance, name)
        new[id(original)] = (original, wrapped)
        _set(random, name, wrapped, undo)


def _python_method(original: Callable[..., Any], name: str, method: Method) -> Callable[..., Any]:
    def call(self: random.Random, *args: Any, **kwargs: Any) -> Any:
        if not _HUBS:
            return original(self, *args, **kwargs)
        return _HUBS[-1].called(_python_source(self, _HUBS[-1]), _Bound(self, original), name, method, args, kwargs)

    return call


def _python_seed(original: Callable[..., None], instance: random.Random) -> Callable[..., None]:
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        original(self, a, version)
        vars(self)["affidavit_seed"] = a
        if self is instance and _HUBS:
            _HUBS[-1].seeded("random", a)

    return seed


def _python_source(generator: random.Random, hub: Hub) -> Source:
    if isinstance(generator, random.SystemRandom):
        return Source("random", "operating system", key=id(generator))
    own = generator is not getattr(random, "_inst")  # noqa: B009
    seed = vars(generator).get("affidavit_seed") if own else hub.seed_of("random")
    return Source("random", "MT19937", _number(seed), id(generator))


@dataclass(frozen=True, slots=True)
class _Bound:
    """A generator with the original of one of its methods."""

    generator: Any
    original: Callable[..., Any]

    def draw(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As it draws by itself."""
        return self.original(self.generator, *args, **kwargs)


# --- numpy's ----------------------------------------------------------------------------------------------------


def _numpy(hub: Hub, undo: list[Undo], new: dict[int, tuple[Any, Any]]) -> dict[type, Callable[[Any], Any]]:
    """Replace what the module has; answers how to replace an instance of each class that somebody keeps."""
    module: Any = np.random
    old_state, old_generator, old_default = module.RandomState, module.Generator, module.default_rng
    state = _watched_class(old_state)
    generator = _watched_class(old_generator)

    def default_rng(seed: Any = None) -> Any:
        made = old_default(seed)
        return made if isinstance(made, generator) else generator(made.bit_generator)

    for name, value in (("RandomState", state), ("Generator", generator), ("default_rng", default_rng)):
        new[id(getattr(module, name))] = (getattr(module, name), value)
        _set(module, name, value, undo)
    for name, method in NUMPY.items():
        original = getattr(module, name, None)
        if original is not None and name not in ("integers",):
            wrapped = _module_function(original, name, method)
            new[id(original)] = (original, wrapped)
            _set(module, name, wrapped, undo)
    seed_before = module.seed

    def seed(value: Any = None) -> None:
        seed_before(value)
        hub.seeded("numpy", value)

    new[id(seed_before)] = (seed_before, seed)
    _set(module, "seed", seed, undo)
    return {
        old_generator: lambda value: generator(value.bit_generator),
        old_state: lambda value: state(value._bit_generator),
    }


def _watched_class(base: Any) -> Any:
    def start(self: Any, *args: Any, **kwargs: Any) -> None:
        base.__init__(self, *args, **kwargs)
        given = args[0] if args else kwargs.get("seed")
        self.affidavit_seed = given if isinstance(given, (int, np.integer)) else None

    members: dict[str, Any] = {"__init__": start}
    for name, method in NUMPY.items():
        if hasattr(base, name):
            members[name] = _instance_method(getattr(base, name), name, method)
    if hasattr(base, "seed"):
        members["seed"] = _instance_seed(base.seed)
    return type(base.__name__, (base,), members)


def _instance_method(original: Callable[..., Any], name: str, method: Method) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not _HUBS:
            return original(self, *args, **kwargs)
        return _HUBS[-1].called(_numpy_source(self), _Bound(self, original), name, method, args, kwargs)

    return call


def _instance_seed(original: Callable[..., None]) -> Callable[..., None]:
    def seed(self: Any, value: Any = None) -> None:
        original(self, value)
        self.affidavit_seed = value

    return seed


def _numpy_source(generator: Any) -> Source:
    bits = generator._bit_generator if hasattr(generator, "_bit_generator") else generator.bit_generator
    seed = generator.affidavit_seed
    if seed is None:
        entropy = getattr(getattr(bits, "seed_seq", None), "entropy", None)
        first = entropy[0] if isinstance(entropy, (list, tuple)) and entropy else entropy
        seed = first if isinstance(first, int) and first < _SMALL else None
    return Source("numpy", type(bits).__name__, _number(seed), id(bits))


def _module_function(original: Callable[..., Any], name: str, method: Method) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _HUBS:
            return original(*args, **kwargs)
        hub = _HUBS[-1]
        source = Source("numpy", "MT19937", hub.seed_of("numpy"))
        return hub.called(source, _Free(original), name, method, args, kwargs)

    return call


@dataclass(frozen=True, slots=True)
class _Free:
    """A function of the module."""

    original: Callable[..., Any]

    def draw(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As it draws by itself."""
        return self.original(*args, **kwargs)


# --- where else they are ----------------------------------------------------------------------------------------


def _elsewhere(new: dict[int, tuple[Any, Any]], kept: dict[type, Callable[[Any], Any]], undo: list[Undo]) -> None:
    """In other modules, by whatever name: what was imported, and generators that they keep."""
    for holder in list(_namespaces()):
        for name, value in list(holder.items()):
            if id(value) in new and new[id(value)][0] is value:
                _replace(holder, name, new[id(value)][1], undo)
            elif type(value) in kept:
                _replace(holder, name, kept[type(value)](value), undo)


def _namespaces() -> Iterator[dict[str, Any]]:
    for name, module in list(sys.modules.items()):
        if not any(name == ours or name.startswith(f"{ours}.") for ours in _OURS):
            holder = getattr(module, "__dict__", None)
            if isinstance(holder, dict):
                yield holder


def _replace(holder: dict[str, Any], name: str, value: Any, undo: list[Undo]) -> None:
    before = holder[name]
    holder[name] = value
    undo.append(lambda: holder.__setitem__(name, before))


def _number(seed: Any) -> int | None:
    """A seed as a trace can state it: a text is one too, but its number is not its own."""
    if seed is None:
        return None
    return int(seed) if isinstance(seed, (int, np.integer)) else 0
