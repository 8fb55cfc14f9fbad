"""The command that was typed, with some flags changed: what a refusal prints can be run as it stands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import click
from click.core import ParameterSource

from affidavit.accountant.errors import TableUnclear, Way

__all__ = ["again", "ways_on"]


def again(ctx: click.Context, flags: Sequence[str] = (), *, drop: Sequence[str] = ()) -> str:
    """The command of ``ctx`` as it was given, with ``flags`` in place of what it said to the same options, and without
    the options of ``drop``.
    """
    replaced = {*drop, *(word for word in flags if word.startswith("-"))}
    words = ["affidavit", *ctx.command_path.split()[1:]]
    given = [
        param
        for param in ctx.command.params
        if ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
    ]
    for param in sorted(given, key=lambda each: isinstance(each, click.Option)):
        if replaced.isdisjoint((*param.opts, *param.secondary_opts)):
            words += _words(param, ctx.params[param.name or ""])
    return shlex.join([*words, *flags])


def _words(param: click.Parameter, value: Any) -> Iterator[str]:
    if isinstance(param, click.Argument):
        yield str(value)
    elif isinstance(param, click.Option) and param.is_flag:
        yield param.opts[0] if value else param.secondary_opts[0]
    else:
        for one in value if param.multiple else (value,):
            yield from (max(param.opts, key=len), str(one))


def ways_on(ctx: click.Context, error: TableUnclear) -> str:
    """The ways that an error names, as whole commands; its own advice where there are none."""
    lines = [_way(ctx, way) for way in error.ways]
    return "\n".join([*lines, error.advice] if error.advice else lines)


def _way(ctx: click.Context, way: Way) -> str:
    return f"{way.when}: `{again(ctx, way.flags)}`"
