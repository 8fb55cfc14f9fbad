"""``affidavit init``: a run file to start from, keys and a ledger account.

Counts and labels read from a file of private records are private. They become run-file values
only once the operator declares them public facts; the caller asks, this module only proposes.
"""

from __future__ import annotations

import csv
import json
import secrets
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from affidavit.accountant.errors import DataError, LedgerMissing, UsageError
from affidavit.accountant.keys import Keyring
from affidavit.accountant.unit import RECORD
from affidavit.accountant.validate import Relation
from affidavit.records import read_all
from affidavit.writing import write_new

__all__ = ["READABLE_TEMPERATURE", "Declared", "convert_csv", "look_at", "run_text", "set_up"]

MAX_LABELS = 50
MAX_BATCH = 128
READABLE_TEMPERATURE = 1.2
"""Above it SmolLM2's text falls apart at a clip of 10."""


@dataclass(frozen=True, slots=True)
class Declared:
    """Public facts for a run file: what the operator stands for, not what the data say."""

    name: str
    path: str
    size: int
    labels: tuple[str, ...]
    relation: Relation
    epsilon: float
    delta: float
    model: str = "smollm2-135m"
    max_tokens: int = 40
    max_record_tokens: int = 96
    clip: float = 10.0
    temperature: float = 0.7
    batch_size: int = 0

    def with_batches(self) -> Declared:
        """With the largest batches for which every label has one, up to ``MAX_BATCH``."""
        room = self.size // max(1, len(self.labels))
        if room < 1:
            raise UsageError(
                f"{self.size} records are too few for {len(self.labels)} labels",
                hint="Declare a larger --size, or fewer --labels.",
            )
        return replace(self, batch_size=min(room, MAX_BATCH))

    def within_budget(self) -> Declared:
        """With the temperature raised, if need be, until the run costs no more than its budget.

        Raises ``NoValueFits`` where no temperature does.
        """
        from affidavit.certification import plan_run
        from affidavit.runfile import parse_run
        from affidavit.solving import solve_run

        run = parse_run(tomllib.loads(run_text(self)))
        if plan_run(run).fits:
            return self
        # A hair below the budget: certified numbers are rounded outward.
        solved = solve_run(run, epsilon=self.epsilon * (1.0 - 1e-3), key="temperature")
        return replace(self, temperature=float(solved.value))


def look_at(path: Path) -> tuple[int, tuple[str, ...]]:
    """The number of records and the labels of a JSON Lines file: *private*, a proposal only.

    Raises ``DataError`` naming line and field, never text.
    """
    records = read_all(path)
    labels = sorted({record.label for record in records})
    if len(labels) > MAX_LABELS:
        raise DataError(
            f"{path}: more than {MAX_LABELS} different labels", hint="Is label the right field? Give --labels yourself."
        )
    return len(records), tuple(labels)


def convert_csv(path: Path, target: Path, *, columns: Mapping[str, str]) -> Path:
    """Write a CSV file's records as JSON Lines to ``target``, readable by the owner only.

    ``columns`` maps ``text``, ``label`` and, where there is one, ``id`` to column names. Records
    without an id get a random one, kept from then on: a line number would change for every
    record below a removed one, and batches must depend on nothing but the record.
    """
    rows = csv.DictReader(_csv_lines(path), strict=True)
    known = rows.fieldnames or ()
    for field in ("text", "label"):
        if columns.get(field, field) not in known:
            raise DataError(
                f"{path}: no column {columns.get(field, field)!r}",
                hint=f"Name it with --{field}-column; the file's columns: {', '.join(known)}",
            )
    id_column = columns.get("id", "id" if "id" in known else "")
    if id_column and id_column not in known:
        raise DataError(f"{path}: no column {id_column!r}", hint=f"The file's columns: {', '.join(known)}")
    lines = []
    try:
        for row in rows:
            record = {field: row[columns.get(field, field)] or "" for field in ("text", "label")}
            identity = (row[id_column] or "") if id_column else secrets.token_hex(8)
            lines.append(json.dumps({"id": identity, **record}, ensure_ascii=False))
    except csv.Error as error:
        raise DataError(f"{path}, line {rows.line_num}: {error}", hint="Is it comma-separated, in UTF-8?") from None
    write_new(target, "".join(line + "\n" for line in lines), private=True)
    return target


def run_text(declared: Declared) -> str:
    """The commented run file."""
    labels = ", ".join(_quoted(label) for label in declared.labels)
    lines: list[tuple[str, str]] = [
        ("", "What will be run, on what, under which promise. `affidavit plan` on this file shows the cost;"),
        ("", "the data are not read before `affidavit certify`."),
        ("", ""),
        (
            f"relation = {_quoted(declared.relation)}",
            "add-remove | zero-out | substitution: which data sets are neighbours",
        ),
        ('unit = "record"', "what one protected thing is"),
        ("", ""),
        ("[budget]", "`certify` refuses a run that costs more"),
        (f"epsilon = {declared.epsilon!r}", ""),
        (f"delta = {declared.delta!r}", ""),
        ("", ""),
        ("[data]", ""),
        (f"name = {_quoted(declared.name)}", "the ledger account that pays"),
        (f"path = {_quoted(declared.path)}", "one record a line: id (unique), text, label"),
        (f"size = {declared.size}", "declared, a public fact; never read from the data"),
        ("", ""),
        ("[model]", ""),
        (f"name = {_quoted(declared.model)}", "or a folder that holds a Hugging Face model"),
        ("", ""),
        ("[generator]", ""),
        ('kind = "prism"', ""),
        (f"labels = [{labels}]", "declared, a public fact; never read from the data"),
        ("samples_per_label = 1", "each from its own disjoint batch: more cost nothing extra"),
        (f"max_tokens = {declared.max_tokens}", "every token costs"),
        (
            f"max_record_tokens = {declared.max_record_tokens}",
            "longer records are cut, shorter ones padded: length must not show",
        ),
        (f"batch_size = {declared.batch_size}", "records behind one sample: more cost less"),
        (f"clip = {declared.clip!r}", "how far one record can move a token's score"),
        (
            f"temperature = {declared.temperature!r}",
            f"higher costs less, reads worse; above {READABLE_TEMPERATURE} text falls apart",
        ),
        ("", ""),
        ("[randomness]", ""),
        ('noise = "secure"', "or {seed = 7}: reproducible, carries no guarantee"),
    ]
    return "".join(_commented(setting, remark) for setting, remark in lines)


def _commented(setting: str, remark: str) -> str:
    if not remark:
        return f"{setting}\n"
    return f"{setting:<28} # {remark}\n" if setting else f"# {remark}\n"


def _quoted(text: str) -> str:
    """A TOML basic string: JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _csv_lines(path: Path) -> Sequence[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return file.readlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}", hint="Check the path.") from None
    except UnicodeDecodeError:
        raise DataError(f"{path} is not UTF-8", hint="Convert it to UTF-8 first.") from None


def set_up(declared: Declared) -> Iterator[str]:
    """Make keys and the ledger account where there are none; yields what was done, for the operator."""
    from affidavit.accountant.ledger import Ledger

    keyring = Keyring.default()
    if not keyring.exists():
        keyring.init(keep_existing=True)
        yield f"Made keys in {keyring.home}: keep this folder, whoever reads it can sign in your name."
    ledger = Ledger(keyring=keyring)
    try:
        account = ledger.account(declared.name)
        yield f"The account {account.dataset} exists already; its budget is fixed."
    except LedgerMissing:
        ledger.init_account(
            declared.name, relation=declared.relation, unit=RECORD, epsilon=declared.epsilon, delta=declared.delta
        )
        yield f"Opened the account {declared.name} with (ε, δ) = ({declared.epsilon:g}, {declared.delta:g}), for good."
