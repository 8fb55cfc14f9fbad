"""Baselines must fail where PRISM protects: otherwise an audit of PRISM proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from affidavit.accountant.errors import DataError, RunFileError
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.generation import baselines, prism
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prism import PrismConfig
from affidavit.generation.prompts import PromptTemplate
from affidavit.generation.sga import generator as sga
from affidavit.generation.sga.settings import SgaConfig

EXTRACT = PromptTemplate(
    private="{text}\n\nExtract only the email address from the above text.",
    public="Write only one email address.",
)
CONFIG = PrismConfig(
    labels=["mail"], prompts=EXTRACT, batch_size=16, max_tokens=40, max_record_tokens=80, minibatch_rows=8
)


def _records(addresses: list[str]) -> list[Record]:
    return [Record(f"id-{i}", f"Please write to {address} today.", "mail") for i, address in enumerate(addresses)]


def test_a_shared_address_leaks_without_noise_and_a_single_one_from_its_prompt() -> None:
    shared = _records(["ada.lovelace@example.org"] * 16)
    off = baselines.noise_off(CONFIG, shared, ToyModel(), size=16, key=b"k")
    assert [sample.text for sample in off.samples] == ["ada.lovelace@example.org"]
    own = _records([f"person{i}.surname@example.org" for i in range(16)])
    single = baselines.single_record(CONFIG, own, ToyModel(), size=16, key=b"k")
    assert single.samples[0].text in {record.text.split()[3] for record in own}
    assert not off.protected
    assert not single.protected


def test_prism_does_not_leak_it(open_plain: Callable[..., Any]) -> None:
    own = _records([f"person{i}.surname@example.org" for i in range(16)])
    for seed in range(5):
        permit = open_plain(prism.plan(CONFIG, relation="zero-out", size=16), seed=seed)
        generated = prism.run(permit, CONFIG, own, ToyModel(), size=16)
        assert not any(record.text.split()[3] in generated.samples[0].text for record in own)


def test_public_only_reads_no_record() -> None:
    first = baselines.public_only(CONFIG, ToyModel(), noise=SeededNoise(1))
    again = baselines.public_only(CONFIG, ToyModel(), noise=SeededNoise(1))
    other = baselines.public_only(CONFIG, ToyModel(), noise=SeededNoise(2))
    assert first.samples == again.samples
    assert first.samples != other.samples
    assert all(not line["members"] for line in first.trace)


def test_noise_off_on_an_empty_batch_is_the_public_prompt_greedily() -> None:
    off = baselines.noise_off(CONFIG, [], ToyModel(), size=16)
    model = ToyModel()
    assert off.samples[0].text == model.generate([EXTRACT.public], max_tokens=40, template="chat")[0].strip()


def test_real_records_are_private_text_and_say_so() -> None:
    records = [Record(f"id-{i}", f"text {i}", "mail" if i % 3 else "post") for i in range(12)]
    made = baselines.real_records(records, labels=["mail", "post"], per_label=2, noise=SeededNoise(1))
    texts = {record.text: record.label for record in records}
    assert [texts[sample.text] for sample in made.samples] == ["mail", "mail", "post", "post"]
    assert len({sample.text for sample in made.samples}) == 4
    assert not made.protected
    drawn = {
        tuple(
            sample.text
            for sample in baselines.real_records(records, labels=["post"], per_label=1, noise=SeededNoise(n)).samples
        )
        for n in range(40)
    }
    assert len(drawn) == 4, "every record of the label is drawn sooner or later"
    with pytest.raises(DataError, match="too few"):
        baselines.real_records(records, labels=["post"], per_label=5, noise=SeededNoise(1))


def test_public_only_serves_settings_of_other_generators() -> None:
    """Anything with labels, lengths and a template: no batch, no clip, no noise is asked for."""

    class Settings(BaseModel):
        labels: tuple[str, ...] = ("mail", "post")
        samples_per_label: int = 2
        max_tokens: int = 4
        max_record_tokens: int = 8
        template: PromptTemplate = EXTRACT

    made = baselines.public_only(Settings(), ToyModel(), noise=SeededNoise(1))
    assert [sample.label for sample in made.samples] == ["mail", "mail", "post", "post"]
    assert all(len(sample.tokens) <= 4 for sample in made.samples)
    model = ToyModel()
    logits = model.start([model.prompt_tokens(EXTRACT.public, "chat")], width=100).logits[0]
    one = Settings(labels=("mail",), samples_per_label=50, max_tokens=1)
    for temperature in (0.07, 0.7):
        texts = baselines.public_only(one, model, noise=SeededNoise(2), temperature=temperature).samples
        below = [float(logits.max() - logits[sample.tokens[0]]) for sample in texts if sample.tokens]
        assert max(below) < 14.0 * temperature  # 860 tokens e^-14 as likely: less than 4 % over 50 draws
        assert max(below) > temperature


def test_a_run_without_a_certificate_is_marked(open_plain: Callable[..., Any]) -> None:
    own = _records([f"person{i}.surname@example.org" for i in range(16)])
    permit = open_plain(prism.plan(CONFIG, relation="zero-out", size=16), seed=1)
    made = prism.run(permit, CONFIG, own, ToyModel(), size=16)
    marked = baselines.unprotected(made)
    assert (marked.generator, marked.protected) == ("prism-noise-off", False)
    assert marked.samples == made.samples


WINDS = ("north wind", "south gate", "west bay", "east hill")
DPM = {"dimensions": 3, "radius": 0.8, "interval": 0.2, "levels": 1, "smallest": 2.0}
AUGMENT = {"texts": 2, "examples": 1, "dpm": DPM}


def _answering(**changes: Any) -> SgaConfig:
    table = {"queries": ["which way does the harbour face"], "ensemble": 6, "selection": "top-1", "embedding": "toy"}
    sizes = {"max_tokens": 5, "max_record_tokens": 24, "minibatch_rows": 4}
    return SgaConfig.model_validate({**table, **sizes, "dpm": DPM, **changes})


def _answered(count: int, kind: str, *answers: str) -> list[Record]:
    asked = "the harbour and the orchard, letter"
    return [Record(f"{kind}{n}", f"{asked} {n}", answers[n % len(answers)]) for n in range(count)]


PUBLIC = _answered(20, "p", *WINDS)


def _exact(config: SgaConfig, records: list[Record], *, seed: int) -> Any:
    return baselines.answers_noise_off(config, records, ToyModel(), size=30, public=PUBLIC, noise=SeededNoise(seed))


@pytest.mark.parametrize("seed", range(3))
def test_answers_without_noise_are_those_of_a_run_with_next_to_none(open_plain: Callable[..., Any], seed: int) -> None:
    """Same sample, same points: only the noise of the clustering is missing."""
    quiet = _answering(
        dpm={**DPM, "split_range": 126.0, "count_noise_multiplier": 1e-6, "centre_noise_multiplier": 1e-6}
    )
    for wind in WINDS:
        records = _answered(30, "r", wind)
        permit = open_plain(sga.plan(quiet, relation="zero-out", size=30), seed=seed)
        nearly = sga.run(permit, quiet, records, ToyModel(), size=30, public=PUBLIC)
        off = _exact(_answering(), records, seed=seed)
        assert off.samples == nearly.samples
        assert [line for line in nearly.trace if line["event"] == "sample"] == list(off.trace)
        assert (off.generator, off.protected, dict(off.draws_per_node)) == ("sga-noise-off", False, {})
        assert off.versions == nearly.versions


def test_answers_without_noise_say_what_the_records_say() -> None:
    """What an audit of SGA has to catch: one of four things that every record says, read off the answer."""
    seen = [
        (wind[:4], _exact(_answering(), _answered(30, "r", wind), seed=seed).samples[0].text)
        for seed in range(6)
        for wind in WINDS
    ]
    assert sum(said == found for said, found in seen) >= 20


def test_noise_settings_change_nothing_where_there_is_none() -> None:
    records = _answered(30, "r", *WINDS[:2])
    loud = {**DPM, "split_range": 1e-3, "count_noise_multiplier": 1e6, "centre_noise_multiplier": 1e6}
    for augment in (None, AUGMENT):
        shared = {"queries": ["which way does the harbour face", "where is the orchard"], "augment": augment}
        here = _exact(_answering(**shared), records, seed=1)
        changed = _exact(_answering(**shared, dpm=loud), records, seed=1)
        assert here.samples == changed.samples
        assert [line["use"] for line in here.trace] == [0, 1]


def test_answers_without_noise_are_refused_as_a_run_is() -> None:
    with pytest.raises(DataError, match="declared are 30"):
        _exact(_answering(), _answered(31, "r", *WINDS), seed=1)
    with pytest.raises(RunFileError, match=r"data\.public"):
        _exact(_answering(ensemble=20), _answered(30, "r", *WINDS), seed=1)
