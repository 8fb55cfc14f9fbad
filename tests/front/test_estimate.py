"""The time estimate: from declared facts only, larger for more work, absent for models nobody measured."""

from __future__ import annotations

import pytest

from affidavit.estimate import minutes_to_run
from affidavit.runfile import load_run


@pytest.fixture
def run(empty_workplace):
    empty_workplace.edit('name = "toy"', 'name = "smollm2-135m"')
    empty_workplace.data.unlink()
    return load_run(empty_workplace.run_file)


def test_more_work_takes_longer(run):
    here = minutes_to_run(run)
    assert here is not None
    for change in ({"max_tokens": 8}, {"max_record_tokens": 24}, {"minibatch_rows": 64}):
        longer = minutes_to_run(run.with_generator(**change))
        assert longer is not None
        assert longer > here


def test_a_model_that_was_not_measured_has_no_estimate(empty_workplace):
    assert minutes_to_run(load_run(empty_workplace.run_file)) is None
