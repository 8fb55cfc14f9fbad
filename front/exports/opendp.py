"""An entry of the OpenDP Differential Privacy Deployments Registry.

Schema: opendp/deployments-registry-data, schemas/deployments-schema.yaml at commit 3e9c812 (15 July 2026). Written
as JSON, which is YAML 1.2. ``status`` is Draft: the registry's board approves entries.
"""

from __future__ import annotations

import json
import re
from typing import Any

from affidavit.exports.release import Release

__all__ = ["entry", "render"]


def entry(release: Release) -> dict[str, Any]:
    """The entry as an object."""
    stated, certificate = release.stated, release.certificate
    pure = certificate.claim.delta == 0
    parameters = {"epsilon": float(release.epsilon)} | ({} if pure else {"delta": float(release.delta)})
    return {
        "url_slug": re.sub(r"[^a-z0-9]+", "_", stated.name.casefold()).strip("_") or "release",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": stated.name,
                "data_curators": [stated.curator],
                "description": release.description,
                "intended_use": stated.use,
                "data_product_type": "Synthetic data",
                "data_product_region": stated.region,
                "publication_date": release.published,
            },
            "dp_variant": {
                "variant_name": "Pure DP" if pure else "Approximate DP",
                "data_domain": f"Sets of {certificate.size} text records (a declared, public size).",
                "unprotected_quantities": "The declared size, the labels and every setting in the run file are public.",
            },
            "privacy_loss": {
                "privacy_unit": release.unit,
                "privacy_unit_details": f"Two data sets are adjacent if {release.neighbours}.",
                "privacy_parameters": parameters,
                "privacy_parameters_details": (
                    f"ε ≤ {release.epsilon} at δ = {release.delta}, an upper bound computed in "
                    f"{certificate.arithmetic}, of this one run. Other runs on the same data add to it."
                ),
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": "The curator holds the records and runs the generator; readers see the text, the certificate "
                "and the receipt.",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "composition": f"The plan as a whole was bounded: {release.plan}.",
                "post_processing": "What the generator does after a draw uses the draw and public settings alone.",
            },
            "implementation": {
                "mechanisms": f"{release.plan}. Sampling: {release.receipt.facts['sampler']}. Noise: "
                f"{release.receipt.facts['noise']}. Arithmetic: {certificate.arithmetic}.",
                "justification": f"Assumptions of the certificate: {release.assumptions}.",
            },
            "administrative": {
                "sources": stated.url,
                "notes": f"Certificate sha256 {certificate.sha256}; text sha256 {release.text_sha256}.",
                "registry_authors": [stated.curator],
            },
        },
    }


def render(release: Release) -> str:
    return json.dumps(entry(release), indent=2, ensure_ascii=False) + "\n"
