"""Random plans through both engines: time, memory, how far the sides are apart, and which method decided.

Every plan is settled in a process of its own, forked after the imports, so that its memory and processor time are
its own. ``COUNT``, ``WORKERS`` and ``LIMIT`` (seconds in all; plans that no time is left for are not counted) are
environment variables; the plans are the same for every run of one count. ``OMP_NUM_THREADS=1`` keeps the threads of
linear algebra, which spin while others compute, out of the processor time.
The last lines are the slowest and the largest, as JSON, to be run again with ``affidavit epsilon``.
"""

from __future__ import annotations

import json
import os
import random
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from affidavit.accountant.errors import AffidavitError
from affidavit.accountant.settle import settle

COUNT = int(os.environ.get("COUNT", "200"))
WORKERS = int(os.environ.get("WORKERS", "1"))
LIMIT = float(os.environ.get("LIMIT", "inf"))
RELATIONS = ("add-remove", "zero-out", "substitution")
SECONDS, MEGABYTES, PATIENCE = 2.0, 500.0, 60

Node = dict[str, Any]


def _log(rng: random.Random, low: float, high: float) -> float:
    return float(f"{low * (high / low) ** rng.random():.3g}")


def _leaf(rng: random.Random) -> Node:
    draws: Sequence[Callable[[], Node]] = (
        lambda: {"kind": "gaussian", "noise_multiplier": _log(rng, 0.3, 200.0)},
        lambda: {"kind": "gaussian", "noise_multiplier": _log(rng, 0.3, 200.0)},
        lambda: {"kind": "laplace", "noise_multiplier": _log(rng, 0.2, 50.0)},
        lambda: {"kind": "pure", "epsilon": _log(rng, 1e-3, 5.0)},
        lambda: {"kind": "exponential", "range": _log(rng, 1e-3, 3.0)},
        lambda: {"kind": "approximate", "epsilon": _log(rng, 1e-3, 5.0), "delta": _log(rng, 1e-12, 1e-3)},
        lambda: {"kind": "zcdp", "rho": _log(rng, 1e-4, 2.0)},
    )
    return rng.choice(draws)()


def _sampled(rng: random.Random, of: Node) -> Node:
    if rng.random() < 0.6:
        return {"kind": "subsample", "scheme": "poisson", "rate": _log(rng, 1e-4, 1.0), "of": of}
    population = rng.randint(2, 5000)
    sizes = {"population": population, "sample": rng.randint(1, population)}
    return {"kind": "subsample", "scheme": "without-replacement", **sizes, "of": of}


def random_plan(rng: random.Random, depth: int) -> Node:
    """A plan of at most ``depth`` levels above its leaves."""
    kind = rng.choice(("leaf", "leaf", "sample", "repeat", "repeat", "compose", "parallel")) if depth else "leaf"
    if kind == "leaf":
        return _leaf(rng)
    if kind == "sample":
        return _sampled(rng, random_plan(rng, rng.choice((0, 0, 0, depth - 1))))
    if kind == "repeat":
        return {"kind": "repeat", "count": int(_log(rng, 1, 3000)), "of": random_plan(rng, depth - 1)}
    return {"kind": kind, "parts": [random_plan(rng, depth - 1) for _ in range(rng.randint(1, 3))]}


@dataclass(frozen=True, slots=True)
class Settlement:
    """What one plan gave: ``decided`` is the method or the refusal."""

    question: str
    decided: str
    width: float
    seconds: float
    megabytes: float


def _answer(question: str) -> Settlement:
    """In the child."""
    asked = json.loads(question)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    begin = time.process_time()
    width = float("nan")
    try:
        found = settle(asked["plan"], relation=asked["relation"], delta=asked["delta"])
        decided = found.method
        high = found.epsilon_upper
        width = (high - found.epsilon_lower) / high if 0.0 < high < float("inf") else 0.0
    except AffidavitError as error:
        decided = f"refused: {type(error).__name__}"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024.0
    return Settlement(question, decided, width, time.process_time() - begin, grown)


def _apart(question: str) -> Settlement:
    """One plan in a fork; one that is not done after ``PATIENCE`` processor seconds is ended and counted so."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE, PATIENCE + 1))
        try:
            found = _answer(question)
            told = [found.decided, found.width, found.seconds, found.megabytes]
        except BaseException as error:  # a fault of the product: told by its kind, never swallowed
            told = [f"FAULT: {type(error).__name__}: {error}"[:200], float("nan"), 0.0, 0.0]
        os.write(write, json.dumps(told).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    _, _, used = os.wait4(child, 0)
    if not told:
        return Settlement(question, "not done", float("nan"), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024.0)
    return Settlement(question, *json.loads(told))


def questions(count: int) -> list[str]:
    """The first ``count`` random questions."""
    rng = random.Random(20261128)  # noqa: S311 (plans, not noise)
    found = []
    for number in range(count):
        plan, delta = random_plan(rng, 3), _log(rng, 1e-12, 1e-2)
        found.append(json.dumps({"plan": plan, "relation": RELATIONS[number % 3], "delta": delta}))
    return found


def main() -> None:
    """The counts, then the slowest and the largest."""
    end = time.monotonic() + LIMIT

    def in_time(question: str) -> Settlement | None:
        return _apart(question) if time.monotonic() < end else None

    with ThreadPoolExecutor(WORKERS) as pool:
        found = [one for one in pool.map(in_time, questions(COUNT)) if one is not None]
    answered = [one for one in found if one.width == one.width]
    print(f"threads: OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', 'unset')}; processor time of each process")
    print(f"{len(found)} plans, {len(answered)} settled")
    for decided, number in Counter(one.decided for one in found).most_common():
        print(f"{number:7} {decided}")
    for share in (0.5, 0.9, 0.99, 1.0):
        rank = min(len(answered) - 1, int(share * len(answered)))
        width = sorted(one.width for one in answered)[rank]
        seconds = sorted(one.seconds for one in answered)[rank]
        megabytes = sorted(one.megabytes for one in answered)[rank]
        print(f"{share:7.0%}  width {width:8.1e}  {seconds:7.3f} s  {megabytes:7.1f} MB")
    over = [one for one in found if one.seconds > SECONDS or one.megabytes > MEGABYTES]
    print(f"over {SECONDS:g} s or {MEGABYTES:g} MB: {len(over)}")
    for one in sorted(over, key=lambda one: -one.seconds)[:40]:
        print(f"{one.seconds:7.2f} s {one.megabytes:7.1f} MB  {one.decided}: {one.question}")
    for one in found:
        if one.decided.startswith("FAULT") or "Disagreement" in one.decided:
            print(f"{one.decided}: {one.question}")


if __name__ == "__main__":
    main()
