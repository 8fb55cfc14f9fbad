r"""Private prediction: tokens from the mean of clipped private logits, or free of charge from the public prompt.

Amin, Bie, Kong, Kurakin, Ponomareva, Syed, Terzis and Vassilvitskii 2024, "Private prediction for large-scale
synthetic text generation", algorithm 1 with its sparse-vector extension. Per text, from its own disjoint batch:

    d = ‖ (1/s) Σ_{p in batch} softmax(LLM(p ‖ X)) − softmax(LLM(public ‖ X)) ‖₁
    while d + Lap(2σ) < θ + Lap(σ):  x ~ softmax(LLM(public ‖ X)/τ_public)                       (free)
    else:                            x ~ softmax(z̄/τ),  z̄ = (1/s) Σ_p clip_c(LLM(p ‖ X))        (a private token)

with fresh threshold noise after every private token, until x is an end token, ``private_tokens`` are spent, or
``max_tokens`` are written. Without ``use_public_tokens`` every token is private.

*Sensitivity, per relation.* X is public by composition, so the public prompt's logits are; the denominator is the
public s whatever the batch holds. One record owns one row.

- *Tokens.* add-remove, zero-out: z̄ changes by ± clip_c(z)/s, in [−c, c]^V/s, so its spread is at most 2c/s: range
  2c/(s·τ). Substitution within a batch: two such changes, 4c/(s·τ). There is no halving: that is PRISM's, whose
  mean is blended with the public row.
- *Distances.* One row enters the mean as a probability vector: d moves by at most ‖p‖₁/s = 1/s (add-remove,
  zero-out), ‖p − p′‖₁/s <= 2/s (substitution). It must be the mean of *probabilities*: the softmax of mean logits
  moves by an amount that no such bound covers. Probabilities are rounded down to whole multiples of 2^-40 whose sum
  is at most 1 (``probabilities``), so this holds exactly in the integers that the noise is added to.
- Between batches: a row comes or goes, ``moves``.

*Plan*: private_tokens times (a sparse-vector run, then a token). The sparse vector costs 1/(sσ) + 2/(2sσ) = 2/(sσ) a
run, pure, however many free tokens it allows (``mechanisms.above_threshold``), and is charged when it begins, so that
a last run that finds nothing is paid for. (Charging at each private token, as published code does, leaves it out.)

``top_k`` keeps the k best tokens of the *public* logits, for tokens and distances alike; which they are is public.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.accountant.plan import Compose, Plan, Repeat
from affidavit.accountant.validate import Relation
from affidavit.generation.batched import (
    BatchedConfig,
    Writer,
    check,
    parallel_plan,
    sample_size,
    trial_size,
    work,
    write_batches,
)
from affidavit.generation.configs import Clip, Count, Positive
from affidavit.generation.contract import Access, Baseline, Makes
from affidavit.generation.remedies import at_least

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from affidavit.generation.dataset import Record
    from affidavit.generation.models.base import LanguageModel, Logits
    from affidavit.generation.outputs import Generated, GeneratorPermit
    from affidavit.mechanisms.above_threshold import Scan, SparseVector
    from affidavit.mechanisms.base import Noise
    from affidavit.mechanisms.exponential import SoftmaxSampling

__all__ = [
    "ACCESS",
    "BASELINES",
    "CONFIG",
    "MAKES",
    "PRESETS",
    "PrivatePredictionConfig",
    "check",
    "distance",
    "noise_keys",
    "plan",
    "run",
    "sample_size",
    "scan_mechanism",
    "token_mechanism",
    "trial_size",
    "work",
]


PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "batch_size": 255,
        "clip": 10.0,
        "temperature": 2.0,
        "public_temperature": 1.5,
        "distance_threshold": 0.5,
        "distance_noise": 0.2,
        "private_tokens": 100,
        "max_tokens": 256,
        "max_record_tokens": 256,
        "top_k": 1024,
    },
    "local": {
        "batch_size": 64,
        "clip": 10.0,
        "temperature": 0.8,
        "public_temperature": 0.7,
        "distance_threshold": 0.6,
        "distance_noise": 0.1,
        "private_tokens": 16,
        "max_tokens": 40,
        "max_record_tokens": 96,
        "top_k": 64,
    },
}
"""``paper``: of the settings tried there on AG News, those that a public reproduction runs. ``local``: for SmolLM2."""


class PrivatePredictionConfig(BatchedConfig):
    """The run file's ``[generator]`` table for ``kind = "private-prediction"``; all of it is public.

    ``distance_threshold`` is θ, ``distance_noise`` σ: in units of ℓ1 distance, between 0 and 2.
    """

    kind: Literal["private-prediction"] = "private-prediction"
    clip: Clip = 10.0
    temperature: Positive = 0.8
    private_tokens: Count = 16
    top_k: Annotated[int, Field(ge=0)] = 64
    use_public_tokens: bool = True
    public_temperature: Positive = 0.7
    distance_threshold: Annotated[float, Field(gt=0.0, lt=2.0)] = 0.5
    distance_noise: Annotated[float, Field(ge=1e-6, le=1e6)] = 0.1

    @model_validator(mode="after")
    def _reachable(self) -> PrivatePredictionConfig:
        from affidavit.mechanisms.exponential import MAX_SPREAD

        for name, temperature in (("temperature", self.temperature), ("public_temperature", self.public_temperature)):
            if 2.0 * self.clip / temperature > MAX_SPREAD:
                raise RunFileError(
                    f"generator.{name}",
                    f"clip/{name} is {self.clip / temperature:.4g}",
                    allowed=f"at most {MAX_SPREAD / 2:g}",
                    hint=at_least(f"generator.{name}", 2.0 * self.clip / MAX_SPREAD),
                )
        if self.private_tokens > self.max_tokens:
            raise RunFileError(
                "generator.private_tokens",
                f"{self.private_tokens} private tokens of at most {self.max_tokens}",
                allowed=f"1 to {self.max_tokens}",
                hint=f"At most `generator.private_tokens = {self.max_tokens}`.",
            )
        return self

    @property
    def private_draws(self) -> int:
        """How many tokens of a text may be private."""
        return self.private_tokens if self.use_public_tokens else self.max_tokens


CONFIG = PrivatePredictionConfig
ACCESS: Access = "logits"
MAKES: Makes = "texts"
BASELINES: frozenset[Baseline] = frozenset({"public-only"})


def token_mechanism(config: PrivatePredictionConfig, *, relation: Relation) -> SoftmaxSampling:
    """The draw of one private token, in the integer units of ``aggregate``: scores are s·2^20·z̄."""
    from affidavit.generation.aggregate import GRID, grid_bound
    from affidavit.mechanisms.exponential import SoftmaxSampling

    rows = 2 if relation == "substitution" else 1
    width = 2 * rows * grid_bound(config.clip)
    return SoftmaxSampling(width=width, temperature=config.batch_size * GRID * Fraction(config.temperature))


def scan_mechanism(config: PrivatePredictionConfig, *, relation: Relation) -> SparseVector:
    """One sparse-vector run, in the integer units of ``probabilities``: queries are s·2^40·d."""
    from affidavit.generation.probabilities import GRID
    from affidavit.mechanisms.above_threshold import SparseVector

    sigma = config.batch_size * GRID * Fraction(config.distance_noise)
    rows = 2 if relation == "substitution" else 1
    return SparseVector(threshold_scale=sigma, query_scale=2 * sigma, sensitivity=rows * GRID)


def noise_keys(config: PrivatePredictionConfig) -> tuple[str, ...]:
    """The temperature of private tokens, and the sparse vector's noise where it runs."""
    return ("temperature", "distance_noise") if config.use_public_tokens else ("temperature",)


def plan(config: PrivatePredictionConfig, *, relation: Relation, size: int) -> Plan:
    """The plan of a run on ``size`` records. Raises ``RunFileError`` where the batches do not fit."""

    def part(relation: Relation) -> Plan:
        token = token_mechanism(config, relation=relation).leaf()
        if not config.use_public_tokens:
            return Repeat(config.private_draws, token)
        return Repeat(config.private_draws, Compose((scan_mechanism(config, relation=relation).leaf(), token)))

    return parallel_plan(config, part, relation=relation, size=size)


def run(
    permit: GeneratorPermit,
    config: PrivatePredictionConfig,
    records: Sequence[Record],
    model: LanguageModel,
    *,
    size: int,
    progress: Callable[[Any], None] | None = None,
    public: Sequence[Record] = (),
) -> Generated:
    """Generate every text through ``permit``: sparse-vector runs at ``plan.parts[i].of.parts[0]``, private tokens
    at ``plan.parts[i].of.parts[1]`` (or at ``plan.parts[i].of`` without public tokens).

    ``size`` is the declared size; public records are not used. Raises ``PermitViolation`` where the permit's
    plan is not this configuration's, ``RunFileError`` where settings do not fit the model.
    """
    check(config, model, public=public)
    return write_batches(permit, config, records, model, _Writer, kind=config.kind, size=size, progress=progress)


class _Writer(Writer[PrivatePredictionConfig]):
    _scan: Scan | None = None
    _spent = 0

    @cached_property
    def _token(self) -> SoftmaxSampling:
        return token_mechanism(self.config, relation=self.recorder.relation)

    @cached_property
    def _scan_spec(self) -> SparseVector:
        return scan_mechanism(self.config, relation=self.recorder.relation)

    @cached_property
    def _free(self) -> Noise:
        """For public tokens, which follow one another in every run."""
        return self.recorder.choice()

    def token(self) -> int | None:
        from affidavit.generation.probabilities import support

        if self._spent >= self.config.private_draws:
            return None
        tokens = support(self.public.logits[0], top_k=self.config.top_k)
        if self.config.use_public_tokens and not self._differs(tokens):
            return self._public_token(tokens)
        self._spent += 1
        return self._private_token(tokens)

    def _differs(self, tokens: NDArray[np.int64]) -> bool:
        """Whether the sparse vector says that private and public predictions are far apart."""
        from affidavit.generation.aggregate import picked
        from affidavit.generation.probabilities import GRID

        threshold = int(self.config.batch_size * GRID * Fraction(self.config.distance_threshold))
        if self._scan is None:
            self._scan = self.recorder.draw(f"{self.part}.of.parts[0]", self._scan_spec.against(threshold), ())
        rows = (picked(part, tokens, rows=realised) for part, realised in self.private.decodings)
        apart = distance(rows, picked(self.public, tokens, rows=1)[0], batch_size=self.config.batch_size)
        above = self._scan.above(apart)
        self.recorder.note(queries=self._scan.queries, above=above)
        if above:
            self._scan = None
        return above

    def _public_token(self, tokens: NDArray[np.int64]) -> int:
        """Free: a function of the public prompt, of released text and of noise that nothing else sees."""
        from affidavit.generation.aggregate import GRID, clip_to_grid
        from affidavit.mechanisms.exponential import sample

        scores = clip_to_grid(self.public.logits, clip=self.config.clip)[0][0][tokens].astype("int64")
        temperature = GRID * Fraction(self.config.public_temperature)
        return int(tokens[sample(scores, temperature=temperature, noise=self._free)])

    def _private_token(self, tokens: NDArray[np.int64]) -> int:
        from affidavit.generation.aggregate import Clipped, brought

        config = self.config
        scores = brought(
            self.private.total(
                Clipped(config.clip),
                vocabulary=self._model.vocabulary_size,
                batch_size=config.batch_size,
                clip=config.clip,
            )
        )
        path = f"{self.part}.of.parts[1]" if config.use_public_tokens else f"{self.part}.of"
        token = int(tokens[self.recorder.draw(path, self._token, scores[tokens])])
        self.recorder.note(token=token, rows=self.private.summed, unsound_rows=self.private.unsound)
        return token


def distance(private: Iterable[Logits], public: NDArray[np.float32], *, batch_size: int) -> int:
    """s·2^40·‖(1/s) Σ p_i − u‖₁ over the tokens whose logits these are, an exact whole number; unsound rows contribute
    nothing.

    One row more or fewer moves it by at most 2^40, one replaced row by at most 2·2^40.
    """
    from affidavit.generation.probabilities import on_simplex, total

    shares = [share for logits in private for row in logits if (share := on_simplex(row)) is not None]
    own = on_simplex(public)
    summed = total(shares, width=public.size)
    return int(abs(summed - (0 if own is None else own * batch_size)).sum())
