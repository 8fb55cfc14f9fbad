"""The release in in-toto's standard predicates, signed by whoever exports: for tools that do not know ours.

    slsa    how the text came about: SLSA Provenance v1 (https://slsa.dev/provenance/v1)
    scai    what is asserted of it, with the certificate as evidence: SCAI attribute report v0.3 (in-toto/attestation,
            spec/predicates/scai.md)

Each is an in-toto Statement v1 about ``synthetic.jsonl`` in a DSSE envelope. It is no certificate, though its payload
has the same type: the gate takes statements with our own predicate only.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from affidavit.accountant.attestation import dsse
from affidavit.accountant.attestation.certificate import PAYLOAD_TYPE
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.statement import STATEMENT_TYPE
from affidavit.accountant.plan import to_dict
from affidavit.exports.release import Release

__all__ = ["SCAI", "SLSA", "render_scai", "render_slsa"]

SLSA = "https://slsa.dev/provenance/v1"
SCAI = "https://in-toto.io/attestation/scai/v0.3"

_BUILD = "https://affidavit.dev/generate/v1"
_PROGRAM = "https://affidavit.dev"


def render_slsa(release: Release) -> str:
    """How it was made. Raises ``UsageError`` where this machine has no key to sign with."""
    certificate, facts = release.certificate, release.receipt.facts
    return _signed(
        release,
        SLSA,
        {
            "buildDefinition": {
                "buildType": _BUILD,
                "externalParameters": {
                    "configuration": {"digest": {"sha256": certificate.config_sha256}},
                    "generator": release.generator,
                    "size": certificate.size,
                    **_promise(release),
                },
                "resolvedDependencies": [
                    {"name": "model", "digest": {"sha256": certificate.model_sha256}},
                    _certificate(release),
                ],
            },
            "runDetails": {
                "builder": {"id": _PROGRAM, "version": dict(facts["versions"])},
                "metadata": {"finishedOn": facts["ended"]},
            },
        },
    )


def render_scai(release: Release) -> str:
    """What is asserted of it. Raises as ``render_slsa``."""
    assertion = {
        "attribute": "DIFFERENTIALLY_PRIVATE",
        "conditions": {**_promise(release), "assumptions": list(release.certificate.assumptions)},
        "evidence": _certificate(release),
    }
    return _signed(release, SCAI, {"attributes": [assertion], "producer": {"uri": _PROGRAM}})


def _promise(release: Release) -> dict[str, Any]:
    return {
        "epsilon": release.epsilon,
        "delta": release.delta,
        "relation": release.certificate.relation,
        "unit": release.certificate.unit.to_json(),
        "plan": to_dict(release.certificate.plan),
    }


def _certificate(release: Release) -> dict[str, Any]:
    return {
        "name": "certificate",
        "digest": {"sha256": release.certificate.sha256},
        "mediaType": "application/vnd.dsse.envelope.v1+json",
    }


def _signed(release: Release, predicate_type: str, predicate: Mapping[str, Any]) -> str:
    statement = {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": "synthetic.jsonl", "digest": {"sha256": release.text_sha256}}],
        "predicateType": predicate_type,
        "predicate": predicate,
    }
    payload = json.dumps(statement, ensure_ascii=False, separators=(",", ":")).encode()
    signer = Keyring.default().signer()
    return dsse.sign(payload, payload_type=PAYLOAD_TYPE, signer=signer).decode("ascii") + "\n"
