"""Verdicts: what an audit may say about a certificate.

``VIOLATION``      a valid lower bound exceeds what the certificate claims.
``UNDERPOWERED``   even a perfect attack, with this many runs at this α and δ, could not have
                   shown a violation: silence means nothing.
``CONSISTENT``     the test could have shown a violation and did not. Never "pass".
"""

from __future__ import annotations

from typing import Literal

__all__ = ["Verdict", "decide", "decide_epsilon"]

Verdict = Literal["VIOLATION", "CONSISTENT", "UNDERPOWERED"]


def decide(*, violated: bool, perfect_attack_would_violate: bool) -> Verdict:
    """The verdict of one test, given what it found and what a perfect attack would have found.

    A violation stands whatever the power: the lower bound is valid at its α. (A test cannot
    find more than a perfect attack finds, so the odd combination does not arise; it is not
    silently mended either.)
    """
    if violated:
        return "VIOLATION"
    return "CONSISTENT" if perfect_attack_would_violate else "UNDERPOWERED"


def decide_epsilon(*, epsilon_lower: float, ceiling: float, epsilon_certified: float) -> Verdict:
    """The verdict when both sides are an ε at the certificate's δ.

    ``ceiling`` is the lower bound that a perfect attack would have reached; at or below the
    certified ε the test is underpowered.
    """
    return decide(
        violated=epsilon_lower > epsilon_certified,
        perfect_attack_would_violate=ceiling > epsilon_certified,
    )
