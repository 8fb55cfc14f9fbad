"""Phone numbers: what ``phonenumbers`` calls valid, as E.164."""

from __future__ import annotations

from collections.abc import Iterator

from affidavit.accountant.extras import require
from affidavit.audits.pii.identifier import Identifier, Mention

__all__ = ["is_region", "phone_mentions"]


def phone_mentions(text: str, *, region: str) -> Iterator[Mention]:
    """Every valid number; those without a country code are read as ``region``'s (ISO 3166, ``"US"``)."""
    import phonenumbers

    for match in phonenumbers.PhoneNumberMatcher(text, region):
        value = phonenumbers.format_number(match.number, phonenumbers.PhoneNumberFormat.E164)
        yield Mention(Identifier("phone", value), match.start, match.end)


def is_region(code: str) -> bool:
    """Whether numbers can be read as this region's. Raises ``PackageMissing``."""
    require("audit", "phonenumbers", purpose="finding phone numbers of a region")
    import phonenumbers

    return code in phonenumbers.SUPPORTED_REGIONS
