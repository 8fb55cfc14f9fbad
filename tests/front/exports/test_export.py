"""Exports: in each form what the certificate says, nothing private, and what the forms require."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json

import pytest

from affidavit.accountant.attestation import dsse
from affidavit.exports import FORMS, intoto

STATED = ("--name", "Northern letters", "--curator", "Example Press", "--use", "tests", "--region", "North")

# Of opendp/deployments-registry-data, schemas/deployments-schema.yaml at 3e9c812: which fields there are, which are
# required, and the values of those that are enumerated.
REGISTRY = {
    "": ({"url_slug", "status", "tier", "deployment"}, set()),
    "deployment": (
        {"basic"},
        {"dp_variant", "privacy_loss", "deployment_model", "accounting", "implementation", "administrative"},
    ),
    "deployment.basic": (
        {
            "name",
            "data_curators",
            "description",
            "intended_use",
            "data_product_type",
            "data_product_region",
            "publication_date",
        },
        {"data_product_sector"},
    ),
    "deployment.dp_variant": (set(), {"variant_name", "data_domain", "unprotected_quantities"}),
    "deployment.privacy_loss": (
        set(),
        {"privacy_unit", "privacy_unit_details", "privacy_parameters", "privacy_parameters_details"},
    ),
    "deployment.privacy_loss.privacy_parameters": (set(), {"epsilon", "delta", "rho"}),
    "deployment.deployment_model": (
        set(),
        {
            f"{name}{more}"
            for name in ("model_name", "release_type", "data_source_type", "access_type")
            for more in ("", "_details")
        }
        | {"actors"},
    ),
    "deployment.accounting": (set(), {"post_processing", "composition"}),
    "deployment.implementation": (
        set(),
        {"preprocessing_and_hyperparameter_tuning", "mechanisms", "justification"},
    ),
    "deployment.administrative": ({"registry_authors"}, {"sources", "notes"}),
}
ENUMERATED = {
    "deployment.basic.data_product_type": {"Summary statistics", "Machine learning model", "Dataset", "Synthetic data"},
    "deployment.dp_variant.variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
    "deployment.deployment_model.model_name": {"Local", "Central", "Shuffle", "Federated"},
    "deployment.deployment_model.release_type": {"One release", "Many releases"},
    "deployment.deployment_model.data_source_type": {"Static", "Dynamic"},
    "deployment.deployment_model.access_type": {"Interactive", "Non-interactive"},
    "status": {"Draft"},
}


@pytest.fixture
def released(workplace):
    assert workplace.generate().code == 0
    return workplace


def exported(place, form: str, *more: str):
    return place.command(
        "export", place.certificate, "--receipt", place.out / "receipt.json", "--to", form, *STATED, *more
    )


def at(entry, path: str):
    for step in path.split(".") if path else ():
        entry = entry[step]
    return entry


def test_the_registry_s_schema_is_kept(released):
    entry = json.loads(exported(released, "opendp").out)
    for path, (required, optional) in REGISTRY.items():
        assert required <= set(at(entry, path)) <= required | optional, path
    for path, values in ENUMERATED.items():
        assert at(entry, path) in values
    datetime.date.fromisoformat(entry["deployment"]["basic"]["publication_date"])
    claim = json.loads(released.command("verify", released.certificate, "--json").out)["claims"][0]
    parameters = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert parameters == {"epsilon": float(claim["epsilon"]), "delta": float(claim["delta"])}


def test_croissant_names_the_text_by_its_digest(released):
    facts = json.loads(exported(released, "croissant", "--url", "https://example.org/letters").out)
    receipt = json.loads((released.out / "receipt.json").read_text("utf-8"))
    assert "http://mlcommons.org/croissant/1.1" in facts["conformsTo"]
    assert facts["@type"] == "sc:Dataset"
    # What Croissant 1.1 requires of a data set, but for a citation.
    assert {"@context", "name", "description", "license", "url", "creator", "datePublished"} <= set(facts)
    (file,) = facts["distribution"]
    assert file["sha256"] == receipt["outputs_sha256"]["synthetic.jsonl"]
    fields = {field["source"]["extract"]["jsonPath"][2:] for field in facts["recordSet"][0]["field"]}
    line = json.loads((released.out / "synthetic.jsonl").read_text("utf-8").splitlines()[0])
    assert fields == set(line)


def test_the_checklist_ticks_only_what_the_files_answer(released):
    page = exported(released, "nist").out
    assert "SP 800-226" in page
    open_boxes = [line for line in page.splitlines() if line.startswith("- [ ]")]
    assert len(open_boxes) >= 6
    assert all(line.endswith("not stated") for line in open_boxes)
    assert not any("not stated" in line for line in page.splitlines() if line.startswith("- [x]"))
    assert "Purpose of the release: tests" in page


def test_the_card_s_header_is_metadata(released):
    page = exported(released, "card").out
    _, header, body = page.split("---\n", 2)
    assert json.loads(dict(line.split(": ", 1) for line in header.splitlines())["tags"]) == [
        "synthetic",
        "differential-privacy",
    ]
    assert body.startswith("\n# Northern letters")


def attested(place, form: str) -> dict:
    """What the envelope says, by a key that is trusted here."""
    envelope = exported(place, form).out.encode()
    verified = dsse.verify(envelope, payload_type="application/vnd.in-toto+json", trusted=place.keyring.trusted())
    return json.loads(verified.payload)


def test_in_toto_s_predicates_have_their_fields_and_are_about_the_text(released):
    receipt = json.loads((released.out / "receipt.json").read_text("utf-8"))
    claim = json.loads(released.command("verify", released.certificate, "--json").out)["claims"][0]
    evidence = hashlib.sha256(released.certificate.read_bytes()).hexdigest()
    for form, kind in (("slsa", intoto.SLSA), ("scai", intoto.SCAI)):
        statement = attested(released, form)
        assert set(statement) == {"_type", "subject", "predicateType", "predicate"}
        assert (statement["_type"], statement["predicateType"]) == ("https://in-toto.io/Statement/v1", kind)
        (subject,) = statement["subject"]
        assert subject == {
            "name": "synthetic.jsonl",
            "digest": {"sha256": receipt["outputs_sha256"]["synthetic.jsonl"]},
        }
    (assertion,) = statement["predicate"]["attributes"]
    assert set(assertion) <= {"attribute", "target", "conditions", "evidence"}
    assert assertion["evidence"]["digest"]["sha256"] == evidence
    assert {name: assertion["conditions"][name] for name in claim} == claim
    made = attested(released, "slsa")["predicate"]
    assert set(made) == {"buildDefinition", "runDetails"}
    assert {"buildType", "externalParameters"} <= set(made["buildDefinition"])
    assert evidence in [one["digest"]["sha256"] for one in made["buildDefinition"]["resolvedDependencies"]]
    assert made["runDetails"]["builder"]["id"].startswith("https://")
    assert made["runDetails"]["metadata"]["finishedOn"] == receipt["ended"]


@pytest.mark.parametrize("form", ["slsa", "scai"])
def test_an_attestation_is_no_certificate(released, form):
    """Signed by a trusted key, of the same payload type."""
    path = released.folder / "attested.json"
    path.write_text(exported(released, form).out, encoding="utf-8")
    assert released.command("verify", path).code != 0
    runs = released.ledger.balance("letters").runs
    done = released.command("generate", released.run_file, "--certificate", path, "-o", released.folder / "again")
    assert done.code == 3, done.err
    assert "predicateType" in done.err
    assert released.ledger.balance("letters").runs == runs


@pytest.mark.parametrize("form", FORMS)
def test_nothing_private_is_in_it_or_needed_for_it(released, form):
    private = [record["text"] for record in released.records()] + [record["id"] for record in released.records()]
    signed = json.loads(released.command("verify", released.certificate, "--json").out)
    (released.out / "trace.jsonl").unlink()
    released.data.unlink()
    for path in released.keyring.home.glob("ledger.db*"):
        path.unlink()
    done = exported(released, form, "--text", str(released.out / "synthetic.jsonl"))
    assert done.code == 0, done.err
    said = done.out
    if form in ("slsa", "scai"):
        said = base64.b64decode(json.loads(said)["payload"]).decode("utf-8")
    assert signed["claims"][0]["epsilon"] in said
    assert not [text for text in private if text in said]
    entry = json.loads((released.out / "receipt.json").read_text("utf-8"))["ledger_entry"]
    assert entry not in said


@pytest.mark.parametrize("form", FORMS)
def test_what_does_not_verify_is_not_exported(released, form):
    text = released.out / "synthetic.jsonl"
    text.write_bytes(text.read_bytes() + b"{}\n")
    assert exported(released, form, "--text", str(text)).code == 3
    receipt = released.out / "receipt.json"
    receipt.write_bytes(receipt.read_bytes().replace(b"operating system", b"operating System", 1))
    done = exported(released, form)
    assert (done.code, done.out) == (3, "")
