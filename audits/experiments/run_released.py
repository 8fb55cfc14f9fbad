"""The search of released text of an audit file."""

from __future__ import annotations

from affidavit.audits.attacks.extraction import Extraction
from affidavit.audits.experiments.released import prepare_search
from affidavit.audits.given import Given, Results

__all__ = ["run_released"]


def run_released(given: Given) -> Results:
    """What ``given.released`` holds of ``given.records``, beside ``given.held_out``."""
    audit = given.audit
    given.tell(f"released-text: {len(given.released)} texts against {len(given.records)} records")
    detector = Extraction(audit.kinds, audit.region)
    search = prepare_search(given.records, given.held_out, detector=detector, alpha=given.alpha, users=given.users)
    finding = search.finding(given.released, target=audit.target, seed=audit.seed)
    given.tell("released-text: self-tests")
    return [finding], list(search.self_tests(audit.policy.policy()))
