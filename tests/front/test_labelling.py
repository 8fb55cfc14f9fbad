"""Records of each declared label: told to the operator at every step, and a run on none of them refused unpaid."""

from __future__ import annotations

import pytest

from affidavit.generation.dataset import Record
from affidavit.labelling import count_labels, declared_labels
from affidavit.runfile import load_run


def _records(*labels: str) -> list[Record]:
    return [Record(str(number), "a text", label) for number, label in enumerate(labels)]


def test_counts_of_declared_labels_and_near_misses() -> None:
    found = count_labels(["Ham", "spam", "other"], _records("ham", "spam", "spam", "zqlabel"))
    assert found.counts == (("Ham", 0), ("spam", 2), ("other", 0))
    assert (found.labelled, found.empty, found.near) == (2, ("Ham", "other"), ("Ham",))
    first, warning = found.lines()
    assert first == "Of 4 records 2 have a declared label (private, for you only): 'Ham' 0, 'spam' 2, 'other' 0."
    assert warning == (
        "WARNING: 0 of 4 records have the label 'Ham', 'other': texts with it would be written from no record. "
        "Of these, 'Ham' differs from a label of the data only in case or blanks."
    )


def test_many_labels_are_summed_up() -> None:
    found = count_labels([f"l{n}" for n in range(20)], _records(*(f"l{n}" for n in range(20) for _ in range(n + 1))))
    (line,) = found.lines()
    assert line.endswith("'l0' 1, 'l1' 2, 'l2' 3, 'l3' 4, 'l4' 5, 'l5' 6, 14 others 7 to 20 each.")


@pytest.mark.parametrize("labels", ['["North", "South"]', '["nord"]'])
def test_a_run_on_no_record_is_refused_before_anything_is_signed_or_charged(workplace, labels) -> None:
    workplace.edit('labels = ["north", "south"]', f"labels = {labels}")
    certificate = workplace.certificate.read_bytes()
    shown = workplace.command("plan", workplace.run_file)
    assert shown.code == 0, "what it costs does not depend on the data"
    assert "`affidavit certify` would refuse: 0 of 24 records have one of the declared labels" in shown.err
    for refused in (workplace.certify(), workplace.generate()):
        assert refused.code == 2
        assert "0 of 24 records have one of the declared labels" in refused.err
        assert "'north'" not in refused.err
    assert ("only in case or blanks" in refused.err) == ("North" in labels)
    assert workplace.certificate.read_bytes() == certificate
    assert workplace.ledger.account("letters").reservations == ()


def test_counts_are_said_before_and_stand_in_no_artefact(workplace) -> None:
    line = "Of 24 records 24 have a declared label (private, for you only): 'north' 12, 'south' 12."
    shown = workplace.command("plan", workplace.run_file, "--json")
    certified, done = workplace.certify(), workplace.generate()
    for outcome in (shown, certified, done):
        assert outcome.code == 0, outcome.err
        assert line in outcome.err
        assert "private, for you" not in outcome.out
    for path in workplace.folder.rglob("*"):
        if path.is_file():
            assert b"declared label" not in path.read_bytes()


def test_a_plan_does_without_data_or_with_broken_ones(workplace) -> None:
    workplace.data.write_text("{\n", encoding="utf-8")
    broken = workplace.command("plan", workplace.run_file)
    assert broken.code == 0
    assert "would refuse: data file, line 1" in broken.err
    workplace.data.unlink()
    without = workplace.command("plan", workplace.run_file)
    assert without.code == 0
    assert "label" not in without.err


def test_a_label_without_records_is_a_warning(workplace) -> None:
    workplace.edit('labels = ["north", "south"]', 'labels = ["north", "west"]')
    done = workplace.certify()
    assert done.code == 0, done.err
    assert "WARNING: 0 of 24 records have the label 'west'" in done.err


def test_a_generator_that_does_not_choose_by_labels_counts_none(workplace) -> None:
    run = load_run(workplace.run_file)
    assert declared_labels(run) == ("north", "south")
    text = workplace.run_file.read_text(encoding="utf-8")
    head, _, _ = text.partition("[generator]")
    few_shot = (
        'kind = "few-shot"\nlabels = ["west"]\nmatch_label = false\nmechanism = "gaussian"\nnoise_multiplier = 4.0\n'
        "subsets = 2\nshots_per_subset = 1\nmax_tokens = 2\n"
    )
    workplace.run_file.write_text(f"{head}[generator]\n{few_shot}", encoding="utf-8")
    assert declared_labels(load_run(workplace.run_file)) is None
    shown = workplace.command("plan", workplace.run_file)
    assert shown.code == 0, shown.err
    assert "declared label" not in shown.err
