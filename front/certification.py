"""Plan a run, certify it.

    RunFile -> plan_run -> PlannedRun -> certify -> envelope (bytes) -> verification.verify

``plan_run`` needs no data, model or keys. ``certify`` computes the number in outward-rounded
arithmetic, refuses what the run file's budget does not cover, and only then looks at the data.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from affidavit import mechanisms
from affidavit.accountant import decimals, files
from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation.certificate import Certificate, Claim, CurvePoint, MethodSummary, RunSubject
from affidavit.accountant.attestation.commitment import fingerprint
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.statement import NO_GUARANTEE
from affidavit.accountant.bound import Bound
from affidavit.accountant.clock import Clock, utc_now
from affidavit.accountant.errors import BudgetExceeded, DataError, LedgerMissing
from affidavit.accountant.nodes import Parallel, Plan, Poisson, WithoutReplacement, walk
from affidavit.accountant.remedies import near_file
from affidavit.accountant.risk import RiskLimits, risk_limits
from affidavit.accountant.settle import Settled, known, settle
from affidavit.accountant.show import Facts, Shown, upper
from affidavit.accountant.tradeoff import PrivacyCurve, privacy_curve
from affidavit.generation.dataset import Record, parse_records
from affidavit.labelling import refuse_unlabelled, tell_labels
from affidavit.runfile import RunFile
from affidavit.solving import fitting_values

if TYPE_CHECKING:
    from affidavit.accountant.filters.costs import Costs
    from affidavit.accountant.ledger import Account, Ledger

__all__ = ["CertifiedRun", "PlannedRun", "certify", "plan_run", "prepare"]

_ROUND_OFF = 1e-12
"""More than float64 can lose between certified curve points and the limits that follow from them."""


@dataclass(frozen=True, slots=True, repr=False)
class PlannedRun(Shown):
    """What a run is and costs, before data, model or keys exist.

    ``cost``: what a certificate would state, from both sides (``settle``); ``certifiable`` is False where the verifier
    has no formula for the run, and ``cost`` then what the issuing engine says alone.
    """

    run: RunFile
    plan: Plan
    cost: Bound
    certifiable: bool

    def facts(self) -> Facts:
        """What it would cost, and what the budget allows."""
        budget = self.run.budget
        cost = self.cost.epsilon_upper
        answer = "fits" if self.fits else "does not fit"
        rows = (
            ("data", f"{self.run.data.name}, {self.run.data.size} records"),
            ("generator", self.run.kind),
            ("ε at most", f"{upper(cost)} at δ = {budget.delta:g} ({self.run.relation})"),
            ("budget", f"ε = {budget.epsilon:g}, δ = {budget.delta:g}"),
            ("certifiable", "yes" if self.certifiable else "no"),
        )
        line = f"{self.run.kind} costs ε <= {upper(cost)} at δ = {budget.delta:g}, {self.run.relation}"
        return Facts(f"{line}; {answer} the budget of {budget.epsilon:g}", (), rows)

    @property
    def fits(self) -> bool:
        """Whether ``certify`` would find the run within its budget."""
        return self.certifiable and self.cost.epsilon_upper <= self.run.budget.epsilon


@dataclass(frozen=True, slots=True, repr=False)
class CertifiedRun(Shown):
    """A signed certificate and the facts that it rests on; ``account``: what is to pay, where it is open."""

    envelope: bytes
    certificate: Certificate
    cost: Settled
    curve: PrivacyCurve
    risk: RiskLimits
    account: Account | None = None

    @property
    def runs(self) -> int | None:
        """How many runs like this one, itself included, the account has left; None where none is open, or any."""
        claim = self.certificate.claim
        return None if self.account is None else self.account.fits(claim.epsilon, claim.delta, self.certificate.costs)

    def facts(self) -> Facts:
        """Its certificate's."""
        return self.certificate.facts()


def plan_run(run: RunFile) -> PlannedRun:
    """The plan of a run and its ε at the budget's δ, from both sides. Reads neither data nor model.

    Raises ``RunFileError`` where the run's settings do not fit its size, ``NotSupported``.
    """
    plan = run.plan()
    cost, gap = known(plan, relation=run.relation, delta=run.budget.delta)
    return PlannedRun(run, plan, cost, certifiable=not gap)


def prepare(run: RunFile, *, keyring: Keyring) -> tuple[RunSubject, tuple[Record, ...]]:
    """The facts that bind a certificate to this run, and its records. Reads the data once.

    Raises ``DataError`` (to the operator only; also where no record has a declared label), ``ModelMissing``,
    ``UsageError`` without keys.
    """
    from affidavit.generation.models import model_digest

    plan = run.plan()
    key = keyring.secret("commitment")
    try:
        content = files.read_bytes(run.data_path, most=files.DATA_BYTES)
    except OSError as error:
        problem = f"the data file {run.data_path} cannot be read: {error.strerror}"
        raise DataError(problem, hint=near_file(run.data_path, "data.path")) from None
    records = parse_records(content, size=run.data.size, fields=run.fields)
    refuse_unlabelled(run, records)
    subject = RunSubject(
        relation=run.relation,
        unit=run.unit,
        plan=plan,
        config_sha256=run.sha256(),
        model_sha256=model_digest(run.model.name, base=run.folder, server=run.model.server),
        data_hmac=fingerprint([content], key=key),
        size=run.data.size,
    )
    return subject, records


def certify(
    run: RunFile,
    *,
    keyring: Keyring | None = None,
    ledger: Ledger | None = None,
    tell: Callable[[str], None] | None = None,
    clock: Clock = utc_now,
) -> CertifiedRun:
    """Certify that ``run`` costs at most what its certificate says, within its budget.

    ``ledger``: where the run's account is asked whether it would pay, if it is open; nothing is charged. ``tell`` is
    called with lines for the operator, how many records each label has among them.

    Raises ``BudgetExceeded`` (with the parameter values that would fit), ``BudgetError`` as the account does,
    ``DataError``, ``ModelMissing``, ``UsageError`` without keys, ``NotSupported`` where the verifier has no formula.
    """
    from affidavit.accountant.filters.spend import costs_of

    keyring = keyring or Keyring.default()
    plan = run.plan()
    budget_delta = decimals.as_written(run.budget.delta, path="budget.delta")
    delta = decimals.float_at_most(budget_delta)
    cost = settle(plan, relation=run.relation, delta=delta)
    _within_budget(run, cost)
    claim = Claim.of(epsilon_upper=cost.epsilon_upper, delta=run.budget.delta)
    signer = keyring.signer()
    subject, records = prepare(run, keyring=keyring)
    tell_labels(run, records, tell)
    costs = costs_of(plan, relation=run.relation)
    account = None if ledger is None else _asked(ledger, run, claim, costs, subject, records, keyring, tell)
    curve = privacy_curve(plan, relation=run.relation, delta=delta)
    risk = risk_limits(curve)
    envelope = certificates.issue(
        subject,
        claims=[claim],
        signer=signer,
        curve=[CurvePoint.of(epsilon=epsilon, delta_upper=delta) for epsilon, delta in curve.points],
        methods=_summaries(cost),
        risk_upper={name: min(1.0, limit * (1.0 + _ROUND_OFF)) for name, limit in risk.as_dict().items()},
        arithmetic=cost.arithmetic,
        assumptions=_assumptions(run, plan),
        versions=_versions(),
        clock=clock,
        costs=costs,
        account="" if account is None else account.identity,
    )
    trusted = keyring.trusted()
    found = certificates.verify_envelope(envelope, trusted=trusted, clock=clock)
    return CertifiedRun(envelope, found, cost, curve, risk, account)


def _asked(
    ledger: Ledger,
    run: RunFile,
    claim: Claim,
    costs: Costs,
    subject: RunSubject,
    records: Sequence[Record],
    keyring: Keyring,
    tell: Callable[[str], None] | None,
) -> Account | None:
    """The account, if it would pay. Raises ``BudgetError``.

    One that is not open yet is no reason to refuse: what opens it is told.
    """
    from affidavit.accountant.ledger.sketch import sketch
    from affidavit.accounts import how_to_open

    known = sketch((each.text for each in records), key=keyring.secret("commitment"))
    try:
        return ledger.check(
            run.data.name,
            relation=run.relation,
            unit=run.unit,
            epsilon=claim.epsilon,
            delta=claim.delta,
            costs=costs,
            data=subject.data_hmac,
            records=known,
        )
    except LedgerMissing as error:
        if tell is not None:
            tell(f"{error.message}; a run needs it. {how_to_open(run, ledger, error.accounts, known)}")
        return None


def _within_budget(run: RunFile, cost: Settled) -> None:
    allowed = decimals.as_written(run.budget.epsilon, path="budget.epsilon")
    if math.isfinite(cost.epsilon_upper) and decimals.round_up(cost.epsilon_upper) <= allowed:
        return
    shown = decimals.show(decimals.round_up(cost.epsilon_upper, digits=6)) if math.isfinite(cost.epsilon_upper) else "∞"
    raise BudgetExceeded(
        f"this run costs ε = {shown} at δ = {run.budget.delta:g} ({run.relation}), "
        f"more than the budget of {run.budget.epsilon:g}",
        requested=(cost.epsilon_upper, run.budget.delta),
        remaining=(run.budget.epsilon, run.budget.delta),
        hint=_what_fits(run, cost),
    )


def _what_fits(run: RunFile, cost: Settled) -> str:
    """One value for each parameter that could make the run fit, certified where it is named."""
    fitting = [
        f"`{solved.parameter} = {solved.value}`"
        for solved in fitting_values(run, epsilon=run.budget.epsilon)
        if solved.epsilon_certified is not None
    ]
    if not fitting:
        return f"No single parameter makes it fit. A larger budget would: `budget.epsilon = {_covering(cost)}`"
    return "Each of these alone would fit: " + ", ".join(fitting) + "."


def _covering(cost: Settled) -> str:
    """A budget that covers the cost, in few digits."""
    return decimals.show(decimals.round_up(cost.epsilon_upper, digits=3))


def _summaries(cost: Settled) -> list[MethodSummary]:
    rows = [
        MethodSummary.of(
            row.name, epsilon_lower=row.epsilon_lower, epsilon_upper=row.epsilon_upper, applies=row.applies, why=row.why
        )
        for row in cost.methods
    ]
    certified = MethodSummary.of(
        "certified",
        epsilon_lower=cost.epsilon_lower,
        epsilon_upper=cost.epsilon_upper,
        applies=True,
        why=cost.theorems,
        certified=True,
    )
    return [*rows, certified]


def _assumptions(run: RunFile, plan: Plan) -> list[str]:
    """What the claim takes for granted: the samplers, the declared facts, the relation's reading."""
    mechanisms.load()
    from affidavit.mechanisms.base import assumptions

    stated = list(assumptions(plan))
    if run.randomness.noise != "secure":
        stated.insert(0, f"{NO_GUARANTEE}: the noise is seeded and can be reproduced")
    if run.model.server is not None:
        stated.append(
            f"the model is what {run.model.name} serves as {run.model.id}: its weights cannot be digested here; the "
            "server's answer to a prompt depends on no other prompt "
            + ("(declared; several are asked at once)" if run.model.independent else "(one is asked at a time)")
            + ", none stops it, it keeps the records to itself, and shows nobody else what it was asked"
        )
    else:
        stated.append(
            "no private row of a batch moves another: tried before the first draw, bit for bit, on made-up rows in the "
            "batches, dtype, device and threads of the run, which its receipt names (versions.rows)"
        )
    stated.append("labels, size and every other setting of the run file are public facts, not read from the data")
    if any(isinstance(node, Parallel) and node.membership == "fixed" for node in walk(plan)):
        stated.append("a replaced record stays in its part of the data")
    if any(isinstance(node, (Poisson, WithoutReplacement)) for node in walk(plan)):
        stated.append("every sample is drawn afresh, and which records it holds stays secret")
    return stated


def _versions() -> Mapping[str, str]:
    packages = ("affidavit", "numpy", "python-flint", "mpmath")
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}
