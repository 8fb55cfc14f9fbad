"""What each kind of finding says in words, by hand from its numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from affidavit.audits.finding import (
    CheckFinding,
    Claim,
    Finding,
    MembershipFinding,
    OneStepFinding,
    OperatingPoint,
    PerRunFinding,
)
from affidavit.audits.sentences import sentence

CLAIM = Claim(epsilon=1.0, delta=1e-5, relation="zero-out")
POINT = OperatingPoint(
    false_positive_rate=0.09, true_positive_rate=0.12, false_positive_upper=0.16, true_positive_lower=0.075
)
AREA = MembershipFinding(
    attack="loss", verdict="CONSISTENT", n_members=10, n_non_members=10, runs=40, alpha=0.05, claim=CLAIM, ceiling=2.0,
    auc=0.531, interval=(0.4, 0.6), interval_method="", limit=0.982,
)  # fmt: skip
COUNTED = PerRunFinding(
    attack="loss", verdict="CONSISTENT", n_members=200, n_non_members=200, runs=400, alpha=0.05, claim=CLAIM,
    ceiling=2.0, point=POINT, excess=-0.27,
)  # fmt: skip
STEP = OneStepFinding(
    attack="one-step", verdict="VIOLATION", n_members=200, n_non_members=200, runs=400, alpha=0.05, claim=CLAIM,
    ceiling=2.0, point=POINT, excess=0.025,
)  # fmt: skip
CHECK = CheckFinding(attack="order", verdict="CONSISTENT", seen=1200, alpha=0.001)


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            AREA,
            "Of a record that was used and one that was not, it picks the used one 53.1 % of the time; guessing gives "
            "50.0 %, and a true certificate admits 98.2 %.",
        ),
        (
            replace(AREA, limit=None, control=True),
            "Of a record that was used and one that was not, it picks the used one 53.1 % of the time, where guessing "
            "gives 50.0 %.",
        ),
        (
            COUNTED,  # .075 + .27 is what the curve admits
            "Over 400 releases it calls the record used in 12.0 % where it was and in 9.0 % where it was not. Chance "
            "apart, that is at least 7.5 % against at most 16.0 %; a true claim admits 34.5 %.",
        ),
        (
            replace(COUNTED, excess=None, control=True),
            "Over 400 releases it calls the record used in 12.0 % where it was and in 9.0 % where it was not.",
        ),
        (
            STEP,  # .075 - .025
            "Over 400 trials of the worst case it calls the record used in 12.0 % where it was and in 9.0 % where it "
            "was not. Chance apart, that is at least 7.5 % against at most 16.0 %, more than the 5.0 % that a true "
            "claim admits.",
        ),
        (CHECK, "1,200 looked at."),
        (replace(CHECK, p_value=0.25), "1,200 looked at, p-value 0.25 against 0.001."),
    ],
)
def test_a_finding_in_words(item: Finding, words: str) -> None:
    assert sentence(item).replace("\N{NO-BREAK SPACE}", " ") == words
