"""Plans: what will be run, as pure data.

A plan is a tree. Inner nodes say how mechanisms are combined, leaves say what one use costs;
no node holds code, data or a default relation. The JSON form is stable: a ``kind``, once
published, never changes its meaning (a changed one is called ``kind/v2``).

    compose   {parts}                       one after another, adaptively, in this order
    repeat    {count, of}                   ``count`` uses, adaptively
    parallel  {parts, membership, moves}    disjoint parts of the data; see ``Parallel``
    subsample {scheme, ..., of, absent}     a fresh, independent sample for each use; see ``Poisson``

What each of them means, and what can reach it: docs/theory/semantics.md.

Leaves of the core: gaussian, discrete-gaussian, laplace, pure, approximate, exponential, zcdp.
Mechanisms register leaves of their own, with what one use costs in these (``register_leaf``, ``core``).
Every leaf parameter is stated *for* the relation of its envelope.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from affidavit.accountant import nodes, remedies, strictjson, validate
from affidavit.accountant.errors import PlanError
from affidavit.accountant.nodes import *  # noqa: F403  (whoever has a plan has its nodes)
from affidavit.accountant.nodes import FieldCheck, Leaf, Plan

__all__ = [
    "canonical_json",
    "core",
    "freeze_leaves",
    "leaf_kinds",
    "leaves",
    "located",
    "parse_envelope",
    "parse_plan",
    "register_leaf",
    "to_dict",
    "value_at",
    "with_value",
]
__all__ += nodes.__all__

MAX_DEPTH = 64
MAX_USES = 10**12
"""Of one node, counts of repeats inside repeats multiplied."""

_STEP = re.compile(r"\.?([A-Za-z_][A-Za-z0-9_-]*)|\[(\d+)\]")

Costs = Callable[[Any], Plan]


@dataclass(frozen=True, slots=True)
class _Kind:
    """A registered leaf kind. ``costs`` is None for the core's own, whose losses the methods know."""

    leaf: type[Leaf]
    checks: Mapping[str, FieldCheck]
    costs: Costs | None


_LEAVES: dict[str, _Kind] = {}
_frozen = False


def register_leaf(leaf: type[Leaf], checks: Mapping[str, FieldCheck], *, costs: Costs | None = None) -> None:
    """Add a leaf kind; ``checks`` maps each field to a ``validate`` function.

    ``costs(leaf)`` says what one use costs, as a plan of kinds registered before (``core``): a
    mechanism registers its one-use loss, and composition stays in one place. Raises ``ValueError`` if
    the kind exists already, because a published kind is never redefined, or after ``freeze_leaves``.
    """
    if leaf.kind in _LEAVES or leaf.kind in _INNER:
        raise ValueError(f"leaf kind {leaf.kind!r} is registered already")
    if _frozen:
        raise ValueError(f"leaf kind {leaf.kind!r}: too late, the registry is frozen once mechanisms are loaded")
    if set(checks) != {field.name for field in fields(leaf)}:
        raise ValueError(f"leaf kind {leaf.kind!r}: checks and fields differ")
    _LEAVES[leaf.kind] = _Kind(leaf, dict(checks), costs)


def freeze_leaves() -> None:
    """No kind may be added from here on: what a plan means can no longer depend on when it is read."""
    global _frozen  # noqa: PLW0603
    _frozen = True


def core(plan: Plan) -> Plan:
    """The same costs in the core's own leaves: every other leaf replaced by what its kind registered."""
    if isinstance(plan, Leaf):
        costs = _LEAVES[plan.kind].costs if plan.kind in _LEAVES else None
        return plan if costs is None else core(parse_plan(costs(plan)))
    return nodes.rebuilt(plan, core)


def leaf_kinds() -> tuple[str, ...]:
    """The registered leaf kinds, in order of registration."""
    return tuple(_LEAVES)


_NODE = {"kind": "gaussian", "noise_multiplier": 1.0}
_EXAMPLES: dict[str, object] = {
    "of": _NODE,
    "parts": [_NODE],
    "count": 100,
    "rate": 0.01,
    "population": 1000,
    "sample": 10,
    "delta": 1e-5,
    "monotone": False,
    "plan": _NODE,
}
"""One value that each field takes; any other number may be 1."""


def _keys(obj: Mapping[str, Any], path: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> None:
    names = ("kind", *required, *optional)
    strictjson.fields(obj, path=path, names=names, later=optional, examples=dict.fromkeys(names, 1.0) | _EXAMPLES)


def _parts(obj: Mapping[str, Any], key: str, path: str, depth: int, *, least: int = 0) -> tuple[Plan, ...]:
    items = obj[key]
    problem = "not a list" if not isinstance(items, (list, tuple)) else "empty" if len(items) < least else ""
    if problem:
        hint = f"For example {remedies.setting(f'{path}.{key}', _EXAMPLES['parts'])}."
        raise PlanError(f"{path}.{key}", problem, allowed="a list of plan nodes", hint=hint)
    return tuple(_parse(item, f"{path}.{key}[{i}]", depth + 1) for i, item in enumerate(items))


def _compose(obj: Mapping[str, Any], path: str, depth: int) -> Plan:
    _keys(obj, path, ("parts",))
    return nodes.Compose(_parts(obj, "parts", path, depth))


def _repeat(obj: Mapping[str, Any], path: str, depth: int) -> Plan:
    _keys(obj, path, ("count", "of"))
    count = validate.whole(obj["count"], path=f"{path}.count", maximum=MAX_USES)
    of = _parse(obj["of"], f"{path}.of", depth + 1)
    if count > (most := MAX_USES // max(1, _uses(of))):
        problem = f"{count} times what is repeated below: more than {MAX_USES} uses in all"
        raise PlanError(f"{path}.count", problem, allowed=f"a whole number >= 0 and <= {most}")
    return nodes.Repeat(count, of)


def _uses(plan: Plan) -> int:
    """How often a node below runs at most, by the counts of repeats in each other."""
    values = (getattr(plan, field.name) for field in fields(plan))
    inside = (value if isinstance(value, tuple) else (value,) for value in values)
    most = max((_uses(node) for several in inside for node in several if isinstance(node, Plan)), default=1)
    return most * plan.count if isinstance(plan, nodes.Repeat) else most


def _parallel(obj: Mapping[str, Any], path: str, depth: int) -> Plan:
    _keys(obj, path, ("parts",), ("membership", "moves"))
    membership = validate.choice(
        obj.get("membership", "moving"), path=f"{path}.membership", options=("moving", "fixed")
    )
    parts = _parts(obj, "parts", path, depth, least=1)  # a record is in one of them
    moves = None if obj.get("moves") is None else _parts(obj, "moves", path, depth)
    if moves is not None and len(moves) != len(parts):
        hint = f"Remove `{path}.moves`, or give each part its own."
        raise PlanError(f"{path}.moves", f"{len(moves)} plans", allowed=f"one plan a part: {len(parts)}", hint=hint)
    return nodes.Parallel(parts, cast("Literal['moving', 'fixed']", membership), moves)


def _subsample(obj: Mapping[str, Any], path: str, depth: int) -> Plan:
    if "scheme" not in obj:
        raise PlanError(f"{path}.scheme", "missing", allowed="poisson | without-replacement")
    scheme = validate.choice(obj["scheme"], path=f"{path}.scheme", options=("poisson", "without-replacement"))
    if scheme == "poisson":
        _keys(obj, path, ("scheme", "rate", "of"), ("absent",))
        rate = validate.rate(obj["rate"], path=f"{path}.rate")
        absent = None if obj.get("absent") is None else _parse(obj["absent"], f"{path}.absent", depth + 1)
        return nodes.Poisson(rate, _parse(obj["of"], f"{path}.of", depth + 1), absent)
    _keys(obj, path, ("scheme", "population", "sample", "of"))
    population = validate.whole(obj["population"], path=f"{path}.population", maximum=int(1 / validate.LEAST))
    sample = validate.whole(obj["sample"], path=f"{path}.sample", maximum=population)
    return nodes.WithoutReplacement(population, sample, _parse(obj["of"], f"{path}.of", depth + 1))


_INNER: dict[str, Callable[[Mapping[str, Any], str, int], Plan]] = {
    "compose": _compose,
    "repeat": _repeat,
    "parallel": _parallel,
    "subsample": _subsample,
}

for _leaf, _checks in nodes.CORE.items():
    register_leaf(_leaf, _checks)


def _parse(obj: object, path: str, depth: int) -> Plan:
    if depth > MAX_DEPTH:
        hint = "A compose inside a compose is one list of parts; the counts of a repeat inside a repeat multiply."
        raise PlanError(path, "nested too deeply", allowed=f"at most {MAX_DEPTH} levels", hint=hint)
    if isinstance(obj, Plan):
        obj = to_dict(obj)
    if not isinstance(obj, Mapping):
        hint = f"For example {remedies.setting(path, _EXAMPLES['of'])}."
        raise PlanError(path, "not a plan node", allowed='an object with a "kind"', hint=hint)
    kinds = (*_INNER, *_LEAVES)
    if "kind" not in obj:
        raise PlanError(f"{path}.kind", "missing", allowed=" | ".join(kinds))
    kind = validate.choice(obj["kind"], path=f"{path}.kind", options=kinds)
    if kind in _INNER:
        return _INNER[kind](obj, path, depth)
    known = _LEAVES[kind]
    _keys(obj, path, tuple(known.checks))
    return known.leaf(**{name: check(obj[name], path=f"{path}.{name}") for name, check in known.checks.items()})


def parse_plan(obj: object, *, path: str = "plan") -> Plan:
    """Read an inner node (a mapping, or a ``Plan`` to be re-checked). Raises ``PlanError``."""
    return _parse(obj, path, 0)


def parse_envelope(obj: object) -> nodes.Envelope:
    """Read ``{"relation", "delta"?, "plan"}``. Raises ``PlanError`` naming the field."""
    if not isinstance(obj, Mapping):
        hint = f"For example `{json.dumps({'relation': 'add-remove', 'delta': 1e-5, 'plan': _EXAMPLES['of']})}`"
        raise PlanError("plan file", "not an object", allowed='{"relation": ..., "delta": ..., "plan": ...}', hint=hint)
    strictjson.fields(
        obj, path="", names=("relation", "delta", "plan"), later=("relation", "delta"), examples=_EXAMPLES
    )
    delta = obj.get("delta")
    return nodes.Envelope(
        relation=validate.relation(obj.get("relation")),
        plan=parse_plan(obj["plan"]),
        delta=None if delta is None else validate.fraction(delta, path="delta"),
    )


def to_dict(plan: Plan) -> dict[str, Any]:
    """The JSON form; ``parse_plan(to_dict(p)) == p``."""
    result: dict[str, Any] = {"kind": plan.kind}
    if isinstance(plan, (nodes.Poisson, nodes.WithoutReplacement)):
        result["scheme"] = plan.scheme
    for field in fields(plan):
        value = getattr(plan, field.name)
        if isinstance(value, Plan):
            value = to_dict(value)
        elif isinstance(value, tuple):
            value = [to_dict(part) for part in value]
        elif value is None or (field.name == "membership" and value == "moving"):
            continue
        result[field.name] = value
    return result


def canonical_json(plan: Plan) -> str:
    """One spelling per plan: sorted keys, no spaces."""
    return json.dumps(to_dict(plan), sort_keys=True, separators=(",", ":"), allow_nan=False)


def located(plan: Plan, *, path: str = "plan", uses: int = 1) -> Iterator[tuple[str, Plan, int]]:
    """Every node in declared order as (path, node, number of uses); ``moves`` and ``absent`` are not walked."""
    yield path, plan, uses
    if isinstance(plan, nodes.Repeat):
        uses *= plan.count
    several = isinstance(plan, (nodes.Compose, nodes.Parallel))
    steps = [f".parts[{i}]" for i in range(len(plan.below))] if several else [".of"]
    for step, node in zip(steps, plan.below, strict=False):
        yield from located(node, path=path + step, uses=uses)


def leaves(plan: Plan) -> Iterator[tuple[str, Leaf, int]]:
    """The leaves among ``located``."""
    return ((path, node, uses) for path, node, uses in located(plan) if isinstance(node, Leaf))


def value_at(plan: Plan, path: str) -> Any:
    """What stands at ``path``, such as ``plan.parts[0].noise_multiplier``, in the JSON form."""
    value: Any = to_dict(plan)
    for step in _steps(path):
        value = value[step]
    return value


def with_value(plan: Plan, path: str, value: object) -> Plan:
    """The plan with another value at ``path``. Raises ``PlanError`` for one that cannot stand there."""
    tree: Any = to_dict(plan)
    *outer, last = _steps(path)
    node = tree
    for step in outer:
        node = node[step]
    node[last] = value
    return parse_plan(tree)


def _steps(path: str) -> list[str | int]:
    """``plan.parts[0].range`` as ``["parts", 0, "range"]``."""
    return [found[1] or int(found[2]) for found in _STEP.finditer(path.removeprefix("plan"))]
