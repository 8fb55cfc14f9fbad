"""A matplotlib figure as inline SVG that belongs to the page it stands in.

Text stays text (searchable, in the page's font), the palette's colours become the page's CSS
variables, so that one drawing serves light, dark and print, and every id is prefixed, so that
two drawings on one page do not clash.
"""

from __future__ import annotations

import html
import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.figure import Figure

__all__ = ["PALETTE", "inline_svg"]

PALETTE = {
    "ink": "#1b2429",
    "muted": "#5a6872",
    "rule": "#cfd6da",
    "paper": "#fefefe",
    "accent": "#14566e",
    "accent-soft": "#d5e5eb",
    "quiet": "#a3b0b8",
    "alarm": "#a3282e",
}
"""Role -> its colour in the light theme. The page defines ``--role`` for both themes."""

_FONT_FAMILY = re.compile(r"'DejaVu Sans'[^;\"]*")
_PROLOGUE = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
_OPENING = re.compile(r"<svg\b[^>]*>")
_VIEW_BOX = re.compile(r'viewBox="([^"]+)"')
_ID = re.compile(r'\bid="([^"]+)"')
_REFERENCE = re.compile(r'(href="#|url\(#)([^")]+)')


def inline_svg(figure: Figure, *, name: str, title: str, description: str) -> Markup:
    """The figure as an ``<svg>`` element for a page that defines the palette and ``--sans``.

    ``name`` prefixes the ids and must be unique on the page; ``title`` and ``description`` are
    what a screen reader says in place of the drawing.
    """
    import matplotlib as mpl
    from markupsafe import Markup

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = _METADATA.sub("", _PROLOGUE.sub("", buffer.getvalue()))
    text = _ID.sub(rf'id="{name}-\1"', text)
    text = _REFERENCE.sub(rf"\1{name}-\2", text)
    text = _FONT_FAMILY.sub("var(--sans)", text)
    for role, colour in PALETTE.items():
        text = text.replace(colour, f"var(--{role})")
    match = _VIEW_BOX.search(text)
    if match is None:
        raise ValueError("the SVG writer gave no viewBox")
    opening = (
        f'<svg viewBox="{match.group(1)}" role="img" aria-labelledby="{name}-title {name}-desc" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{name}-title">{html.escape(title)}</title>'
        f'<desc id="{name}-desc">{html.escape(description)}</desc>'
    )
    return Markup(_OPENING.sub(lambda _: opening, text, count=1))  # noqa: S704 - the writer escaped its texts
