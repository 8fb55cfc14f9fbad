"""The report page: self-contained, escaped, accessible, and saying what the findings say."""

from __future__ import annotations

import math
import re
import stat
import xml.etree.ElementTree as ET
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from affidavit.accountant.attestation.statement import Certificate, Claim, CurvePoint, MethodSummary
from affidavit.accountant.errors import UsageError
from affidavit.accountant.ledger.accounts import Account, Reservation
from affidavit.accountant.plan import Exponential, Parallel, Repeat
from affidavit.accountant.tradeoff import PrivacyCurve
from affidavit.accountant.unit import RECORD, Unit
from affidavit.audits.finding import (
    CheckFinding,
    DiscoverableFinding,
    ExtractionFinding,
    Finding,
    MembershipFinding,
    OperatingPoint,
    PerRunFinding,
    SearchFinding,
    Utility,
)
from affidavit.audits.finding import Claim as Claimed
from affidavit.audits.findings import Findings, SelfTest
from affidavit.audits.leaks import Exposure, Leakage, NearOverlap, Overlap
from affidavit.audits.report import Chapter, Exhibit, ReportInput, Run, Sample, render, write
from affidavit.audits.report.drawings import Twice, draw_leaks, draw_tradeoffs
from affidavit.audits.report.plan_words import places_in_words
from affidavit.audits.report.rates import RATES, rate_panels
from affidavit.audits.report.svg import PALETTE
from affidavit.audits.report.words import headline, not_shown, relation_in_words

NOW = datetime(2026, 11, 27, 23, 4, tzinfo=UTC)
SHA = "9f" * 32
HOSTILE = "<script>alert(1)</script>\"'&$x$"
VOID = {"meta", "br", "link", "img", "input", "hr"}


def _certificate(**changes: Any) -> Certificate:
    plan = Parallel((Repeat(40, Exponential(0.3125)),) * 6)
    curve = ((0.0, 0.413), (1.0, 0.14), (2.0, 0.023), (3.104, 0.001), (4.0, 0.00006))
    base = Certificate(
        relation="zero-out",
        unit=RECORD,
        plan=plan,
        size=240,
        config_sha256="a" * 64,
        model_sha256="b" * 64,
        data_salt="0" * 32,
        data_commitment="c" * 64,
        claims=(Claim(Decimal("3.10341"), Decimal("0.001")),),
        curve=tuple(CurvePoint.of(epsilon=epsilon, delta_upper=delta) for epsilon, delta in curve),
        methods=(
            MethodSummary("adaptive", Decimal("3.1012"), Decimal("3.10341"), True, certified=True),
            MethodSummary("zcdp", Decimal(0), Decimal("3.48593"), True),
            MethodSummary("basic", Decimal(0), Decimal("12.5"), True),
            MethodSummary("gaussian", None, None, False, "needs Gaussians only"),
        ),
        risk={},
        arithmetic="outward-rounded balls of 128 bits",
        assumptions=("Ids say nothing about the text.",),
        versions={"affidavit": "0.1.0"},
        not_before=NOW,
        not_after=NOW + timedelta(days=90),
        sha256=SHA,
        keyids=("5b" * 32,),
    )
    return replace(base, **changes)


def _finding(**changes: Any) -> MembershipFinding:
    base = MembershipFinding(
        attack="label-probability",
        target="protected",
        verdict="CONSISTENT",
        n_members=1000,
        n_non_members=1000,
        runs=1000,
        auc=0.5312,
        interval=(0.47, 0.59),
        interval_method="bootstrap",
        limit=0.97,
        alpha=0.05,
        correction="α/2 a side",
        claim=Claimed(epsilon=3.10341, delta=0.001, relation="zero-out"),
        epsilon_lower=0.2345,
        ceiling=5.6,
        curve_points=((0.0, 0.0), (0.2, 0.25), (0.6, 0.62), (1.0, 1.0)),
    )
    return replace(base, **changes)


def _extraction(*, leaked: int = 0, guessable: int = 0, **changes: Any) -> ExtractionFinding:
    base = ExtractionFinding(
        attack="extraction",
        verdict="CONSISTENT",
        n_members=1000,
        n_non_members=1000,
        runs=1000,
        alpha=0.05,
        claim=Claimed(epsilon=3.10341, delta=0.001, relation="zero-out"),
        epsilon_lower=0.2345,
        ceiling=5.6,
        leakage=Leakage(at_risk=60, leaked=leaked, guessable=guessable, held_out_leaked=0, interval=(0.0, 0.1)),
    )
    return replace(base, **changes)


def _counted(**changes: Any) -> PerRunFinding:
    base = PerRunFinding(
        attack="loss",
        verdict="CONSISTENT",
        n_members=200,
        n_non_members=200,
        runs=400,
        alpha=0.05,
        claim=Claimed(epsilon=3.10341, delta=0.001, relation="zero-out"),
        epsilon_lower=0.1,
        ceiling=4.0,
        point=OperatingPoint(
            false_positive_rate=0.1, true_positive_rate=0.25, false_positive_upper=0.16, true_positive_lower=0.18
        ),
        excess=-0.135,
    )
    return replace(base, **changes)


def _leaks() -> tuple[ExtractionFinding, ExtractionFinding]:
    unprotected = _extraction(
        target="unprotected", control=True, claim=None, verdict="LEAKED", leaked=58, guessable=17, epsilon_lower=5.6
    )
    return _extraction(), unprotected


def _findings(*items: Finding, **changes: Any) -> Findings:
    return replace(Findings(certificate_sha256=SHA, items=items), **changes)


def _account() -> Account:
    earlier = Reservation("e1", "1" * 64, Decimal("2.5"), Decimal("0.001"), "2026-11-21T10:00:00Z")
    ours = replace(
        earlier, entry="e2", certificate_sha256=SHA, epsilon=Decimal("3.10341"), ended="2026-11-27T23:04:00Z"
    )
    opened = "2026-11-20T09:00:00Z"
    return Account(
        "support-mail", "zero-out", RECORD, Decimal(20), Decimal("0.005"), "basic", opened,
        spent_epsilon=earlier.epsilon + ours.epsilon, spent_delta=earlier.delta + ours.delta, runs=2,
        reservations=(earlier, ours),
    )  # fmt: skip


def _chapter(**changes: Any) -> Chapter:
    run: dict[str, Any] = {
        "receipt": {"certificate_sha256": SHA, "ledger_entry": "e2", "noise": "secure"},
        "samples": (Sample("Billing", "I was charged twice."),),
        "released": 6,
    }
    run |= {name: changes.pop(name) for name in tuple(run) if name in changes}
    base: dict[str, Any] = {
        "certificate": _certificate(),
        "findings": _findings(
            _finding(),
            *_leaks(),
            self_tests=(SelfTest(name="noise off", attack="one-step", expected="caught", observed="caught"),),
        ),
        "runs": (Run(**run),) if run["receipt"] is not None else (),
    }
    return Chapter(**(base | changes))


def _report(**changes: Any) -> ReportInput:
    base: dict[str, Any] = {"title": "support-mail", "made": NOW, "accounts": (_account(),)}
    base |= {name: changes.pop(name) for name in tuple(base) if name in changes}
    return ReportInput(chapters=(_chapter(**changes),), **base)


class _Page(HTMLParser):
    """Collects what the tests ask about, and checks that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.tags: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == [], "unclosed tags"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> out of place"

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        """All words in order; inline tags leave no gap before punctuation."""
        return re.sub(r" (?=[,.;:])", "", " ".join(" ".join(self.words).split()))


@pytest.fixture(scope="module")
def html() -> str:
    return render(_report())


@pytest.fixture(scope="module")
def page(html: str) -> _Page:
    return _Page(html)


def test_nothing_is_loaded_from_outside(html: str, page: _Page) -> None:
    assert {"script", "link", "img", "iframe", "object", "embed", "image"}.isdisjoint(page.tags)
    for _, name, value in page.attributes:
        if name in ("href", "xlink:href", "src", "action"):
            assert value.startswith("#"), value
        elif not name.startswith("xmlns"):
            assert "://" not in value, value
    assert re.findall(r"url\((?!#)", html) == []
    assert "@import" not in html


def test_ids_are_unique_and_every_reference_resolves(page: _Page) -> None:
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    named = [word for _, name, value in page.attributes if name == "aria-labelledby" for word in value.split()]
    local = [value[1:] for _, name, value in page.attributes if name in ("href", "xlink:href")]
    clips = [m for _, _, value in page.attributes for m in re.findall(r"url\(#([^)]+)\)", value)]
    assert named
    assert clips
    assert set(named + local + clips) <= set(ids)


def test_it_reads_without_eyes(html: str, page: _Page) -> None:
    drawings = re.findall(r"<svg\b.*?</svg>", html, re.DOTALL)
    assert len(drawings) == 7, "power, leaks, trade-off, methods, profile, and the budget left and over time"
    for drawing in drawings:
        root = ET.fromstring(drawing)  # noqa: S314 - our own output
        assert root.get("role") == "img"
        for tag in ("title", "desc"):
            found = root.find(f"{{http://www.w3.org/2000/svg}}{tag}")
            assert found is not None
            assert len(found.text or "") > 10 or tag == "title"
    headings = [tag for tag in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings.count("h1") == 1
    assert {"main", "header", "footer", "caption"} <= set(page.tags)
    scopes = [1 for tag, name, _ in page.attributes if tag == "th" and name == "scope"]
    assert len(scopes) == page.tags.count("th")
    assert ("html", "lang", "en") in page.attributes


def test_drawings_use_only_the_page_s_colours(html: str) -> None:
    css = html[html.index("<style>") : html.index("</style>")]
    for drawing in re.findall(r"<svg\b.*?</svg>", html, re.DOTALL):
        assert re.findall(r"#[0-9a-fA-F]{6}\b", drawing) == []
        assert set(re.findall(r"var\(--([a-z-]+)\)", drawing)) <= {*PALETTE, "sans"}
    for role in PALETTE:
        assert css.count(f"--{role}:") == 3, f"--{role} is wanted for light, dark and print"
    for role, colour in PALETTE.items():
        assert f"--{role}: {colour}" in css, "the figures' light palette is the page's"


def _luminance(colour: str) -> float:
    digits = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_contrast_in_light_dark_and_print(html: str) -> None:
    """WCAG 2.2, 1.4.3 (level AA): 4.5 to 1 for text."""
    css = html[html.index("<style>") : html.index("</style>")]
    themes = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    assert len(themes) == 3
    for theme in themes:
        colours = dict(re.findall(r"--([a-z-]+): #([0-9a-f]{3,6})\b", theme))
        for ground in ("paper", "raised"):
            for text in ("ink", "muted", "accent", "alarm", "unsure"):
                light, dark = sorted((_luminance(colours[text]), _luminance(colours[ground])), reverse=True)
                assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground, theme)


def test_everything_is_escaped() -> None:
    certificate = _certificate(
        unit=Unit(HOSTILE, 3),
        arithmetic=HOSTILE,
        assumptions=(HOSTILE,),
        versions={"affidavit": HOSTILE},
        methods=(
            MethodSummary(HOSTILE, Decimal(1), Decimal(2), True, certified=True),
            MethodSummary("x", None, None, False, HOSTILE),
        ),
    )
    finding = _finding(attack=HOSTILE, access=(HOSTILE,), note=HOSTILE)
    counted = _extraction(attack=HOSTILE, leaked=3, guessable=1, utility=Utility(name=HOSTILE, value=0.5))
    part = replace(finding, claim=Claimed(epsilon=1, delta=0, relation="zero-out", subject=HOSTILE))
    test = SelfTest(name="noise off", attack=HOSTILE, expected="caught", observed="caught", detail=HOSTILE)
    account = Account(HOSTILE, "zero-out", RECORD, Decimal(9), Decimal(1), HOSTILE, "2026-11-20T09:00:00Z")
    html = render(
        _report(
            title=HOSTILE,
            certificate=certificate,
            findings=_findings(finding, counted, part, self_tests=(test,)),
            receipt={"certificate_sha256": SHA, "noise": HOSTILE, "sampler": HOSTILE, "ended": HOSTILE},
            accounts=(account,),
            samples=(Sample(HOSTILE, HOSTILE),),
        )
    )
    assert "<script" not in html
    assert "alert(1)" in html
    assert html.count("&lt;script") > 20
    assert "script" not in _Page(html).tags


def test_the_numbers_are_on_the_safe_side(page: _Page) -> None:
    assert "ε = 3.104, with a slack of δ = 0.001" in page.text
    assert "ε = 3.10341 at δ = 0.001" in page.text
    assert "3.103 " not in page.text, "rounded down somewhere"
    assert "at most a factor of 22.3 " in page.text, "e^3.10341 = 22.274"
    assert " 0.234 5.600 3.104 " in page.text, "lower bound and ceiling rounded down, certified up"


def test_limits_follow_from_the_curve_unless_the_certificate_states_them(page: _Page) -> None:
    # From (0, δ = .413) alone the advantage is at most .413; no other point of the curve gives less.
    assert "at most 70.7 %" in page.text
    stated = _certificate(risk={"advantage": Decimal("0.2"), "area_under_roc": Decimal("0.61234")})
    text = _Page(render(_report(certificate=stated))).text
    assert "at most 60 %" in text
    assert "at most 0.613" in text


@pytest.mark.parametrize(
    ("items", "status", "sentence"),
    [
        ((_finding(),), "Not refuted", "One attack tried to prove the certificate false. It did not."),
        (
            (_finding(), _finding(verdict="UNDERPOWERED")),
            "Inconclusive",
            "Two attacks tried to prove the certificate false. None did. One attack could not have: "
            "that silence means nothing.",
        ),
        (
            (_finding(verdict="VIOLATION", epsilon_lower=4.2),),
            "Refuted",
            "One attack tried to prove the certificate false. It did.",
        ),
        (
            (_finding(verdict="VIOLATION", epsilon_lower=4.2), _finding()),
            "Refuted",
            "Two attacks tried to prove the certificate false. One of them did.",
        ),
        (
            (_extraction(leaked=7, guessable=2),),
            "Policy failed",
            "One attack tried to prove the certificate false. It did not. "
            "Five private identifiers leaked, where none are tolerated.",
        ),
        ((), "Not audited", "No attack has been run against this certificate."),
    ],
)
def test_the_headline_says_the_outcome(items: tuple[Finding, ...], status: str, sentence: str) -> None:
    shown = headline(_findings(*items))
    assert (shown.status, " ".join(shown.sentences)) == (status, sentence)


def test_a_control_that_succeeds_raises_no_alarm(html: str, page: _Page) -> None:
    assert "Not refuted" in page.text
    assert "0 of 2" in page.text
    assert html.count('<span class="chip expected">LEAKED, AS IT MUST</span>') == 2, "its badge, and the legend's"
    silent = _Page(render(_report(findings=_findings(*_leaks()[:1], replace(_leaks()[1], verdict="DID NOT LEAK")))))
    assert "DID NOT LEAK" in silent.text
    assert html.count('<span class="chip alarm">VIOLATION</span>') == 1, "in the legend only"


def test_a_failed_self_test_casts_doubt() -> None:
    test = SelfTest(name="null pair", attack="one-step", expected="not caught", observed="caught")
    shown = headline(_findings(_finding(), self_tests=(test,)))
    assert shown.status == "Inconclusive"
    assert shown.sentences[-1] == "A self-test of the audit failed, so the audit itself is in doubt."


def test_a_receipt_without_guarantee_overrules_everything() -> None:
    receipt = {"certificate_sha256": SHA, "guarantee": "NONE: the noise was seeded"}
    text = _Page(render(_report(receipt=receipt))).text
    assert "No guarantee The certificate does not cover this output: the noise was seeded." in text
    assert "Not refuted" not in text


def test_it_says_what_was_not_checked(page: _Page) -> None:
    assert "verified with a trusted key" in page.text
    assert "as signed, not recomputed" in page.text
    assert "did not recompute the certified number" in page.text
    other = _Page(render(_report(certificate=_certificate(keyids=()), recomputed="holds"))).text
    assert "not checked by whoever made this page" in other
    assert "recomputed by an independent path: it holds" in other
    assert "did not recompute the certified number" not in other


def test_two_records_changing_places_are_held_against_the_curve_applied_twice() -> None:
    """Two steps of a Gaussian mechanism of μ = 1 are one of μ = 2 (Dong, Roth and Su 2022)."""
    from scipy.special import ndtr, ndtri

    def delta(epsilon: float) -> float:
        return float(ndtr(0.5 - epsilon) - math.exp(epsilon) * ndtr(-0.5 - epsilon))

    fine = PrivacyCurve(tuple((i / 200, delta(i / 200)) for i in range(1200)))
    for rate in (0.01, 0.1, 0.3):
        assert Twice(fine).false_negative_rate(rate) == pytest.approx(float(ndtr(ndtri(1 - rate) - 2)), abs=2e-3)
    findings = (_counted(), _finding(), _finding(control=True))
    headings = [drawing.heading for drawing in draw_tradeoffs(findings, fine)]
    assert headings == ["One record, used or not", "A used record against an unused one"]


def test_under_substitution_changing_places_is_one_step() -> None:
    claim = Claimed(epsilon=1.0, delta=0.0, relation="substitution")
    drawn = draw_tradeoffs((_counted(claim=claim), _finding(claim=claim)), PrivacyCurve(((1.0, 0.0),)))
    assert [drawing.heading for drawing in drawn] == ["One record, used or not"]


def test_a_number_that_does_not_hold_comes_before_everything() -> None:
    shown = headline(_findings(_finding()), guarantee="NONE: seeded", recomputed="does not hold")
    assert (shown.tone, shown.status) == ("alarm", "Wrong number")
    assert "could not decide" in " ".join(not_shown(_certificate(), _findings(), recomputed="undecided"))


def test_runs_at_another_epsilon_are_told_apart() -> None:
    elsewhere = Claimed(epsilon=8.0, delta=0.001, relation="zero-out", subject="the same generator at epsilon 8")
    protected, unprotected = _leaks()
    drawing = draw_leaks((protected, _extraction(claim=elsewhere, leaked=2), unprotected))
    assert drawing is not None
    told = "Protection off: 58 leaked, 17 of them guessable. Protected, ε = 8: 2 leaked, 0 of them guessable. Certified"
    assert told in drawing.svg


def test_leaks_are_told_apart_from_guesses(page: _Page) -> None:
    assert "Protection off: 58 leaked, 17 of them guessable." in page.text
    assert "41 with protection off" in page.text
    assert "41 + 17 guessable" in page.text


def test_the_ledger_account_is_shown(page: _Page) -> None:
    assert "ε = 14.39 of 20 and δ = 0.003 of 0.005 are left" in page.text, "20 − 2.5 − 3.10341, rounded down"
    assert "reserved, never committed: spent" in page.text


def test_a_bare_certificate_has_a_report() -> None:
    bare = _report(
        certificate=_certificate(curve=(), methods=(), assumptions=(), versions={}),
        findings=_findings(),
        receipt=None,
        accounts=(),
        samples=(),
    )
    text = _Page(render(bare)).text
    assert "Not audited" in text
    assert "No attack has been run." in text
    assert "Budget spent" not in text


def _several() -> ReportInput:
    other, later = "8e" * 32, NOW + timedelta(days=7)
    refuted = Chapter(
        certificate=_certificate(sha256=other, not_before=later, not_after=later + timedelta(days=90)),
        findings=Findings(certificate_sha256=other, items=(_finding(verdict="VIOLATION", epsilon_lower=4.2),)),
        runs=tuple(Run(receipt={"certificate_sha256": other, "ledger_entry": f"e{n}"}) for n in (3, 4)),
    )
    account = _account()
    charge = replace(account.reservations[0], certificate_sha256=other, reserved="2026-12-04T10:00:00Z")
    more = (replace(charge, entry="e3", ended="2026-12-04T11:00:00Z"), replace(charge, entry="e4"))
    return ReportInput(
        title="all of it",
        made=later,
        chapters=(_chapter(), refuted),
        accounts=(replace(account, reservations=(*account.reservations, *more)), replace(account, dataset="other")),
    )


@pytest.fixture(scope="module")
def several() -> str:
    return render(_several())


def test_several_certificates_begin_with_the_worst(several: str) -> None:
    page = _Page(several)
    assert "Certified: two certificates, each a limit on what its own run costs." in page.text
    assert "Refuted Two certificates, three runs, three attacks. One certificate reads “Refuted”: begin" in page.text
    assert page.tags.count("h1") == 1
    assert "Each of its runs costs one record at most ε = 3.104" in page.text
    assert "This run costs one record at most ε = 3.104" in page.text


def test_several_certificates_have_ids_and_headings_of_their_own(several: str) -> None:
    page = _Page(several)
    test_ids_are_unique_and_every_reference_resolves(page)
    test_nothing_is_loaded_from_outside(several, page)
    levels = [int(tag[1]) for tag in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(below - above <= 1 for above, below in pairwise(levels)), "no level is skipped"
    assert render(replace(_several(), accounts=())).count('href="#budget"') == 0


def test_the_budget_is_shown_over_time(several: str) -> None:
    text = _Page(several).text
    assert "4 runs since 20 November 2026, 09:00 UTC: 53 % of ε and 80 % of δ are spent." in text, "10.60341 of 20"
    assert text.count("on this page") >= 3
    assert "Charges to other" in text


def test_the_power_of_each_attack_is_told_beside_what_was_certified(page: _Page) -> None:
    told = "Label probability, certified output: could have proved 5.6, proved at least 0.2345, certified 3.104"
    assert told in page.text
    assert "Extraction, protection off: could" not in page.text, "controls are not tests"


def test_the_total_chance_of_a_false_alarm_is_said(page: _Page) -> None:
    assert "Two tests: that any of them calls a true certificate refuted has a probability of at most 0.1," in page.text
    alone = _told(_finding(alpha=0.001))
    assert "would be called refuted with a probability of at most α = 0.001." in alone


def _told(*items: Finding) -> str:
    """The words of a page with these findings and no drawing that they do not need."""
    bare = _certificate(curve=(), methods=())
    return _Page(render(_report(certificate=bare, findings=_findings(*items), accounts=()))).text


def _searched(**changes: Any) -> SearchFinding:
    overlap = Overlap(
        words=20, texts=40, members=200, held_out=200, verbatim=0, held_out_verbatim=1, verbatim_interval=(0.0, 0.0882),
        longest=0, held_out_longest=23, compared=200, rouge_l=0.2134, held_out_rouge_l=0.2091, highest_rouge_l=0.4,
        margin=0.0043, margin_interval=(-0.0512, 0.0611),
    )  # fmt: skip
    exposures = [
        Exposure(
            unit=unit, kind=kind, at_risk=size, leaked=2, beyond_guessable=1, interval=(0.01, 0.2),
            interval_method="Clopper-Pearson over users", held_out_at_risk=7, held_out_leaked=0,
        )
        for unit, kind, size in (("identifier", "email", 90), ("record", "email", 80), ("identifier", "phone", 70),
                                 ("identifier", "any", 160), ("record", "any", 150), ("user", "any", 12))
    ]  # fmt: skip
    base = SearchFinding(
        attack="released-text", verdict="COUNTED", members=200, held_out=200, texts=40, alpha=0.05, overlap=overlap,
        leakage=Leakage(at_risk=160, leaked=2, guessable=2, held_out_leaked=0, exposures=tuple(exposures)),
    )  # fmt: skip
    return replace(base, **changes)


def test_a_search_is_counted_and_is_no_test() -> None:
    text = _told(_searched())
    assert "Not refuted No attack tried to prove the certificate false; what is plainly there was counted." in text
    assert "Counted".upper() in text
    assert "no ε can be inferred from a count" in text
    assert "would be called refuted" not in text
    assert "needs more trials" not in text


def test_exposure_is_shown_per_identifier_record_and_user() -> None:
    text = _told(_searched())
    for row in (
        "E-mail address 2 of 90",
        "Phone number 2 of 70",
        "Identifier of any kind 2 of 160",
        "Record with an identifier of any kind 2 of 150",
        "User with an identifier of any kind 2 of 12",
    ):
        assert f"{row} 1.0 to 20.0 %; Clopper-Pearson over users 1 0 of 7" in text
    assert "2 of 80" not in text, "records are counted over all kinds"


def test_overlap_is_shown_beside_its_counterfactual() -> None:
    text = _told(_searched())
    assert "0 of 40 texts 20 words or more, word for word 0.0 to 8.9 % 1 0.213 0.209 0.004" in text
    assert "−0.052 to 0.062, over 40 texts" in text, "outwards"


def test_near_copies_are_shown_beside_those_of_others() -> None:
    near = NearOverlap(
        words=20, edits=4, texts=40, near=6, held_out_near=1, records=7, held_out_records=2, chance=0.0889
    )
    item = _searched()
    text = _told(replace(item, overlap=replace(item.overlap, near=near)))
    assert "20 words with at most 4 edited: 6 texts, 1 of records not used; so often by chance 0.089" in text
    assert "Not refuted" in text, "by chance so often: nobody is accused"
    surely = replace(item, overlap=replace(item.overlap, near=replace(near, chance=1e-4)))
    shown = headline(_findings(surely))
    assert shown.status == "Policy failed"
    assert shown.sentences[-1].startswith("More of the records can be had than is tolerated")


def test_records_asked_out_of_a_service_are_counted_apart() -> None:
    item = DiscoverableFinding(
        attack="discoverable", verdict="COUNTED", alpha=0.05, members=60, held_out=60, runs=2, queries=100, chance=0.5,
        extractable=4, held_out_extractable=3, luck=0.5, fewest=12, held_out_fewest=30, note="temperature 1",
    )  # fmt: skip
    text = _told(_finding(), item)
    assert "Asked 100 times for what follows, it gives away 4 of 60 records with a chance of 50.0 % or more" in text
    assert "3 of 60 that it never saw; of its own the first after 12." in text
    assert "60 used, 60 not" in text
    assert "One attack tried to prove the certificate false." in text, "a count is no test"
    assert headline(_findings(replace(item, luck=1e-3))).status == "Policy failed"


def test_a_copied_passage_is_said_at_the_top() -> None:
    item = _searched()
    shown = headline(_findings(replace(item, overlap=replace(item.overlap, verbatim=2))))
    assert shown.status == "Policy failed"
    assert shown.sentences[-1] == "Two released texts hold a passage of a private record, word for word."


def test_checks_stand_apart_from_attacks() -> None:
    check = CheckFinding(
        attack="trace: fresh samples", verdict="VIOLATION", seen=1000, alpha=0.001, note="one sample was used twice"
    )
    text = _told(_finding(), check)
    assert "One attack tried to prove the certificate false. One check looked at how the text was made." in text
    assert "One of them found a fault." in text
    assert (
        "How the text was made Check What was seen Verdict Trace: fresh samples 1,000 looked at one sample was" in text
    )
    unchecked = _told(replace(check, verdict="NOT CHECKED"))
    assert "NOT CHECKED what there was to look at does not allow this check" in unchecked


def test_findings_or_a_receipt_of_another_certificate_are_refused() -> None:
    with pytest.raises(UsageError, match="findings are bound to certificate 111111111111…, not to 9f9f9f9f9f9f…"):
        _report(findings=replace(_findings(_finding()), certificate_sha256="1" * 64))
    with pytest.raises(UsageError, match="the receipt is bound to certificate 222222222222…"):
        _report(receipt={"certificate_sha256": "2" * 64})


def test_the_same_input_gives_the_same_bytes(html: str) -> None:
    assert render(_report()) == html


def test_it_is_written_whole_and_for_the_owner_only(tmp_path: Path, html: str, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "deep" / "report.html"
    write(_report(), target)
    assert target.read_text(encoding="utf-8") == html
    assert stat.S_IMODE(target.stat().st_mode) == 0o600

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        write(_report(title="another"), target)
    assert target.read_text(encoding="utf-8") == html
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("relation", "words"),
    [
        ("add-remove", "one record is added to the data or taken out of them"),
        ("zero-out", "one record is replaced by an empty one that contributes nothing"),
        ("substitution", "one record is replaced by any other one"),
    ],
)
def test_the_relation_is_said_in_words(relation: Any, words: str) -> None:
    assert relation_in_words(relation, RECORD) == words


# -- the card, what may be shared, and what is chosen ----------------------------------------------------------------


def test_the_first_thing_on_the_page_is_the_card(html: str, page: _Page) -> None:
    assert html.index('class="card"') < html.index('class="tiles"') < html.index('class="contents"')
    for told in (
        "affidavit verify certificate.json --recompute --trust signer.pem",
        "affidavit verify certificate.json --receipt receipt.json --text synthetic.jsonl --trust signer.pem",
        f"certificate {SHA}, signed by {'5b' * 32}",
    ):
        assert told in page.text


def test_what_may_be_shared_holds_nothing_that_follows_from_the_records() -> None:
    chapter = _chapter(
        findings=_findings(_finding(verdict="VIOLATION", epsilon_lower=4.2), *_leaks(), _searched()), recomputed="holds"
    )
    exhibit = Exhibit(record="an exhibited record", unprotected="x", protected="y", leaked=())
    report = ReportInput(title="mail", made=NOW, chapters=(chapter,), accounts=(_account(),), exhibit=exhibit)
    html = render(report, public=True)
    text = _Page(html).text
    assert "Holds The signature was verified with a trusted key, and code that did not issue the number" in text
    assert "What audits of the records found is not on this page" in text
    for private in (
        "Refuted",
        "VIOLATION",
        "attack tried",
        "leaked",
        "support-mail",
        "charged twice",
        "exhibited",
        "e2",
    ):
        assert private not in text, private
    assert "Refuted" in _Page(render(report)).text
    clean = replace(chapter, findings=_findings(), runs=())
    assert render(replace(report, chapters=(clean,)), public=True) == html, "the same bytes, whatever was found"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "Signed"),
        ({"recomputed": "undecided"}, "Undecided"),
        ({"recomputed": "does not hold"}, "Wrong number"),
        ({"certificate": _certificate(keyids=())}, "Not verified"),
        ({"receipt": {"certificate_sha256": SHA, "guarantee": "NONE: seeded"}}, "No guarantee"),
    ],
)
def test_the_shared_card_says_what_is_known_of_the_number(changes: dict[str, Any], status: str) -> None:
    text = _Page(render(_report(**changes), public=True)).text
    assert text.index(status) < text.index("Verify the number")


def test_a_false_alarm_rate_is_chosen_without_a_script(html: str, page: _Page) -> None:
    radios = [value for tag, name, value in page.attributes if (tag, name) == ("input", "type")]
    assert radios == ["radio"] * len(RATES)
    assert html.count(" checked>") == 1
    curve = PrivacyCurve(((1.0, 0.0),))
    panels = dict(
        zip(RATES, rate_panels(curve, (_counted(curve_points=((0.0, 0.0), (0.2, 0.5), (1.0, 1.0))),)), strict=True)
    )
    # Pure DP: g(x) = min(e x, 1 - (1 - x)/e); at x = 1 % that is 2.718 %, of 2.718 + 1 accusations 73.1 % are right.
    assert (panels[0.01]["found"], panels[0.01]["right"]) == ("2.8\u00a0%", "73.2\u00a0%")
    assert panels[0.5]["found"] == "81.7\u00a0%"
    assert panels[0.1]["reached"] == "25\u00a0% (Loss)"
    assert rate_panels(curve)[0]["reached"] == ""


def test_no_two_rows_have_one_name() -> None:
    text = _told(_counted(), _counted(excess=-0.2))
    assert "Loss, audit 1" in text
    assert "Loss, audit 2" in text


def test_a_place_in_the_plan_is_said_in_words() -> None:
    part = Claimed(epsilon=1, delta=0, relation="zero-out", subject="8 uses of plan.parts[1].of")
    check = CheckFinding(
        attack="sensitivity check: sensitivity at plan.parts[*].of", verdict="CONSISTENT", seen=9, alpha=0.0,
        note="as plan.parts[*].of states",
    )  # fmt: skip
    text = _told(_counted(claim=part), check)
    assert "held against: 8 uses of the exponential mechanism (part 2 of 6)" in text
    assert "sensitivity at the exponential mechanism (every part)" in text
    assert "plan.parts" not in text
    assert places_in_words("at plan.parts[9].of and plan.of", _certificate().plan) == "at plan.parts[9].of and plan.of"
    assert places_in_words("plan.parts[0]", _certificate().plan) == "the repeat step (part 1 of 6)"


def test_a_run_that_ended_is_told_by_the_hour_that_its_receipt_states() -> None:
    receipt = {"certificate_sha256": SHA, "ended": "2026-11-27T23:00:00Z"}
    assert "Ended in the hour from 27 November 2026, 23:00 UTC" in _Page(render(_report(receipt=receipt))).text


def test_a_run_that_stopped_says_so() -> None:
    receipt = {"certificate_sha256": SHA, "resumed": 2, "lost_draws": 1, "closed": True}
    text = _Page(render(_report(receipt=receipt))).text
    assert "Resumed two times after it had stopped, under the same charge" in text
    assert "Lost draws 1: their texts end there" in text
    assert "Closed before all of its texts were written" in text
    whole = _Page(render(_report(receipt={**receipt, "resumed": 0, "lost_draws": 0, "closed": False}))).text
    assert not any(word in whole for word in ("Resumed", "Lost draws", "Closed before"))


def test_an_invented_record_is_shown_beside_what_leaked() -> None:
    exhibit = Exhibit(
        record="write to <jo@x.invalid>", unprotected="ask jo@x.invalid, or jo@x.invalid", protected="quite another",
        leaked=("jo@x.invalid",),
    )  # fmt: skip
    html = render(replace(_report(), exhibit=exhibit))
    assert html.count("<mark>jo@x.invalid</mark>") == 2
    assert "&lt;jo@x.invalid&gt;" in html
    assert "exhibit" not in render(_report()).partition("</style>")[2]
