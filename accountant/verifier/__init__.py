"""The verifier: a certificate's number once more, by code that shares no formula with what issued it."""

from affidavit.accountant.verifier.recompute import (
    ClaimCheck,
    Recomputed,
    check_claim,
    recompute,
    recomputed_curve,
)

__all__ = ["ClaimCheck", "Recomputed", "check_claim", "recompute", "recomputed_curve"]
