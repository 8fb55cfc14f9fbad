"""How the documentation becomes a site: ``make docs``.

The source is the whole repository, so that a relative link leads to the same place here and on a code host. Every
page stays plain Markdown: the menu is made from the links of ``docs/index.md``, section by section. Nothing is
fetched: formulas are text, and the theme brings its own fonts and scripts.
"""

from __future__ import annotations

import importlib
import re
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import Any

project = "affidavit"
author = "The affidavit authors"
copyright = "The affidavit authors"  # noqa: A001 - Sphinx's name
version = release = installed_version("affidavit")

extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md"]
exclude_patterns = [
    ".*",
    "build",
    "dist",
    "demo-run",
    "tests",
    "front",
    "accountant",
    "mechanisms",
    "generation",
    "audits",
]

suppress_warnings = ["ref.python"]  # two modules may each have a class of a name: the first is linked
myst_heading_anchors = 4  # the same anchors as a code host gives to headings
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
maximum_signature_line_length = 100

html_theme = "furo"
html_title = "affidavit"
html_static_path = ["site/static"]
html_extra_path = ["site/root"]
html_css_files = ["formulas.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"source_repository": "", "navigation_with_keys": False}

SECTION = re.compile(r"^## (?P<caption>.+?)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[(?P<words>[^\]]+)\]\((?P<page>[^)#:]+\.md)\)")
FIELD = re.compile(r"(?P<name>``.+?``(?:(?: and|,) ``.+?``)*) {2,}(?P<text>\S.*)")
FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source|object|embed)\b[^>]*?(?:src|href|data)\s*=\s*[\"']?(?:https?:)?//[^>]*>"
    r"|url\(\s*[\"']?(?:https?:)?//[^)]*\)|@import\s+[\"'](?:https?:)?//[^;]*",
    re.IGNORECASE,
)
LITERAL = re.compile(r"(``.+?``)", re.DOTALL)


def with_menu(_app: Any, name: str, source: list[str]) -> None:
    """The index with a menu of the pages that each of its sections links to."""
    if name != root_doc:
        return
    for caption, body in SECTION.findall(source[0]):
        entries = {page: f"{words[0].upper()}{words[1:]} <{page}>" for words, page in reversed(LINK.findall(body))}
        pages = "\n".join(reversed(entries.values()))
        source[0] += f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{pages}\n```\n"


def as_written(*event: Any) -> None:
    """Docstrings as their authors read them: indented lines stand as they are, tables of fields become lists."""
    lines: list[str] = event[-1]
    blocks = re.split(r"\n{2,}", "\n".join(lines).strip("\n"))
    lines[:] = [*"\n\n".join(_block(block) for block in blocks).splitlines(), ""]


def _block(block: str) -> str:
    if block.startswith("    "):
        return "::\n\n" + block.replace("``", "")
    if not FIELD.match(block):
        return _plain(block)
    items: list[str] = []
    for line in block.splitlines():
        field = FIELD.match(line)
        if field:
            items.append(f"- {field['name']}: {_plain(field['text'])}")
        elif line.startswith(" "):
            items.append(f"  {_plain(line.strip())}")
        else:
            items.append(f"\n{_plain(line)}")
    return "\n".join(items)


def _plain(text: str) -> str:
    """``|`` and ``_`` are characters here, not markup."""
    return "".join(
        part if part.startswith("``") else re.sub(r"(?<!\\)([|`_])", r"\\\1", part) for part in LITERAL.split(text)
    )


def _json_lines() -> Any:
    from pygments.lexers.data import JsonLexer

    return JsonLexer


def foreign(text: str) -> list[str]:
    """What a page or a style sheet would fetch from elsewhere when it is looked at."""
    return [found.group() for found in FETCHED.finditer(text)]


def stands_alone(app: Any, failed: Exception | None) -> None:
    """The site, once written, fetches nothing: no page, no style sheet."""
    if failed is not None:
        return
    for file in Path(app.outdir).rglob("*"):
        if file.suffix in {".html", ".css"} and (found := foreign(file.read_text(encoding="utf-8"))):
            raise RuntimeError(f"{file.relative_to(app.outdir)} would fetch {found[0]}")


def setup(app: Any) -> dict[str, bool]:
    # Before anything is documented: autodoc rewrites the annotations of pydantic's base class.
    for page in (Path(app.confdir) / "api").glob("*.md"):
        for module in re.findall(r"automodule:: (\S+)", page.read_text(encoding="utf-8")):
            importlib.import_module(module)
    app.add_lexer("jsonl", _json_lines())
    app.connect("source-read", with_menu)
    app.connect("autodoc-process-docstring", as_written)
    app.connect("build-finished", stands_alone)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
