"""The page's drawings: each plot with the words that go with it, ready for the template."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

from affidavit.accountant.attestation.statement import Certificate, MethodSummary
from affidavit.accountant.decimals import float_at_least
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.audits.finding import (
    Finding,
    MembershipFinding,
    Tested,
    Thresholded,
    leakage_of,
)
from affidavit.audits.report import figures, words
from affidavit.audits.report.numbers import lower, short, upper
from affidavit.audits.report.svg import inline_svg

if TYPE_CHECKING:
    from markupsafe import Markup


__all__ = [
    "TRADEOFF_CAPTION",
    "Drawing",
    "Twice",
    "certified_curve",
    "draw_leaks",
    "draw_methods",
    "draw_power",
    "draw_profile",
    "draw_tradeoffs",
]

TRADEOFF_CAPTION = (
    "Detected against false alarms. A true certificate keeps every attack on the certified output in the shaded "
    "region, up to the chance of the draw. An attack near the dotted diagonal is guessing; one whose point lies "
    "above the solid line, error bars and all, refutes the certificate."
)
_WHOLE = "certificate"


@dataclass(frozen=True, slots=True)
class Twice:
    """A curve applied twice: the limit on telling data apart that differ in two steps.

    With g(x) = 1 − f(x) the largest true positive rate at false positive rate x for one step,
    g(g(x)) is it for two (Dong, Roth and Su 2022, "Gaussian differential privacy", Theorem 2.14).
    """

    once: PrivacyCurve

    def false_negative_rate(self, rate: float, /) -> float:
        """1 − g(g(rate))."""
        return self.once.false_negative_rate(min(1.0, self.once.true_positive_rate(rate)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """An inline SVG, and what stands above and below it."""

    svg: Markup
    heading: str
    caption: str = ""


def certified_curve(certificate: Certificate) -> PrivacyCurve:
    """Claims and curve points as one trade-off curve; each decimal becomes a float at least as large."""
    points = {(point.epsilon, point.delta) for point in certificate.curve}
    points |= {(claim.epsilon, claim.delta) for claim in certificate.claims}
    ordered = sorted(point for point in points if point[0] >= 0)
    return PrivacyCurve(tuple((float_at_least(epsilon), float_at_least(delta)) for epsilon, delta in ordered))


def draw_methods(methods: Sequence[MethodSummary], *, delta: Decimal, prefix: str = "") -> Drawing | None:
    """The methods that apply, in the order given."""
    bars = [
        figures.Bar(
            words.method_name(method.name),
            None if method.epsilon_upper is None else float_at_least(method.epsilon_upper),
            method.certified,
        )
        for method in methods
        if method.applies
    ]
    if not bars:
        return None
    told = ", ".join(f"{bar.name} {'none' if bar.epsilon_upper is None else upper(bar.epsilon_upper)}" for bar in bars)
    return Drawing(
        heading="Every method, side by side",
        svg=inline_svg(
            figures.method_bars(bars, delta=upper(delta)),
            name=f"{prefix}methods",
            title="ε by method",
            description=f"Upper bounds on ε: {told}.",
        ),
        caption="All bounds are valid at once, so the smallest one is the one to quote.",
    )


def draw_profile(certificate: Certificate, *, prefix: str = "") -> Drawing | None:
    """ε against δ, where the certificate carries a curve."""
    if len(certificate.curve) < 2:
        return None
    points = [(float_at_least(point.epsilon), float_at_least(point.delta)) for point in certificate.curve]
    claims = [
        figures.Mark(
            float_at_least(claim.epsilon),
            float_at_least(claim.delta),
            f"claimed: ε = {upper(claim.epsilon)}, δ = {upper(claim.delta)}",
        )
        for claim in certificate.claims
    ]
    told = words.joined([claim.label for claim in claims])
    return Drawing(
        heading="ε against δ",
        svg=inline_svg(
            figures.privacy_profile(points, claims),
            name=f"{prefix}profile",
            title="δ as a function of ε",
            description=f"The certified upper bound on δ falls as ε grows; marked on it, {told}.",
        ),
        caption="One run, many true statements: every (ε, δ) on or above the line holds. Quoting a smaller ε costs "
        "a larger δ.",
    )


def draw_leaks(items: Iterable[Finding], *, prefix: str = "") -> Drawing | None:
    """Leaked identifiers of every item that counted them, protection off first."""
    order = {"unprotected": 0, "protected": 1, "null": 2}
    counted = sorted(
        ((item, leakage) for item in items if (leakage := leakage_of(item)) is not None),
        key=lambda found: (found[0].attack, order[found[0].target], -_claimed(found[0])),
    )
    if not counted:
        return None
    several = len({item.attack for item, _ in counted}) > 1
    rows, told = [], []
    for item, leakage in counted:
        target, leaked = words.setting_name(item), leakage.leaked
        guessable = leaked - leakage.beyond_guessable
        label = f"{words.attack_name(item)},\n{target}" if several else words.capital(target)
        rows.append(figures.LeakRow(label, leakage.beyond_guessable, guessable))
        told.append(f"{label.replace(chr(10), ' ')}: {leaked} leaked, {guessable} of them guessable")
    held_out = max(leakage.held_out_leaked for _, leakage in counted)
    control = f" Of records that were not in the data at all, {held_out:,} identifiers appeared."
    return Drawing(
        heading="Identifiers that leaked",
        svg=inline_svg(
            figures.leaked_counts(rows),
            name=f"{prefix}leaks",
            title="Leaked identifiers",
            description=". ".join(told) + ".",
        ),
        caption="Filled: identifiers that only the records could have given. Hatched: those that anyone could have "
        f"guessed from a name, which prove nothing.{control}",
    )


def _claimed(item: Finding) -> float:
    return item.claim.epsilon if isinstance(item, Tested) and item.claim is not None else 0.0


def draw_tradeoffs(items: Iterable[Finding], curve: PrivacyCurve, *, prefix: str = "") -> list[Drawing]:
    """One plot a limit: the certificate's curve, once or twice applied, and each part audited by itself."""
    shown = [item for item in items if isinstance(item, Tested)]
    relations = {item.claim.relation for item in shown if item.claim is not None}
    groups: dict[tuple[str, bool], list[Tested]] = {}
    for item in shown:
        if item.curve_points or isinstance(item, Thresholded):
            subject = _WHOLE if item.claim is None else item.claim.subject
            two_steps = isinstance(item, MembershipFinding) and relations != {
                "substitution"
            }  # a control states none of its own
            groups.setdefault((subject, two_steps), []).append(item)
    return [
        _tradeoff(f"{prefix}tradeoff-{number}", subject, group, curve, two_steps=two_steps)
        for number, ((subject, two_steps), group) in enumerate(groups.items(), start=1)
    ]


def _tradeoff(name: str, subject: str, items: Sequence[Tested], curve: PrivacyCurve, *, two_steps: bool) -> Drawing:
    claim = items[0].claim
    heading, once, label = "One record, used or not", curve, "certified limit"
    if subject != _WHOLE and claim is not None:
        heading = f"By itself: {subject}"
        once = PrivacyCurve(tuple(sorted({*claim.curve, (claim.epsilon, claim.delta)})))
        label = f"certified limit of this part (ε = {upper(claim.epsilon)})"
    limit = Twice(once) if two_steps else once
    if two_steps:
        heading = "A used record against an unused one"
        label = "certified limit for two records changing places"
    shown = [_attack(item) for item in items]
    told = [f"{attack.label}, area {short(_area(attack.roc))}" for attack in shown if attack.roc]
    told += [
        f"{attack.label}, point at {short(attack.point[0])} false alarms and {short(attack.point[1])} detected"
        for attack in shown
        if attack.point is not None
    ]
    return Drawing(
        heading=heading,
        svg=inline_svg(
            figures.tradeoff(limit, shown, limit_label=label),
            name=name,
            title="The certified limit and the attacks' ROC curves",
            description=f"Share detected against share of false alarms, with the {label}: {'; '.join(told)}.",
        ),
    )


def _attack(item: Tested) -> figures.AttackShown:
    point = item.point if isinstance(item, Thresholded) else None
    return figures.AttackShown(
        label=f"{words.attack_name(item)}, {words.setting_name(item)}",
        roc=item.curve_points,
        point=None if point is None else (point.false_positive_rate, point.true_positive_rate),
        worst=None if point is None else (point.false_positive_upper, point.true_positive_lower),
    )


def _area(roc: Iterable[tuple[float, float]]) -> float:
    points = sorted({(0.0, 0.0), *roc, (1.0, 1.0)})
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(points))


def draw_power(items: Iterable[Finding], *, prefix: str = "") -> Drawing | None:
    """What each test of a claim could have proved, beside what it proved and what was certified."""
    tested = [item for item in items if isinstance(item, Tested) and item.claim is not None and not item.control]
    if not tested:
        return None
    shown, told = [], []
    for item in tested:
        certified = 0.0 if item.claim is None else item.claim.epsilon
        row = figures.PowerRow(
            label=f"{words.attack_name(item)},\n{words.setting_name(item)}",
            certified=certified,
            proved=item.epsilon_lower,
            ceiling=item.ceiling,
        )
        shown.append(row)
        proved = "" if row.proved is None else f", proved at least {lower(row.proved)}"
        told.append(
            f"{row.label.replace(chr(10), ' ')}: could have proved {lower(row.ceiling or 0.0)}{proved}, "
            f"certified {upper(certified)}"
        )
    return Drawing(
        heading="Could these attacks have noticed?",
        svg=inline_svg(
            figures.attack_power(shown),
            name=f"{prefix}power",
            title="Power of each attack, as ε",
            description=". ".join(told) + ".",
        ),
        caption="Bar: the largest ε that this attack could have proved on as many trials: never wrong, and no better "
        "than without protection. Upright line: the "
        "certified ε. A bar that ends short of its line is a test without power: whatever it finds, it cannot expose "
        "a false claim. Dot: what the attack did prove; beyond the line, the claim is refuted.",
    )
