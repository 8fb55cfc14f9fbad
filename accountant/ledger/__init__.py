"""The ledger: what has been spent on which data, append-only.

accounts and reservations are read from a chain of entries, each keyed to the one before:

    chain.py     one entry's bytes, its link to the one before, and the seal on the last
    accounts.py  what a chain of entries means: accounts, reservations, what is left
    tables.py    the two tables, their layout, and the triggers that refuse to change or delete an entry
    database.py  SQLite or PostgreSQL: made once, opened for one transaction at a time
    sketch.py    which accounts hold the same records, whatever they are called
    anchors.py   how long each ledger was when this machine last wrote it
    book.py      every transaction verifies first, and is remembered afterwards
    opening.py   what an entry says that opens or raises an account
    grants.py    whether an account pays for a run
    store.py     ``Ledger``: open, reserve, commit, verify

What an attacker can do. *Whoever can write the database* but not read ``AFFIDAVIT_HOME`` cannot add,
change, reorder or drop entries unseen: each is keyed with ``ledger.key``, the last is sealed with
their number, and the anchor remembers that number, so that even an older copy of the whole file
is noticed on the machine that wrote the newer one. *Whoever can read* ``AFFIDAVIT_HOME`` holds the
key and can write any history; so can whoever deletes the anchor together with restoring an old
database. The ledger guards against accident and against users of a shared database, not
against its own keeper.
"""

from affidavit.accountant.ledger.accounts import Account, Reservation
from affidavit.accountant.ledger.store import Ledger, account_name, default_url

__all__ = ["Account", "Ledger", "Reservation", "account_name", "default_url"]
