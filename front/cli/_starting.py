"""What ``init`` does for the generators: which there are, what each needs, and what the budget made of its noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from affidavit import starters
from affidavit.accountant import decimals
from affidavit.accountant.errors import NoValueFits, UsageError
from affidavit.accountant.remedies import nearest
from affidavit.cli._again import again
from affidavit.generation.registry import Generator, generator, kinds

if TYPE_CHECKING:
    from affidavit.scaffold import Declared

__all__ = ["fitted", "said_of_noise", "starter"]

_QUERY = "What should I do first?"
_READABLE_TEMPERATURE = 1.2
"""Above it SmolLM2's text falls apart at a clip of 10."""


def starter(ctx: click.Context, kind: str, *, queries: tuple[str, ...], public: bool) -> Generator:
    """The generator that was asked for, with what it needs. Raises ``UsageError`` with commands that work."""
    if kind not in kinds():
        near = nearest(kind, kinds())
        commands = "\n".join(f"`{again(ctx, ['--generator', each])}`" for each in ((near,) if near else kinds()))
        raise UsageError(
            f"--generator {kind[:40]!r} is not known; allowed: {' | '.join(kinds())}",
            hint=f"Did you mean:\n{commands}" if near else commands,
        )
    found = generator(kind)
    if starters.answers(found) and not queries:
        raise UsageError(
            f"{kind} answers public questions, and none is given",
            hint=f"Each by its own --query, for example: `{again(ctx, ['--query', _QUERY])}`",
        )
    if queries and not starters.answers(found):
        others = ", ".join(each for each in kinds() if starters.answers(generator(each)))
        raise UsageError(
            f"{kind} writes texts of labels, and answers no --query; {others} do",
            hint=f"Without it: `{again(ctx, drop=('--query',))}`",
        )
    if starters.needs_public(found) and not public:
        without = again(ctx, ["--generator", "ksa-answers"])
        raise UsageError(
            f"{kind} chooses among public answers, and no --public names a file of them",
            hint=f"Such as `--public public.csv`. The generator that answers without: `{without}`",
        )
    return found


def fitted(ctx: click.Context, declared: Declared) -> Declared:
    """With settings that stay within the budget. Raises ``UsageError`` with the budget that would do."""
    declared = declared.with_settings()
    try:
        return declared.within_budget()
    except NoValueFits as error:
        if not math.isfinite(error.best_epsilon):
            raise
        enough = decimals.show(decimals.round_up(error.best_epsilon * 1.01, digits=2))
        raise UsageError(
            f"{declared.kind} on {declared.size} records costs more than ε = {declared.epsilon:g}, however noisy it is",
            hint=f"With more records it costs less; on these: `{again(ctx, ['--epsilon', enough])}`",
        ) from None


def said_of_noise(declared: Declared) -> Iterator[str]:
    """What the budget did to the text."""
    temperature, batch = declared.settings.get("temperature", 0.0), declared.settings.get("batch_size")
    if batch is not None and temperature > _READABLE_TEMPERATURE:
        yield (
            f"With ε = {declared.epsilon:g} and {batch} records behind each text, the temperature has to be "
            f"{temperature:g}: expect poor text. More records or a larger ε would help."
        )
    elif batch is None and declared.changed:
        values = ", ".join(
            f"{key} = {declared.value(key):.4g} (usually {was:g})" for key, was in declared.changed.items()
        )
        yield f"For ε = {declared.epsilon:g}: {values}. More records or a larger ε would allow better text."
