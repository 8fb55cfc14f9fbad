"""Public records: named by the run file, bound by the certificate, handed to the generator, refused before a charge."""

from __future__ import annotations

import json

import pytest

from affidavit.accountant.errors import RunFileError
from affidavit.generation.prism import PrismConfig
from affidavit.runfile import load_run
from affidavit.synthesis import generate

PUBLIC = [{"id": f"p{n}", "text": f"a public wind number {n}", "label": "north"} for n in range(3)]


def _name_public(workplace, lines=None):
    workplace.edit("size = 24\n", 'size = 24\npublic = "public.jsonl"\n')
    if lines is not None:
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (workplace.folder / "public.jsonl").write_text(text, encoding="utf-8")


def test_the_certificate_binds_the_public_records(workplace):
    _name_public(workplace, PUBLIC)
    assert workplace.certify().code == 0
    (workplace.folder / "public.jsonl").write_text(json.dumps(PUBLIC[0]) + "\n", encoding="utf-8")
    refused = workplace.generate()
    assert refused.code == 3
    assert "config" in refused.err or "settings" in refused.err
    assert not workplace.ledger.account("letters").reservations


def test_where_the_public_file_is_does_not_matter(workplace):
    _name_public(workplace, PUBLIC)
    before = load_run(workplace.run_file).sha256()
    (workplace.folder / "public.jsonl").rename(workplace.folder / "moved.jsonl")
    workplace.edit('"public.jsonl"', '"moved.jsonl"')
    assert load_run(workplace.run_file).sha256() == before


def test_the_public_file_is_read_once(workplace):
    _name_public(workplace, PUBLIC)
    run = load_run(workplace.run_file)
    before = run.sha256()
    (workplace.folder / "public.jsonl").unlink()
    assert run.sha256() == before


def test_the_generator_gets_the_public_records(workplace, monkeypatch):
    _name_public(workplace, PUBLIC)
    assert workplace.certify().code == 0
    run = load_run(workplace.run_file)
    seen = []
    source = run.source

    def spy(*args, public, **kwargs):
        seen.extend(public)
        return source.run(*args, public=public, **kwargs)

    monkeypatch.setattr(type(run), "source", property(lambda _: _replaced(source, run=spy)))
    generate(run, certificate=workplace.certificate, out=workplace.out, keyring=workplace.keyring)
    assert [record.text for record in seen] == [line["text"] for line in PUBLIC]


def test_an_unreadable_public_file_is_refused_by_key(workplace):
    _name_public(workplace)
    certified = workplace.certify()
    assert certified.code == 2
    assert "data.public" in certified.err


@pytest.mark.parametrize("lines", [[], [PUBLIC[0], PUBLIC[0]], [{"id": "p0", "text": "no label"}]])
def test_a_malformed_public_file_is_refused_before_anything_is_charged(workplace, lines):
    _name_public(workplace, lines)
    assert workplace.certify().code == 0
    refused = workplace.generate()
    assert refused.code == 2
    assert "data.public" in refused.err
    assert not workplace.ledger.account("letters").reservations


def test_settings_that_need_public_records_need_a_file(workplace, monkeypatch):
    monkeypatch.setattr(PrismConfig, "needs_public", True)
    with pytest.raises(RunFileError, match=r"data\.public: missing: prism") as caught:
        load_run(workplace.run_file)
    assert 'public = "public.jsonl"' in caught.value.hint


def test_a_check_before_the_charge(workplace, monkeypatch):
    """Prompts that do not fit the model cost nothing."""
    from affidavit.generation.models.toy import ToyModel

    monkeypatch.setattr(ToyModel, "context_length", 10)
    refused = workplace.generate()
    assert refused.code == 2
    assert "max_record_tokens" in refused.err
    assert not workplace.ledger.account("letters").reservations


def test_text_and_label_may_have_other_names(workplace):
    workplace.edit("size = 24\n", 'size = 24\nfields = {text = "question", label = "answer"}\n')
    renamed = [{"id": r["id"], "question": r["text"], "answer": r["label"]} for r in workplace.records()]
    workplace.write_records(renamed)
    assert workplace.certify().code == 0
    assert workplace.generate().code == 0
    workplace.write_records([{**renamed[0], "answer": 3}, *renamed[1:]])
    refused = workplace.certify()
    assert refused.code == 2
    assert "line 1, answer: not a string" in refused.err


def _replaced(source, **changes):
    from dataclasses import replace

    return replace(source, **changes)
