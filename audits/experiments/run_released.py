"""The search of released text of an audit file."""

from __future__ import annotations

from affidavit.audits.attacks.extraction import Extraction
from affidavit.audits.experiments.released import prepare_search
from affidavit.audits.given import Given, Results

__all__ = ["run_released"]


def run_released(given: Given) -> Results:
    """What the released text holds of the records, beside held-out ones."""
    audit, material = given.audit, given.material
    given.tell(f"released-text: {len(material.released)} texts against {len(material.records)} records")
    detector = Extraction(audit.kinds, audit.region)
    search = prepare_search(
        material.records, material.held_out, detector=detector, alpha=given.alpha, users=material.users
    )
    finding = search.finding(material.released, target=audit.target, seed=audit.seed)
    given.tell("released-text: self-tests")
    return [finding], list(search.self_tests(audit.policy.policy()))
