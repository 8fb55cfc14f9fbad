"""Remedies that several generators share."""

from __future__ import annotations

from affidavit.accountant.remedies import setting

__all__ = ["at_least", "fewer_records", "shorter_records"]

_LEAST = 8  # tokens of a record: the least that every generator's settings take


def at_least(key: str, value: float) -> str:
    """The smallest value that fits, written short and never below it."""
    short = float(f"{value:.4g}")
    return f"At least {setting(key, short if short >= value else float(f'{value * 1.001:.4g}'))}."


def shorter_records(max_record_tokens: int, *, over: int, records: int = 1) -> str:
    """What brings prompts of so many records back into the model's context, which they exceed by ``over`` tokens."""
    largest = max_record_tokens - -(-over // records)
    if largest >= _LEAST:
        return f"At most {setting('generator.max_record_tokens', largest)}."
    if records > 1:
        return f"Show fewer records a prompt, and shorter ones: {setting('generator.max_record_tokens', _LEAST)}."
    return "Write a shorter text in [generator.prompts], or choose a model with a longer context."


def fewer_records(key: str, *, size: int, labels: int, samples_per_label: int) -> str:
    """How many records may stand behind each text, if so many texts are made of ``size`` records."""
    largest = size // (labels * samples_per_label)
    if largest:
        return f"At most {setting(key, largest)}."
    if size >= labels:
        return f"At most {setting('generator.samples_per_label', size // labels)}, with {setting(key, 1)}."
    return f"Declare fewer labels: {size} records are too few for one text of each."
