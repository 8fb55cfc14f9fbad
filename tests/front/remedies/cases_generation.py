"""Generators and models: records, public prompts, servers, folders; by commands where one reaches them."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from cases_audits import DONE, MEMBERSHIP
from cases_audits import _audit as audited
from cases_grids import _icl as measured
from cases_models import GENERATE
from cases_runs import FEW_SHOT, INK, KSA, SGA, with_settings
from cases_runs import _generate as refused_by_model
from remedy_cases import Api, Case, Place

from affidavit.accountant.errors import ModelMissing
from affidavit.audits.textmodel import sampled_log_likelihoods
from affidavit.generation import baselines, invisible_ink, outputs, prism, probabilities, subsampled, subsets
from affidavit.generation.dataset import Record
from affidavit.generation.few_shot import FewShotConfig
from affidavit.generation.icl.evaluation import evaluate
from affidavit.generation.icl.examples import Example
from affidavit.generation.icl.tasks import task
from affidavit.generation.models import model_digest
from affidavit.generation.models.computing import Computing
from affidavit.generation.models.embedding import MiniLM
from affidavit.generation.models.openai_server import ServerModel
from affidavit.generation.models.remembering import RememberingModel
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.served_answers import text_at
from affidavit.generation.models.served_requests import ServerSettings
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.sga.generator import check_records

SERVER = "http://127.0.0.1:9/v1"
PRISM = prism.PrismConfig(labels=("north",), batch_size=1, clip=4.0, temperature=1.0, max_tokens=1)
SUBSETS = FewShotConfig(
    labels=("north",), subsets=2, noise_multiplier=1.0, sampling="without-replacement", match_label=False
)


def _line(number: int, **changes: Any) -> str:
    return json.dumps({"id": f"r{number:02d}", "text": f"the wind number {number}", "label": "north"} | changes)


def _records(place: Place, *lines: str) -> None:
    place.write("train.jsonl", "".join(f"{line}\n" for line in lines))


def _whole(place: Place) -> None:
    """The records again, as they were certified."""
    place.records("train.jsonl", 24)


def _of_records(at: str, change: Callable[[Place], object], by_hand: Callable[[Place], object] | None = _whole) -> Case:
    """An audit of records that are not as declared."""
    return audited(at, {}, of=MEMBERSHIP, also=change, by_hand=by_hand, file="run.toml")


def _moved(place: Place) -> None:
    place.write("trains.jsonl", (place.folder / "train.jsonl").read_text(encoding="utf-8"))
    (place.folder / "train.jsonl").unlink()


def _back(place: Place) -> None:
    (place.folder / "trains.jsonl").rename(place.folder / "train.jsonl")


def _served(
    table: dict[str, Any], change: Callable[[Place, Any], object] = lambda *_: None, **changes: Any
) -> Callable[[Place], None]:
    """A certified run on a local server."""

    def arrange(place: Place) -> None:
        service = place.service()
        with_settings(table, **changes)(place)
        place.set("run.toml", "model", {"name": service.url, "id": "toy", "retries": 0})
        place.keys()
        place.account(epsilon="500")
        place.must("certify", "run.toml", "-o", "certificate.json")
        change(place, service)

    return arrange


def _attacked(attack: str, *, scores: bool = True) -> Callable[[Place], None]:
    """An audit of a served model."""

    def change(place: Place, service: Any) -> None:
        if not scores:
            service.echoed = lambda _: {}
        place.save("audit.toml", {**MEMBERSHIP, "attack": attack})

    return _served({**FEW_SHOT, "noise_multiplier": 20.0, "max_tokens": 1}, change)


def _answers(*contents: bytes) -> Callable[[Place, Any], object]:
    return lambda _, service: service.faults.extend((200, {}, content) for content in contents)


def _nothing(_: Place) -> None:
    """A fault is given once."""


def _one_label(place: Place) -> None:
    with_settings(KSA)(place)
    place.keys()
    place.account(epsilon="500")
    lines = [_line(number, id=f"p{number}") for number in range(6)]
    place.write("public.jsonl", "".join(f"{line}\n" for line in lines))
    place.must("certify", "run.toml", "-o", "certificate.json")


def _folder(weights: str = "", device: str = "") -> Callable[[Place], None]:
    """A run on a model folder that is not whole; and where it shall run."""

    def arrange(place: Place) -> None:
        place.keys()
        place.set("run.toml", "model.name", "a-folder")
        place.write("a-folder/config.json", json.dumps({"model_type": "llama"}))
        if weights:
            place.write(f"a-folder/{weights}", "not weights")
        if device:
            place.monkeypatch.setenv("AFFIDAVIT_DEVICE", device)

    return arrange


def _on_device(place: Place) -> None:
    _folder("model.safetensors", "gpu")(place)
    measured("-").arrange(place)


def _start(model: Any) -> Callable[..., object]:
    return lambda *, width: model.start([[1, 2, 3]], width=width)


def _server() -> ServerModel:
    return ServerModel(ServerSettings(url=SERVER, model="toy"))


def _numbers(*, tokens: int) -> None:
    model = _server()
    for number in range(tokens):
        model._number(f"token {number}")


def _likelihoods(model: Any) -> Callable[..., object]:
    return lambda *, continuations: model.log_likelihoods(["the wind"], continuations)


def _digest(*, id: str = "") -> str:  # noqa: A002 - the run file's key
    return model_digest(SERVER, server=ServerSettings(url=SERVER, model=id) if id else None)


class _Short(ToyModel):
    """A model that reads little."""

    context_length = 12


def _evaluated(*, examples: Sequence[Example]) -> object:
    return evaluate(ToyModel(), task("ag-news"), demonstrations=(), examples=examples, shots=0, seeds=(0,))


def _embedding(*, max_tokens: int) -> None:
    with contextlib.suppress(ModelMissing):
        MiniLM(max_tokens=max_tokens)


def _computed(value: float, dtype: str) -> Any:
    """Logits as a model computes them: what is too large for 16 bits is infinite there."""
    with np.errstate(all="ignore"):
        narrow = np.array([value, 0.0, 1.0], dtype=np.float16 if dtype == "auto" else dtype)
        return np.asarray(narrow - narrow.max() if dtype == "auto" else narrow, dtype=np.float32)


def _prism(*, dtype: str = "auto") -> object:
    rows: Any = SimpleNamespace(
        ahead=lambda _: None, total=lambda *_, vocabulary, **__: np.zeros(vocabulary, dtype=np.int64)
    )
    public: Any = SimpleNamespace(logits=_computed(1e5, dtype)[None, :])
    return prism.token_scores(PRISM, rows, public)


def _real(*, per_label: int) -> object:
    records = [Record(f"r{n}", f"the wind number {n}", "north") for n in range(3)]
    return baselines.real_records(records, labels=("north",), per_label=per_label, noise=np.random.default_rng(0))


def _written(*, folder: str) -> object:
    made = outputs.Generated("toy", (), (), {}, protected=False, versions={})
    with tempfile.TemporaryDirectory() as place:
        return outputs.write(Path(place) / folder, made, outputs.Provenance(), ended=datetime(2026, 1, 1, tzinfo=UTC))


BAD_SCORES = b'{"choices": [{"logprobs": {}}]}'

CASES = [
    _of_records("generation/dataset.py:_refuse", lambda place: _records(place, _line(0), _line(0))),
    _of_records("generation/dataset.py:_refuse", lambda place: _records(place, _line(0), "")),
    _of_records("generation/dataset.py:_refuse", lambda place: _records(place, _line(0, text=""))),
    _of_records("generation/dataset.py:_refuse", lambda place: _records(place, _line(0, label=3))),
    _of_records("generation/dataset.py:_refuse", lambda place: _records(place, "[]")),
    _of_records("generation/dataset.py:parse_records", lambda place: place.records("train.jsonl", 23)),
    audited("generation/dataset.py:load_records", {}, of=MEMBERSHIP, also=_moved, by_hand=_back, then=DONE),
    measured(
        "generation/icl/structured.py:load_schema#4",
        "--task wikimovies --schema schema.json",
        lambda place: place.write("schema.json", '{"type": "array"}'),
        file="schema.json",
        past=True,
    ),
    refused_by_model("generation/batched.py:check", INK, generator__top_k=100_000),
    Case(
        "generation/ksa/texts.py:_checked",
        GENERATE,
        _served(KSA, generator__use_public=False, data__public=None),
        past=True,
    ),
    Case("generation/ksa/texts.py:_checked#2", GENERATE, _one_label, past=True),
    Case("generation/sga/generator.py:check#2", GENERATE, _served(SGA, generator__selection="likelihood"), past=True),
    Case(
        "generation/subsampled.py:check_padding",
        "plan run.toml --json",
        with_settings(
            FEW_SHOT, relation="add-remove", generator__sampling="without-replacement", generator__match_label=False
        ),
    ),
    Case(
        "generation/models/served_answers.py:_no_tokens",
        GENERATE,
        _served({**FEW_SHOT, "noise_multiplier": 20.0, "max_tokens": 1}, _answers(BAD_SCORES)),
        by_hand=_nothing,
    ),
    Case(
        "generation/models/openai_server.py:token_scores",
        "audit audit.toml --certificate certificate.json -o findings",
        _attacked("min-k"),
        file="audit.toml",
        then=DONE,
    ),
    Case(
        "generation/models/served_answers.py:echoed_score",
        "audit audit.toml --certificate certificate.json -o findings",
        _attacked("loss", scores=False),
        by_hand=lambda place: vars(place.service()).pop("echoed"),
        then=DONE,
    ),
    Case(
        "generation/models/transformers_model.py:weights_digest",
        "certify run.toml -o certificate.json",
        _folder(),
        past=True,
    ),
    Case(
        "generation/models/transformers_model.py:device_wanted",
        "icl test.jsonl --task ag-news --model a-folder",
        _on_device,
        past=True,
    ),
]


class _Mixing(ToyModel):
    """A toy whose rows see how many tokens all of them have."""

    rows_apart_by_nature = False

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Any:
        seen = sum(map(len, rows))
        return ToyModel.start(self, [(*row[:-1], seen % self.vocabulary_size) for row in rows], width=width)


def _computed_by(*, meanwhile: int) -> None:
    """Rows that one thread computes, while somebody asks for another number."""
    set_to = [8]
    torch = SimpleNamespace(get_num_threads=lambda: set_to[-1], set_num_threads=set_to.append)
    with Computing(1).in_force(torch):
        torch.set_num_threads(meanwhile)


API = [
    Api("generation/baselines.py:real_records", _real, {"per_label": 4}, {"per_label": 3}),
    Api(
        "generation/icl/evaluation.py:evaluate", _evaluated, {"examples": ()}, {"examples": (Example("a", ("World",)),)}
    ),
    Api(
        "generation/invisible_ink.py:public_grid",
        lambda *, dtype="auto": invisible_ink.public_grid(_computed(1e5, dtype)),
    ),
    Api(
        "generation/probabilities.py:support",
        lambda *, dtype="auto": probabilities.support(_computed(1e5, dtype), top_k=0),
    ),
    Api("generation/aggregate.py:row", _prism),
    Api(
        "generation/probabilities.py:support#2",
        lambda *, logits: probabilities.support(np.array(logits, dtype=np.float32), top_k=0),
        {"logits": [-np.inf]},
        {"logits": [0.0]},
    ),
    Api("generation/models/__init__.py:_server", _digest),
    Api(
        "generation/models/base.py:_paired",
        _likelihoods(ToyModel()),
        {"continuations": []},
        {"continuations": [" blows"]},
    ),
    Api(
        "generation/models/base.py:check_lengths",
        lambda *, max_tokens: _Short().generate(["wind"], max_tokens=max_tokens),
        {"max_tokens": 12},
        {"max_tokens": 2},
    ),
    Api(
        "audits/textmodel.py:sampled_log_likelihoods",
        lambda *, temperature=1.0, top_k=None: sampled_log_likelihoods(
            _server(), [], [], temperature=temperature, top_k=top_k
        ),
        {"temperature": 0.5, "top_k": 40},
    ),
    Api("generation/models/embedding.py:__init__", _embedding, {"max_tokens": 100_000}),
    Api("generation/models/embedding.py:__init__", _embedding, {"max_tokens": 2}),
    Api("generation/models/openai_server.py:_number", _numbers, {"tokens": (1 << 18) + 1}, {"tokens": 9}),
    Api(
        "generation/models/openai_server.py:log_likelihoods",
        _likelihoods(_server()),
        {"continuations": []},
        {"continuations": [""]},
    ),
    Api("generation/models/openai_server.py:_started", _start(_server()), {"width": 2}, {"width": 3}),
    Api("generation/models/remembering.py:_recalled", _start(RememberingModel(ToyModel())), {"width": 2}, {"width": 3}),
    Api(
        "generation/models/base.py:moved_rows",
        lambda *, model: model.keep_apart([BatchShape(3, 4, 2)]),
        {"model": _Mixing()},
        {"model": ToyModel()},
    ),
    Api("generation/models/computing.py:in_force", _computed_by, {"meanwhile": 3}, {"meanwhile": 1}),
    Api("generation/models/toy.py:start", _start(ToyModel()), {"width": 2}, {"width": 3}),
    Api(
        "generation/models/served_answers.py:text_at",
        lambda *, answer: text_at(answer, "choices", 0, "text"),
        {"answer": {"choices": []}},
        {"answer": {"choices": [{"text": "wind"}]}},
    ),
    Api("generation/outputs.py:write", _written, {"folder": "/dev/null/out"}, {"folder": "out"}),
    Api(
        "generation/sga/generator.py:check_records",
        lambda *, size: check_records([Record("a", "wind", "north")] * 2, size=size),
        {"size": 1},
        {"size": 2},
    ),
    Api(
        "generation/subsets.py:_no_more",
        lambda *, size: subsets.draw_subsets(SUBSETS, size=size, held=5, noise=np.random.default_rng(0)),
        {"size": 4},
        {"size": 5},
    ),
    Api(
        "generation/subsampled.py:check",
        lambda *, model: subsampled.check(SUBSETS, model, public=()),
        {"model": SimpleNamespace(name="text")},
        {"model": ToyModel()},
    ),
]
