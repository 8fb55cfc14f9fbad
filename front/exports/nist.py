"""What NIST SP 800-226 asks of a differential privacy guarantee, with what certificate and receipt answer.

Near, Darais, Lefkovitz, Howarth 2025, "Guidelines for Evaluating Differential Privacy Guarantees", NIST SP 800-226
(final, March 2025): a pyramid in three levels, each resting on the one below. The questions are in our words. A box is
ticked where the two signed files answer; the rest is the curator's, and stays open.
"""

from __future__ import annotations

from affidavit.exports.release import NOT_STATED, Release

__all__ = ["render"]


def render(release: Release) -> str:
    certificate, stated = release.certificate, release.stated
    facts = release.receipt.facts
    levels = (
        (
            "Top: what is promised",
            (
                ("Privacy parameters", f"ε ≤ {release.epsilon} at δ = {release.delta}, rounded up"),
                ("δ below one in the number of records", _small_delta(release)),
                ("Unit of privacy", release.unit),
                ("What makes two data sets neighbours", release.neighbours),
                ("The guarantee for other ε", f"a curve of {len(certificate.curve)} points is in the certificate"),
                ("Whether it is all that was released of these records", ""),
            ),
        ),
        (
            "Middle: what can undermine it",
            (
                ("Mechanisms and how they compose", release.plan),
                (
                    "Whether the number can be checked",
                    "`affidavit verify CERT.json --recompute` derives it by other code",
                ),
                ("Source of randomness", str(facts["noise"])),
                ("Numbers in floating point", certificate.arithmetic),
                ("Assumptions", release.assumptions),
                ("Deployment model and who is trusted", "central: whoever runs the generator sees the records"),
                ("Utility, and bias between groups", ""),
                ("Side channels, and who can read the machine", ""),
            ),
        ),
        (
            "Bottom: what it rests on",
            (
                ("Purpose of the release", "" if stated.use == NOT_STATED else stated.use),
                ("Consent and purpose of the collection", ""),
                ("Security of the records as collected, and access to them", ""),
                ("How long records, keys and traces are kept", ""),
            ),
        ),
    )
    lines = [
        f"# NIST SP 800-226 (March 2025): {stated.name}",
        "",
        "Ticked: answered by the signed certificate and receipt. Open: for the curator to answer.",
    ]
    for title, questions in levels:
        lines += ["", f"## {title}", ""]
        lines += [f"- [{'x' if answer else ' '}] {question}: {answer or NOT_STATED}" for question, answer in questions]
    lines += ["", f"Certificate sha256 {certificate.sha256}, signed by {certificate.keyids[0]}."]
    return "\n".join(lines) + "\n"


def _small_delta(release: Release) -> str:
    """An answer where it is; nothing is ticked where δ is 1/size or more."""
    claim, size = release.certificate.claim, release.certificate.size
    return f"{release.delta} < 1/{size}" if claim.delta * size < 1 else ""
