"""The papers' experiments as shipped: files that load, with the papers' numbers, within their own budgets."""

from __future__ import annotations

from pathlib import Path

import pytest

from affidavit.accountant.bound import bound
from affidavit.audits.auditfile import load_audit
from affidavit.audits.experiments.registry import EXPERIMENTS
from affidavit.runfile import load_run
from support.real_data import real_data

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
SOURCES = {"dbpedia": "dbpedia14/train.jsonl", "enron": "enron/aeslc_train_pii.jsonl"}
AUDITS = [path for name in SOURCES for path in sorted((EXAMPLES / name).glob("audit*.toml"))]
RUNS = [EXAMPLES / name / "run.toml" for name in SOURCES]


def _name(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


def test_there_are_examples() -> None:
    assert {path.stem for path in AUDITS} >= {
        "audit-duan", "audit-repeat-balanced", "audit-repeat-unbalanced", "audit-one-step", "audit-extraction",
    }  # fmt: skip
    assert all(path.exists() for path in RUNS)


@pytest.mark.parametrize("path", AUDITS, ids=_name)
def test_an_audit_file_loads_and_fits_the_declared_size(path: Path) -> None:
    audit = load_audit(path)
    run = load_run(path.parent / "run.toml")
    if "one-step" not in audit.attacks:
        assert audit.members + audit.non_members <= run.data.size
    assert audit.prompt


@pytest.mark.parametrize("path", RUNS, ids=_name)
def test_a_run_file_keeps_to_its_budget(path: Path) -> None:
    run = load_run(path)
    cost = bound(run.plan(), relation=run.relation, delta=run.budget.delta)
    assert cost.epsilon_upper <= run.budget.epsilon


def test_the_papers_numbers() -> None:
    duan, balanced, unbalanced = (
        load_audit(EXAMPLES / "dbpedia" / f"audit-{name}.toml")
        for name in ("duan", "repeat-balanced", "repeat-unbalanced")
    )
    assert (duan.members, duan.non_members, duan.runs) == (50, 50, 100)
    assert duan.attacks[0] == "label-probability"
    assert (balanced.members, balanced.non_members, balanced.epsilons) == (40, 40, (1.0, 3.0, 8.0))
    assert (unbalanced.members, unbalanced.non_members, unbalanced.epsilons) == (40, 160, (1.0, 3.0, 8.0))
    enron = load_audit(EXAMPLES / "enron" / "audit-extraction.toml")
    assert (enron.max_tokens, enron.epsilons, enron.user) == (15, (1.0, 4.0, 8.0), "mailbox")


@pytest.mark.parametrize(
    ("name", "source"), [pytest.param(*one, marks=pytest.mark.data(one[1]), id=one[0]) for one in SOURCES.items()]
)
def test_the_data_are_as_the_run_file_says(name: str, source: str) -> None:
    """Declared labels and size, against the real file."""
    from affidavit.generation.dataset import load_records

    run = load_run(EXAMPLES / name / "run.toml")
    records = load_records(real_data(source), size=run.data.size, fields=run.fields)
    assert set(run.generator.labels) <= {record.label for record in records}


def test_the_page_names_every_attack() -> None:
    page = (EXAMPLES.parent / "audits.md").read_text(encoding="utf-8")
    named = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert named >= {name for each in EXPERIMENTS for name in each.attacks}
