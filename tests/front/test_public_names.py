"""``import affidavit``: the names a user needs, and signatures that a strict type checker reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("accountant", "mechanisms", "generation", "audits")

CONSUMER = """\
import affidavit
from affidavit import Bound, Relation, bound, calibrate, certify, load_run, parse_plan, plan_run
from affidavit import privacy_curve, risk_limits, verify

where: Relation = "add-remove"
node = parse_plan({"kind": "gaussian", "noise_multiplier": 2.0})
cost: Bound = bound(node, relation=where, delta=1e-5)
sides: tuple[float, float] = (cost.epsilon_lower, cost.epsilon_upper)
names: list[str] = [row.name for row in cost.methods]
html: str = cost._repr_html_() + cost.methods._repr_html_()
area: float = risk_limits(privacy_curve(node, relation=where, delta=1e-5)).area_under_roc
value: float = calibrate(node, relation="zero-out", epsilon=1.0, delta=1e-5).value
fits: bool = plan_run(load_run("run.toml")).fits
answer: str = verify(certify(load_run("run.toml")).envelope).answer
version: str = affidavit.__version__
"""
WRONG = """\
from affidavit import bound, calibrate, privacy_curve

node = {"kind": "gaussian", "noise_multiplier": 2.0}
bound(node, relation="unbounded", delta=1e-5)
privacy_curve(node, relation="unbounded", delta=1e-5)
calibrate(node, relation="unbounded", epsilon=1.0, delta=1e-5)
"""


def test_dir_lists_the_public_names_alone():
    code = "import affidavit; before = dir(affidavit); affidavit.bound; print(before == dir(affidavit), *before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    same, *names = done.stdout.split()
    assert same == "True"
    import affidavit

    assert names == sorted(affidavit.__all__)
    assert all(not name.startswith("_") for name in names if name != "__version__")


@pytest.mark.slow
def test_a_consumer_passes_mypy_strict_and_a_wrong_relation_does_not(tmp_path):
    """Laid out as it is installed: the mapped folders do not resolve as a package."""
    package = tmp_path / "path" / "affidavit"
    package.mkdir(parents=True)
    for source in (*(ROOT / "front").iterdir(), *(ROOT / room for room in ROOMS)):
        (package / source.name).symlink_to(source)
    (tmp_path / "consumer.py").write_text(CONSUMER, encoding="utf-8")
    (tmp_path / "wrong.py").write_text(WRONG, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "consumer.py", "wrong.py"],
        cwd=tmp_path,
        env={"MYPYPATH": str(tmp_path / "path"), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = [line for line in done.stdout.splitlines() if ": error:" in line]
    assert len(errors) == 3, done.stdout + done.stderr
    assert all(line.startswith("wrong.py:") and "unbounded" in line for line in errors)
