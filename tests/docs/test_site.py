"""The site's own code (``docs/conf.py``): menus from the index, docstrings as written, nothing fetched from elsewhere.

``make docs`` builds the site; here is what it is built with, without Sphinx.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import affidavit

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = {
    name
    for page in (ROOT / "docs" / "api").glob("*.md")
    for name in re.findall(r"automodule:: (\S+)", page.read_text(encoding="utf-8"))
}


@pytest.fixture(scope="module")
def site() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_conf", ROOT / "docs" / "conf.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(REFERENCE))
def test_the_reference_is_of_modules_that_say_what_they_offer(name):
    module = importlib.import_module(name)
    assert module.__doc__
    assert all(hasattr(module, member) for member in module.__all__)


def test_the_front_door_and_every_mechanism_are_in_the_reference():
    importlib.import_module("affidavit.mechanisms").load()
    from affidavit.mechanisms.base import registered

    assert affidavit.__name__ in REFERENCE
    assert {mechanism.spec.__module__ for mechanism in registered()} <= REFERENCE


def test_every_generator_is_in_the_reference():
    from affidavit.generation.registry import generator, kinds

    described = {generator(kind).run.__module__ for kind in kinds()} - {"affidavit.generation.ksa.answers"}
    assert described <= REFERENCE


def test_the_menu_holds_each_section_of_the_index_once(site):
    source = [
        "# Title\n\n## One\n\n- [a](a.md), [again](a.md)\n- [b](../B.md#part) [c](https://example.org/c.md)\n"
        "\n## Two\n\n[d](d.md)\n"
    ]
    site.with_menu(None, site.root_doc, source)
    assert re.findall(r":caption: (\w+)\n\n(.*?)\n```", source[0], re.DOTALL) == [
        ("One", "A <a.md>"),
        ("Two", "D <d.md>"),
    ]
    untouched = ["## One\n[a](a.md)\n"]
    site.with_menu(None, "docs/cli", untouched)
    assert untouched == ["## One\n[a](a.md)\n"]


def test_docstrings_are_shown_as_written(site):
    lines = [
        "The |v| of q_ and *x*, ``a|b_``:",
        "",
        "    δ = |P − Q|_1",
        "",
        "``a``  one",
        "       more",
        "``b``  two",
        "Others.",
    ]
    site.as_written(None, "module", "m", None, None, lines)
    assert lines == [
        r"The \|v\| of q\_ and *x*, ``a|b_``:",
        "",
        "::",
        "",
        "    δ = |P − Q|_1",
        "",
        "- ``a``: one",
        "  more",
        "- ``b``: two",
        "",
        "Others.",
        "",
    ]


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://cdn.example/x.js"></script>',
        "<link rel=stylesheet href='//fonts.example/css'>",
        '<img alt="" src="http://example.org/a.png">',
        "body { background: url(https://example.org/a.png) }",
        '@import "https://example.org/a.css";',
    ],
)
def test_what_would_be_fetched_from_elsewhere_is_noticed(site, text):
    assert site.foreign(text)


def test_links_and_own_files_are_not_fetched_from_elsewhere(site):
    assert site.foreign('<a href="https://example.org">x</a><script src="_static/a.js"></script><p>//</p>') == []
