"""KSA for questions: answers to public queries, after private answered questions. Everything else is ``ksa``."""

from __future__ import annotations

from typing import Any

from affidavit.generation import ksa
from affidavit.generation.ksa import ACCESS, check, plan, run
from affidavit.generation.ksa_settings import KsaAnswersConfig

__all__ = ["ACCESS", "CONFIG", "PRESETS", "KsaAnswersConfig", "check", "plan", "run"]

CONFIG = KsaAnswersConfig

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {**ksa.PRESETS["paper"], "task": "medical"},
    "local": {
        **ksa.PRESETS["local"],
        "public_example": True,
        "keywords": 4,
        "sampling": "without-replacement",
        "subsets": 40,
        "shots_per_subset": 1,
        "keyword_epsilon": 3.0,
        "least_public": 2,
        "max_answer_tokens": 40,
    },
}
"""``paper``: see ``ksa.PRESETS``. ``local``: for SmolLM2, which answers no question before it has seen one answered; a
fresh sample for each query."""
