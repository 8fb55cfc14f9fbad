"""Verdicts: what an audit may say about a certificate.

``VIOLATION``      a valid lower bound exceeds what the certificate claims.
``UNDERPOWERED``   this attack, at its best with this many runs at this α and δ, could not have
                   shown a violation, or its own control does not: silence means nothing.
``CONSISTENT``     the test could have shown a violation and did not. Never "pass".

A control is the same attack where nothing protects. It is held against no claim, so it has none of these:

``LEAKED``         it succeeds there, as it must.
``DID NOT LEAK``   it does not, so what it says elsewhere is worth nothing.

Where nothing was put to the test:

``COUNTED``        what was found is counted, and the policy judges it.
``NOT CHECKED``    what there was to look at does not allow the check.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Verdict", "control_badge", "control_verdict", "decide"]

Verdict = Literal["VIOLATION", "CONSISTENT", "UNDERPOWERED", "LEAKED", "DID NOT LEAK", "COUNTED", "NOT CHECKED"]


def control_verdict(*, leaked: bool) -> Verdict:
    """What a control says: that the attack works where it must, or not."""
    return "LEAKED" if leaked else "DID NOT LEAK"


def control_badge(verdict: Verdict) -> str:
    """A control's verdict, in the words that stand on a page."""
    return "LEAKED, AS IT MUST" if verdict == "LEAKED" else "DID NOT LEAK"


def decide(*, violated: bool, perfect_attack_would_violate: bool) -> Verdict:
    """The verdict of one test, given what it found and what a perfect attack would have found.

    A violation stands whatever the power: the lower bound is valid at its α. (A test cannot
    find more than a perfect attack finds, so the odd combination does not arise; it is not
    silently mended either.)
    """
    if violated:
        return "VIOLATION"
    return "CONSISTENT" if perfect_attack_would_violate else "UNDERPOWERED"
