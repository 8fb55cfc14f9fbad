"""Command groups: the nearest name of an unknown command, and modules that are imported when they are named."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from affidavit.accountant.remedies import nearest
from affidavit.cli._remedies import CallContext

__all__ = ["Group", "LazyGroup"]


class Group(click.Group):
    """A group that says which command was meant, and whose commands fill in the hints of their refusals."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if not args[0].startswith("-") and args[0] not in known:
            near = nearest(args[0], known)
            typed = f"{ctx.command_path} {near or '--help'}"
            raise click.UsageError(
                f"No such command {args[0][:40]!r}. " + (f"Did you mean `{typed}`?" if near else f"See `{typed}`."), ctx
            )
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not isinstance(command, click.Group):
            command.context_class = CallContext
        return name, command, rest


class LazyGroup(Group):
    """``commands_at`` maps each command's name to ``"module:attribute"``."""

    def __init__(self, *args: Any, commands_at: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._commands_at = dict(commands_at)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self._commands_at)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in self._commands_at:
            return None
        module, _, attribute = self._commands_at[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}:{attribute} is not a command")
        return command
