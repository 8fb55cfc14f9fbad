"""A number as it is typed: what is nearer to 0 than any float is not taken for 0."""

from __future__ import annotations

from typing import Any

import click

from affidavit.accountant.validate import written

__all__ = ["NUMBER"]


class _Number(click.types.FloatParamType):
    """click's own float, but for that: the check that names the flag refuses it (``validate.number``)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        return written(value) if isinstance(value, str) else number


NUMBER = _Number()
