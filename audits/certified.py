"""What an audit holds a mechanism against: the claim of one certificate, or of a part of its plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.nodes import Compose, Gaussian, Plan, Repeat, walk
from affidavit.accountant.settle import known
from affidavit.accountant.tradeoff import PrivacyCurve, privacy_curve
from affidavit.accountant.validate import Relation
from affidavit.audits.finding import Claim
from affidavit.audits.statistics.boundaries import GaussianBoundary
from affidavit.audits.statistics.ceilings import gaussian_ceiling, per_run_ceiling
from affidavit.audits.statistics.clopper_pearson import Counts
from affidavit.audits.statistics.joint import epsilon_lower, mu_lower
from affidavit.audits.statistics.sequential import anytime_epsilon_lower, anytime_mu_lower

if TYPE_CHECKING:
    from affidavit.accountant.attestation.statement import Certificate

__all__ = ["Certified"]


@dataclass(frozen=True, slots=True)
class Certified:
    """A claim with the plan and the curve behind it. ``sha256`` names the certificate, if there is one."""

    relation: Relation
    epsilon: float
    delta: float
    plan: Plan
    curve: PrivacyCurve
    sha256: str | None = None
    subject: str = "certificate"

    @classmethod
    def of_certificate(cls, certificate: Certificate) -> Certified:
        """The first claim of a verified certificate, with its own signed curve; floats are no smaller."""
        claim = certificate.claims[0]
        epsilon, delta = float_at_least(claim.epsilon), float_at_least(claim.delta)
        points = {
            (float_at_least(point.epsilon), float_at_least(point.delta))
            for point in certificate.curve
            if point.epsilon >= 0
        }
        points.add((epsilon, delta))
        return cls(
            relation=certificate.relation,
            epsilon=epsilon,
            delta=delta,
            plan=certificate.plan,
            curve=PrivacyCurve(tuple(sorted(points))),
            sha256=certificate.sha256 or None,
        )

    @classmethod
    def of_plan(cls, plan: Plan, *, relation: Relation, delta: float, subject: str = "plan") -> Certified:
        """What the accountant says of a plan, for audits without a certificate and for parts of one."""
        return cls(
            relation=relation,
            epsilon=known(plan, relation=relation, delta=delta)[0].epsilon_upper,
            delta=delta,
            plan=plan,
            curve=privacy_curve(plan, relation=relation, delta=delta),
            subject=subject,
        )

    def claim(self, *, with_curve: bool = False) -> Claim:
        """As it is written in a finding."""
        points: Sequence[tuple[float, float]] = self.curve.points if with_curve else ()
        return Claim(
            epsilon=self.epsilon,
            delta=self.delta,
            relation=self.relation,
            subject=self.subject,
            curve=tuple(points),
        )

    @property
    def gaussian(self) -> bool:
        """Whether the plan is Gaussian noise and nothing else, so that its curve is that of one μ."""
        return self.delta > 0.0 and _is_gaussian(self.plan)

    @property
    def epsilon_method(self) -> str:
        """How ``epsilon_shown`` came about."""
        return "epsilon by the Gaussian curve of this plan" if self.gaussian else "epsilon of any mechanism"

    def epsilon_shown(self, counts: Counts, *, alpha: float) -> float:
        """The ε at this δ that counts of independent runs prove.

        Where the plan is Gaussian noise the claim is a μ, and so is what is proved of it (``joint.mu_lower``):
        μ-GDP is refuted for every smaller one, and the ε is that of this μ.
        """
        if self.gaussian:
            return GaussianBoundary(mu_lower(counts, alpha=alpha)).epsilon(delta=self.delta)
        return epsilon_lower(counts, delta=self.delta, alpha=alpha)

    def epsilon_shown_anytime(self, counts: Counts, *, alpha: float) -> float:
        """The same, however it was decided when to stop."""
        if self.gaussian:
            return GaussianBoundary(anytime_mu_lower(counts, alpha=alpha)).epsilon(delta=self.delta)
        return anytime_epsilon_lower(counts, delta=self.delta, alpha=alpha)

    def epsilon_ceiling(self, *, members: int, non_members: int, alpha: float) -> float:
        """What ``epsilon_shown`` would be of an attack that is never wrong."""
        if self.gaussian:
            mu = gaussian_ceiling(members=members, non_members=non_members, alpha=alpha)
            return GaussianBoundary(mu).epsilon(delta=self.delta)
        return per_run_ceiling(members=members, non_members=non_members, alpha=alpha, delta=self.delta)

    def swap_auc_limit(self) -> float:
        """The largest AUC with which a member can be told from a record that was not used.

        Comparing a member i with a non-member j compares the data with those where i and j
        change places: a substitution. For a test T of "i scores above j" (ties by a coin) the
        true positive rate is the AUC A, and by symmetry of a random split the false positive rate is
        1 − A; so A ≤ g(1 − A), g the limit on the true positive rate. Under add-remove and
        zero-out a substitution is two steps, and g(g(·)) stands for g (Dong, Roth and Su 2022,
        Theorem 2.14, on groups). The largest such A is found by bisection, g being
        non-decreasing, and its upper end returned.
        """

        def attainable(rate: float) -> float:
            once = self.curve.true_positive_rate(rate)
            return once if self.relation == "substitution" else self.curve.true_positive_rate(min(1.0, once))

        low, high = 0.5, 1.0
        while high - low > 1e-9:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if middle <= attainable(1.0 - middle) else (low, middle)
        return high


def _is_gaussian(plan: Plan) -> bool:
    """Whether it is Gaussian noise alone, on all records."""
    return all(
        node.noise_multiplier > 0.0 if isinstance(node, Gaussian) else isinstance(node, (Compose, Repeat))
        for node in walk(plan)
    )
