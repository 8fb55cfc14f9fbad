"""Croissant metadata of the released text.

Croissant Format Specification 1.1 (MLCommons, 29 January 2026), with terms of its Responsible AI vocabulary 1.0.
"""

from __future__ import annotations

import json
from typing import Any

from affidavit.exports.release import NOT_STATED, Release

__all__ = ["metadata", "render"]

_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "citeAs": "cr:citeAs",
    "recordSet": "cr:recordSet",
    "field": "cr:field",
    "source": "cr:source",
    "extract": "cr:extract",
    "jsonPath": "cr:jsonPath",
    "fileObject": "cr:fileObject",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
}


def metadata(release: Release) -> dict[str, Any]:
    """The metadata as an object."""
    stated = release.stated
    place = {} if stated.url == NOT_STATED else {"url": stated.url}
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": ["http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0"],
        "name": stated.name,
        "description": release.description,
        "license": stated.licence,
        **place,
        "creator": {"@type": "sc:Organization", "name": stated.curator},
        "datePublished": release.published,
        "version": "1.0.0",
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": "synthetic.jsonl",
                "name": "synthetic.jsonl",
                "contentUrl": "synthetic.jsonl",
                "encodingFormat": "application/jsonl",
                "sha256": release.text_sha256,
            }
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "texts",
                "name": "texts",
                "field": [_field(name) for name in ("id", "label", "text")],
            }
        ],
        "rai:personalSensitiveInformation": (
            f"Generated from private records under ({release.epsilon}, {release.delta})-differential privacy; "
            f"neighbours: {release.neighbours}. Certificate sha256 {release.certificate.sha256}."
        ),
        "rai:dataCollection": f"Generated: {release.plan}.",
        "rai:dataLimitations": f"The guarantee assumes: {release.assumptions}. It says nothing about truth or quality.",
        "rai:dataUseCases": stated.use,
    }


def _field(name: str) -> dict[str, Any]:
    source = {"fileObject": {"@id": "synthetic.jsonl"}, "extract": {"jsonPath": f"$.{name}"}}
    return {"@type": "cr:Field", "@id": f"texts/{name}", "name": name, "dataType": "sc:Text", "source": source}


def render(release: Release) -> str:
    return json.dumps(metadata(release), indent=2, ensure_ascii=False) + "\n"
