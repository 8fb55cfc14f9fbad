"""Which packages belong to the core, which to an extra, and what is said where one is missing."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from affidavit.accountant import extras
from affidavit.accountant.errors import PackageMissing

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("front", "accountant", "mechanisms", "generation", "audits")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CORE = {
    "charset_normalizer": "charset-normalizer",
    "click": "click",
    "cryptography": "cryptography",
    "flint": "python-flint",
    "mpmath": "mpmath",
    "numpy": "numpy",
    "platformdirs": "platformdirs",
    "pydantic": "pydantic",
    "rfc8785": "rfc8785",
    "rich": "rich",
    "scipy": "scipy",
    "sqlalchemy": "sqlalchemy",
}
AT_ONCE = {
    "front/inspect_scorer.py": {"inspect_ai"},  # loaded by Inspect, or by who has it
    "front/pytest_plugin.py": {"pytest"},  # loaded by pytest alone
    "front/foreign/alignment.py": {"torch"},  # these three: where the generator that is watched has loaded it
    "front/foreign/toy.py": {"tokenizers"},  # transformers requires it
    "front/foreign/torch_draws.py": {"torch"},
    "front/foreign/watch.py": {"torch"},
    "generation/device_sums.py": {"torch"},  # these four: loaded by a model that is being loaded
    "generation/models/cache.py": {"torch", "transformers"},
    "generation/models/fused.py": {"torch"},
    "generation/models/replayed.py": {"torch", "transformers"},
}
BEHIND = {
    "audits/pii/account.py": "audits/pii/detect.py",
    "audits/pii/email.py": "audits/pii/detect.py",
    "audits/pii/url.py": "audits/pii/detect.py",
    "audits/report/budget_figures.py": "audits/report/page.py",
    "audits/report/figures.py": "audits/report/page.py",
    "audits/report/style.py": "audits/report/page.py",
    "audits/report/svg.py": "audits/report/page.py",
    "generation/models/fused.py": "generation/models/transformers_model.py",
}
"""A module whose optional imports are asked for where the way to it begins."""


def _declared(extra: str | None) -> set[str]:
    """The distributions that the core, or an extra with those that it includes, requires."""
    lines = PROJECT["dependencies"] if extra is None else PROJECT["optional-dependencies"][extra]
    found: set[str] = set()
    for requirement in map(Requirement, lines):
        if requirement.name == "affidavit":
            found = found.union(*(_declared(included) for included in requirement.extras))
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def test_the_core_is_what_is_imported_without_being_asked_for():
    assert set(CORE.values()) == _declared(None)


@pytest.mark.parametrize("extra", extras.EXTRAS)
def test_each_extra_installs_what_its_work_asks_for(extra):
    assert {canonicalize_name(name) for name in extras.EXTRAS[extra].values()} == _declared(extra)


def test_modules_come_from_the_distributions_that_are_named():
    installed = importlib.metadata.packages_distributions()
    named = dict(pair for group in (CORE, *extras.EXTRAS.values()) for pair in group.items())
    for module, distribution in named.items():
        if module in installed:
            assert canonicalize_name(distribution) in {canonicalize_name(name) for name in installed[module]}


def _imports(node: ast.AST, *, at_once: bool = True) -> Iterator[tuple[str, bool]]:
    """(module, whether it is imported with the file) of every import that runs, not those for type checkers."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name.partition(".")[0], at_once) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield (child.module or "").partition(".")[0], at_once
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        else:
            inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            yield from _imports(child, at_once=at_once and not inside)


def _asked_for(path: str) -> set[str]:
    """The modules that a file names to ``require``, all of an extra's where it names none."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    strings = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "require":
            extra, *named = node.args
            assert isinstance(extra, ast.Constant) or path == "front/demo.py"
            if isinstance(extra, ast.Constant):
                modules = extras.EXTRAS[extra.value]
                found |= set(modules) & strings if named else set(modules)
    return found


FILES = sorted(path.relative_to(ROOT).as_posix() for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def test_the_core_imports_no_optional_package_at_once_and_no_work_without_asking():
    optional = {module for extra in extras.EXTRAS.values() for module in extra}
    faults = []
    for file in FILES:
        for module, at_once in _imports(ast.parse((ROOT / file).read_text(encoding="utf-8"))):
            if module in sys.stdlib_module_names or module in {"affidavit", *CORE, *AT_ONCE.get(file, ())}:
                continue
            if module not in optional:
                faults.append(f"{file} imports {module}, which neither the core nor an extra requires")
            elif at_once:
                faults.append(f"{file} imports {module} at once: the core would not start without it")
            elif module not in _asked_for(BEHIND.get(file, file)):
                faults.append(f"{file} imports {module} and nobody asked for it: accountant/extras.py, require")
    assert faults == []


def test_the_guide_explains_every_extra():
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `\[(\w+)\]` \|", page, re.MULTILINE))
    assert explained | {"docs"} == set(PROJECT["optional-dependencies"])


def test_files_named_above_exist_and_are_needed():
    for file in (*AT_ONCE, *BEHIND, *BEHIND.values()):
        assert file in FILES


# --- what is said ------------------------------------------------------------------------------------------------


@pytest.fixture
def missing(monkeypatch):
    """Makes modules look as if they were not installed."""
    real = importlib.util.find_spec

    def hide(*names: str) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in names else real(name))

    return hide


def test_a_refusal_names_the_packages_and_the_purpose(missing):
    extras.require("audit", "jinja2", purpose="the report")
    missing("jinja2", "stdnum")
    with pytest.raises(PackageMissing) as refused:
        extras.require("audit", "jinja2", "matplotlib", "stdnum", purpose="the report")
    assert refused.value.message == "the report needs what is not installed here: jinja2, python-stdnum"
    assert refused.value.hint == f"Run `{extras.install('audit')}`"
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("extra", ["audit", "icl", "demo"])
def test_the_command_that_is_printed_works(extra):
    """Everything is installed here: it succeeds without an index, and only as it finds affidavit installed."""
    offline = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_OFFLINE": "1"}
    done = subprocess.run(extras.install(extra), shell=True, capture_output=True, text=True, env=offline, check=False)  # noqa: S602
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stdout + done.stderr


def test_the_command_fits_the_environment_that_is_running(missing, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/home/jane roe/venv/bin/python")
    assert extras.install("llm") == "'/home/jane roe/venv/bin/python' -m pip install 'affidavit[llm]'"
    missing("pip")
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/uv")
    assert extras.install("llm") == "uv pip install --python '/home/jane roe/venv/bin/python' 'affidavit[llm]'"
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "-m ensurepip && " in extras.install("llm")


def test_a_refused_demo_leaves_no_folder(missing, command, tmp_path, monkeypatch):
    missing("phonenumbers")
    refused = command("demo", "--out", tmp_path / "demo", "--model", "toy")
    assert refused.code == 2
    assert "affidavit[audit]" in refused.err
    assert not (tmp_path / "demo").exists()


def test_a_region_is_checked_where_it_is_named():
    from affidavit.accountant.errors import RunFileError
    from affidavit.audits.auditfile import parse_audit

    searched = {"attack": "extraction", "members": 1, "non_members": 1}
    assert parse_audit(searched).region == "US"
    with pytest.raises(RunFileError, match="region"):
        parse_audit({**searched, "region": "usa"})


def test_a_ledger_in_postgresql_uses_the_driver_of_the_extra(missing, monkeypatch):
    from sqlalchemy import make_url

    from affidavit.accountant.ledger import database

    missing("psycopg")
    for url in ("postgresql://jane@localhost/budget", "postgresql+psycopg://jane@localhost/budget"):
        with pytest.raises(PackageMissing, match="psycopg"):
            database.Database(url)
    monkeypatch.setattr(database, "require", lambda *_, **__: None)
    assert database._with_driver(make_url("postgresql://jane@localhost/b")).drivername == "postgresql+psycopg"


def test_model_wheels_are_named_in_the_pinned_versions():
    from affidavit.generation.models import embedding, smollm2

    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for wheel in (smollm2._WHEEL, embedding._WHEEL):
        assert wheel in pins
        assert re.search(rf"(?<![\w-]){re.escape(wheel)}(?![\w.])", makefile)


def test_a_tool_of_another_version_is_no_second_opinion(monkeypatch):
    from affidavit import second_opinion

    monkeypatch.setattr(importlib.metadata, "version", lambda _: "9.9")
    with pytest.raises(PackageMissing, match=r"installed: 9\.9") as refused:
        second_opinion._require("autodp", "0.2.3.1")
    assert refused.value.hint == f"Run `{extras.install('opinions')}`"
