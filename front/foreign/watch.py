"""Everything that is drawn while a generator runs: by which source, seeded or not, and as which draw of the plan."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sys
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from affidavit.accountant.errors import UsageError
from affidavit.audits.neighbour import Step
from affidavit.audits.trace.events import SCHEMA
from affidavit.audits.trace.mersenne import MERSENNE_WORDS
from affidavit.foreign.alignment import Aligned, How
from affidavit.foreign.draw import Draw, evaluate, find_frame
from affidavit.foreign.kinds import Kind, Method, kind_of
from affidavit.foreign.naming import Names
from affidavit.foreign.reading import Happened, read_draw
from affidavit.foreign.sources import Source, Undo, replaced
from affidavit.foreign.torch_draws import torch_replaced
from affidavit.generation.dataset import Record

__all__ = ["Call", "Seeding", "Watch", "claim"]

_LIBRARIES = ("numpy", "torch", "random", "affidavit.foreign")


@dataclass(frozen=True, slots=True)
class Call:
    """One draw.

    ``digest``  of what came out; of a choice, of the state of the generator behind it.
    ``size``    how many numbers came out. ``named``: whether the plan knows it.
    ``step``: how many named draws came before it.
    """

    source: Source
    name: str
    kind: Kind
    site: str
    digest: str
    size: int
    named: bool
    how: How
    step: int


@dataclass(frozen=True, slots=True)
class Seeding:
    """A library's own generator was seeded."""

    library: str
    seed: int | None
    site: str


_WATCHES: list[Watch] = []


def claim(*, epsilon: float, delta: float) -> None:
    """Write down what the run says that it cost, for its trace. Raises ``UsageError`` where nothing watches."""
    if not _WATCHES:
        raise UsageError(
            "nothing is being watched", hint="Call it in the function that is watched, inside `with Watch(records)`."
        )
    _WATCHES[-1].claims.append({"event": "claim", "epsilon": float(epsilon), "delta": float(delta)})


@dataclass(slots=True)
class Watch:
    """``with Watch(records, draws) as watch: run(records)``; then ``watch.trace()`` and ``watch.calls``.

    Expressions of ``draws`` are evaluated as they happen. ``aligned``: what is drawn instead, to compare neighbours.
    """

    records: Sequence[Record]
    draws: Sequence[Draw] = ()
    aligned: Aligned | None = None
    calls: list[Call] = field(default_factory=list)
    seedings: list[Seeding] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    public: dict[Hashable, tuple[Hashable, ...]] = field(default_factory=dict)
    coins: dict[str, list[str | None]] = field(default_factory=dict)
    _lines: list[dict[str, Any]] = field(default_factory=list, repr=False)
    _names: Names = field(init=False, repr=False)
    _uses: Counter[str] = field(default_factory=Counter, repr=False)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _undo: list[Undo] = field(default_factory=list, repr=False)
    _busy: bool = False
    _worded: bool = False

    def __post_init__(self) -> None:
        self._names = Names(self.records)

    def __enter__(self) -> Watch:
        self._undo = [replaced(self), torch_replaced(self)]
        _WATCHES.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _WATCHES.remove(self)
        for undo in reversed(self._undo):
            undo()

    # --- told by the sources ---

    def seeded(self, library: str, seed: Any) -> None:
        """The library's own generator was seeded; with None, by the operating system."""
        number = None if seed is None else int(seed) if isinstance(seed, (int, np.integer)) else 0
        self.seedings.append(Seeding(library, number, _site(_caller())))

    def seed_of(self, library: str) -> int | None:
        """The last seed that the library's own generator was given, while watched."""
        return next((each.seed for each in reversed(self.seedings) if each.library == library), None)

    def called(
        self, source: Source, owner: Any, name: str, method: Method, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One draw: as it would be, or in its place what is aligned; written down."""
        if self._busy:
            return owner.draw(args, kwargs)
        self._busy = True
        try:
            frame = _caller()
            site = _site(frame)
            arguments = method.arguments(args, kwargs)
            kind = kind_of(method, arguments)
            if kind == "coin":
                self.coins.setdefault(site, []).append(self._names.in_frame(frame))
            named = self._named(name, frame)
            state = _state(owner, source) if kind == "choice" else ""
            words = self._words(owner, source) if named else ()
            how: How = "as it is"
            if self.aligned is None:
                result = owner.draw(args, kwargs)
            else:
                result, how = self.aligned.draw(source, owner, name, method, kind, args, kwargs, frame, site)
            happened = Happened(name, kind, method, arguments, result, state)
            before = len(self.steps)
            self._read(named, happened, words)
            shown = arguments.get("x") if name == "shuffle" else result
            digest = state if kind == "choice" else _digest(shown)
            self.calls.append(
                Call(source, name, kind, site, digest, _size(shown), len(self.steps) > before, how, before)
            )
            return result
        finally:
            self._busy = False

    def _named(self, name: str, frame: FrameType) -> list[tuple[Draw, FrameType]]:
        wanted = ((draw, find_frame(frame, draw.inside)) for draw in self.draws if draw.call == name)
        return [(draw, found) for draw, found in wanted if found is not None]

    def _read(self, named: Sequence[tuple[Draw, FrameType]], happened: Happened, words: Sequence[int]) -> None:
        for draw, where in named:
            if draw.when and not evaluate(draw.when, where, happened.seen()):
                continue
            reading = read_draw(draw, happened, where, self._names, use=self._use, key=self._hidden)
            if words:
                reading.lines[-1]["noise_words"] = list(words)
            self._lines += reading.lines
            self.steps.append(reading.step)
            self.public |= reading.public
            return

    def _use(self, path: str) -> int:
        self._uses[path] += 1
        return self._uses[path] - 1

    def _hidden(self, name: str) -> str:
        return hmac.digest(self._key, name.encode(), "sha256").hex()

    def _words(self, owner: Any, source: Source) -> Sequence[int]:
        """The raw words that come next out of a Mersenne Twister, once a run."""
        if self._worded or self.aligned is not None or source.algorithm != "MT19937" or source.library == "torch":
            return ()
        self._worded = True
        return _raw(owner, source)

    # --- what was seen ---

    def trace(self, *, generator: str = "") -> list[dict[str, Any]]:
        """The lines of the documented format (docs/trace.md), as far as draws were named. Private."""
        noise = [call.source for call in self.calls if call.named]
        until = max((place for place, call in enumerate(self.calls) if call.named), default=0)
        sampling = [call.source for call in self.calls[:until] if not call.named and call.kind in ("sample", "coin")]
        run: dict[str, Any] = {"event": "run", "schema": SCHEMA}
        if generator:
            run["generator"] = generator
        for name, sources in (("sampler", noise), ("sampling", sampling)):
            if sources:
                run[name] = _stated(next((each for each in sources if each.seed is not None), sources[0]))
        return [run, *self._lines, *self.claims]

    def coin_sites(self) -> frozenset[str]:
        """The places where uniform numbers are drawn for one record after another."""
        return frozenset(
            site
            for site, found in self.coins.items()
            if len(found) > 1 and None not in found and all(a != b for a, b in pairwise(found))
        )


def _stated(source: Source) -> dict[str, Any]:
    stated: dict[str, Any] = {"algorithm": f"{source.library} {source.algorithm}"}
    return stated if source.seed is None else {**stated, "seed": source.seed}


def _caller() -> FrameType:
    """The frame of the code that asked: outside of this package and of the libraries of the generators."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not any(name == library or name.startswith(f"{library}.") for library in _LIBRARIES):
            break
        frame = frame.f_back
    return frame


def _site(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"


def _state(owner: Any, source: Source) -> str:
    """A digest of the generator's state: two choices from one state are one choice. Empty where it has none."""
    generator: Any = getattr(owner, "generator", None)
    if source.library == "torch":
        import torch

        found: Any = torch.random.get_rng_state().numpy().tobytes()
    elif source.algorithm == "operating system":
        return ""
    elif source.library == "random":
        found = repr(generator.getstate()).encode()
    else:
        found = _words_of(_bits(generator).state)
    return hashlib.sha256(found).hexdigest()


def _bits(generator: Any) -> Any:
    """numpy's bit generator behind a generator, or behind the module's functions."""
    owner: Any = generator if generator is not None else np.random.mtrand._rand
    return owner._bit_generator if hasattr(owner, "_bit_generator") else owner.bit_generator


def _words_of(state: Any) -> bytes:
    if isinstance(state, dict):
        return b"".join(name.encode() + _words_of(state[name]) for name in sorted(state))
    return state.tobytes() if isinstance(state, np.ndarray) else repr(state).encode()


def _raw(owner: Any, source: Source) -> list[int]:
    import copy
    import random

    generator: Any = getattr(owner, "generator", None)
    if source.library == "numpy":
        return [int(word) for word in copy.deepcopy(_bits(generator)).random_raw(MERSENNE_WORDS)]
    twin = random.Random()  # noqa: S311 - a copy of theirs
    twin.setstate(generator.getstate())
    return [twin.getrandbits(32) for _ in range(MERSENNE_WORDS)]


def _plain(value: Any) -> Any:
    if hasattr(value, "detach"):
        return value.detach().to("cpu").float().numpy()
    return value if isinstance(value, (int, float, np.ndarray, np.generic)) else repr(value)


def _size(value: Any) -> int:
    return len(value) if isinstance(value, (list, tuple)) else int(np.size(_plain(value)))


def _digest(value: Any) -> str:
    plain = _plain(value)
    return hashlib.sha256(plain.tobytes() if isinstance(plain, np.ndarray) else repr(plain).encode()).hexdigest()
