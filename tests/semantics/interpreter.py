"""A plan, run: exact laws of what two explicit neighbouring data sets release, by docs/theory/semantics.md alone.

Nothing of the accountant is used, not even its parser: a plan is a dict. The run is written out in full:

- **records** have a value (or None, null) and a slot for every ``parallel`` node of the unrolled plan;
- **samples** are all enumerated: Poisson samples as subsets, samples without replacement as subsets of one size, data
  that are too short filled up with nulls where the number of records is not public;
- **mechanisms** are finite. A leaf maps what reaches it to one of a few laws that satisfy its statement whatever
  reaches it: two laws as far apart as the leaf allows (randomised response, a softmax of two tokens with its
  parameter t, a Gaussian told apart by intervals), one between them, disjoint ones where nothing is stated;
- **the adversary** chooses data and slots beforehand, then at every use, from the history, which part goes on and
  which law each input gets. ``hockey_stick`` is the best it can do over all of these choices: a number that real
  mechanisms on real neighbours reach, so no bound may be below it.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Node = Mapping[str, Any]
Value = int | None
Array = np.ndarray[Any, np.dtype[np.float64]]

MAX_OPTIONS = 12
T_GRID = (0.0, 0.25, 0.5, 0.75, 1.0)
FINE_T_GRID = tuple(i / 16 for i in range(17))
MOST_WORLDS = 400
"""Joint samples of a data set; plans with more are not run."""


class TooLargeError(Exception):
    """The plan has more samples than are worth writing out."""


@dataclass(frozen=True)
class Record:
    """A value, and a slot for each unrolled ``parallel`` node (by its number)."""

    value: Value
    slots: tuple[int, ...]


@dataclass
class Use:
    """One use of a leaf: its kind, what it states, and which records reach it.

    ``replaced`` and ``gone``: its parameters for replacing a record and for taking one away; None: nothing is stated.
    ``null``: whether a record may be replaced by null here. ``way``: the filters on the path from the root.
    """

    kind: str
    replaced: Node
    gone: Node | None
    null: bool
    way: tuple[tuple[str, int, int], ...]


@dataclass
class Sample:
    """One use of a subsample node. ``padded``: filled up with nulls to ``population``."""

    scheme: str
    rate: float
    population: int
    sample: int
    padded: bool
    way: tuple[tuple[str, int, int], ...]


@dataclass
class Program:
    """The unrolled plan: uses, samples, the fan-out of every parallel node, and what may run when (``root``)."""

    uses: list[Use] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    parts: list[tuple[int, bool]] = field(default_factory=list)
    root: Any = ()


@dataclass(frozen=True)
class _At:
    """Where a node stands while the plan is unrolled."""

    way: tuple[tuple[str, int, int], ...] = ()
    substitution: bool = False
    null: bool = True
    displaced: bool = False
    part: bool = False


def unroll(plan: Node, relation: str) -> Program:
    """The plan as a program. ``relation``: what its leaves state their costs for."""
    program = Program()
    program.root = _unroll(program, plan, [], _At(substitution=relation == "substitution"))
    return program


def _unroll(program: Program, node: Node, alone: list[Node], at: _At) -> Any:
    """``alone``: the same tree, once for each statement of what a record that comes or goes costs."""
    kind = node["kind"]
    if kind == "compose":
        return [
            "seq",
            *(_unroll(program, part, [a["parts"][i] for a in alone], at) for i, part in enumerate(node["parts"])),
        ]
    if kind == "repeat":
        return ["seq", *(_unroll(program, node["of"], [a["of"] for a in alone], at) for _ in range(node["count"]))]
    if kind == "parallel":
        number = len(program.parts)
        program.parts.append((len(node["parts"]), node.get("membership") == "fixed"))
        threads = ["par"]
        for i, part in enumerate(node["parts"]):
            stated = [
                tree[key][i]
                for tree in [node, *alone]
                for key in ("parts", "moves")
                if tree is not node or key == "moves"
                if tree.get(key)
            ]
            threads.append(_unroll(program, part, stated, _moved(at, ("slot", number, i), part=True)))
        return threads
    if kind == "subsample":
        number = len(program.samples)
        poisson = node["scheme"] == "poisson"
        program.samples.append(
            Sample(
                node["scheme"],
                node.get("rate", 0.0),
                node.get("population", 0),
                node.get("sample", 0),
                at.part,
                at.way,
            )
        )
        inner = _moved(at, ("sample", number, 0), part=at.part and poisson)
        stated = [a["of"] for a in alone] + [a["absent"] for a in [node, *alone] if a.get("absent")]
        if not poisson:
            inner = _At(inner.way, substitution=True, null=True, displaced=True, part=False)
        elif node["rate"] < 1.0:
            inner = _At(inner.way, at.substitution, null=at.displaced, displaced=at.displaced, part=inner.part)
        return _unroll(program, node["of"], stated, inner)
    program.uses.append(_use(node, alone, at))
    return len(program.uses) - 1


def _moved(at: _At, step: tuple[str, int, int], *, part: bool) -> _At:
    return _At((*at.way, step), at.substitution, at.null, at.displaced, part)


def _use(leaf: Node, alone: list[Node], at: _At) -> Use:
    if not at.substitution:  # the leaf states what a record that comes or goes costs
        return Use(leaf["kind"], leaf, leaf, True, at.way)
    stated = [*alone, leaf] if at.null else alone
    return Use(leaf["kind"], leaf, _least(stated) if stated else None, at.null, at.way)


def _least(leaves: Sequence[Node]) -> Node:
    """Parameters that satisfy every one of the statements."""
    least = dict(leaves[0])
    for leaf in leaves[1:]:
        for name, value in leaf.items():
            if name == "noise_multiplier":
                least[name] = max(least[name], value)
            elif name != "kind":
                least[name] = min(least[name], value)
    return least


# --- the laws of a leaf -------------------------------------------------------------------------------------------


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def laws(leaf: Node, *, t: float, cells: int) -> Array:
    """Three laws (rows): the two that are furthest apart, last and first, and one that is no further from either."""
    kind = leaf["kind"]
    if kind == "pure":
        high = _logistic(leaf["epsilon"])
        return np.array([[1 - high, high], [0.5, 0.5], [high, 1 - high]])
    if kind == "approximate":
        high, seen = _logistic(leaf["epsilon"]), leaf["delta"]
        low = [0.0, seen, (1 - seen) * (1 - high), (1 - seen) * high]
        top = [seen, 0.0, (1 - seen) * high, (1 - seen) * (1 - high)]
        return np.array([low, low, top])
    if kind == "zcdp":  # randomised response of ε is ε²/2-zCDP, the Gaussian 1/(2σ²)
        one, other = {"kind": "pure", "epsilon": math.sqrt(2.0 * leaf["rho"])}, _gaussian_of(leaf)
        return laws(other if t == 0.5 else one, t=t, cells=cells)
    if kind == "exponential":
        eta = leaf["range"]
        loss = t * eta
        if eta == 0.0:
            return np.full((3, 2), 0.5)
        q = -math.expm1(loss - eta) / (math.exp(loss) * -math.expm1(-eta))
        p = math.exp(loss) * q
        between = _logistic(0.5 * (_log_odds(p) + _log_odds(q)))
        return np.array([[q, 1 - q], [between, 1 - between], [p, 1 - p]])
    if kind in ("gaussian", "laplace") and leaf["noise_multiplier"] == 0.0:
        return np.eye(3)
    if kind == "laplace":
        scale = leaf["noise_multiplier"]
        edges = np.linspace(0.0, 1.0, cells - 1)
        rows = []
        for mean in (0.0, 0.5, 1.0):
            tails = [0.5 * math.exp(-abs(edge - mean) / scale) for edge in edges]
            below = [tail if edge < mean else 1.0 - tail for edge, tail in zip(edges, tails, strict=True)]
            rows.append(np.diff([0.0, *below, 1.0]))
        return np.array(rows)
    if kind == "gaussian":
        shift = 1.0 / leaf["noise_multiplier"]
        reach = 3.5 if cells > 10 else 1.6
        edges = 0.5 * shift + np.linspace(-reach, reach, cells - 1) * max(1.0, 0.4 * shift)
        rows = []
        for mean in (0.0, 0.5 * shift, shift):
            below = [0.5 * math.erfc((mean - edge) / math.sqrt(2.0)) for edge in edges]
            rows.append(np.diff([0.0, *below, 1.0]))
        return np.array(rows)
    raise TooLargeError(kind)


def _gaussian_of(leaf: Node) -> Node:
    return {"kind": "gaussian", "noise_multiplier": math.sqrt(0.5 / leaf["rho"]) * (1.0 + 1e-15)}


def _log_odds(p: float) -> float:
    return math.log(p / (1 - p)) if 0.0 < p < 1.0 else math.copysign(40.0, p - 0.5)


def _half(replaced: Node, gone: Node) -> Node:
    """A leaf whose outer laws are within ``replaced`` of each other, its middle one within ``gone`` of both."""
    kind = replaced["kind"]
    if kind in ("gaussian", "laplace"):
        return {"kind": kind, "noise_multiplier": max(replaced["noise_multiplier"], 0.5 * gone["noise_multiplier"])}
    if kind == "zcdp":
        return {"kind": kind, "rho": min(replaced["rho"], 4.0 * gone["rho"])}
    if kind == "exponential":
        return {"kind": kind, "range": min(replaced["range"], 2.0 * gone["range"])}
    if kind == "pure":
        return {"kind": kind, "epsilon": min(replaced["epsilon"], math.log(2.0 * math.exp(gone["epsilon"]) - 1.0))}
    return _least([replaced, gone])


def _signed(replaced: Node, gone: Node, *, cells: int) -> list[Array]:
    """Law 0 and law 2 within ``replaced``, law 1 within ``gone`` of both."""
    found = [laws(_half(replaced, gone), t=0.5, cells=cells)]
    if replaced["kind"] == "pure":
        e, r = math.exp(gone["epsilon"]), math.exp(min(replaced["epsilon"], 2.0 * gone["epsilon"]))
        x = (e - 1.0) / (e * e + e * e / r - 2.0)
        old = [e * x, 1.0 - e * x - e * x / r, e * x / r]
        found.append(np.array([old[::-1], [x, 1.0 - 2.0 * x, x], old]))
    return found


Input = tuple[int, ...]
Option = tuple[Array, tuple[int, ...]]
"""Laws (rows), and the row of every input."""


def options(use: Use, inputs: Sequence[Input], *, rng: random.Random, cells: int, most: int) -> list[Option]:
    """Mechanisms for the leaf, as far as these inputs see them."""
    found: list[Option] = []
    grid = (0.5, 0.0) if use.kind == "zcdp" else (0.5,)
    if use.kind == "exponential":
        grid = FINE_T_GRID if cells > 10 else T_GRID
    near = use.replaced if use.gone is None else _least([use.replaced, use.gone])
    # Any two inputs within what both statements allow.
    rows = _assignments(len(inputs), rng, most)
    if use.gone is None:
        sizes = sorted({len(one) for one in inputs})
        for t in grid:
            one = laws(use.replaced, t=t, cells=cells)
            width = one.shape[1]
            apart = np.zeros((3 * len(sizes), width * len(sizes)))
            for i in range(len(sizes)):
                apart[3 * i : 3 * i + 3, width * i : width * (i + 1)] = one
            found += [
                (apart, tuple(3 * sizes.index(len(x)) + r for x, r in zip(inputs, row, strict=True))) for row in rows
            ]
        return found
    for t in grid:
        one = laws(near, t=t, cells=cells)
        found += [(one, row) for row in rows]
        if use.gone != near:  # how many records there are says more
            far = laws(use.gone, t=t, cells=cells)
            found += [(far, tuple(2 * ((len(x) + shift) % 2) for x in inputs)) for shift in (0, 1)]
            found += [(far, tuple(2 * (len(x) > size) for x in inputs)) for size in range(3)]
    if use.replaced != near:  # one value up, another down, neither in the middle
        values = itertools.permutations(sorted({v for one in inputs for v in one}), 2)
        for both, (up, down) in itertools.product(_signed(use.replaced, use.gone, cells=cells), values):
            found.append((both, tuple(1 + (up in x) - (down in x) for x in inputs)))
    return found


def _assignments(count: int, rng: random.Random, most: int) -> list[tuple[int, ...]]:
    """Rows for inputs: all that use the outer two laws (up to exchanging them), then some with the middle one."""
    if 2 ** (count - 1) <= most:
        chosen = [(0, *(2 * b for b in bits)) for bits in itertools.product((0, 1), repeat=count - 1)]
    else:
        chosen = [(0, *(2 * rng.getrandbits(1) for _ in range(count - 1))) for _ in range(most)]
        chosen += [tuple(2 * (i == k) for i in range(count)) for k in range(count)]
    if count > 2:
        chosen += [tuple(rng.choice((0, 1, 2)) for _ in range(count)) for _ in range(most // 3)]
    return [row for row in dict.fromkeys(chosen) if len(set(row)) > 1]


# --- running ------------------------------------------------------------------------------------------------------


def _worlds(
    program: Program, data: Sequence[Record], *, whole: int
) -> list[tuple[float, tuple[tuple[Record, ...], ...]]]:
    """Joint outcomes of all samples: probability, each sample's records. ``whole``: how many the larger data has."""
    worlds: list[tuple[float, tuple[tuple[Record, ...], ...]]] = [(1.0, ())]
    for sample in program.samples:
        grown = []
        for weight, drawn in worlds:
            reaching = _reaching(data, drawn, sample.way)
            for chance, chosen in _draws(sample, reaching, whole=whole):
                grown.append((weight * chance, (*drawn, chosen)))
        worlds = grown
        if len(worlds) > MOST_WORLDS:
            raise TooLargeError("samples")
    return worlds


def _draws(sample: Sample, reaching: Sequence[Record], *, whole: int) -> Iterator[tuple[float, tuple[Record, ...]]]:
    if sample.scheme == "poisson":
        for kept in itertools.product((True, False), repeat=len(reaching)):
            chance = math.prod(sample.rate if keep else 1.0 - sample.rate for keep in kept)
            if chance:
                yield chance, tuple(record for record, keep in zip(reaching, kept, strict=True) if keep)
        return
    records = list(reaching)
    if sample.padded or whole < sample.population:
        records += [Record(None, ())] * (sample.population - len(records))
    size = min(sample.sample, len(records))
    chosen = list(itertools.combinations(records, size))
    for one in chosen:
        yield 1.0 / len(chosen), one


def _reaching(
    data: Sequence[Record], drawn: Sequence[tuple[Record, ...]], way: Sequence[tuple[str, int, int]]
) -> tuple[Record, ...]:
    records = tuple(data)
    for what, number, part in way:
        if what == "sample":
            records = drawn[number]
        else:
            records = tuple(r for r in records if r.value is not None and r.slots[number] == part)
    return records


def _input(records: Sequence[Record]) -> Input:
    return tuple(sorted(record.value for record in records if record.value is not None))


@dataclass
class _Choice:
    """One use that sees a difference: its options, with the law of each world of both data sets."""

    exponential: bool
    options: list[tuple[Array, Array]]


class Run:
    """Two data sets through one program, ready to be attacked."""

    def __init__(
        self, program: Program, first: Sequence[Record], second: Sequence[Record], *, rng: random.Random, most: int
    ) -> None:
        whole = max(len(first), len(second))
        both = [_worlds(program, data, whole=whole) for data in (first, second)]
        self.weights = [np.array([weight for weight, _ in worlds]) for worlds in both]
        found: dict[int, list[list[Input]]] = {}
        for number, use in enumerate(program.uses):
            seen = [
                [_input(_reaching(data, drawn, use.way)) for _, drawn in worlds]
                for data, worlds in ((first, both[0]), (second, both[1]))
            ]
            if len(set(seen[0]) | set(seen[1])) > 1:
                found[number] = seen
        self._choices: dict[int, _Choice] = {}
        cells = {1: 33, 2: 13, 3: 6}.get(len(found), 4)
        for number, seen in found.items():
            use, inputs = program.uses[number], sorted(set(seen[0]) | set(seen[1]))
            index = [np.array([inputs.index(one) for one in side]) for side in seen]
            mechanisms = options(use, inputs, rng=rng, cells=cells, most=max(2, most // len(found)))
            made = [tuple(law[np.array(row)[side]].T for side in index) for law, row in mechanisms]
            self._choices[number] = _Choice(use.kind == "exponential", made)  # type: ignore[arg-type]
        self._root = _pruned(program.root, self._choices)
        uses = list(self._choices.values())
        self._ordered = not any(one.exponential for one in uses)
        self.size = math.prod(len(one.options) * one.options[0][0].shape[0] for one in uses)

    def hockey_stick(self, epsilon: float) -> float:
        """The largest P[S] − e^ε Q[S] that these choices reach, P the first data set's law."""
        return self._best(self._root, self.weights[0], self.weights[1], math.exp(epsilon))

    def _best(self, process: Any, p: Array, q: Array, alpha: float) -> float:
        enabled = _enabled(process)
        total = float(p.sum())
        if not enabled or total <= 0.0:
            return max(0.0, total - alpha * float(q.sum()))
        if self._ordered:
            enabled = enabled[:1]
        best = max(0.0, total - alpha * float(q.sum()))
        for number, rest in enabled:
            last = not _enabled(rest)
            for here, there in self._choices[number].options:
                if last:
                    value = float(np.maximum(here @ p - alpha * (there @ q), 0.0).sum())
                else:
                    value = sum(self._best(rest, p * here[o], q * there[o], alpha) for o in range(len(here)))
                best = max(best, value)
        return best


def _pruned(process: Any, kept: Mapping[int, object]) -> Any:
    """Without the uses that see no difference."""
    if isinstance(process, int):
        return process if process in kept else None
    parts = [part for part in (_pruned(one, kept) for one in process[1:]) if part is not None]
    return [process[0], *parts] if parts else None


def _enabled(process: Any) -> list[tuple[int, Any]]:
    """Each use that may come next, and what is left after it."""
    if process is None:
        return []
    if isinstance(process, int):
        return [(process, None)]
    kind, *parts = process
    found = []
    for i, part in enumerate(parts[:1] if kind == "seq" else parts):
        for number, rest in _enabled(part):
            left = parts[:i] + ([] if rest is None else [rest]) + parts[i + 1 :]
            found.append((number, [kind, *left] if left else None))
    return found


# --- neighbours ---------------------------------------------------------------------------------------------------


def neighbours(
    program: Program, relation: str, *, size: int, rng: random.Random
) -> tuple[tuple[Record, ...], tuple[Record, ...]]:
    """A random pair: others alike mostly, and mostly in the same parts."""
    fan_out = program.parts

    def slots() -> tuple[int, ...]:
        return tuple(rng.randrange(parts) if parts else 0 for parts, _ in fan_out)

    shared = slots()
    alike = rng.random() < 0.75
    others = tuple(
        Record(rng.choice((0, 0, 0, 2, None)) if not alike else 0, shared if alike or rng.random() < 0.5 else slots())
        for _ in range(size - 1)
    )
    changed = Record(1, slots())
    if relation == "add-remove":
        return (changed, *others), others
    if relation == "zero-out":
        return (changed, *others), (Record(None, changed.slots), *others)
    free = shared if rng.random() < 0.5 else slots()
    kept = tuple(old if fixed else new for (_, fixed), old, new in zip(fan_out, changed.slots, free, strict=True))
    value = rng.choice((2, 0, None) if all(use.null for use in program.uses) else (2, 0))
    return (changed, *others), (Record(value, kept), *others)


def population(plan: Node) -> int:
    """Of the outermost sample without replacement; 0 without one."""
    if plan.get("scheme") == "without-replacement":
        return int(plan["population"])
    below = [*plan.get("parts", ()), *([plan["of"]] if "of" in plan else [])]
    return max((population(part) for part in below), default=0)


def attack(plan: Node, relation: str, epsilon: float, *, rng: random.Random, tries: int, work: int = 20_000) -> float:
    """The largest δ at ``epsilon`` of some explicit neighbours and mechanisms. Raises ``TooLargeError``."""
    program = unroll(plan, relation)
    size = population(plan) or rng.choice((1, 2))
    best = 0.0
    for _ in range(tries):
        first, second = neighbours(program, relation, size=size, rng=rng)
        for pair in ((first, second), (second, first)):
            most = MAX_OPTIONS
            run = Run(program, *pair, rng=rng, most=most)
            while run.size > work and most > 2:
                most //= 2
                run = Run(program, *pair, rng=rng, most=most)
            if run.size <= 8 * work:
                best = max(best, run.hockey_stick(epsilon))
    return best


# --- the most that any adversary reaches, where two laws a leaf are all there is ------------------------------------


def is_exhaustible(plan: Node, relation: str) -> bool:
    """Whether ``optimum`` is the supremum over everything: leaves of finite pairs, which a change of two laws attains.

    A change that meets three laws is none (a sampled record that is replaced, or displaced while another stands in its
    place; a leaf that states two costs): there a leaf could tell them apart in more ways than by two laws.
    """
    change = {"add-remove": "leave", "zero-out": "null"}.get(relation, "replace")
    return _two_laws(plan, change, part=False) and all(use.gone == use.replaced for use in unroll(plan, relation).uses)


def _two_laws(node: Node, change: str, *, part: bool) -> bool:
    kind = node["kind"]
    if kind in ("compose", "parallel"):
        inside = part or kind == "parallel"
        return all(_two_laws(one, change, part=inside) for key in ("parts", "moves") for one in node.get(key) or ())
    if kind == "repeat":
        return _two_laws(node["of"], change, part=part)
    if kind == "subsample":
        if node["scheme"] == "poisson":
            return (change != "replace" or node["rate"] == 1.0) and _two_laws(node["of"], change, part=part)
        whole = node["sample"] == node["population"]
        return (whole or (change == "leave" and not part)) and _two_laws(
            node["of"], change if whole else "replace", part=part
        )
    return kind in ("pure", "approximate")


def optimum(plan: Node, relation: str, epsilon: float) -> float:
    """δ at ``epsilon`` over every slot and every assignment of a leaf's two laws. Raises ``TooLargeError``."""
    program = unroll(plan, relation)
    size = population(plan) or 1
    rng = random.Random(0)
    every = list(itertools.product(*(range(max(parts, 1)) for parts, _ in program.parts)))
    if len(every) > 27:
        raise TooLargeError("slots")
    best = 0.0
    for slots, shared in itertools.product(every, every if size > 1 else every[:1]):
        others = tuple(Record(0, shared) for _ in range(size - 1))
        changed = Record(1, slots)
        seconds: list[tuple[Record, ...]] = []
        if relation == "add-remove":
            seconds.append(others)
        elif relation == "zero-out":
            seconds.append((Record(None, slots), *others))
        else:
            ends = {
                tuple(old if fixed else new for (_, fixed), old, new in zip(program.parts, slots, free, strict=True))
                for free in every
            }
            seconds += [(Record(0, end), *others) for end in sorted(ends)]
        for second in seconds:
            for pair in (((changed, *others), second), (second, (changed, *others))):
                run = Run(program, *pair, rng=rng, most=1 << 10)
                if run.size > 3e5:
                    raise TooLargeError("choices")
                best = max(best, run.hockey_stick(epsilon))
    return best
