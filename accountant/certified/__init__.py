"""Certified arithmetic: bounds that no rounding error can make too small."""

from affidavit.accountant.certified.bound import CertifiedBound, certified_bound, certified_curve

__all__ = ["CertifiedBound", "certified_bound", "certified_curve"]
