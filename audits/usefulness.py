"""How useful released text is, beside what it leaks: noise leaks nothing and helps nobody."""

from __future__ import annotations

from collections.abc import Sequence

from affidavit.audits.textmodel import TextModel

__all__ = ["FLUENCY", "fluency"]

FLUENCY = "fluency: log-likelihood of the text after the public prompt, nats a character"


def fluency(texts: Sequence[str], model: TextModel, *, prompt: str) -> float | None:
    """How expected the texts are by the model itself without any private record; None without text.

    Sensible English is near −1, uniformly drawn tokens below −2.5.
    """
    written = [text for text in texts if text.strip()]
    if not written:
        return None
    total = sum(model.log_likelihoods([prompt] * len(written), written))
    return total / sum(map(len, written))
