"""Run files: every key, every generator's settings, against the declared size, the relation and the model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from remedy_cases import RUN, Case, Place

from affidavit.generation.models.toy import ToyModel

FEW_SHOT = {
    "kind": "few-shot", "labels": ["north", "south"], "mechanism": "gaussian", "noise_multiplier": 4.0, "subsets": 4,
    "top_k": 20, "max_tokens": 2, "max_record_tokens": 12, "minibatch_rows": 4,
}  # fmt: skip
KSA = {
    "kind": "ksa", "labels": ["north", "south"], "keywords": 2, "keyword_epsilon": 2.0, "use_public": True,
    "subsets": 6, "sampling": "disjoint", "max_answer_tokens": 3, "max_tokens": 3, "max_record_tokens": 12,
    "minibatch_rows": 4,
}  # fmt: skip
SGA = {
    "kind": "sga", "queries": ["which way does the wind blow"], "ensemble": 5, "embedding": "toy", "max_tokens": 4,
    "max_record_tokens": 12, "minibatch_rows": 8, "dpm": {"dimensions": 2, "levels": 1},
}  # fmt: skip
PREDICTION = {
    "kind": "private-prediction", "labels": ["north", "south"], "max_tokens": 3, "max_record_tokens": 12,
    "private_tokens": 3, "batch_size": 10, "minibatch_rows": 4,
}  # fmt: skip
INK = {"kind": "invisible-ink", "labels": ["north", "south"], "max_tokens": 3, "max_record_tokens": 12,
       "batch_size": 10, "minibatch_rows": 4}  # fmt: skip


def with_settings(table: dict[str, Any] | None = None, **changes: Any) -> Callable[[Place], None]:
    """The run file with another generator, and some values changed; ``data__size`` is ``data.size``."""

    def arrange(place: Place) -> None:
        content = copy.deepcopy(RUN)
        if table is not None:
            content["generator"] = copy.deepcopy(table)
            content["budget"] = {"epsilon": 500.0, "delta": 1e-3}
            content["data"]["public"] = "public.jsonl"
            place.records("public.jsonl", 24)
        place.save("run.toml", content)
        for key, value in changes.items():
            path = key.replace("__", ".")
            place.remove("run.toml", path) if value is None else place.set("run.toml", path, value)

    return arrange


def _run(at: str, arrange: Callable[[Place], None], call: str = "plan run.toml --json", **more: Any) -> Case:
    return Case(at, call, arrange, **more)


def _text(content: str | bytes) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        (place.folder / "run.toml").write_bytes(content.encode() if isinstance(content, str) else content)

    return arrange


def _certified(arrange: Callable[[Place], None], change: Callable[[Place], None]) -> Callable[[Place], None]:
    """A certified run, then a change."""

    def both(place: Place) -> None:
        arrange(place)
        place.keys()
        place.account(epsilon="500")
        change(place)

    return both


def _gone(name: str) -> Callable[[Place], None]:
    def arrange(place: Place) -> None:
        place.keys()
        (place.folder / name).rename(place.folder / name.replace("train", "trains").replace("public", "publics"))

    return arrange


def _generate(at: str, table: dict[str, Any] | None = None, *, context: int = 1 << 20, **changes: Any) -> Case:
    """A run that the model refuses, after its certificate."""
    arrange = with_settings(table, **changes)

    def certified(place: Place) -> None:
        arrange(place)
        place.keys()
        place.account(epsilon="500")
        place.must("certify", "run.toml", "-o", "certificate.json")
        place.monkeypatch.setattr(ToyModel, "context_length", context)

    return Case(at, "generate run.toml --certificate certificate.json -o out", certified, code=2, past=True)


def _plain_windows(place: Place) -> None:
    text = (place.folder / "run.toml").read_text(encoding="utf-8").replace("letters", "Müller")
    (place.folder / "run.toml").write_bytes(text.encode("cp1252"))


def _to_utf8(place: Place) -> None:
    raw = (place.folder / "run.toml").read_bytes()
    (place.folder / "run.toml").write_text(raw.decode("cp1252"), encoding="utf-8")


CASES = [
    _run("front/strict.py:_explained#2", with_settings(relation=None)),
    _run("front/strict.py:_explained#3", with_settings(relation="unbounded")),
    _run("front/strict.py:_explained#3", with_settings(relation="bounded")),
    _run("front/strict.py:_explained#2", with_settings(unit=None)),
    _run("front/strict.py:_explained#4", with_settings(unit="person")),
    _run("front/runfile.py:plan", with_settings(unit={"key": "user_id", "max_records": 3})),
    _run("front/strict.py:_explained#2", with_settings(budget=None), past=True),
    _run("front/strict.py:_explained#2", with_settings(budget__epsilon=None)),
    _run("front/strict.py:_explained#2", with_settings(budget__delta=None)),
    _run("front/strict.py:_explained#4", with_settings(budget__delta=2.0)),
    _run("front/strict.py:_explained#4", with_settings(budget__epsilon="4")),
    _run("front/strict.py:_explained#2", with_settings(data=None)),
    _run("front/strict.py:_explained#2", with_settings(data__size=None)),
    _run("front/strict.py:_explained#4", with_settings(data__size=0)),
    _run("front/strict.py:_explained", with_settings(data__pth="train.jsonl", data__path=None)),
    _run("front/strict.py:_explained#2", with_settings(model=None)),
    _run("front/runfile.py:_whole#3", with_settings(model__id="x"), past=True),
    _run("front/runfile.py:_whole#3", with_settings(model__top_logprobs=5), past=True),
    _run("front/runfile.py:_whole", with_settings(model__name="http://127.0.0.1:9/v1"), past=True),
    _run(
        "front/runfile.py:_whole#2",
        with_settings(model={"name": "http://user:word@127.0.0.1:9/v1", "id": "m"}),
        past=True,
    ),
    _run("generation/registry.py:check_access", with_settings(model={"name": "http://127.0.0.1:9/v1", "id": "m"})),
    _run(
        "generation/registry.py:check_access#2",
        with_settings(FEW_SHOT, model={"name": "http://127.0.0.1:9/v1", "id": "m"}, generator__top_k=0),
    ),
    _run("front/strict.py:_explained#2", with_settings(generator=None), past=True),
    _run("front/runfile.py:parse_run#2", with_settings(generator=3), past=True),
    _run("generation/registry.py:generator", with_settings(generator__kind="Prism")),
    _run("generation/registry.py:generator", with_settings(generator__kind=None)),
    _run("front/strict.py:_explained", with_settings(generator__temprature=0.7, generator__temperature=None)),
    _run("front/strict.py:_explained", with_settings(generator__temprature=0.7)),
    _run("front/strict.py:_explained#4", with_settings(generator__temperature="warm")),
    _run("front/strict.py:_explained#2", with_settings(generator__labels=None)),
    _run("front/strict.py:_explained#4", with_settings(generator__labels=["north", "north"])),
    _run("front/strict.py:_explained#4", with_settings(generator__task="agnews")),
    _run("front/strict.py:_explained#3", with_settings(generator__dtype="float16")),
    _run("front/strict.py:_explained#4", with_settings(randomness={"noise": "none"})),
    _run("front/runfile.py:parse_run", with_settings(folder="/")),
    _run("front/strict.py:_explained", with_settings(extra=1)),
    _run("generation/batched.py:bucket_count", with_settings(generator__batch_size=13)),
    _run(
        "generation/batched.py:bucket_count", with_settings(generator__batch_size=13, generator__samples_per_label=13)
    ),
    _run("generation/prism.py:_spread", with_settings(generator__temperature=1e-9)),
    _run(
        "generation/prompts.py:refused",
        with_settings(generator__prompts={"private": "{text} {text}", "public": "write"}),
    ),
    _run("generation/prompts.py:refused", with_settings(generator__prompts={"private": "{text}", "public": "{text}"})),
    _run("generation/prompts.py:refused", with_settings(generator__prompts={"private": "{text}", "public": " "})),
    _run("generation/prompts.py:refused", with_settings(generator__prompts={"private": "{text} {", "public": "write"})),
    _run("generation/prompts.py:refused", with_settings(generator__prompts={"private": "{text!r}", "public": "write"})),
    _run(
        "generation/prompts.py:refused",
        with_settings(generator__prompts={"private": "{text} {who}", "public": "write"}),
    ),
    _run("front/strict.py:read_toml#3", _text("relation = \n"), by_hand=with_settings()),
    _run("front/strict.py:read_toml#2", _plain_windows, by_hand=_to_utf8),
    Case("front/strict.py:read_toml", "plan other.toml --json", code=2),
    _run("generation/few_shot.py:_noise", with_settings(FEW_SHOT, generator__noise_multiplier=None)),
    _run("generation/few_shot.py:_noise#2", with_settings(FEW_SHOT, generator__noise_epsilon=1.0)),
    _run(
        "generation/few_shot.py:_noise",
        with_settings(FEW_SHOT, generator__mechanism="noisy-max", generator__noise_multiplier=None),
    ),
    _run("generation/subsampled.py:sample_size", with_settings(FEW_SHOT, generator__subsets=20)),
    _run(
        "generation/subsampled.py:sample_size",
        with_settings(FEW_SHOT, generator__subsets=1, generator__shots_per_subset=20),
    ),
    _run("generation/subsampled.py:_check_scheme", with_settings(FEW_SHOT, generator__keeps_label=True)),
    _run(
        "generation/subsampled.py:_check_scheme#2",
        with_settings(FEW_SHOT, generator__sampling="fixed-groups", generator__shots_per_subset=2),
    ),
    _run(
        "generation/prompts.py:refused",
        with_settings(FEW_SHOT, generator__prompts={"private": "{text}", "public": "w", "record": "none"}),
    ),
    _run("front/strict.py:_explained#4", with_settings(FEW_SHOT, generator__task="generc")),
    _run("generation/private_prediction.py:_reachable#2", with_settings(PREDICTION, generator__private_tokens=9)),
    _run("generation/private_prediction.py:_reachable", with_settings(PREDICTION, generator__temperature=1e-9)),
    _run("generation/invisible_ink.py:_reachable", with_settings(INK, generator__temperature=1e-9)),
    _run("front/runfile.py:parse_run#3", with_settings(KSA, data__public=None)),
    _run("generation/ksa/settings.py:_consistent", with_settings(KSA, generator__fewest_keywords=9)),
    _run("generation/ksa/settings.py:_consistent#2", with_settings(KSA, generator__shots_per_subset=2)),
    _run("generation/ksa/costs.py:bucket_count", with_settings(KSA, generator__subsets=20)),
    _run(
        "generation/ksa/costs.py:bucket_count",
        with_settings(KSA, generator__subsets=20, generator__samples_per_label=20),
    ),
    _run(
        "generation/ksa/settings.py:_consistent#3",
        with_settings(KSA, generator__keyword_epsilon=1000.0, generator__subsets=100_000, data__size=10**7),
    ),
    _run("front/strict.py:_explained#4", with_settings(KSA, generator__suggestion="none")),
    _run("generation/sga/settings.py:_sound", with_settings(SGA, generator__sampling="coreset")),
    _run("front/strict.py:_explained#4", with_settings(SGA, generator__sampling="poisson")),
    _run("generation/sga/settings.py:_room", with_settings(SGA, generator__dpm={"dimensions": 999})),
    _run("generation/sga/settings.py:_room#2", with_settings(SGA, generator__augment={"pool": 3})),
    _run("generation/sga/costs.py:plan", with_settings(SGA, generator__ensemble=30)),
    _run(
        "generation/sga/costs.py:_check_cold",
        with_settings(SGA, generator__dpm={"dimensions": 2, "levels": 1, "split_range": 1e9}),
    ),
    _run(
        "generation/questions.py:_placeholders",
        with_settings(SGA, generator__prompts={"instruction": "Answer.", "shown": "{label} {text}"}),
    ),
    _run(
        "generation/questions.py:_placeholders#2",
        with_settings(SGA, generator__prompts={"instruction": "Answer.", "choose": "which"}),
    ),
    _run("front/certification.py:prepare", _gone("train.jsonl"), "certify run.toml -o certificate.json"),
    _run("front/writing.py:refuse_to_replace", lambda place: place.keys(), "certify run.toml -o run.toml"),
    _run(
        "front/runfile.py:public_content",
        lambda place: (with_settings(KSA)(place), _gone("public.jsonl")(place))[-1],
        "certify run.toml -o c.json",
    ),
    _run(
        "front/certification.py:_within_budget",
        lambda place: place.set("run.toml", "budget.epsilon", 0.5) or place.keys(),
        "certify run.toml -o certificate.json",
        code=4,
    ),
    _generate("generation/batched.py:label_rows", context=150, generator__max_record_tokens=96),
    _generate("generation/subsampled.py:label_rows", FEW_SHOT, context=150, generator__max_record_tokens=96),
    _generate("generation/subsampled.py:check#2", FEW_SHOT, generator__top_k=100_000),
    _generate("generation/ksa/topics.py:topics", KSA, context=150, generator__max_record_tokens=96),
    _generate("generation/ensemble.py:check_lengths", SGA, context=150, generator__max_record_tokens=96),
    _generate("generation/ksa/texts.py:_checked#3", KSA, generator__keywords=60, data__size=24),
    _generate("generation/sga/generator.py:check", SGA, generator__ensemble=24, data__size=24),
    _run(
        "generation/models/__init__.py:_folder",
        lambda place: place.set("run.toml", "model.name", "smolm2-135m") or place.keys(),
        "certify run.toml -o certificate.json",
        past=True,
    ),
]
