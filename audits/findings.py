"""Findings: what an audit wrote down, bound to the certificate it tried to refute.

A findings file is a *private* artefact (it tells which records leaked), and still holds no
private text: a leaked identifier appears as an HMAC under a key that lives for one run, with
the place where it was found. The JSON Schema in ``schemas/findings.schema.json`` is generated
from these classes and those of ``finding``, so the two cannot drift.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from affidavit.accountant import files
from affidavit.accountant.errors import UsageError
from affidavit.accountant.show import Facts, Shown, lower
from affidavit.audits.finding import (
    CheckFinding,
    DiscoverableFinding,
    Finding,
    Tested,
    is_control,
    leakage_of,
    overlap_of,
)

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter, ValidationError

__all__ = [
    "SCHEMA",
    "Findings",
    "Outcome",
    "Policy",
    "SelfTest",
    "json_schema",
    "merge",
    "parse",
    "read",
    "sourced",
    "write",
]

SCHEMA = "https://affidavit.dev/schemas/findings/v2"

Outcome = Literal["refuted", "policy-failed", "inconclusive", "holds"]

_STRICT: ConfigDict = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfTest:
    """A planted fault (or its absence), and whether the audit saw what it should see."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: Literal["noise off", "half noise", "null pair"]
    attack: str
    expected: Literal["caught", "not caught"]
    observed: Literal["caught", "not caught"]
    detail: str = ""

    @property
    def passed(self) -> bool:
        """Whether the audit may be believed as far as this test goes."""
        return self.expected == self.observed

    @property
    def reason(self) -> str:
        """Why a failed test makes its audit inconclusive."""
        seen = "found something in a null pair" if self.name == "null pair" else f"did not catch {self.name!r}"
        return f"self-test: {self.attack} {seen}" + (f" ({self.detail})" if self.detail else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the operator tolerates. Breaking it is a policy failure, not a VIOLATION."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    max_leaked: int = 0
    allow_underpowered: bool = False
    max_verbatim: int = 0
    max_near_copies: int = 0
    max_extractable: int = 0

    def broken_by(self, item: Finding) -> tuple[str, ...]:
        """What of a finding is more than is tolerated, in words."""
        broken = []
        leakage, overlap = leakage_of(item), overlap_of(item)
        if leakage is not None and leakage.beyond_guessable > self.max_leaked:
            broken.append(f"{leakage.beyond_guessable} leaked beyond the guessable, {self.max_leaked} allowed")
        if overlap is not None and overlap.verbatim > self.max_verbatim:
            broken.append(
                f"{overlap.verbatim} texts with {overlap.words} words in a row of a private record, "
                f"{self.max_verbatim} allowed"
            )
        near = None if overlap is None else overlap.near
        if near is not None and near.near > self.max_near_copies and near.chance <= item.alpha:
            broken.append(
                f"{near.near} texts with a near copy of a private record, {self.max_near_copies} allowed; "
                f"chance would copy so many of the members with probability {near.chance:.2g}"
            )
        if (
            isinstance(item, DiscoverableFinding)
            and item.extractable > self.max_extractable
            and item.luck <= item.alpha
        ):
            broken.append(
                f"{item.extractable} records extractable in {item.queries} queries, {self.max_extractable} allowed; "
                f"chance would make so many of them members with probability {item.luck:.2g}"
            )
        return tuple(broken)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Findings(Shown):
    """Everything one audit found."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    schema: str = SCHEMA
    certificate_sha256: str | None
    items: tuple[Finding, ...]
    self_tests: tuple[SelfTest, ...] = ()
    policy: Policy = Policy()

    def facts(self) -> Facts:
        """The worst outcome, and a row for every attack."""
        rows = [_row(item) for item in self.items]
        failed = [test for test in self.self_tests if not test.passed]
        tests = f", {len(self.self_tests)} self-tests, {len(failed)} failed" if self.self_tests else ""
        count = f"{len(self.items)} {'finding' if len(self.items) == 1 else 'findings'}"
        columns = ("attack", "target", "verdict", "ε at least", "a perfect attack", "leaked")
        return Facts(f"{self.outcome}: {count}{tests}", columns, tuple(rows))

    @property
    def audited(self) -> tuple[Finding, ...]:
        """The items that count: all but controls, and checks that could not be made."""
        return tuple(item for item in self.items if item.judged)

    @property
    def total_alpha(self) -> float:
        """The chance, at most, that any item here refutes a true claim: the sum of their levels."""
        return min(1.0, sum(item.alpha for item in self.tests))

    @property
    def tests(self) -> tuple[Finding, ...]:
        """The audited items that put a claim to the test, rather than only count."""
        return tuple(item for item in self.audited if item.is_test)

    def outcomes(self) -> tuple[tuple[Outcome, str], ...]:
        """Every outcome with its reason, worst first.

        A failing null pair makes a VIOLATION doubtful, a failing noise-off or half-noise test
        makes a CONSISTENT worthless: either way the audit of that attack is inconclusive. A
        violation found by a test that only lacks power stands.
        """
        found = [outcome for item in self.audited for outcome in self.outcomes_of(item)]
        found.extend(("inconclusive", test.reason) for test in self.self_tests if not test.passed)
        found = list(dict.fromkeys(found))
        if not self.audited:
            found.append(("inconclusive", "nothing was audited"))
        order: tuple[Outcome, ...] = ("refuted", "policy-failed", "inconclusive")
        found.sort(key=lambda pair: order.index(pair[0]))
        return tuple(found) or (("holds", "no item contradicts the claim"),)

    def outcomes_of(self, item: Finding) -> tuple[tuple[Outcome, str], ...]:
        """What one item comes to, with its attack's self-tests; nothing for a control or where nothing is wrong."""
        if not item.judged:
            return ()
        found: list[tuple[Outcome, str]] = []
        tests = [test for test in self.self_tests if test.attack == item.attack and not test.passed]
        false_alarm = any(test.name == "null pair" for test in tests)
        check = isinstance(item, CheckFinding)
        where = item.attack if check else f"{item.attack} ({item.target})"
        if item.verdict == "VIOLATION" and not false_alarm:
            reason = item.note if check else "the lower bound exceeds the claim"
            found.append(("refuted", f"{where}: {reason}"))
        found.extend(("policy-failed", f"{where}: {broken}") for broken in self.policy.broken_by(item))
        if item.verdict == "UNDERPOWERED" and not self.policy.allow_underpowered:
            lacks = "it could not have shown a violation" + (f" ({item.note})" if item.note else "")
            found.append(("inconclusive", f"{where}: {item.note if check else lacks}"))
        if not check and (item.verdict != "VIOLATION" or false_alarm):
            found.extend(("inconclusive", test.reason) for test in tests)
        return tuple(found)

    @property
    def outcome(self) -> Outcome:
        """The worst outcome."""
        return self.outcomes()[0][0]

    @property
    def exit_code(self) -> int:
        """1 refuted or policy failed, before 5 inconclusive, before 0."""
        return {"refuted": 1, "policy-failed": 1, "inconclusive": 5, "holds": 0}[self.outcome]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return dict(_adapter().dump_python(self, mode="json"))

    def to_json(self) -> str:
        """Indented JSON without NaN or infinity. ``sha256`` is of all the rest, so that no value changes unseen."""
        return json.dumps({**self.to_dict(), "sha256": self.digest}, indent=2, allow_nan=False) + "\n"

    @property
    def digest(self) -> str:
        """Of what it says, not of how that is spelled. It says that nothing was lost on the way, not who wrote it."""
        said = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(said.encode()).hexdigest()


def _row(item: Finding) -> tuple[str, ...]:
    leakage = leakage_of(item)
    tested = item if isinstance(item, Tested) else None
    return (
        item.attack,
        item.target + (", control" if is_control(item) else ""),
        item.verdict,
        "" if tested is None or tested.epsilon_lower is None else lower(tested.epsilon_lower),
        lower(tested.ceiling) if tested else "",
        "" if leakage is None else str(leakage.leaked),
    )


@cache
def _adapter() -> TypeAdapter[Findings]:
    from pydantic import TypeAdapter

    return TypeAdapter(Findings)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a findings file."""
    schema = _adapter().json_schema(mode="serialization")
    schema["properties"]["sha256"] = {"pattern": "^[0-9a-f]{64}$", "title": "Sha256", "type": "string"}
    schema["required"].append("sha256")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA, **schema}


def sourced(findings: Findings, path: Path | None, *, base: Path | None = None) -> Findings:
    """With ``path`` as every item's source, if it is a file in ``base`` (default: the working folder) or below."""
    root = (base or Path.cwd()).resolve()
    if path is None or not path.is_file() or not path.resolve().is_relative_to(root):
        return findings
    source = path.resolve().relative_to(root).as_posix()
    return replace(findings, items=tuple(replace(item, source=source) for item in findings.items))


def merge(parts: Iterable[Findings]) -> Findings:
    """Several audits of one certificate as one file, under the strictest of their policies.

    An audit whose self-test failed goes by a name of its own where another made the same attack: it casts doubt on
    itself alone, and a claim that the other refuted stays refuted.

    Raises ``UsageError`` when they are bound to different certificates, or when there is none.
    """
    collected = tuple(parts)
    if not collected:
        raise UsageError(
            "no findings to merge", hint="Run: `affidavit audit AUDIT.toml --certificate CERT.json -o DIR`"
        )
    if len({part.certificate_sha256 for part in collected}) > 1:
        raise UsageError(
            "the findings are bound to different certificates",
            hint="Name one of them: `--certificate CERT.json`",
        )
    apart = [_named_apart(collected, number) for number in range(len(collected))]
    return Findings(
        certificate_sha256=collected[0].certificate_sha256,
        items=tuple(item for part in apart for item in part.items),
        self_tests=tuple(test for part in apart for test in part.self_tests),
        policy=Policy(
            max_leaked=min(part.policy.max_leaked for part in collected),
            allow_underpowered=all(part.policy.allow_underpowered for part in collected),
            max_verbatim=min(part.policy.max_verbatim for part in collected),
            max_extractable=min(part.policy.max_extractable for part in collected),
            max_near_copies=min(part.policy.max_near_copies for part in collected),
        ),
    )


def _named_apart(parts: Sequence[Findings], number: int) -> Findings:
    """One of the parts, with a number at those of its attacks that failed a self-test and were made in others too."""
    made = [{item.attack for item in part.items} for part in parts]
    failed = {test.attack for test in parts[number].self_tests if not test.passed}
    names = {
        attack: f"{attack}, audit {1 + sum(attack in each for each in made[:number])}"
        for attack in failed
        if any(attack in each for place, each in enumerate(made) if place != number)
    }

    part = parts[number]
    return replace(
        part,
        items=tuple(replace(item, attack=names.get(item.attack, item.attack)) for item in part.items),
        self_tests=tuple(replace(test, attack=names.get(test.attack, test.attack)) for test in part.self_tests),
    )


def read(path: Path) -> Findings:
    """Read and check a findings file. Raises ``UsageError`` naming the first wrong field."""
    try:
        content = files.read_bytes(path)
    except OSError as error:
        hint = "Run: `affidavit audit AUDIT.toml --certificate CERT.json -o DIR`"
        raise UsageError(f"no findings at {path}: {error.strerror}", hint=hint) from None
    return parse(content, name=path.name, folder=shlex.quote(str(path.parent)))


def parse(content: bytes | str, *, name: str = "findings", folder: str = "DIR") -> Findings:
    """``read`` of a file's content; ``name`` and ``folder`` are what errors call it. Raises ``UsageError``."""
    from pydantic import ValidationError

    again = f"`affidavit audit AUDIT.toml --certificate CERT.json -o {folder}`"
    stated = _parsed(content)
    schema, digest = stated.get("schema"), stated.pop("sha256", None)
    if isinstance(schema, str) and schema != SCHEMA:
        raise UsageError(
            f"{name}: schema {schema[:60]!r} is not known", hint=f"Known is {SCHEMA}: audit again, {again}"
        )
    try:
        found = _adapter().validate_json(json.dumps(stated) if stated else content)
    except ValidationError as error:
        where, told = _first_fault(error)
        raise UsageError(f"{name}: {where}: {told}", hint=f"Make them again: {again}") from None
    if digest != found.digest:
        raise UsageError(f"{name}: sha256: it is not of this: the file was changed", hint=f"Make them again: {again}")
    return found


def _parsed(content: bytes | str) -> dict[str, Any]:
    """The file's object, to see which version wrote it before anything else; empty where it is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _first_fault(error: ValidationError) -> tuple[str, str]:
    """Where and what, of the kind of finding that comes closest: each fault of an item is told for every kind."""
    faults = error.errors(include_input=False, include_url=False)
    first = faults[0]
    place = first["loc"][:2]
    if place[:1] == ("items",) and len(first["loc"]) > 2:
        kinds = dict.fromkeys(fault["loc"][2] for fault in faults if fault["loc"][:2] == place)
        wrong = {kind: [each for each in faults if each["loc"][:3] == (*place, kind)] for kind in kinds}
        first = min(wrong.values(), key=lambda each: (any(f["loc"][-1] == "kind" for f in each), len(each)))[0]
        return ".".join(map(str, (*place, *first["loc"][3:]))), first["msg"]
    return ".".join(str(part) for part in first["loc"]) or "the file", first["msg"]


def write(findings: Findings, path: Path) -> None:
    """Write atomically, readable by the owner only: a findings file is private."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, findings.to_json().encode())
