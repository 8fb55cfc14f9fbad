"""Faults to plant in safety code, one at a time: where, what, and the test that has to fail then."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FAULTS", "Planted"]


@dataclass(frozen=True, slots=True)
class Planted:
    """``old`` becomes ``new`` in ``file``; ``test`` is below ``tests/accountant``."""

    name: str
    file: str
    old: str
    new: str
    test: str


_DATABASE, _STORE, _ACCOUNTS = (f"accountant/ledger/{name}.py" for name in ("database", "store", "accounts"))
_BOOK, _GRANTS = (f"accountant/ledger/{name}.py" for name in ("book", "grants"))
_CHAIN, _ANCHORS, _ROLES = (f"accountant/ledger/{name}.py" for name in ("chain", "anchors", "roles"))
_RECHECK = "accountant/attestation/recheck.py"
_PERMIT, _NOISE = (f"accountant/release/{name}.py" for name in ("permit", "randomness"))
_KEYS, _FILES = "accountant/attestation/keys.py", "accountant/files.py"
_SESSION = "ledger/test_ledger_postgresql.py::test_the_session_sets_what_a_grant_rests_on"

FAULTS = (
    # The database
    Planted("SQLite does not wait for the disk", _DATABASE, "PRAGMA synchronous = FULL", "PRAGMA synchronous = OFF",
            "test_safety.py::test_sqlite_writes_are_on_disk_before_they_are_granted"),
    Planted("SQLite takes no write lock", _DATABASE, '"BEGIN IMMEDIATE" if write else "BEGIN"', '"BEGIN"',
            "ledger/test_ledger_together.py::test_threads_cannot_overdraw"),
    Planted("PostgreSQL takes no lock", _DATABASE, "connection.execute(text(_LOCK))", "pass", _SESSION),
    Planted("PostgreSQL does not wait for the disk", _DATABASE, '"synchronous_commit": "on"',
            '"synchronous_commit": "off"', _SESSION),
    Planted("a writer reads what was there before it had the lock", _DATABASE, "ISOLATION LEVEL READ COMMITTED",
            "ISOLATION LEVEL REPEATABLE READ", _SESSION),
    Planted("PostgreSQL waits for ever", _DATABASE, '"lock_timeout": "1min"', '"lock_timeout": "0"', _SESSION),
    Planted("what the session was told is not checked", _DATABASE, "_check_session(_session(connection), write=write)",
            "_session(connection)",
            "ledger/test_ledger_postgresql.py::test_a_server_that_does_not_do_as_asked_grants_nothing"),
    Planted("operators may open accounts", _ROLES, 'TO affidavit_operator WITH CHECK ({charge})',
            "TO affidavit_operator WITH CHECK (true)",
            "ledger/test_ledger_roles.py::test_nobody_else_opens_an_account"),
    # The chain and its anchors
    Planted("an entry's MAC is not checked", _CHAIN,
            "if not hmac.compare_digest(_mac(key, _ENTRY_DOMAIN, row.body).encode(), row.mac.encode()):", "if False:",
            "ledger/test_ledger_alteration.py::test_every_alteration_is_found_at_the_first_bad_entry"),
    Planted("the link to the entry before is not checked", _CHAIN, "or previous not in (None, stated)", "",
            "ledger/test_ledger_chain.py::test_an_entry_of_another_branch_does_not_fit"),
    Planted("the seal is not checked", _BOOK, "if sealed != expected:", "if False:",
            "ledger/test_ledger_alteration.py::test_a_dropped_tail_is_found_by_the_seal_even_without_the_anchor"),
    Planted("a shorter ledger is accepted", _ANCHORS, "if end.count < self.head.count:", "if False:",
            "ledger/test_ledger_alteration.py::test_an_older_state_of_all_tables_is_found_by_the_anchor"),
    Planted("anchors are not synchronised", _FILES, "os.fsync(file.fileno())", "pass",
            "test_safety.py::test_an_anchor_is_on_disk_before_it_replaces_the_last"),
    Planted("a checkpoint may state any sum", _ACCOUNTS,
            'case "checkpoint" if {k: v for k, v in facts.items() if k != "at"} == self.checkpoint():',
            'case "checkpoint":',
            "ledger/test_ledger_checkpoints.py::test_a_checkpoint_with_another_sum_is_found_by_the_walk"),
    # The budget
    Planted("a reservation is committed twice", _STORE,
            'for _, facts in found.about(entry)] != ["reserve"]:', "for _, facts in ()]:",
            "ledger/test_ledger.py::test_a_run_commits_once"),
    Planted("an id is reserved again", _STORE, " or found.about(entry)", "",
            "ledger/test_ledger_checkpoints.py::test_an_id_is_reserved_once_however_long_ago"),
    Planted("other data's account pays", _GRANTS,
            '    check_owner(accounts, dataset, records, charge.get("data", ""))\n', "",
            "ledger/test_ledger_sketch.py::test_a_new_name_is_no_new_budget"),
    Planted("an account of a part pays for any records", _GRANTS, "    _check_part(account, records, key)\n", "",
            "ledger/test_ledger_parts.py::test_a_part_pays_for_its_own_records_only"),
    Planted("another ledger pays for the same file", _STORE, "        if not self._apart:\n", "        if False:\n",
            "ledger/test_ledger_sketch.py::test_the_same_file_has_no_second_budget_on_another_ledger"),
    Planted("another relation's account pays", _GRANTS,
            '    _check_kind(account, charge["relation"], charge["unit"])\n', "",
            "ledger/test_ledger.py::test_another_relation_or_unit_is_refused"),
    Planted("the clock may run backwards", _BOOK, "if write and now < last - MAX_CLOCK_SKEW:", "if False:",
            "ledger/test_ledger_checkpoints.py::test_time_does_not_run_behind_the_last_entry"),
    # The gate and the permit
    Planted("the gate believes a signed number", _PERMIT, "    ledger.confirm(verified)\n", "",
            "test_permit.py::test_a_certificate_signed_again_with_a_smaller_claim_opens_nothing"),
    Planted("a ledger notes what nobody recomputed", _STORE, "        recheck.confirm(certificate)\n", "",
            "test_permit.py::test_a_trusted_signature_under_a_wrong_number_opens_nothing"),
    Planted("a note counts for another verifier", _RECHECK, '"verifier": verifier(),', '"verifier": "any",',
            "ledger/test_ledger_confirmed.py::test_another_version_of_the_verifier_recomputes"),
    Planted("a note counts for another statement", _RECHECK,
            '"statement_sha256": statement_sha256(certificate),', '"statement_sha256": "any",',
            "ledger/test_ledger_confirmed.py::test_a_wrong_number_is_refused_each_time_and_noted_never"),
    Planted("the gate takes any run", _PERMIT, "    check_subject(verified, run)\n", "",
            "test_permit.py::test_another_run_is_refused_and_charged_nothing"),
    Planted("uses are counted without a lock", _PERMIT, "        with self._lock:\n            self._check_live()\n"
            "            leaf =", "        if True:\n            self._check_live()\n            leaf =",
            "test_safety.py::test_a_use_is_counted_by_one_thread_at_a_time"),
    Planted("a permit outlives its run", _PERMIT, "            self._open = False\n", "",
            "test_permit.py::test_after_the_run_nothing_can_be_drawn"),
    Planted("a fork draws", _PERMIT, "        if not self.mine:\n", "        if False:\n",
            "test_permit.py::test_a_forked_process_cannot_draw"),
    Planted("a fork commits", _PERMIT, "    if permit.mine:\n", "    if True:\n",
            "test_permit_copies.py::test_a_fork_that_leaves_the_block_commits_nothing"),
    # Randomness
    Planted("noise from MT19937", _NOISE, "np.frombuffer(bytearray(os.urandom(8 * count)), dtype=np.uint64)",
            "np.random.RandomState(int.from_bytes(os.urandom(4))).randint(0, 2**64, count, np.uint64)",
            "test_safety.py::test_every_word_of_secure_noise_is_the_operating_systems"),
    Planted("kept noise draws after the run", _NOISE, "            self._check()\n            self.taken",
            "            self.taken",
            "test_permit_copies.py::test_nothing_kept_from_a_run_draws_after_its_end"),
    # Keys and signatures
    Planted("others may read private keys", _KEYS, "stat.S_IMODE(mode) & 0o077", "stat.S_IMODE(mode) & 0",
            "test_keys.py::test_a_private_file_that_others_can_read_is_refused"),
    Planted("a key is overwritten", _FILES, "os.link(made, path)", "__import__('shutil').copy(made, path)",
            "test_keys.py::test_a_key_is_never_overwritten"),
    Planted("a receipt's signature is not checked", "accountant/attestation/receipt.py",
            "trusted[keyid].verify(value, dsse.pae(_TYPE, _spelled(body)))", "_spelled(body)",
            "test_receipt.py"),
    Planted("an expired certificate opens", "accountant/attestation/certificate.py",
            "if now > certificate.not_after:", "if False:",
            "test_permit.py::test_bad_certificates_are_refused_and_charged_nothing"),
)  # fmt: skip
