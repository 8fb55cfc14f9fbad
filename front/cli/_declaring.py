"""What ``init`` asks the operator: which of the facts about private data are public.

How many records and how many labels there are is told to the operator; the labels themselves are values of records,
and are shown on a terminal only, when asked for. Without a terminal no label is printed that was not declared.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from affidavit.accountant.errors import DataError, UsageError
from affidavit.accountant.files import read_bytes
from affidavit.cli._again import again
from affidavit.cli._output import note
from affidavit.labelling import count_labels
from affidavit.scaffold import LONGEST_LABEL, proposed_labels
from affidavit.tables.canonical import RecordsFile

__all__ = ["Facts", "ask_relation", "declare", "labels_of"]

_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Facts:
    """What the operator declared public."""

    size: int
    labels: tuple[str, ...]


def _somebody_answers() -> bool:
    return sys.stdin.isatty()


def _somebody_reads() -> bool:
    """Whether what is printed is read at a terminal, and kept in no log."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def ask_relation(ctx: click.Context) -> str:
    """The relation, from whoever sits there. Raises ``UsageError`` without a terminal."""
    from affidavit.accountant import validate

    if not _somebody_answers():
        commands = "\n".join(f"`{again(ctx, ['--relation', each])}`" for each in validate.RELATIONS)
        raise UsageError(
            "--relation is missing: which data sets are neighbours is never assumed",
            hint=f"docs/relations.md says which to choose:\n{commands}",
        )
    options = click.Choice(validate.RELATIONS)
    return str(
        click.prompt("Which data sets are neighbours? (docs/relations.md says which to choose)", type=options, err=True)
    )


def labels_of(path: Path | None) -> tuple[str, ...]:
    """The lines of a file of labels. Raises ``UsageError``."""
    if path is None:
        return ()
    try:
        lines = [line.decode("utf-8-sig") for line in read_bytes(path).splitlines()]  # U+2028 may stand in a label
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", hint="One label a line, in UTF-8.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8", hint="One label a line, in UTF-8.") from None
    found = tuple(line.strip() for line in lines if line.strip())
    if not found:
        raise UsageError(f"{path} holds no labels", hint="One label a line, in UTF-8.")
    for number, line in enumerate(lines, start=1):
        # Messages name declared labels: a file of records, given by mistake, must not become any.
        if len(line) > LONGEST_LABEL or line.lstrip().startswith(("{", "[", '"')):
            raise UsageError(
                f"{path}, line {number}: no label of at most {LONGEST_LABEL} characters, as it stands in the data",
                hint="One label a line, in UTF-8, without quotes; or with --label, once for each.",
            )
    return found


def declare(
    ctx: click.Context,
    found: RecordsFile | None,
    *,
    size: int | None,
    stated: tuple[str, ...],
    declare_public: bool,
    labelled: bool = True,
) -> Facts:
    """The public size and labels: from flags, or from the data if the operator says that they are public.

    Not ``labelled``: there are none, and what stands in their place in the data is private answers.

    Raises ``UsageError`` where nobody said so, ``DataError`` where they do not fit the records, ``TableUnclear`` where
    the labels found look like something else.
    """
    if found is None:
        return Facts(size or 2400, (stated or ("First label", "Second label")) if labelled else ())
    held = len(found.records)
    if size is not None and size != held:
        raise DataError(
            f"--size {size} is declared, and the file holds {held:,} records",
            hint=f"Declare what it holds: `{again(ctx, ['--size', str(held)])}`",
        )
    if not labelled:
        if size is None and not declare_public:
            _confirm(ctx, held, (), stated=True)
        return Facts(held, ())
    labels = stated or proposed_labels(sorted({record.label for record in found.records}), records=held)
    if not (size is not None and stated) and not declare_public:
        _confirm(ctx, held, labels, stated=bool(stated))
    counts = count_labels(labels, found.records)
    if counts.labelled == 0:
        remedy = again(ctx, ["--declare-public"], drop=("--label", "--labels-file"))
        raise DataError(
            counts.refused().message, hint=f"To declare the labels that the data hold, whatever they are: `{remedy}`"
        )
    for line in counts.lines():
        note(line)
    return Facts(held, labels)


def _confirm(ctx: click.Context, held: int, labels: tuple[str, ...], *, stated: bool) -> None:
    """Ask whether size and labels are public. Raises ``UsageError`` if not, or if nobody is there to be asked."""
    what = "the size" if stated else f"the size and the {len(labels)} labels"
    note("A run file states size and labels as public facts: anyone may know them, and no guarantee hides them.")
    if _somebody_answers():
        hidden = stated or len(labels) > _MOST_SHOWN or not _somebody_reads()
        if not hidden and click.confirm("Show the labels found? They are private until you declare them.", err=True):
            note(", ".join(map(repr, labels)))
        if click.confirm(f"Do you declare {'it' if stated else 'them'} public ({held:,} records)?", err=True):
            return
    own = "" if stated else "\nOr your own: --size, and --label for each, or --labels-file."
    raise UsageError(
        f"{what} of the data {'was' if stated else 'were'} not declared public",
        hint=f"If all of it is public: `{again(ctx, ['--declare-public'])}`{own}",
    )
