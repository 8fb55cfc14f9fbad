"""Few-shot generation and AdaDPSyn by commands on the toy model: certify, recompute, generate, check the trace."""

from __future__ import annotations

import json

import pytest

COMMON = """
labels = ["north", "south"]
samples_per_label = 2
max_tokens = 5
max_record_tokens = 24
minibatch_rows = 4
top_k = 40
subsets = 3
"""
GAUSSIAN = 'kind = "few-shot"\nmechanism = "gaussian"\nnoise_multiplier = 2.0\n'
NOISY_MAX = 'kind = "few-shot"\nmechanism = "noisy-max"\nnoise_epsilon = 0.5\n'
ADADPSYN = (
    'kind = "adadpsyn"\nradius_noise_multiplier = 20.0\nmean_noise_multiplier = 3.0\n'
    "count_noise_multiplier = 9.0\niterations = 2\n"
)
CASES = {
    "gaussian-poisson": (GAUSSIAN, "poisson", "zero-out"),
    "gaussian-without-replacement": (GAUSSIAN, "without-replacement", "substitution"),
    "gaussian-fixed-groups": (GAUSSIAN, "fixed-groups", "substitution"),
    "noisy-max-poisson": (NOISY_MAX, "poisson", "add-remove"),
    "noisy-max-poisson-replaced": (NOISY_MAX, "poisson", "substitution"),
    "noisy-max-without-replacement": (NOISY_MAX, "without-replacement", "zero-out"),
    "adadpsyn-poisson": (ADADPSYN, "poisson", "zero-out"),
    "adadpsyn-without-replacement": (ADADPSYN, "without-replacement", "substitution"),
}


FAST = ("gaussian-poisson", "noisy-max-poisson-replaced", "adadpsyn-poisson")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_from_run_file_to_checked_trace(empty_workplace, name):
    table, sampling, relation = CASES[name]
    text = empty_workplace.run_file.read_text(encoding="utf-8")
    head, _, _ = text.partition("[generator]")
    head = head.replace("epsilon = 4.0", "epsilon = 20.0").replace('relation = "zero-out"', f'relation = "{relation}"')
    empty_workplace.run_file.write_text(
        f'{head}[generator]\nsampling = "{sampling}"\n{table}{COMMON}', encoding="utf-8"
    )
    empty_workplace.keyring.init()
    account = ("--dataset", "letters", "--unit", "record", "--relation", relation)
    opened = empty_workplace.command("ledger", "init", *account, "--epsilon", "50", "--delta", "0.5")
    assert opened.code == 0, opened.err
    certified = empty_workplace.certify()
    assert certified.code == 0, certified.err
    verified = empty_workplace.command("verify", empty_workplace.certificate, "--recompute", "--json")
    assert verified.json["answer"] in ("holds", "undecided"), verified.err
    done = empty_workplace.command(
        "generate", empty_workplace.run_file, "--certificate", empty_workplace.certificate, "-o", empty_workplace.out
    )
    assert done.code == 0, done.err
    lines = (empty_workplace.out / "synthetic.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["label"] for line in lines] == ["north", "north", "south", "south"]
    receipt = json.loads((empty_workplace.out / "receipt.json").read_text(encoding="utf-8"))
    noisy_max = "noisy-max: exact permute and flip"
    assert receipt["sampler"] == (noisy_max if "noisy" in name else "gaussian: normal noise in float64")
    checked = empty_workplace.command(
        "check-trace", empty_workplace.out / "trace.jsonl", "--certificate", empty_workplace.certificate
    )
    assert checked.code in (0, 5), checked.out


@pytest.mark.parametrize(("members", "thin"), [(4, True), (12, False)])
def test_an_audit_says_when_its_records_are_too_few_to_be_sampled(empty_workplace, members, thin):
    """The workplace declares 24 records, of which a token sees 6; of 4 records it would see one."""
    head = empty_workplace.run_file.read_text(encoding="utf-8").partition("[generator]")[0]
    head = head.replace("epsilon = 4.0", "epsilon = 20.0")
    empty_workplace.run_file.write_text(f"{head}[generator]\n{GAUSSIAN}{COMMON}", encoding="utf-8")
    empty_workplace.keyring.init()
    assert empty_workplace.certify().code == 0
    audit = empty_workplace.folder / "audit.toml"
    audit.write_text(f'attack = "loss"\nmembers = {members}\nnon_members = {members}\nruns = 2\n', encoding="utf-8")
    done = empty_workplace.command(
        "audit", audit, "--certificate", empty_workplace.certificate, "-o", empty_workplace.out
    )
    assert done.code in (0, 5), done.err
    said = "of the 4 in a trial it holds about 1, and an attack sees little. Give about 24 members"
    assert (said in done.err) is thin
