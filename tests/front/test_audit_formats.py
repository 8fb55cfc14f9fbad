"""``audit``, ``check-trace`` and ``report`` in the forms that a CI job reads, by commands on the toy model."""

from __future__ import annotations

import json
import os
import re
import runpy
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from junitparser import JUnitXml

from affidavit.auditing import CI_ALPHA, in_ci, strict_in_ci
from affidavit.audits.auditfile import parse_audit

ROOT = Path(__file__).resolve().parents[2]
AUDIT = """\
attack = "one-step"
target = "{target}"
members = {members}
non_members = {members}
alpha = 0.001
"""


@pytest.fixture
def audited(workplace, monkeypatch):
    """A workplace with a run behind it and an audit file."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    assert workplace.generate().code == 0
    _write_audit(workplace)
    return workplace


def _write_audit(workplace: Any, *, target: str = "protected", members: int = 1500, name: str = "audit.toml") -> Path:
    path = workplace.folder / name
    path.write_text(AUDIT.format(target=target, members=members), encoding="utf-8")
    return path


def _audit(workplace: Any, *flags: object, name: str = "audit.toml") -> Any:
    arguments = (workplace.folder / name, "--certificate", workplace.certificate, "-o", workplace.out / "audit")
    return workplace.command("audit", *arguments, *flags)


def test_the_trace_of_a_run_follows_its_plan(audited):
    trace = audited.out / "trace.jsonl"
    checked = audited.command("check-trace", trace, "--certificate", audited.certificate)
    assert checked.code == 0, checked.err
    assert "noise source" in checked.out
    assert "fault" not in checked.out
    as_json = audited.command("check-trace", trace, "--certificate", audited.certificate, "--json").json
    found = {item["attack"]: item["verdict"] for item in as_json["items"] if item["verdict"] != "NOT CHECKED"}
    assert set(found.values()) == {"CONSISTENT"}
    assert {"trace check: noise source", "trace check: order", "trace check: fresh noise"} <= set(found)


def test_a_trace_with_a_draw_too_many_is_refuted_and_reported(audited):
    trace = audited.out / "trace.jsonl"
    lines = [json.loads(line) for line in trace.read_text(encoding="utf-8").splitlines()]
    last = next(line for line in reversed(lines) if line["event"] == "draw")
    more = [{**last, "use": last["use"] + extra, "noise_sha256": f"{extra}"} for extra in range(1, 6)]
    trace.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *more]), encoding="utf-8")
    arguments = ("check-trace", trace, "--certificate", audited.certificate, "-o", audited.out / "trace")
    assert audited.command(*arguments).code == 1
    written = audited.out / "trace" / "findings.json"
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    page = audited.command("report", audited.folder)
    assert page.code == 0, page.err
    assert "trace check" in Path(page.out.strip()).read_text(encoding="utf-8").casefold()
    junit = audited.command("report", audited.out, "--format", "junit")
    assert JUnitXml.fromstring(junit.out.encode()).failures == 2  # counted, and out of order


def test_a_foreign_trace_needs_a_plan_and_no_certificate(command, tmp_path, monkeypatch, same_entropy):
    foreign = str(ROOT / "docs" / "examples" / "foreign_generator.py")
    trace, plan = tmp_path / "trace.jsonl", tmp_path / "plan.json"
    for fault, code in (("", 0), ("sampling", 1), ("reseed", 1)):
        monkeypatch.setattr(sys, "argv", [foreign, str(trace), str(plan), fault])
        runpy.run_path(foreign, run_name="__main__")
        assert command("check-trace", trace, "--plan", plan).code == code
    neither = command("check-trace", trace)
    assert neither.code == 2
    assert "--plan" in neither.err
    assert command("check-trace", trace, "--plan", plan, "--alpha", "7").code == 2


def test_every_format_on_stdout_and_in_a_file(audited, tmp_path):
    shown = _audit(audited, "--format", "sarif")
    assert shown.code == 0, shown.err
    assert json.loads(shown.out)["runs"][0]["results"] == [], "a green run raises no alert"
    for form in ("json", "junit", "sarif", "sarif-all", "markdown"):
        path = tmp_path / form
        written = audited.command("report", audited.out, "--format", form, "-o", path)
        assert (written.code, written.out) == (0, "")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        printed = audited.command("report", audited.out, "--format", form).out
        assert printed == path.read_text(encoding="utf-8")
        assert ("one-step" in printed) == (form != "sarif")
    assert shown.out == (tmp_path / "sarif").read_text(encoding="utf-8")


def test_flags_that_contradict_one_another_are_refused(audited):
    assert _audit(audited, "--json", "--format", "sarif").code == 2
    assert audited.command("report", audited.out, "-o", audited.folder / "x.html").code == 2
    assert audited.command("report", audited.out, "--format", "junit", "--title", "x").code == 2
    assert audited.command("report", audited.folder / "out", "--format", "junit").code == 2, "nothing was audited yet"


@pytest.mark.parametrize(
    ("target", "members", "code"), [("protected", 1500, 0), ("unprotected", 1500, 1), ("protected", 2, 5)]
)
def test_exit_codes_and_the_job_summary(audited, monkeypatch, target, members, code):
    summary = audited.folder / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    _write_audit(audited, target=target, members=members)
    assert _audit(audited).code == code
    headline = {0: "Holds", 1: "Refuted", 5: "Inconclusive"}[code]
    assert summary.read_text(encoding="utf-8").startswith(f"## affidavit: {headline}")


def test_alpha_is_strict_in_ci_unless_the_file_states_one():
    unstated = parse_audit({"attack": "one-step", "members": 10, "non_members": 10})
    stated = parse_audit({"attack": "one-step", "members": 10, "non_members": 10, "alpha": 0.05})
    assert unstated.alpha == 0.05
    for environment, alpha in (
        ({"CI": "true"}, CI_ALPHA),
        ({"CI": "1"}, CI_ALPHA),
        ({"CI": "false"}, 0.05),
        ({}, 0.05),
    ):
        assert strict_in_ci(unstated, environment=environment).alpha == alpha
        assert strict_in_ci(stated, environment=environment).alpha == 0.05
    assert CI_ALPHA <= 1e-3
    assert not in_ci({"CI": ""})


# --- the composite action --------------------------------------------------------------------------------------


def _action() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


def _run_action(workplace: Any, **inputs: str) -> tuple[int, dict[str, str], str]:
    """The action's audit step as GitHub runs it: inputs by environment, bash with -e."""
    action = _action()
    values = {name: each.get("default", "") for name, each in action["inputs"].items()} | inputs
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "audit"]
    environment = {
        name: values[value.removeprefix("${{ inputs.").removesuffix(" }}")] for name, value in step["env"].items()
    }
    outputs, summary = workplace.folder / "outputs", workplace.folder / "summary.md"
    tool = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=workplace.folder,
        env={
            **os.environ,
            **environment,
            "PATH": f"{tool}:{os.environ['PATH']}",
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_STEP_SUMMARY": str(summary),
            "CI": "true",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    stated = dict(line.split("=", 1) for line in outputs.read_text(encoding="utf-8").splitlines())
    return done.returncode, stated, summary.read_text(encoding="utf-8") if summary.exists() else done.stderr


def test_the_action_names_its_outputs_and_uses_every_input():
    action = _action()
    assert action["runs"]["using"] == "composite"
    used = json.dumps(action["runs"])
    assert all(f"inputs.{name} " in used for name in action["inputs"])
    for output in action["outputs"].values():
        name = output["value"].removeprefix("${{ steps.audit.outputs.").removesuffix(" }}")
        assert f"{name}=" in used
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert not any("${{" in script for script in scripts), "an input in a script could be code"


def test_the_page_shows_a_workflow_that_fits_the_action():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    workflow = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    (step,) = [step for step in workflow["jobs"]["privacy"]["steps"] if step.get("id") == "audit"]
    inputs = _action()["inputs"]
    assert set(step["with"]) <= set(inputs)
    assert {name for name, each in inputs.items() if each.get("required")} <= set(step["with"])


def test_actions_of_others_are_named_by_commit():
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    named = re.findall(r"uses: (\S+)(.*)", page + (ROOT / "action.yml").read_text(encoding="utf-8"))
    others = [(name, rest) for name, rest in named if not name.startswith("OWNER/")]
    assert len(others) == 3
    for name, rest in others:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)
        assert re.fullmatch(r"  # v\d+\.\d+\.\d+", rest), "which release that is, for people and for bots"


@pytest.mark.parametrize(
    ("codes", "worst"),
    [([0, 0], 0), ([0, 5], 5), ([5, 1, 0], 1), ([1, 3, 2], 3), ([3, 2, 1], 3), ([2, 4], 4), ([70, 3], 70)],
)
def test_the_action_keeps_the_worst_code_and_no_key(tmp_path, monkeypatch, codes, worst):
    """Its own script, with a stand-in for the command that ends as it is told to."""
    stub = tmp_path / "bin" / "affidavit"
    stub.parent.mkdir()
    stub.write_text(
        '#!/bin/sh\necho "$AFFIDAVIT_HOME" >> homes\ncase "$1" in audit) exit "${2%.toml}" ;; esac\n', encoding="utf-8"
    )
    stub.chmod(0o755)
    (step,) = [step for step in _action()["runs"]["steps"] if step.get("id") == "audit"]
    given = {"AUDITS": " ".join(f"{code}.toml" for code in codes), "SIGNER": "a key", "OUTPUT": "found"}
    given |= {name: "" for name in step["env"] if name not in given}
    done = subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env={"PATH": f"{stub.parent}:{os.environ['PATH']}", "AFFIDAVIT_HOME": "/nobody", **given},
        check=False,
    )
    assert done.returncode == worst
    homes = set((tmp_path / "homes").read_text(encoding="utf-8").split())
    assert len(homes) == 1
    assert "/nobody" not in homes
    assert not Path(homes.pop()).exists()


@pytest.mark.slow
def test_the_action_runs_end_to_end(audited):
    """Audit, trace and summary on the toy model: certified noise passes, noise off fails, two trials tell nothing.

    The audit draws afresh, in a process of its own: with 2,000 trials it fails by chance once in a million runs.
    """
    _write_audit(audited, members=2000)
    _write_audit(audited, name="open.toml", target="unprotected")
    _write_audit(audited, name="weak.toml", members=2)
    signer = audited.command("keys", "show", "--pem").out
    given = {"certificate": "certificate.json", "trace": "out/trace.jsonl", "signer": signer}
    code, outputs, page = _run_action(audited, audits="audit.toml", **given)
    assert (code, outputs["exit-code"]) == (0, "0")
    assert page.count("## affidavit: Holds") == 2
    document = JUnitXml.fromfile(str(audited.folder / outputs["junit"]))
    assert (document.failures, document.errors) == (0, 0)
    assert json.loads((audited.folder / outputs["sarif"]).read_text())["version"] == "2.1.0"
    (audited.folder / "outputs").unlink()
    code, outputs, _ = _run_action(audited, audits="weak.toml\nopen.toml", output="second", **given)
    assert (code, outputs["exit-code"]) == (1, "1"), "1 before 5 before 0"
    assert JUnitXml.fromfile(str(audited.folder / "second" / "junit.xml")).failures == 1


def test_a_page_to_be_shared_is_of_the_certificate_alone(audited):
    done = audited.command("report", audited.out, "--certificate", audited.certificate, "--public")
    assert done.code == 0, done.err
    page = audited.out / "certificate.html"
    assert done.out.strip() == str(page)
    text = page.read_text(encoding="utf-8")
    assert "affidavit verify certificate.json --recompute" in text
    assert "VIOLATION" not in text
    assert page.stat().st_mode & 0o044 == 0o044
    refused = audited.command("report", audited.out, "--public", "--format", "junit")
    assert refused.code == 2
