"""``affidavit init``: a run file to start from, keys and a ledger account.

Counts and labels read from a file of private records are private. They become run-file values
only once the operator declares them public facts; ``proposed_labels`` says whether they look like labels at all.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from affidavit import starters
from affidavit.accountant.errors import TableUnclear, Way
from affidavit.accountant.validate import Relation
from affidavit.generation.dataset import Fields
from affidavit.generation.registry import generator
from affidavit.tables.columns import MOST_LABELS
from affidavit.writing import write_new

if TYPE_CHECKING:
    from affidavit.accountant.filters.costs import Costs
    from affidavit.accounts import AccountPlan
    from affidavit.tables.canonical import RecordsFile

__all__ = ["LONGEST_LABEL", "Declared", "proposed_labels", "run_text", "set_up"]

LONGEST_LABEL = 80
ENOUGH = 10
"""In so many records labels come again."""
AS_NAMED_HERE = Fields()


@dataclass(frozen=True, slots=True)
class Declared:
    """Public facts for a run file: what the operator stands for, not what the data say.

    ``settings``: the generator's own, once ``with_settings`` chose them. ``changed``: what those were that the budget
    asked to change.
    """

    name: str
    path: str
    size: int
    labels: tuple[str, ...]
    relation: Relation
    epsilon: float
    delta: float
    fields: Fields = AS_NAMED_HERE
    model: str = "smollm2-135m"
    kind: str = "prism"
    queries: tuple[str, ...] = ()
    public: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    changed: Mapping[str, float] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """A setting, of an inner table with a dot."""
        found: Any = self.settings
        for step in key.split("."):
            found = found[step]
        return found

    def with_settings(self) -> Declared:
        """With the generator's local settings, fitted to the size. Raises ``UsageError`` where that is too small."""
        source = generator(self.kind)
        found = starters.settings(
            source, size=self.size, labels=self.labels, queries=self.queries, public=self.public is not None
        )
        return replace(self, settings=found)

    def within_budget(self) -> Declared:
        """With the noise changed, if need be, until the run costs no more than its budget.

        Raises ``NoValueFits`` where no noise does; ``RunFileError``, ``NotSupported`` as the generator does.
        """
        from affidavit.certification import plan_run
        from affidavit.noise import solve_noise
        from affidavit.runfile import parse_run

        run = parse_run(tomllib.loads(run_text(self)))
        if plan_run(run).fits:
            return self
        # A hair below the budget: certified numbers are rounded outward.
        found = solve_noise(run, epsilon=self.epsilon * (1.0 - 1e-3))
        settings = deepcopy(dict(self.settings))
        changed = {}
        for key, value in found.items():
            *outer, last = key.split(".")
            table = settings
            for step in outer:
                table = table[step]
            changed[key], table[last] = table.get(last, value), float(value)
        return replace(self, settings=settings, changed=changed)

    def costs(self) -> Costs:
        """What the run costs in the units of filters."""
        from affidavit.accountant.filters.spend import costs_of
        from affidavit.runfile import parse_run

        return costs_of(parse_run(tomllib.loads(run_text(self))).plan(), relation=self.relation)


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
        *(
            [(f"public = {_quoted(declared.public)}", "public records, with the same fields")]
            if declared.public
            else []
        ),
        (f"size = {declared.size}", "declared, a public fact; never read from the data"),
        ("", ""),
        ("[model]", ""),
        (f"name = {_quoted(declared.model)}", "or a folder that holds a Hugging Face model"),
        ("", ""),
        *_generator_lines(declared),
        ("", ""),
        ("[randomness]", ""),
        ('noise = "secure"', "or {seed = 7}: reproducible, carries no guarantee"),
    ]
    return "".join(_commented(setting, remark) for setting, remark in lines)


def _generator_lines(declared: Declared) -> Iterator[tuple[str, str]]:
    yield "[generator]", ""
    yield f"kind = {_quoted(declared.kind)}", ""
    for key, value, remark in starters.with_remarks(declared.settings):
        if isinstance(value, Mapping):
            yield from (("", ""), (f"[generator.{key}]", remark))
            yield from ((f"{inner} = {_value(content)}", "") for inner, content in value.items())
        else:
            yield f"{key} = {_value(value)}", remark


def _value(value: object) -> str:
    """As TOML has it."""
    return f"[{', '.join(map(_value, value))}]" if isinstance(value, list) else _quoted(value)


def _commented(setting: str, remark: str) -> str:
    if not remark:
        return f"{setting}\n"
    return f"{setting:<28} # {remark}\n" if setting else f"# {remark}\n"


def _quoted(text: object) -> str:
    """A TOML basic string, number or truth: JSON's escapes are TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def set_up(declared: Declared, out: Path, *, records: Sequence[RecordsFile], account: AccountPlan) -> Iterator[str]:
    """Write records, run file, keys and account, where they are not there; yields what was done, for the operator.

    What was written is removed again if a later step fails.
    """
    from affidavit.accountant.attestation.keys import Keyring
    from affidavit.accountant.ledger import Ledger

    keyring = Keyring.default()
    written: list[Path] = []
    try:
        write_new(out, run_text(declared))
        written.append(out)
        for file in records:
            if file.write():
                written.append(file.path)
                yield f"Wrote {file.path}, readable by you only."
        if not keyring.exists():
            keyring.init(keep_existing=True)
            yield f"Made keys in {keyring.home}: keep this folder, whoever reads it can sign in your name."
        yield account.open(Ledger(keyring=keyring))
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
