"""Audit files, audits and reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cases_runs import SGA, with_settings
from remedy_cases import Case, Place, nothing

AUDIT: dict[str, Any] = {"attack": "one-step", "members": 20, "non_members": 20}
CHECKS: dict[str, Any] = {"attack": ["sensitivity", "neighbours"]}
CALL = "audit audit.toml --certificate certificate.json -o findings"
DONE = (0, 1, 5)
OTHER_FINDINGS = json.dumps({"schema": "other", "certificate_sha256": None, "items": []})


def _asked(
    change: dict[str, Any], *, of: dict[str, Any] = AUDIT, then: Callable[[Place], Any] = nothing
) -> Callable[[Place], None]:
    """A certified run and an audit file with some keys changed; None removes one."""

    def arrange(place: Place) -> None:
        place.certified()
        content = {key: value for key, value in {**of, **change}.items() if value is not None}
        place.save("audit.toml", content)
        then(place)

    return arrange


def _audit(at: str, change: dict[str, Any], **more: Any) -> Case:
    base = more.pop("of", AUDIT)
    return Case(
        at,
        CALL,
        _asked(change, of=base, then=more.pop("also", nothing)),
        **{"file": "audit.toml", "then": DONE, **more},
    )


MEMBERSHIP = {"attack": "gap", "members": 5, "non_members": 5, "runs": 1, "target": "unprotected"}
DISCOVERABLE = {
    "attack": "discoverable",
    "members": 2,
    "non_members": 2,
    "runs": 1,
    "target": "unprotected",
    "prefix_words": 3,
    "target_words": 1,
}
EXTRACTION = {
    "attack": "extraction",
    "members": 2,
    "non_members": 2,
    "runs": 1,
    "target": "unprotected",
    "max_tokens": 2,
}
RELEASED = {"attack": "released-text", "released": "out/synthetic.jsonl", "held_out": "held_out.jsonl"}


def _released(at: str, change: dict[str, Any], **more: Any) -> Case:
    def also(place: Place) -> None:
        place.must("generate", "run.toml", "--certificate", "certificate.json", "-o", "out")
        lines = [
            {"id": f"h{n}", "text": f"somebody else wrote {n} of the sea and of ships {n * n}", "label": "north"}
            for n in range(6)
        ]
        place.write("held_out.jsonl", "".join(json.dumps(line) + "\n" for line in lines))

    return _audit(at, change, of=RELEASED, also=also, **more)


def _mails(place: Place) -> None:
    lines = [
        {
            "id": f"r{n:02d}",
            "text": f"the wind number {n} of person{n}@example{n}.org",
            "label": "north" if n % 2 else "south",
        }
        for n in range(24)
    ]
    place.write("mails.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


def _generator(table: dict[str, Any], audit: dict[str, Any]) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        with_settings(table)(place)
        place.keys()
        place.must("certify", "run.toml", "-o", "certificate.json")
        place.save("audit.toml", audit)
        _mails(place)

    return arrange


def _reported(change: Callable[[Place], Any]) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        place.generated()
        place.save("audit.toml", AUDIT)
        change(place)

    return arrange


def _audited(place: Place) -> None:
    done = place.call("audit", "audit.toml", "--certificate", "certificate.json", "-o", "out")
    assert done.code in DONE, done.err


def _edited(place: Place) -> None:
    """A verdict that somebody wrote by hand."""
    _audited(place)
    findings = place.read("out/findings.json")
    findings["items"][0]["verdict"] = "CONSISTENT"
    findings["policy"]["allow_underpowered"] = True
    place.save("out/findings.json", findings)


def _other_certificate(place: Place) -> None:
    """Findings of the first certificate, and a second one in its place."""
    _audited(place)
    (place.folder / "certificate.json").rename(place.folder / "first.json")
    place.must("certify", "run.toml", "-o", "certificate.json")


def _two_findings(place: Place) -> None:
    _other_certificate(place)
    done = place.call("audit", "audit.toml", "--certificate", "certificate.json", "-o", "more")
    assert done.code in DONE


def _damaged_receipt(place: Place) -> None:
    """A receipt that was changed after it was signed; the whole one is kept beside it."""
    place.must("generate", "run.toml", "--certificate", "certificate.json", "-o", "out")
    place.write("receipt.kept", (place.folder / "out/receipt.json").read_text(encoding="utf-8"))
    place.write(
        "out/receipt.json", (place.folder / "receipt.kept").read_text(encoding="utf-8").replace("true", "false")
    )


def _whole_receipt(place: Place) -> None:
    (place.folder / "receipt.kept").rename(place.folder / "out/receipt.json")


def _receipt_of_another(place: Place) -> None:
    """A whole receipt, beside a certificate that was made anew."""
    place.must("generate", "run.toml", "--certificate", "certificate.json", "-o", "out")
    (place.folder / "certificate.json").rename(place.folder / "first.json")
    place.must("certify", "run.toml", "-o", "certificate.json")


def _in_the_folder(name: str, content: str) -> Callable[[Place], None]:
    return lambda place: place.write(name, content)


CASES = [
    _audit("audits/auditfile.py:parse_audit#2", {"atack": "one-step", "attack": None}),
    _audit("audits/auditfile.py:parse_audit#3", {"attack": None}),
    _audit("audits/auditfile.py:_known_attacks", {"attack": "one_step"}),
    _audit("audits/auditfile.py:_known_attacks", {"attack": "xyzzy"}),
    _audit("audits/auditfile.py:_known_attacks#2", {"attack": []}, past=True),
    _audit("audits/auditfile.py:_known_attacks#2", {"attack": ["one-step", "one-step"]}),
    _audit("audits/auditfile.py:parse_audit#2", {"policy": {"max_leakd": 0}}),
    _audit("audits/auditfile.py:parse_audit#3", {"policy": {"max_leaked": -1}}),
    _audit("audits/auditfile.py:parse_audit#3", {"alpha": 0.0}),
    _audit("audits/auditfile.py:parse_audit", {"folder": "/"}),
    _audit("audits/auditfile.py:_consistent#7", {"epsilons": [1.0]}),
    _audit("audits/auditfile.py:_consistent#6", {"non_members": 30}),
    _audit("audits/auditfile.py:_sized#4", {"members": None}, past=True),
    _audit("audits/auditfile.py:_sized#2", {"target": "null"}, of=CHECKS),
    _audit("audits/auditfile.py:_sized#3", {"members": 3}, of=CHECKS),
    _audit("audits/auditfile.py:_consistent#5", {"mechanism": "gauss"}, past=True),
    _audit("audits/experiments/one_step.py:_busiest", {"mechanism": "laplace"}),
    _audit("audits/auditfile.py:_consistent", {"shadow_prompts": 4}),
    _audit("audits/auditfile.py:_consistent#3", {"region": "XX", "attack": ["one-step", "extraction"]}, past=True),
    _audit("audits/auditfile.py:_consistent#2", {"kinds": [], "attack": ["one-step", "extraction"]}, past=True),
    _audit(
        "audits/auditfile.py:_consistent#4", {"prompt": "few_shots", "attack": ["one-step", "extraction"]}, past=True
    ),
    _audit("audits/auditfile.py:_consistent#8", {"thresholds": [0.5]}, of=MEMBERSHIP, past=True),
    _audit("audits/auditfile.py:_consistent#9", {"game": "per-run", "runs": 3}, of=MEMBERSHIP, past=True),
    _audit(
        "audits/auditfile.py:_consistent#10", {"game": "per-run", "runs": None, "members": 1}, of=MEMBERSHIP, past=True
    ),
    _audit("audits/experiments/run_membership.py:run_membership", {"members": 50}, of=MEMBERSHIP),
    _audit(
        "audits/auditfile.py:_consistent",
        {"attack": "reference", "members": 3, "non_members": 3, "shadow_prompts": 200},
        of=MEMBERSHIP,
    ),
    _audit(
        "audits/attacks/shadow.py:make_shadows#2",
        {"attack": "rmia", "members": 3, "non_members": 3, "shadow_prompts": 2, "population": 200},
        of=MEMBERSHIP,
    ),
    _audit(
        "audits/experiments/run_per_run.py:run_per_run",
        {"game": "per-run", "runs": None, "background": 60},
        of=MEMBERSHIP,
    ),
    _audit(
        "audits/experiments/extraction.py:candidates",
        {},
        of=EXTRACTION,
        by_hand=lambda place: (_mails(place), place.set("audit.toml", "data", "mails.jsonl")),
    ),
    _audit(
        "audits/experiments/extraction.py:candidates",
        {"data": "mails.jsonl", "members": 40},
        of=EXTRACTION,
        also=_mails,
    ),
    _audit("audits/experiments/run_extraction.py:_canaries", {"attack": "canary", "background": 60}, of=EXTRACTION),
    _audit("audits/experiments/run_discoverable.py:run_discoverable", {"members": 60}, of=DISCOVERABLE),
    _released("audits/auditfile.py:_sized", {"attack": ["released-text", "gap"]}, past=True),
    _released("audits/auditfile.py:_sized#3", {"members": 3}),
    _released("audits/auditfile.py:_sized#5", {"released": None}),
    _released("audits/auditfile.py:_sized#5", {"held_out": None}),
    _released("audits/experiments/released.py:prepare_search", {"held_out": "train.jsonl"}),
    _released(
        "front/records.py:_content",
        {"held_out": "heldout.jsonl"},
        by_hand=lambda place: place.set("audit.toml", "held_out", "held_out.jsonl"),
    ),
    Case(
        "audits/auditfile.py:load_audit",
        CALL,
        _asked({}, then=lambda place: (place.folder / "audit.toml").rename(place.folder / "audits.toml")),
        then=DONE,
    ),
    Case(
        "audits/auditfile.py:load_audit#2",
        CALL,
        _asked({}, then=lambda place: place.write("audit.toml", "attack")),
        file="audit.toml",
        then=DONE,
    ),
    Case(
        "front/auditing.py:audit",
        CALL,
        _asked({}, then=lambda place: place.set("run.toml", "generator.temperature", 2.0)),
        code=3,
        then=DONE,
    ),
    Case("accountant/attestation/certificate.py:read", "audit audit.toml -o findings", _asked({}), code=3, then=()),
    Case(
        "accountant/attestation/receipt.py:_invalid",
        CALL + " --receipt out/receipt.json",
        _asked({}, then=_damaged_receipt),
        code=3,
        by_hand=_whole_receipt,
        then=DONE,
    ),
    Case(
        "accountant/attestation/receipt.py:check_receipt",
        CALL + " --receipt out/receipt.json",
        _asked({}, then=_receipt_of_another),
        by_hand=lambda place: (place.folder / "first.json").rename(place.folder / "certificate.json"),
        code=3,
        then=DONE,
    ),
    Case(
        "front/auditing.py:check_extraction",
        CALL,
        _generator(SGA, {**EXTRACTION, "target": "protected", "data": "mails.jsonl"}),
        file="audit.toml",
        past=True,
    ),
    Case(
        "audits/formats/summary.py:append",
        CALL,
        _asked(
            {},
            then=lambda place: place.monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(place.folder / "none/summary.md")),
        ),
        then=DONE,
    ),
    Case("front/cli/_formats.py:with_json", CALL + " --json --format junit", _asked({}), then=DONE),
    Case("front/cli/audits.py:report", "report . --title X --format junit", _reported(_audited)),
    Case("front/cli/audits.py:report#2", "report . -o page.html", _reported(_audited)),
    Case("audits/findings.py:merge", "report . --format json", _reported(nothing)),
    Case(
        "accountant/attestation/certificate.py:read#2",
        "report . --certificate certificate.json",
        _reported(lambda place: (place.folder / "certificate.json").unlink()),
        code=3,
    ),
    Case("audits/report/folder.py:read_folder", "report out", _reported(nothing), code=3),
    Case(
        "audits/report/folder.py:_findings",
        "report .",
        _reported(_other_certificate),
        by_hand=lambda place: (place.folder / "first.json").rename(place.folder / "certificate-first.json"),
    ),
    Case("audits/findings.py:merge#2", "report . --format json", _reported(_two_findings)),
    Case(
        "audits/report/folder.py:_json",
        "report .",
        _reported(_in_the_folder("out/receipt.json", "[]")),
        by_hand=lambda place: (place.folder / "out/receipt.json").unlink(),
    ),
    Case(
        "accountant/attestation/receipt.py:check_text",
        "report .",
        _reported(lambda place: place.write("out/synthetic.jsonl", "{}\n")),
        code=3,
        by_hand=lambda place: (place.folder / "out/synthetic.jsonl").unlink(),
    ),
    Case("audits/findings.py:parse#3", "report .", _reported(_edited)),
    Case("audits/findings.py:parse#2", "report .", _reported(_in_the_folder("out/findings.json", "{}"))),
    Case(
        "audits/findings.py:parse",
        "report .",
        _reported(_in_the_folder("out/findings.json", '{"schema": "other", "items": []}')),
    ),
]
