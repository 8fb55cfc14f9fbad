"""Membership through an endpoint: a service behind demonstrations that a run made, at the certified cost."""

from __future__ import annotations

import json

from affidavit import auditing
from affidavit.audits.certified import Certified
from affidavit.audits.textmodel import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.runfile import load_run

AUDIT = """\
attack = ["gap", "reference"]
through = "endpoint"
members = 8
non_members = 8
runs = 6
"""

RECORDS = [Record(f"r{n}", f"the north wind number {n}", "north") for n in range(6)]


class Listening(ToyModel):
    """Keeps the prompts that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def log_likelihoods(self, prompts, continuations):
        self.asked.extend(prompts)
        return super().log_likelihoods(prompts, continuations)


def test_an_endpoint_answers_from_released_demonstrations_and_shows_none(empty_workplace, monkeypatch):
    run = load_run(empty_workplace.run_file)
    made = []
    write = auditing.Protected.demonstrate

    def watched(self, records, *, epsilon, seed):
        made.extend(write(self, records, epsilon=epsilon, seed=seed))
        return made

    monkeypatch.setattr(auditing.Protected, "demonstrate", watched)
    model = Listening()
    certified = Certified.of_plan(run.plan(), relation=run.relation, delta=run.budget.delta)
    endpoint = auditing.Protected(run, model, certified).serve(RECORDS, epsilon=certified.epsilon, seed=0)
    endpoint.log_likelihoods(["Text: a question\nCategory:"], [" north"])
    (prompt,) = model.asked
    assert [record.label for record in made] == ["north", "south"]
    shown = [f"Text: {' '.join(record.text.split())}\nCategory: {record.label}" for record in made]
    assert prompt == "\n\n".join([*shown, "Text: a question\nCategory:"])
    assert not any(record.text in repr(endpoint) for record in made)


def test_the_command_audits_an_endpoint(workplace):
    audit = workplace.folder / "endpoint.toml"
    audit.write_text(AUDIT, encoding="utf-8")
    done = workplace.command("audit", audit, "--certificate", workplace.certificate, "-o", workplace.out / "audit")
    assert done.code in (0, 1, 5), done.err
    findings = json.loads((workplace.out / "audit" / "findings.json").read_text(encoding="utf-8"))
    audited = [item for item in findings["items"] if not item["control"]]
    assert [(item["attack"], item["target"], item["runs"]) for item in audited] == [
        ("gap", "protected", 6),
        ("reference", "protected", 6),
    ]
    control = next(item for item in findings["items"] if item["control"] and item["attack"] == "reference")
    assert control["auc"] > 0.9  # the real record behind the endpoint
    assert audited[1]["auc"] < control["auc"]
