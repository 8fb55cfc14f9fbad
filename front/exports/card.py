"""A dataset card: Markdown under a metadata header, as dataset hubs show it."""

from __future__ import annotations

import json

from affidavit.exports.release import Release

__all__ = ["render"]


def render(release: Release) -> str:
    stated, certificate = release.stated, release.certificate
    header = {"pretty_name": stated.name, "license": stated.licence, "tags": ["synthetic", "differential-privacy"]}
    head = "\n".join(f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in header.items())
    return f"""---
{head}
---

# {stated.name}

{release.description}

| | |
|---|---|
| ε | at most {release.epsilon} |
| δ | {release.delta} |
| neighbours | {release.neighbours} |
| what ran | {release.plan} |
| noise | {release.receipt.facts["noise"]} |
| curator | {stated.curator} |
| intended use | {stated.use} |
| generated | {release.published} |
| text, sha256 | `{release.text_sha256}` |
| certificate, sha256 | `{certificate.sha256}` |

The guarantee assumes: {release.assumptions}. It is of this one run; other runs on the same records add to it. It says
nothing about the truth or quality of a text.

Check it: `affidavit verify CERT.json --receipt receipt.json --text synthetic.jsonl --recompute`
"""
