"""Small generators with the faults of published ones, and sound ones; they know nothing of affidavit.

The glue stands below each: the function of the records that is watched. Models are a hash of the prompt.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np

from affidavit import foreign

WORDS = 24


def score(text: str, so_far: str) -> np.ndarray:
    """Stands for a model: numbers that follow from the prompt."""
    digest = hashlib.sha256(f"{text}|{so_far}".encode()).digest()
    return np.frombuffer(digest[:WORDS], dtype=np.uint8) / 255.0


# --- batches, as invink has them: empties dropped, floor-divided minibatches, lengths from the data, ε afterwards ----


def batched(
    texts: list[str], *, batch_size: int, minibatch: int, clip: float, sound: bool, seed: int | None
) -> list[str]:
    if seed is not None:
        np.random.seed(seed)
    kept = texts if sound else [text for text in texts if text]
    length = 6 if sound else max(len(text.split()) for text in kept)
    made = []
    for i in range(2 if sound else len(kept) // batch_size):
        batch = kept[i * batch_size : (i + 1) * batch_size]
        so_far = ""
        for _ in range(length):
            public = score("", so_far)
            rows = np.zeros((len(batch), WORDS))
            whole = len(batch) if sound else len(batch) // minibatch * minibatch
            for j, text in enumerate(batch[:whole]):
                shown = text if sound else text.ljust(max(len(each) for each in batch))
                rows[j] = (np.clip(score(shown, so_far) - public, -clip, clip) + public) if text else public
            average = rows.mean(axis=0)
            weights = np.exp(average)
            token = np.random.choice(WORDS, p=weights / weights.sum())
            so_far += f" w{token}"
        made.append(so_far)
    return made


BATCHED = (
    foreign.draw(
        "plan.parts[{i}].of",
        "choice",
        inside="batched",
        range="2 * clip / batch_size",
        batch="plan.parts[{i}]",
        members="batch",
        rows="rows",
        public="public",
        public_rows="int(not sound)",
    ),
)


@foreign.draws(*BATCHED)
def run_batched(records):
    made = batched([r.text for r in records], batch_size=6, minibatch=4, clip=0.3, sound=False, seed=42)
    foreign.claim(epsilon=0.01, delta=1e-5)
    return made


@foreign.draws(*BATCHED)
def run_batched_sound(records):
    return batched([r.text for r in records], batch_size=6, minibatch=4, clip=0.3, sound=True, seed=None)


# --- a fresh sample for every token -------------------------------------------------------------------------------


def voting(texts: list[str], *, sampler: str, sigma: float, tokens: int, reseed: bool = False) -> str:
    so_far = ""
    source = np.random.default_rng(7) if sampler == "seeded" else np.random.default_rng()
    for step in range(tokens):
        if reseed:
            random.seed(0)
            np.random.seed(0)
        match sampler:
            case "sample":
                chosen = random.sample(texts, 10)
            case "coins":
                chosen = [text for text in texts if random.random() < 0.25]
            case "system coins":
                chosen = [text for text in texts if random.SystemRandom().random() < 0.25]
            case "vector":
                chosen = [text for text, coin in zip(texts, source.random(len(texts)) < 0.25, strict=True) if coin]
            case "permutation":
                chosen = [texts[i] for i in np.random.permutation(len(texts))[:10]]
            case "dealt":
                places = list(range(len(texts)))
                random.shuffle(places)
                hands = [places[j::5] for j in range(5)]
                chosen = [texts[random.sample(hand, 1)[0]] for hand in hands]
            case "choice" | "seeded":
                chosen = list(source.choice(texts, size=10, replace=False))
            case _:
                raise ValueError(sampler)
        counts = np.zeros(WORDS)
        for text in chosen:
            counts[int(score(text, so_far).argmax())] += 1.0
        counts += np.random.normal(0.0, sigma, size=WORDS)
        so_far += f" w{int(counts.argmax())} {step}"
    return so_far


def by_sampler(sampler: str, **settings):
    named = foreign.draw(
        "plan.of.of",
        "normal",
        inside="voting",
        sensitivity="1.0",
        sample="plan.of",
        members="chosen",
        population="texts",
        rows="chosen",
    )

    @foreign.draws(named)
    def run(records):
        return voting([r.text for r in records], **{"sampler": sampler, "sigma": 4.0, "tokens": 12, **settings})

    return run


run_reseeded = by_sampler("sample", reseed=True)
run_sampled = by_sampler("sample")


# --- a sample within one label, accounted over all records ----------------------------------------------------------


def by_label(records, *, labels: list[str] | None = None) -> list[str]:
    made = []
    for label in labels or sorted({record.label for record in records}):
        group = [record.text for record in records if record.label == label]
        if len(group) < 10:
            raise ValueError(f"too few of {label}: {group}")
        made.append(voting(group, sampler="sample", sigma=4.0, tokens=10))
    return made


@foreign.draws(
    foreign.draw(
        "plan.of.of",
        "normal",
        inside="voting",
        sensitivity="1.0",
        sample="plan.of",
        members="chosen",
        population="texts",
    )
)
def run_by_label(records):
    return by_label(records)


def run_raw(records):
    return f"the first letter was: {records[0].text}"


def release(inputs):
    """A Gaussian mechanism of σ = 2 whose noise is made anew from the same seed."""
    return float(inputs[0]) + np.random.RandomState(3).normal(0.0, 2.0)
