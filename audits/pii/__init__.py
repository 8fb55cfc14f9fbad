"""Identifiers in text, each counted once however written. No detector uses a network.

identifier   what one is; how private files name it without telling it
detect       ``find_mentions``: all detectors behind one call
email        addresses, by email-validator, however disguised
phone        numbers, by phonenumbers, as E.164
url          web addresses, by linkify-it-py, in a normal form
account      IBAN, payment cards and others that carry a check, by python-stdnum
name         people, by Presidio where it is installed
folding      text as detectors read it, and the way back
"""

from affidavit.audits.pii.census import Held, census
from affidavit.audits.pii.detect import find_mentions
from affidavit.audits.pii.email import normalise_email
from affidavit.audits.pii.identifier import KINDS, Identifier, IdentifierKind, Mention, Pseudonyms, distinct
from affidavit.audits.pii.name import NameFinder
from affidavit.audits.pii.url import normalise_url

__all__ = [
    "KINDS",
    "Held",
    "Identifier",
    "IdentifierKind",
    "Mention",
    "NameFinder",
    "Pseudonyms",
    "census",
    "distinct",
    "find_mentions",
    "normalise_email",
    "normalise_url",
]
