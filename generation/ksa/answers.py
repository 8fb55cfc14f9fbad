"""KSA for questions: answers to public queries, after private answered questions. Everything else is ``ksa``."""

from __future__ import annotations

from typing import Any

from affidavit.generation.contract import Baseline, Makes
from affidavit.generation.ksa.costs import noise_keys, plan, sample_size, trial_size, work
from affidavit.generation.ksa.generator import ACCESS, check, run
from affidavit.generation.ksa.generator import PRESETS as LABELLED
from affidavit.generation.ksa.settings import KsaAnswersConfig

__all__ = [
    "ACCESS",
    "BASELINES",
    "CONFIG",
    "MAKES",
    "PRESETS",
    "KsaAnswersConfig",
    "check",
    "noise_keys",
    "plan",
    "run",
    "sample_size",
    "trial_size",
    "work",
]

CONFIG = KsaAnswersConfig
MAKES: Makes = "answers"
BASELINES: frozenset[Baseline] = frozenset()

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {**LABELLED["paper"], "task": "medical"},
    "local": {
        **LABELLED["local"],
        "public_example": True,
        "least_public": 15,
        "sampling": "without-replacement",
        "subsets": 128,
        "max_answer_tokens": 24,
    },
}
"""``paper``: as of ``ksa``. ``local``: for SmolLM2, which answers no question before it has seen one answered.

Words of few public answers make a domain of thousands, among which the draw finds noise: so ``least_public``. A fresh
sample for each query, however many there are.
"""
