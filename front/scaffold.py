"""``affidavit init``: a run file to start from, keys and a ledger account.

Counts and labels read from a file of private records are private. They become run-file values
only once the operator declares them public facts; ``proposed_labels`` says whether they look like labels at all.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from affidavit.accountant.errors import TableUnclear, UsageError, Way
from affidavit.accountant.validate import Relation
from affidavit.generation.dataset import Fields
from affidavit.tables.columns import MOST_LABELS
from affidavit.writing import write_whole

if TYPE_CHECKING:
    from affidavit.accounts import AccountPlan
    from affidavit.tables.canonical import RecordsFile

__all__ = ["LONGEST_LABEL", "READABLE_TEMPERATURE", "Declared", "proposed_labels", "run_text", "set_up"]

LONGEST_LABEL = 80
ENOUGH = 10
"""In so many records labels come again."""
MAX_BATCH = 128
AS_NAMED_HERE = Fields()
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
    fields: Fields = AS_NAMED_HERE
    model: str = "smollm2-135m"
    max_tokens: int = 40
    max_record_tokens: int = 96
    clip: float = 10.0
    temperature: float = 0.7
    batch_size: int = 0

    def with_fields(self, fields: Fields) -> Declared:
        """With the names that the file has for text and label."""
        return replace(self, fields=fields)

    def with_batches(self) -> Declared:
        """With the largest batches for which every label has one, up to ``MAX_BATCH``."""
        room = self.size // max(1, len(self.labels))
        if room < 1:
            raise UsageError(
                f"{self.size} records are too few for {len(self.labels)} labels",
                hint="Give fewer labels; or one for all: remove `--label`, `--labels-file`, then `--one-label text`.",
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


def proposed_labels(labels: Sequence[str], *, records: int) -> tuple[str, ...]:
    """The labels of the data, to be declared public. Raises ``TableUnclear`` where they look like something else."""
    longest = max(map(len, labels), default=0)
    if len(labels) > MOST_LABELS:
        problem = f"{len(labels):,} different ones, more than {MOST_LABELS}"
    elif longest > LONGEST_LABEL:
        problem = f"one has {longest:,} characters, more than {LONGEST_LABEL}"
    elif records >= ENOUGH and 2 * len(labels) > records:
        problem = f"{len(labels):,} different ones in {records:,} records"
    else:
        return tuple(labels)
    raise TableUnclear(
        f"the labels do not look like labels: {problem}",
        ways=(Way("If the texts are all of one kind, one label for all of them", ("--one-label", "text")),),
        hint="If they are labels, write them into a file, one a line, and name it with --labels-file.",
    )


def run_text(declared: Declared) -> str:
    """The commented run file."""
    labels = ", ".join(_quoted(label) for label in declared.labels)
    named = declared.fields
    fields = (
        []
        if named == AS_NAMED_HERE
        else [
            (f"fields = {{text = {_quoted(named.text)}, label = {_quoted(named.label)}}}", "what the file calls them")
        ]
    )
    lines: list[tuple[str, str]] = [
        ("", "What will be run, on what, under which promise. `affidavit plan` on this file shows the cost;"),
        ("", "no number there depends on the data."),
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
        (f"path = {_quoted(declared.path)}", f"one record a line: id (unique), {named.text}, {named.label}"),
        *fields,
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


def set_up(declared: Declared, out: Path, *, records: RecordsFile | None, account: AccountPlan) -> Iterator[str]:
    """Write records, run file, keys and account, where they are not there; yields what was done, for the operator.

    What was written is removed again if a later step fails.
    """
    from affidavit.accountant.keys import Keyring
    from affidavit.accountant.ledger import Ledger

    keyring = Keyring.default()
    written: list[Path] = []
    try:
        write_whole(out, run_text(declared))
        written.append(out)
        if records is not None and records.write():
            written.append(records.path)
            yield f"Wrote {records.path}, readable by you only."
        if not keyring.exists():
            keyring.init(keep_existing=True)
            yield f"Made keys in {keyring.home}: keep this folder, whoever reads it can sign in your name."
        yield account.open(Ledger(keyring=keyring))
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
