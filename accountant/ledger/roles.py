"""Least privilege on a PostgreSQL server: four roles, and the SQL that makes them.

    affidavit_reader    reads the ledger: ``ledger show``, ``ledger verify``
    affidavit_issuer    the same, for whoever certifies: ``certify`` asks what an account has left
    affidavit_operator  adds what a run adds: reservations, their ends, checkpoints, notes of the gate; opens nothing
    affidavit_officer   adds everything else, such as new accounts; charges nothing

None can change or delete an entry, nor the tables. Which entries a role may add is decided by the server, by row
security on the entry's kind: a stolen operator's password and key open no account. The tables belong to whoever ran
``affidavit ledger upgrade``; give that user to nobody who runs anything. The server cannot see whether an entry is
true: an operator with ``ledger.key`` could still state a false checkpoint, which ``ledger verify`` finds.
"""

from __future__ import annotations

from affidavit.accountant.ledger.tables import entries, head, schema

__all__ = ["CHARGES", "ROLES", "sql"]

ROLES = ("affidavit_reader", "affidavit_issuer", "affidavit_operator", "affidavit_officer")

CHARGES = ("reserve", "commit", "confirm", "checkpoint")
"""The kinds of entries that runs add."""

_POLICIES = ("ledger_read", "ledger_charge", "ledger_open")


def sql(*, namespace: str = "public") -> str:
    """The statements, for the tables' owner or a superuser to run with ``psql``; running them again changes nothing."""
    place = '"' + namespace.replace('"', '""') + '"'
    rows, seal, layout = (f"{place}.{table.name}" for table in (entries, head, schema))
    kinds = ", ".join(f"'{kind}'" for kind in CHARGES)
    charge = f"(body::jsonb ->> 'kind') IN ({kinds})"
    beside = "(body::jsonb ->> 'kind') NOT IN ('reserve', 'commit', 'confirm')"
    everyone = ", ".join(ROLES)
    made = "\n".join(
        f"  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN CREATE ROLE {role} NOLOGIN; END IF;"
        for role in ROLES
    )
    return "\n".join(
        [
            "BEGIN;",
            f"DO $$ BEGIN\n{made}\nEND $$;",
            f"REVOKE ALL ON {rows}, {seal}, {layout} FROM PUBLIC, {everyone};",
            f"GRANT USAGE ON SCHEMA {place} TO {everyone};",
            f"GRANT SELECT ON {rows}, {seal}, {layout} TO {everyone};",
            f"GRANT INSERT ON {rows} TO affidavit_operator, affidavit_officer;",
            f"GRANT UPDATE ON {seal} TO affidavit_operator, affidavit_officer;",
            f"GRANT INSERT ON {seal} TO affidavit_officer;",
            f"ALTER TABLE {rows} ENABLE ROW LEVEL SECURITY;",
            *(f"DROP POLICY IF EXISTS {policy} ON {rows};" for policy in _POLICIES),
            f"CREATE POLICY ledger_read ON {rows} FOR SELECT TO {everyone} USING (true);",
            f"CREATE POLICY ledger_charge ON {rows} FOR INSERT TO affidavit_operator WITH CHECK ({charge});",
            f"CREATE POLICY ledger_open ON {rows} FOR INSERT TO affidavit_officer WITH CHECK ({beside});",
            "COMMIT;",
            "-- Then a login for each person or machine, for example:",
            "--   CREATE ROLE night_runs LOGIN PASSWORD '...' IN ROLE affidavit_operator;",
            "",
        ]
    )
