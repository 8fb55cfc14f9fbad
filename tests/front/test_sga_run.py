"""SGA from a run file: planned, solved for inner settings, certified, and refused without public records."""

from __future__ import annotations

import json

import pytest

from affidavit.accountant.errors import RunFileError
from affidavit.certification import plan_run
from affidavit.runfile import load_run
from affidavit.solving import solvable_keys, solve_run

SGA = """\
[generator]
kind = "sga"
queries = ["which way does the wind blow"]
ensemble = 5
embedding = "toy"
max_tokens = 4
max_record_tokens = 12
minibatch_rows = 8
dpm = {dimensions = 2, levels = 1}
"""


@pytest.fixture
def asking(workplace):
    """The workplace with an SGA run and its public records."""
    text = workplace.run_file.read_text(encoding="utf-8")
    head = text[: text.index("[generator]")].replace("size = 24\n", 'size = 24\npublic = "public.jsonl"\n')
    workplace.run_file.write_text(head + SGA, encoding="utf-8")
    public = [{"id": f"p{n}", "text": f"a public wind {n}", "label": "it blows north"} for n in range(8)]
    lines = "".join(json.dumps(record) + "\n" for record in public)
    (workplace.folder / "public.jsonl").write_text(lines, encoding="utf-8")
    return workplace


def test_the_whole_path(asking):
    assert asking.certify().code == 0
    shown = asking.command("verify", asking.certificate, "--recompute")
    assert "recomputed: holds" in shown.out
    assert "every sample is drawn afresh" in " ".join(shown.out.split())
    assert asking.generate().code == 0
    (answer,) = [json.loads(line) for line in (asking.out / "synthetic.jsonl").read_text().splitlines()]
    assert answer["query"] == "which way does the wind blow"
    receipt = json.loads((asking.out / "receipt.json").read_text())
    assert receipt["versions"]["embedding toy"]
    checked = asking.command("check-trace", asking.out / "trace.jsonl", "--certificate", asking.certificate)
    assert checked.code in (0, 5), checked.err


def test_inner_settings_can_be_solved_for(asking):
    run = load_run(asking.run_file)
    assert {"ensemble", "shots", "dpm.split_range", "dpm.centre_noise_multiplier"} <= set(solvable_keys(run))
    here = plan_run(run).cost.epsilon_upper
    solved = solve_run(run, epsilon=0.8 * here, key="dpm.centre_noise_multiplier")
    changed = run.with_generator(**{"dpm.centre_noise_multiplier": solved.value})
    assert changed.generator.dpm.centre_noise_multiplier == solved.value
    assert changed.generator.dpm.levels == run.generator.dpm.levels
    assert 0.78 * here <= plan_run(changed).cost.epsilon_upper <= 0.8 * here


def test_public_records_are_required(asking):
    asking.edit('public = "public.jsonl"\n', "")
    with pytest.raises(RunFileError, match=r"data\.public: missing: sga"):
        load_run(asking.run_file)


def test_too_few_public_records_cost_nothing(asking):
    public = asking.folder / "public.jsonl"
    public.write_text("".join(public.read_text().splitlines(keepends=True)[:5]), encoding="utf-8")
    assert asking.certify().code == 0
    refused = asking.generate()
    assert refused.code == 2
    assert "5 public records" in refused.err
    assert not asking.ledger.account("letters").reservations


def test_an_extraction_is_refused_before_the_model_is_asked(asking):
    assert asking.certify().code == 0
    audit = asking.folder / "audit.toml"
    audit.write_text('attack = "extraction"\nmembers = 4\nnon_members = 4\n', encoding="utf-8")
    refused = asking.command("audit", audit, "--certificate", asking.certificate, "-o", asking.out)
    assert refused.code == 2
    assert 'attack = "reference"' in refused.err
    assert "without protection" not in refused.err
    assert not asking.out.exists()


def test_released_answers_are_audited_for_membership(asking):
    """Members' answers against others': what an outsider sees is each query with its released answer."""
    assert asking.certify().code == 0
    audit = asking.folder / "audit.toml"
    audit.write_text('attack = "reference"\nmembers = 3\nnon_members = 3\nruns = 8\nalpha = 0.4\n', encoding="utf-8")
    done = asking.command("audit", audit, "--certificate", asking.certificate, "-o", asking.out)
    found = json.loads((asking.out / "findings.json").read_text(encoding="utf-8"))
    protected, control = found["items"]
    assert (control["control"], control["auc"]) == (True, 1.0)
    assert protected["auc"] < 0.9
    assert protected["verdict"] != "VIOLATION"
    assert done.code in (0, 5)
