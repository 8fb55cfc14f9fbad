"""One finding: a header that all share, and what each kind of audit has to say beyond it.

    MembershipFinding   members told from non-members of many random splits, by an AUC
    PerRunFinding       one record, many releases with it and without it, counted at a threshold
    OneStepFinding      a mechanism's output on its worst inputs, counted at a threshold
    ExtractionFinding   coins decide which records are in; identifiers of theirs in the text
    EchoFinding         coins decide which canaries are in; guesses from the released text alone
    SearchFinding       released text searched: counted, no claim put to the test
    DiscoverableFinding records asked out of a service: counted, no claim put to the test
    CheckFinding        how the run was made (a trace, a pair of neighbours, a statistic's move)

The first five put a claim to the test (``Tested``), or are a control of such a test. None holds private text: a
leaked identifier is an HMAC under a key that lives for one run, with the place where it was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

from affidavit.accountant.show import Facts, Shown, lower
from affidavit.audits.leaks import Leakage, Overlap
from affidavit.audits.measure import Measure
from affidavit.audits.verdict import Verdict, control_badge

if TYPE_CHECKING:
    from pydantic import ConfigDict

__all__ = [
    "AttackFinding",
    "CheckFinding",
    "Claim",
    "DiscoverableFinding",
    "EchoFinding",
    "ExtractionFinding",
    "Finding",
    "Header",
    "MembershipFinding",
    "OneStepFinding",
    "OperatingPoint",
    "PerRunFinding",
    "SearchFinding",
    "Target",
    "Tested",
    "Thresholded",
    "Utility",
    "is_control",
    "leakage_of",
    "overlap_of",
]

Target = Literal["protected", "unprotected", "null"]

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
class Header(Shown):
    """What every finding has.

    ``alpha``       the level of its own test, ``correction`` how it came to be that and what the limits are
    ``note``        what else is to be said: of a test without power, what it lacks; of a check, what was found
    ``source``      the audit file or certificate that asked for it, where that lies in the folder the audit
                    was run from (a repository, in CI): what code scanning points to
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    attack: str
    verdict: Verdict
    alpha: float
    target: Target = "protected"
    correction: str = ""
    note: str = ""
    source: str = ""

    @property
    def badge(self) -> str:
        """The verdict, in the words that stand on a page."""
        return self.verdict

    @property
    def judged(self) -> bool:
        """Whether the policy and the exit code look at it."""
        return True

    @property
    def is_test(self) -> bool:
        """Whether a claim was put to the test; a count is judged by the policy alone."""
        return True

    def facts(self) -> Facts:
        """The verdict and its numbers; no note, place or digest of what leaked."""
        return Facts(f"{self.attack} on {self.target}: {self.verdict}", (), (("verdict", self.verdict),))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Tested(Header):
    """An attack that was held against a claim, or the same attack where nothing protects (``control``).

    ``ceiling``         the largest ``epsilon_lower`` that this attack could have shown on as much data: never
                        wrong, with the answers that it can give, and no more than its own control shows
    ``epsilon_lower``   a valid lower bound at ``alpha``, or null where the data allow none
    ``curve_points``    the attack's ROC as (false positive rate, true positive rate)
    ``control``         a comparison, not the target of this audit: shown, but neither the
                        policy nor the exit code looks at it, and it is bound to no claim
    """

    n_members: int
    n_non_members: int
    runs: int
    ceiling: float
    epsilon_lower: float | None = None
    claim: Claim | None = None
    control: bool = False
    curve_points: tuple[tuple[float, float], ...] = ()

    @property
    def badge(self) -> str:
        """Of a control, whether the attack works where it must."""
        return control_badge(self.verdict) if self.control else self.verdict

    @property
    def judged(self) -> bool:
        """All but controls."""
        return not self.control

    def facts(self) -> Facts:
        """The verdict, and what was proved and could have been."""
        told = [f"{self.attack} on {self.target}: {self.verdict}"]
        told += [] if self.epsilon_lower is None else [f"ε >= {lower(self.epsilon_lower)}"]
        told += [f"at most {lower(self.ceiling)} could be shown"]
        leakage = leakage_of(self)
        told += [] if leakage is None else [f"{leakage.leaked} leaked"]
        rows = [
            ("attack", self.attack),
            ("target", self.target),
            ("verdict", self.verdict),
            ("members, non-members, runs", f"{self.n_members}, {self.n_non_members}, {self.runs}"),
            ("ε at least", "" if self.epsilon_lower is None else lower(self.epsilon_lower)),
            ("a perfect attack would show", lower(self.ceiling)),
        ]
        if leakage is not None:
            rows.append(("leaked, of these guessable", f"{leakage.leaked}, {leakage.guessable}"))
        return Facts(", ".join(told), (), tuple(rows))


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class MembershipFinding(Tested):
    """Mean AUC over runs, each with its own split of a pool.

    Telling a used record from an unused one changes two records: under add-remove and zero-out the claim's curve
    limits it only when applied twice. ``limit`` is the largest AUC that it admits, null for a control. ``interval``
    is approximate (``interval_method``); the verdict is by an exact one. ``measures`` are further figures: TPR at a
    low FPR, precision. ``access`` is what the attacker had to see.
    """

    kind: Literal["membership"] = "membership"
    auc: float
    interval: tuple[float, float]
    interval_method: str
    measures: tuple[Measure, ...] = ()
    limit: float | None = None
    access: tuple[str, ...] = ()
    dropped_near_copies: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Thresholded(Tested):
    """Counts at a threshold, held against the claim's trade-off curve at ``point``.

    ``excess``: the true positive rate's lower limit less what the curve admits at the false positive rate's upper
    one; above 0 the claim is refuted. Null for a control.
    """

    point: OperatingPoint
    excess: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class PerRunFinding(Thresholded):
    """One record in many releases, and out of as many. ``access`` is what the attacker had to see."""

    kind: Literal["per-run"] = "per-run"
    access: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class OneStepFinding(Thresholded):
    """A mechanism on a chosen pair of inputs: as many trials with the record as without it."""

    kind: Literal["one-step"] = "one-step"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ExtractionFinding(Tested):
    """Identifiers in text that was made from the records whose coins said so."""

    kind: Literal["extraction"] = "extraction"
    leakage: Leakage
    utility: Utility | None = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class EchoFinding(Tested):
    """``correct`` of ``guesses`` about canaries' coins, from released text alone.

    ``nothing_learnt``: the chance of as many, or more, if the text does not depend on the coins.
    """

    kind: Literal["echo"] = "echo"
    guesses: int
    correct: int
    nothing_learnt: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SearchFinding(Header):
    """What released text holds of ``members`` records, beside ``held_out`` records that were not in the data."""

    kind: Literal["search"] = "search"
    members: int
    held_out: int
    texts: int
    leakage: Leakage
    overlap: Overlap

    @property
    def is_test(self) -> bool:
        """No coin was drawn, so no ε is tested."""
        return False

    def facts(self) -> Facts:
        """The counts."""
        leaked, guessable = self.leakage.leaked, self.leakage.guessable
        rows = (
            ("attack", self.attack),
            ("target", self.target),
            ("texts", str(self.texts)),
            ("leaked, of these guessable", f"{leaked}, {guessable}"),
        )
        return Facts(f"{self.attack} on {self.target}: {self.verdict}, {leaked} leaked", (), rows)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DiscoverableFinding(Header):
    """Records that a service gives away with chance ``chance`` or more in ``queries`` answers.

    ``extractable`` of ``members``, beside ``held_out_extractable`` of ``held_out`` records that were not in it; over
    all runs. ``luck``: the chance of so many members among the extractable, if the service does not depend on who is
    one. ``fewest``: the least number of queries that gives any away (null above 10^15). ``by_queries``: (queries,
    members, held-out records) extractable.
    """

    kind: Literal["discoverable"] = "discoverable"
    members: int
    held_out: int
    runs: int
    queries: int
    chance: float
    extractable: int
    held_out_extractable: int
    luck: float
    fewest: int | None
    held_out_fewest: int | None
    by_queries: tuple[tuple[int, int, int], ...] = ()
    control: bool = False

    @property
    def badge(self) -> str:
        """Of a control, whether the attack works where it must."""
        return control_badge(self.verdict) if self.control else self.verdict

    @property
    def judged(self) -> bool:
        """All but controls."""
        return not self.control

    @property
    def is_test(self) -> bool:
        """Memorisation is counted beside DP: no ε is tested."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CheckFinding(Header):
    """How the run was made, not what its output gives away: ``note`` says what was found.

    ``seen`` is how many uses, samples or rows were looked at; ``p_value`` is null where no chance is involved.
    """

    kind: Literal["check"] = "check"
    seen: int
    p_value: float | None = None

    @property
    def judged(self) -> bool:
        """What the material does not tell is shown, and not judged."""
        return self.verdict != "NOT CHECKED"


AttackFinding: TypeAlias = (
    MembershipFinding
    | PerRunFinding
    | OneStepFinding
    | ExtractionFinding
    | EchoFinding
    | SearchFinding
    | DiscoverableFinding
)
Finding: TypeAlias = AttackFinding | CheckFinding


def is_control(item: Header) -> bool:
    """Whether it is the same attack where nothing protects, shown for comparison."""
    return isinstance(item, Tested | DiscoverableFinding) and item.control


def leakage_of(item: Header) -> Leakage | None:
    """What leaked, where identifiers were looked for."""
    return item.leakage if isinstance(item, ExtractionFinding | SearchFinding) else None


def overlap_of(item: Header) -> Overlap | None:
    """Shared passages, where they were looked for."""
    return item.overlap if isinstance(item, SearchFinding) else None
