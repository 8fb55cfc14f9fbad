"""Links of every page lead somewhere, on a code host and on the site alike; so do the paths that text and code mention.

Nothing is fetched: an address elsewhere only has to be one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("front", "accountant", "mechanisms", "generation", "audits", "tests", "benchmarks", "docs")
PAGES = sorted({*ROOT.glob("*.md"), *(page for room in ROOMS for page in (ROOT / room).rglob("*.md"))})
SOURCES = sorted(source for room in ROOMS for source in (ROOT / room).rglob("*.py"))
READER = MarkdownIt("commonmark").enable("table")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _inline(text: str) -> Iterator[Token]:
    for token in READER.parse(text):
        yield from token.children or ()


def links(text: str) -> list[str]:
    """Targets of links and pictures, in order."""
    found = []
    for token in _inline(text):
        target = token.attrGet("href") if token.type == "link_open" else token.attrGet("src")
        if token.type in {"link_open", "image"}:
            found.append(unquote(str(target)))
    return found


def anchors(text: str) -> set[str]:
    """What a code host calls the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    tokens = READER.parse(text)
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            words = "".join(part.content for part in content.children or ())
            slug = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
            found.add(f"{slug}-{seen[slug]}" if seen[slug] else slug)
            seen[slug] += 1
    return found


def broken(page: Path, text: str) -> Iterator[str]:
    """The links of a page that lead nowhere, each with what is wrong."""
    for target in links(text):
        parts = urlsplit(target)
        if parts.scheme:
            if parts.scheme not in {"https", "http"} or not re.fullmatch(r"[\w.-]+(:\d+)?", parts.netloc):
                yield f"{target}: not an address"
            continue
        file = (page.parent / parts.path).resolve() if parts.path else page
        if not file.is_relative_to(ROOT) or not file.is_file():
            yield f"{target}: no such file"
        elif parts.fragment and parts.fragment not in anchors(
            text if file == page else file.read_text(encoding="utf-8")
        ):
            yield f"{target}: no such heading"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_link_leads_somewhere(page):
    assert list(broken(page, page.read_text(encoding="utf-8"))) == []


def test_broken_links_are_noticed():
    page = ROOT / "docs" / "cli.md"
    for text in (
        "[a](no-such-page.md)",
        "[a](relations.md#no-such-heading)",
        "[a](examples)",
        "[a](../../elsewhere.md)",
        "[a](htp://x)",
        "[a](https:/x)",
        "![a](no.svg)",
        "# One\n[a](#two)",
        "| a |\n|---|\n| [a](no.md) |",
    ):
        assert list(broken(page, text)), text
    good = "# One, two: `three`\n\n## One\n\n## One\n[a](#one-two-three) [b](#one-1) [c](relations.md#the-unit)"
    assert list(broken(page, good)) == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_files_of_the_repository_that_a_page_names_are_there(page):
    known = {_name(source) for source in SOURCES}
    for token in _inline(page.read_text(encoding="utf-8")):
        named = token.type == "code_inline" and re.fullmatch(r"[\w./-]+/[\w-]+\.py", token.content)
        if named and "NAME" not in token.content:
            assert any(f"/{path}".endswith(f"/{token.content}") for path in known), token.content


def test_pages_that_code_names_are_there():
    for source in SOURCES:
        for mention in re.findall(r"\bdocs/[\w/-]+\.md", source.read_text(encoding="utf-8")):
            assert (ROOT / mention).is_file(), f"{_name(source)}: {mention}"


def test_every_page_of_the_guide_is_in_the_index():
    index = ROOT / "docs" / "index.md"
    linked = {(index.parent / target).resolve() for target in links(index.read_text(encoding="utf-8"))}
    pages = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")} - {index}
    assert sorted(map(_name, pages - linked)) == []
