"""Baselines must fail where PRISM protects: otherwise an audit of PRISM proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from affidavit.accountant.randomness import SeededNoise
from affidavit.generation import baselines, prism
from affidavit.generation.dataset import Record
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.prism import PrismConfig
from affidavit.generation.prompts import PromptTemplate

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
