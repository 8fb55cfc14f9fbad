"""What a wheel holds that was built from the source distribution: every file of every room."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROOMS = {
    "front": "affidavit",
    "accountant": "affidavit/accountant",
    "mechanisms": "affidavit/mechanisms",
    "generation": "affidavit/generation",
    "audits": "affidavit/audits",
}
NOT_OURS = shutil.ignore_patterns("__pycache__", "*.egg-info")


def _built(source: Path, hook: str, target: Path) -> Path:
    """The file that a hook of the build backend makes of ``source``."""
    target.mkdir()
    call = f"import setuptools.build_meta as backend; backend.{hook}({str(target)!r})"
    done = subprocess.run([sys.executable, "-c", call], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (made,) = target.iterdir()
    return made


def test_a_wheel_by_way_of_the_source_distribution_holds_every_file(tmp_path):
    source = tmp_path / "source"
    for room in ROOMS:
        shutil.copytree(ROOT / room, source / room, ignore=NOT_OURS)
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, source / name)
    expected = {
        f"{package}/{file.relative_to(source / room).as_posix()}"
        for room, package in ROOMS.items()
        for file in (source / room).rglob("*")
        if file.is_file()
    }
    assert any(name.endswith(".j2") for name in expected)
    with tarfile.open(_built(source, "build_sdist", tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.name.startswith("affidavit-"))
    with zipfile.ZipFile(_built(unpacked, "build_wheel", tmp_path / "wheel")) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == expected
