"""Findings: what an audit wrote down, bound to the certificate it tried to refute.

A findings file is a *private* artefact (it tells which records leaked), and still holds no
private text: a leaked identifier appears as an HMAC under a key that lives for one run, with
the place where it was found. The JSON Schema in ``schemas/findings.schema.json`` is generated
from the classes below, so the two cannot drift.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from affidavit.accountant import files
from affidavit.accountant.errors import UsageError
from affidavit.accountant.show import Facts, Shown, lower
from affidavit.audits.leaks import Exposure, Leak, Overlap, OverlapSpan
from affidavit.audits.measure import Measure
from affidavit.audits.verdict import Verdict

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

__all__ = [
    "SCHEMA",
    "Claim",
    "Exposure",
    "Finding",
    "Findings",
    "Leak",
    "Measure",
    "OperatingPoint",
    "Outcome",
    "Overlap",
    "OverlapSpan",
    "Policy",
    "SelfTest",
    "Target",
    "Utility",
    "json_schema",
    "merge",
    "parse",
    "read",
    "sourced",
    "write",
]

SCHEMA = "https://affidavit.dev/schemas/findings/v1"

Target = Literal["protected", "unprotected", "null"]
Outcome = Literal["refuted", "policy-failed", "inconclusive", "holds"]

_STRICT: ConfigDict = {"extra": "forbid", "allow_inf_nan": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What was under test: (epsilon, delta) under ``relation``, of ``subject``.

    ``subject`` is ``"certificate"``, or the part of its plan that the audit ran (the one-step
    audit runs some uses of one leaf; their own curve is what it is held against). ``curve`` is
    the part's certified profile as (epsilon, delta) points; a certificate carries its own.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    epsilon: float
    delta: float
    relation: Literal["add-remove", "zero-out", "substitution"]
    subject: str = "certificate"
    curve: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatingPoint:
    """The threshold's rates, and the limits of both that hold jointly at the audit's level.

    The claim is refuted where (``false_positive_upper``, ``true_positive_lower``) lies above its
    trade-off curve.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    false_positive_rate: float
    true_positive_rate: float
    false_positive_upper: float
    true_positive_lower: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Utility:
    """How useful the released text was: garbage leaks nothing.

    ``reference`` is the same figure for unprotected text, where one was computed.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    name: str
    value: float
    reference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Finding(Shown):
    """One attack on one target.

    ``statistic`` and ``interval``  named by ``statistic_name``; how the interval was made, and
                                    whether it is exact, is in ``interval_method``.
    ``measures``        further figures beside it: TPR at a low FPR, precision.
    ``limit``           what the certificate allows the statistic to be, where it limits it.
    ``epsilon_lower``   a valid lower bound at ``alpha`` (two-sided share stated in
                        ``correction``), or null where the data allow none.
    ``ceiling``         the largest ``epsilon_lower`` that this attack could have shown on as much data: never
                        wrong, with the answers that it can give, and no more than its own control shows.
    ``leaked``          distinct identifiers of members found in the output; ``guessable`` of
                        them anyone could have guessed; ``held_out_leaked`` counts identifiers
                        of records that were not in the data.
    ``check``           what was looked at is how the run was made (a trace, a pair of neighbours), not
                        what its output gives away; ``note`` says what was found.
    ``access``          what the attacker had to see.
    ``control``         a comparison, not the target of this audit: shown, but neither the
                        policy nor the exit code looks at it, and it is bound to no claim.
    ``curve_points``    the attack's ROC as (false positive rate, true positive rate).
    ``point``           where the attack was held against the claim's trade-off curve.
    ``exposures``       the leaks counted per identifier, record and user, for each kind.
    ``overlap``         passages that the texts share with private records.
    ``source``          the audit file or certificate that asked for it, where that lies in the folder the audit
                        was run from (a repository, in CI): what code scanning points to.
    ``swap``            the attack tells records that were used from records that were not, which
                        changes two records: under add-remove and zero-out the claim's curve
                        limits it only when applied twice.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    attack: str
    target: Target
    verdict: Verdict
    n_members: int
    n_non_members: int
    runs: int
    statistic_name: str
    statistic: float | None
    interval: tuple[float, float] | None
    interval_method: str = ""
    measures: tuple[Measure, ...] = ()
    limit: float | None = None
    claim: Claim | None = None
    epsilon_lower: float | None = None
    ceiling: float | None = None
    alpha: float
    correction: str
    leaked: int | None = None
    guessable: int | None = None
    held_out_leaked: int | None = None
    dropped_near_copies: int = 0
    utility: Utility | None = None
    access: tuple[str, ...] = ()
    check: bool = False
    control: bool = False
    curve_points: tuple[tuple[float, float], ...] = ()
    point: OperatingPoint | None = None
    swap: bool = False
    leaks: tuple[Leak, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    overlap: Overlap | None = None
    note: str = ""
    source: str = ""

    def facts(self) -> Facts:
        """The verdict and its numbers; no note, place or digest of what leaked."""
        rows = (
            ("attack", self.attack),
            ("target", self.target),
            ("verdict", self.verdict),
            ("members, non-members, runs", f"{self.n_members}, {self.n_non_members}, {self.runs}"),
            (self.statistic_name, "" if self.statistic is None else f"{self.statistic:.4g}"),
            ("ε at least", "" if self.epsilon_lower is None else lower(self.epsilon_lower)),
            ("a perfect attack would show", "" if self.ceiling is None else lower(self.ceiling)),
            ("leaked, of these guessable", "" if self.leaked is None else f"{self.leaked}, {self.guessable or 0}"),
        )
        return Facts(f"{self.attack} on {self.target}: {self.verdict}{self._numbers()}", (), rows)

    def _numbers(self) -> str:
        found = [
            "" if self.epsilon_lower is None else f"ε >= {lower(self.epsilon_lower)}",
            "" if self.ceiling is None else f"at most {lower(self.ceiling)} could be shown",
            "" if self.leaked is None else f"{self.leaked} leaked",
        ]
        return "".join(f", {each}" for each in found if each)

    @property
    def badge(self) -> str:
        """The verdict, or what stands in its place where no claim was put to the test."""
        if self.control:
            if self.check:
                return "NOT CHECKED"
            return "LEAKED, AS IT MUST" if self.verdict in ("LEAKED", "VIOLATION") else "DID NOT LEAK"
        return "COUNTED" if self.only_counts else self.verdict

    @property
    def only_counts(self) -> bool:
        """Whether no claim was under test: then the policy judges it, and no ε is inferred."""
        return self.claim is None and self.verdict == "UNDERPOWERED" and not self.check

    @property
    def leaked_beyond_guessable(self) -> int:
        """Distinct leaked identifiers that a guesser would not have produced."""
        return max(0, (self.leaked or 0) - (self.guessable or 0))


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

    def broken_by(self, item: Finding) -> tuple[str, ...]:
        """What of a finding is more than is tolerated, in words."""
        broken = []
        if item.leaked_beyond_guessable > self.max_leaked:
            broken.append(f"{item.leaked_beyond_guessable} leaked beyond the guessable, {self.max_leaked} allowed")
        if item.overlap is not None and item.overlap.verbatim > self.max_verbatim:
            broken.append(
                f"{item.overlap.verbatim} texts with {item.overlap.words} words in a row of a private record, "
                f"{self.max_verbatim} allowed"
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
        rows = [
            (
                item.attack,
                item.target + (", control" if item.control else ""),
                item.verdict,
                "" if item.epsilon_lower is None else lower(item.epsilon_lower),
                "" if item.ceiling is None else lower(item.ceiling),
                "" if item.leaked is None else str(item.leaked),
            )
            for item in self.items
        ]
        failed = [test for test in self.self_tests if not test.passed]
        tests = f", {len(self.self_tests)} self-tests, {len(failed)} failed" if self.self_tests else ""
        count = f"{len(self.items)} {'finding' if len(self.items) == 1 else 'findings'}"
        columns = ("attack", "target", "verdict", "ε at least", "a perfect attack", "leaked")
        return Facts(f"{self.outcome}: {count}{tests}", columns, tuple(rows))

    @property
    def audited(self) -> tuple[Finding, ...]:
        """The items that count: all but the controls."""
        return tuple(item for item in self.items if not item.control)

    @property
    def total_alpha(self) -> float:
        """The chance, at most, that any item here refutes a true claim: the sum of their levels."""
        return min(1.0, sum(item.alpha for item in self.audited if item.claim is not None or item.check))

    @property
    def tests(self) -> tuple[Finding, ...]:
        """The audited items that put a claim to the test, rather than only count."""
        return tuple(item for item in self.audited if not item.only_counts)

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
        if item.control:
            return ()
        found: list[tuple[Outcome, str]] = []
        false_alarm = any(
            test.attack == item.attack and test.name == "null pair" and not test.passed for test in self.self_tests
        )
        where = item.attack if item.check else f"{item.attack} ({item.target})"
        if item.verdict == "VIOLATION" and not false_alarm:
            reason = item.note if item.check else "the lower bound exceeds the claim"
            found.append(("refuted", f"{where}: {reason}"))
        found.extend(("policy-failed", f"{where}: {broken}") for broken in self.policy.broken_by(item))
        if item.verdict == "UNDERPOWERED" and not item.only_counts and not self.policy.allow_underpowered:
            reason = (
                item.note
                if item.check
                else "it could not have shown a violation" + (f" ({item.note})" if item.note else "")
            )
            found.append(("inconclusive", f"{where}: {reason}"))
        if not item.check and (item.verdict != "VIOLATION" or false_alarm):
            failed = (test for test in self.self_tests if test.attack == item.attack and not test.passed)
            found.extend(("inconclusive", test.reason) for test in failed)
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
        """Indented JSON; no NaN or infinity can be in it."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"


@cache
def _adapter() -> TypeAdapter[Findings]:
    from pydantic import TypeAdapter

    return TypeAdapter(Findings)


def json_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a findings file."""
    schema = _adapter().json_schema(mode="serialization")
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
    return Findings(
        certificate_sha256=collected[0].certificate_sha256,
        items=tuple(item for part in collected for item in part.items),
        self_tests=tuple(test for part in collected for test in part.self_tests),
        policy=Policy(
            max_leaked=min(part.policy.max_leaked for part in collected),
            allow_underpowered=all(part.policy.allow_underpowered for part in collected),
            max_verbatim=min(part.policy.max_verbatim for part in collected),
        ),
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

    try:
        findings = _adapter().validate_json(content)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise UsageError(
            f"{name}: {where}: {first['msg']}",
            hint=f"Make them again: `affidavit audit AUDIT.toml --certificate CERT.json -o {folder}`",
        ) from None
    if findings.schema != SCHEMA:
        raise UsageError(
            f"{name}: schema {findings.schema[:60]!r} is not known",
            hint=f"Known is `{SCHEMA}`: audit again, `affidavit audit AUDIT.toml --certificate CERT.json -o {folder}`",
        )
    return findings


def write(findings: Findings, path: Path) -> None:
    """Write atomically, readable by the owner only: a findings file is private."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(findings.to_json())
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
