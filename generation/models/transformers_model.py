"""Any causal language model in a local Hugging Face folder, by ``transformers``.

Rows are left-padded to the given width with an explicit attention mask and explicit position ids, and
decoding is cached. With the number of rows and the width fixed, a row's logits should not depend, to the
last bit, on what the other rows hold or on where the row sits: matrix products and attention reduce
within a row, in an order that their shapes decide (padding to the longest row present, instead, moves other
rows). Kernels do not promise it, so it is tried before private rows are computed (``rows``), on the
processor and, where ``AFFIDAVIT_DEVICE`` says so, on a GPU (``cuda``) or on all of them, each with some of the layers
(``cuda-split``; accelerate's hooks carry the states from one to the next).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, get_args

import numpy as np
from numpy.typing import NDArray

from affidavit.accountant.errors import ModelMissing, UsageError
from affidavit.accountant.extras import pip_install, require
from affidavit.generation.models.base import (
    Decoding,
    Frame,
    Shared,
    Template,
    TokenModel,
    common_prefix,
)
from affidavit.generation.models.computing import Computing
from affidavit.generation.models.digests import folder_digest
from affidavit.generation.models.prefills import Prefills, ReadRow
from affidavit.generation.models.row_keeper import RowKeeper
from affidavit.generation.models.row_memory import processor
from affidavit.generation.models.rows import BatchShape, OneByOne, RowEvidence
from affidavit.generation.models.transformers_decoding import CachedDecoding, OnDeviceDecoding, SharedPrefix

if TYPE_CHECKING:
    import torch

    from affidavit.generation.models.replayed import Steps

__all__ = ["Device", "Dtype", "TransformersModel", "device_wanted", "load_faults", "weights_digest"]

Dtype: TypeAlias = Literal["auto", "bfloat16", "float32"]
Device: TypeAlias = Literal["cpu", "cuda", "cuda-split"]

_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")
_MARK = "\x02message\x03"
_SCORED_ROWS = 8
_WIDTHS = 16
"""Private rows are as wide as a multiple of it."""
_CHOICE_ROWS = 32

_Score = TypeVar("_Score")


def weights_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a folder's weight files. Raises ``ModelMissing``."""
    files = [file for pattern in _WEIGHTS for file in folder.glob(pattern)]
    if not files or not (folder / "config.json").is_file():
        raise ModelMissing(
            "the model folder holds no config.json with weight files",
            hint="Give a local Hugging Face folder (config.json, *.safetensors, tokenizer.json), or "
            '`model.name = "smollm2-135m"`.',
        )
    return folder_digest(files, base=folder)


def load_faults() -> tuple[type[Exception], ...]:
    """What loading a folder raises whose files are damaged, incomplete, or of a kind that is not known here."""
    from pickle import UnpicklingError

    from safetensors import SafetensorError

    return (OSError, ValueError, ImportError, RuntimeError, EOFError, UnpicklingError, SafetensorError)


class TransformersModel(TokenModel):
    """A local checkpoint; nothing is ever downloaded, no code from the folder is run."""

    def __init__(self, folder: Path, *, name: str, digest: str, dtype: Dtype = "auto", device: Device = "cpu") -> None:
        require("llm", purpose=name)
        import torch
        import transformers
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.torch = torch
        self.name = name
        self.digest = digest
        self.device = device.removesuffix("-split")
        self.split = self.device != device
        self.dtype = _dtype(dtype, device)
        self.versions = {"torch": torch.__version__, "transformers": transformers.__version__}
        if device != "cpu":
            self.versions["device"] = _accelerator(torch, device)
        where: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        progress = transformers.utils.logging.is_progress_bar_enabled()
        transformers.utils.logging.disable_progress_bar()
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(folder, **where)
            if device != "cpu":
                # Straight there: the processor never holds the weights.
                where["device_map"] = "balanced" if self.split else {"": device}
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, self.dtype), **where)
        except load_faults() as error:
            raise ModelMissing(
                f"{name} could not be loaded: {type(error).__name__}",
                hint="Copy its folder anew if it is not whole; a newer release may read it: "
                f"`{pip_install()} --upgrade transformers`",
            ) from error
        finally:
            if progress:
                transformers.utils.logging.enable_progress_bar()
        self._model: Any = model.eval()
        first = model.get_input_embeddings().weight.device
        if self.split and first.type == "cuda":  # one large layer leaves all of a small model on the last GPU
            self.device = str(first)
        arguments = inspect.signature(type(model).forward).parameters
        self._cache_argument = "cache" if "cache" in arguments else "past_key_values"
        config = model.config.get_text_config()
        self.vocabulary_size = int(config.vocab_size)
        self.context_length = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        self.stop_tokens = _stop_tokens(model, self._tokenizer)
        self._steps: dict[Computing | None, Steps] = {}
        self._replays = False
        self._prefills: Prefills | None = None
        if device == "cuda":
            from affidavit.generation.models.fused import fuse_attention, fuse_norms
            from affidavit.generation.models.replayed import replayable

            fuse_norms(self._model)
            fuse_attention(self._model)
            self._replays = replayable(config)
        if self._replays:
            self.versions["step"] = "replayed"
        self._rows = RowKeeper(
            torch,
            self._started,
            name=name,
            device=self.device,
            place=f"{self.dtype} on {self.versions.get('device', processor())}",
            vocabulary=self.vocabulary_size,
            coupled=_shares_experts(config.to_dict()),
            facts={
                "weights": digest,
                "config": model.config.to_json_string(),
                "attention": getattr(model.config, "_attn_implementation", None),
                "versions": dict(self.versions),
            },
        )

    def evidence(self, shape: BatchShape) -> RowEvidence:
        """That rows stay apart in batches of ``shape``, as ``RowKeeper`` finds. Raises ``NotSupported``."""
        return self._rows.evidence(replace(shape, width=_rounded(shape.width)))

    def start_apart(self, rows: Sequence[Sequence[int]], *, width: int, steps: int) -> Decoding:
        """As ``LanguageModel.start_apart``; the width is rounded up, so that a few shapes serve many prompts."""
        self._check_rows(rows, width)
        shape = BatchShape(len(rows), _rounded(width), steps)
        way = self._rows.way(shape)
        if self._prefills is None or way.alone:
            return self._started(rows, shape.width, way)

        def read(rows: Sequence[Sequence[int]], kept: Sequence[ReadRow]) -> CachedDecoding:
            return self._prefilled(rows, shape.width, way, kept)

        return self._onward(self._prefills.start(rows, width=shape.width, way=way, read=read), way)

    @contextmanager
    def keeping_prefills(self) -> Iterator[Prefills]:
        """Keep the private rows that are read meanwhile: for audits, which start the same rows again and again.

        Not where layers are on several GPUs: a row's states would have to be kept on each."""
        before, kept = self._prefills, Prefills()
        self._prefills = None if self.split else kept
        try:
            yield kept
        finally:
            self._prefills = before

    def _started(self, rows: Sequence[Sequence[int]], width: int, way: Computing) -> Decoding:
        if way.alone:
            return OneByOne([CachedDecoding(self, [row], width, way=way) for row in rows])
        return self._batch(rows, width, way)

    def _batch(self, rows: Sequence[Sequence[int]], width: int, way: Computing | None) -> Decoding:
        return self._onward(self._prefilled(rows, width, way), way)

    def _prefilled(
        self, rows: Sequence[Sequence[int]], width: int, way: Computing | None, kept: Sequence[ReadRow] = ()
    ) -> CachedDecoding:
        kind = CachedDecoding if self.device == "cpu" else OnDeviceDecoding
        return kind(self, rows, width, way=way, kept=kept)

    def _onward(self, decoding: CachedDecoding, way: Computing | None) -> Decoding:
        """On an accelerator the logits stay there, and steps are recorded where every layer is of the plain kind."""
        if self._replays and isinstance(decoding, OnDeviceDecoding):
            return decoding.replayed(self._recorded(way))
        return decoding

    def _recorded(self, way: Computing | None) -> Steps:
        """A graph keeps the kernels that it was recorded with: each way has steps of its own."""
        if way not in self._steps:
            from affidavit.generation.models.replayed import Steps

            def forward(*given: Any, **named: Any) -> torch.Tensor:
                with nullcontext() if way is None else way.in_force(self.torch):
                    return self.forward(*given, **named)

            self._steps[way] = Steps(forward, self.vocabulary_size)
        return self._steps[way]

    def frame(self, template: Template) -> Frame:
        """The chat template around a message; a model without one gets its start token only."""
        if template == "chat" and self._tokenizer.chat_template:
            message = [{"role": "user", "content": _MARK}]
            text = self._tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
            head, _, tail = cast("str", text).partition(_MARK)
            return head, tail
        start = self._tokenizer.bos_token_id
        begins = start is not None and self._tokenizer("").input_ids[:1] == [start]
        return (self._tokenizer.bos_token if begins else ""), ""

    def encode(self, text: str, *, trusted: bool = False) -> list[int]:
        """Tokens of ``text``; a control token spelt out in untrusted text stays plain text."""
        if not text:
            return []
        encoded = self._tokenizer(text, add_special_tokens=False, split_special_tokens=not trusted, verbose=False)
        return list(encoded.input_ids)

    def decode(self, tokens: Sequence[int]) -> str:
        return cast("str", self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def start(self, rows: Sequence[Sequence[int]], *, width: int) -> Decoding:
        self._check_rows(rows, width)
        return self._batch(rows, width, None)

    def _check_rows(self, rows: Sequence[Sequence[int]], width: int) -> None:
        if any(not 0 < len(row) <= width for row in rows):
            raise UsageError("a row is empty or longer than the width of its batch", hint="Cut or widen the rows.")

    def share(self, tokens: Sequence[int]) -> Shared:
        return SharedPrefix(self, tokens)

    def choice_log_likelihoods(self, prompts: Sequence[str], choices: Sequence[str]) -> NDArray[np.float64]:
        """As ``TokenModel``, over one cache: the prompts' common beginning is read once, each prompt's rest
        once, and of a choice only what follows its first token."""
        rows = [self.prompt_tokens(prompt, "plain") for prompt in prompts]
        answers = [self.encode(choice) for choice in choices]
        if not all(rows) or not all(answers):
            raise UsageError("a prompt or a choice is empty", hint="Give at least one token of each.")
        self.check_lengths(rows, extra=max(map(len, answers), default=0))
        begun = common_prefix(rows)
        shared = SharedPrefix(self, rows[0][:begun]) if begun else None
        longer = [index for index, answer in enumerate(answers) if len(answer) > 1]
        chunk = max(1, _CHOICE_ROWS // max(2, len(longer)))
        result = np.empty((len(rows), len(answers)))
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        for first in range(0, len(order), chunk):
            chosen = order[first : first + chunk]
            rest = [rows[index][begun:] for index in chosen]
            width = max(map(len, rest))
            decoding = shared.start(rest, width=width) if shared else CachedDecoding(self, rest, width)
            scores = decoding.scores()[:, [answer[0] for answer in answers]]
            if longer:
                scores[:, longer] += decoding.follow([answers[index] for index in longer])
            result[chosen] = scores
        return result

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:
        """As ``TokenModel``, in batches of one forward pass each."""

        def total(logs: torch.Tensor, answer: list[int]) -> float:
            return float(logs[range(len(answer)), answer].double().sum())

        return self._scored(prompts, continuations, total)

    def token_scores(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[NDArray[np.float64]]:
        """As ``TokenModel``, in batches of one forward pass each."""
        nothing = self.torch.zeros((), device=self.device)

        def moments(logs: torch.Tensor, answer: list[int]) -> NDArray[np.float64]:
            weights = logs.exp()
            possible = logs.where(weights > 0.0, nothing)
            mean = (weights * possible).sum(dim=-1, keepdim=True)
            spread = (weights * (possible - mean) ** 2).sum(dim=-1).sqrt()
            columns = (logs[range(len(answer)), answer], mean[:, 0], spread)
            return np.stack([column.double().cpu().numpy() for column in columns], axis=-1)

        return self._scored(prompts, continuations, moments)

    def _scored(
        self, prompts: Sequence[str], continuations: Sequence[str], measure: Callable[[torch.Tensor, list[int]], _Score]
    ) -> list[_Score]:
        """``measure`` of each continuation: the log-probabilities (tokens, vocabulary) before its tokens, and these."""
        if len(prompts) != len(continuations):
            raise UsageError("prompts and continuations differ in number", hint="Give one continuation a prompt.")
        pairs = [(self.prompt_tokens(p, "plain"), self.encode(c)) for p, c in zip(prompts, continuations, strict=True)]
        if any(not prompt and answer for prompt, answer in pairs):
            raise UsageError("a prompt is empty", hint="Give at least one token before the continuation.")
        self.check_lengths([prompt + answer for prompt, answer in pairs])
        result: dict[int, _Score] = {}
        for index in (i for i, pair in enumerate(pairs) if not pair[1]):
            result[index] = measure(self.torch.zeros((0, self.vocabulary_size), device=self.device), [])
        order = sorted((i for i, pair in enumerate(pairs) if pair[1]), key=lambda i: sum(map(len, pairs[i])))
        for first in range(0, len(order), _SCORED_ROWS):
            chosen = order[first : first + _SCORED_ROWS]
            for index, logs in zip(chosen, self._next_token_logs([pairs[i] for i in chosen]), strict=True):
                result[index] = measure(logs, pairs[index][1])
        return [result[index] for index in range(len(pairs))]

    def _next_token_logs(self, pairs: list[tuple[list[int], list[int]]]) -> Iterator[torch.Tensor]:
        keep = max(len(answer) for _, answer in pairs) + 1
        rows = [prompt + answer for prompt, answer in pairs]
        ids, mask, positions = self.padded(rows, max(len(row) for row in rows))
        with self.torch.inference_mode():
            logits = self.forward(ids, mask, positions, cache=None, keep=keep).float()
            logs = self.torch.log_softmax(logits, dim=-1)
        for row, (_, answer) in enumerate(pairs):
            yield logs[row, -1 - len(answer) : -1]

    def padded(self, rows: Sequence[Sequence[int]], width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Left-padded ids, mask and position ids (a padding column's position is 0; nothing attends to it)."""
        ids = np.zeros((len(rows), width), dtype=np.int64)
        mask = np.zeros((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            ids[index, width - len(row) :] = row
            mask[index, width - len(row) :] = 1
        positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
        return self.placed(ids), self.placed(mask), self.placed(positions)

    def placed(self, values: NDArray[Any]) -> torch.Tensor:
        """A tensor on the model's device."""
        return self.torch.from_numpy(values).to(self.device)

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor, *, cache: object, keep: int
    ) -> torch.Tensor:
        arguments: dict[str, Any] = {self._cache_argument: cache, "use_cache": cache is not None}
        output = self._model(
            input_ids=ids, attention_mask=mask, position_ids=positions, logits_to_keep=keep, **arguments
        )
        return cast("torch.Tensor", output.logits)


def device_wanted() -> Device:
    """Where ``AFFIDAVIT_DEVICE`` says that models run. Raises ``UsageError``."""
    named = os.environ.get("AFFIDAVIT_DEVICE", "cpu")
    if named not in get_args(Device):
        raise UsageError(
            "AFFIDAVIT_DEVICE names no known device",
            hint="For example `export AFFIDAVIT_DEVICE=cpu`, or `unset AFFIDAVIT_DEVICE`.",
        )
    return cast("Device", named)


def _accelerator(torch: Any, device: Device) -> str:
    if not torch.cuda.is_available():
        raise UsageError(f"AFFIDAVIT_DEVICE is {device}, but torch finds no GPU", hint="`unset AFFIDAVIT_DEVICE`")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.enable_cudnn_sdp(False)  # its bfloat16 kernel does not repeat itself beyond 128 places
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it, deterministic products are an error
    name = str(torch.cuda.get_device_name())
    return name if device == "cuda" else f"{torch.cuda.device_count()} x {name}, some layers on each"


def _dtype(dtype: Dtype, device: Device) -> Literal["bfloat16", "float32"]:
    """``auto``: bfloat16 where the device multiplies it in hardware, else float32."""
    if dtype != "auto":
        return dtype
    if device != "cpu":
        return "bfloat16"
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return "float32"
    return "bfloat16" if "amx_bf16" in flags or "avx512_bf16" in flags else "float32"


def _rounded(width: int) -> int:
    return -(-width // _WIDTHS) * _WIDTHS


def _shares_experts(config: Mapping[str, Any]) -> bool:
    """Whether it is a mixture of experts, which reads the rows of a batch by expert, and so never apart."""
    return any("expert" in name and isinstance(value, int) and value > 1 for name, value in config.items())


def _stop_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    """The end-of-sequence tokens of the tokenizer and of the checkpoint's generation settings."""
    stops: set[int] = set()
    for value in (tokenizer.eos_token_id, getattr(model.generation_config, "eos_token_id", None)):
        stops.update(value if isinstance(value, (list, tuple)) else [] if value is None else [value])
    return frozenset(stops)
