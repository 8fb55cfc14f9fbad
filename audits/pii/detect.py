"""All detectors behind one call."""

from __future__ import annotations

from collections.abc import Iterable

from affidavit.accountant.extras import require
from affidavit.audits.pii.account import account_mentions
from affidavit.audits.pii.email import email_mentions
from affidavit.audits.pii.identifier import IdentifierKind, Mention
from affidavit.audits.pii.name import NameFinder, name_mentions
from affidavit.audits.pii.phone import phone_mentions
from affidavit.audits.pii.url import url_mentions

__all__ = ["find_mentions", "require_detectors"]

_NEEDS: dict[IdentifierKind, tuple[str, ...]] = {
    "email": ("email_validator",),
    "phone": ("phonenumbers", "stdnum"),
    "url": ("idna", "linkify_it"),
    "account": ("stdnum",),
}


def require_detectors(kinds: Iterable[IdentifierKind]) -> None:
    """Raises ``PackageMissing`` where identifiers of these kinds cannot be found with what is installed."""
    wanted = set(kinds)
    modules = {module for kind in wanted & _NEEDS.keys() for module in _NEEDS[kind]}
    if modules:
        require("audit", *sorted(modules), purpose=f"finding identifiers ({', '.join(sorted(wanted))})")


def find_mentions(
    text: str,
    *,
    kinds: Iterable[IdentifierKind] = ("email", "phone"),
    region: str = "US",
    names: NameFinder | None = None,
) -> tuple[Mention, ...]:
    """Every mention of an identifier in the text, in order of position. No network is used.

    Digits that are an account number by their check are not a phone number as well. Kind
    ``"name"`` needs Presidio or a finder of your own in ``names``. Raises ``PackageMissing``.
    """
    wanted = set(kinds)
    require_detectors(wanted)
    found: list[Mention] = []
    if "email" in wanted:
        found.extend(email_mentions(text))
    if "url" in wanted:
        found.extend(url_mentions(text))
    accounts = list(account_mentions(text)) if wanted & {"account", "phone"} else []
    if "account" in wanted:
        found.extend(accounts)
    if "phone" in wanted:
        phones = phone_mentions(text, region=region)
        found.extend(phone for phone in phones if not any(phone.touches(account) for account in accounts))
    if "name" in wanted:
        found.extend(name_mentions(text, find=names))
    return tuple(sorted(found, key=lambda mention: (mention.start, mention.end)))
