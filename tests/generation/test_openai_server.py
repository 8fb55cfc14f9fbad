"""A model behind a server: a local one that serves the toy model, with faults where a test asks for them."""

from __future__ import annotations

import math
import threading
import time
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from affidavit.accountant.errors import ModelUnavailable, NotSupported, UsageError
from affidavit.generation.models import load_model, model_digest
from affidavit.generation.models.openai_server import ServerModel
from affidavit.generation.models.rows import BatchShape
from affidavit.generation.models.served_requests import ServerSettings
from affidavit.generation.models.served_together import alike
from affidavit.generation.models.toy import ToyModel
from affidavit.generation.probabilities import on_simplex, support

KEY = "sk-private-key"
TOY = ToyModel()


def _model(url: str, **changes: Any) -> ServerModel:
    waits: list[float] = []
    model = ServerModel(ServerSettings(**{"url": url, "model": "toy", "retries": 2, **changes}), sleep=waits.append)
    model.waits = waits  # type: ignore[attr-defined]
    return model


PROMPT = "Dear team, the order"


def test_shown_tokens_keep_their_probabilities(service: Any) -> None:
    model = _model(service.url)
    logits = model.start([model.encode(PROMPT)], width=100).logits[0]
    shown = {model.decode([int(token)]): float(logits[token]) for token in np.flatnonzero(np.isfinite(logits))}
    expected = {("" if name == "<|im_end|>" else name): value for name, value in service.likely(PROMPT, 20).items()}
    assert shown.keys() == expected.keys()
    assert all(abs(shown[name] - value) < 1e-5 for name, value in expected.items())
    assert service.requests[-1][1]["prompt"] == PROMPT


def test_rows_grow_by_what_was_released(service: Any) -> None:
    model = _model(service.url)
    decoding = model.start([model.encode(PROMPT), model.encode("Hello")], width=50)
    best = int(decoding.logits[0].argmax())
    decoding.append([best, best])
    again = decoding.logits
    text = model.decode([best])
    assert {body["prompt"] for _, body, _ in service.requests[-2:]} == {PROMPT + text, "Hello" + text}
    direct = model.start([model.encode(PROMPT + text)], width=50).logits
    assert np.array_equal(again[0], direct[0])
    asked = len(service.requests)
    assert np.array_equal(decoding.logits, again)
    assert len(service.requests) == asked


def test_names_do_not_depend_on_what_was_seen_first(service: Any) -> None:
    """Two models, one of which saw another row before: the same strings have the same values, none tied."""
    service.edit = lambda shown: dict.fromkeys(shown, -2.0)
    fresh, used = _model(service.url), _model(service.url)
    used.start([used.encode("a private row about a film")], width=50).logits  # noqa: B018 - asks the server

    def named(model: ServerModel) -> dict[str, float]:
        logits = model.start([model.encode(PROMPT)], width=50).logits[0]
        return {model.decode([int(token)]): float(logits[token]) for token in np.flatnonzero(np.isfinite(logits))}

    assert named(fresh) == named(used)
    assert len(set(named(fresh).values())) == len(named(fresh)) == 20


def test_the_best_k_of_a_public_prompt_never_name_a_private_token(service: Any) -> None:
    """A server that shows 3 of 20: the other 17 places of the support decode to nothing."""
    model = _model(service.url)
    model.start([model.encode("a private row about a film")], width=50).logits  # noqa: B018 - asks the server
    service.edit = lambda shown: dict(list(shown.items())[:3])
    logits = model.start([model.encode(PROMPT)], width=50).logits[0]
    eligible = support(logits, top_k=20)
    texts = [model.decode([int(token)]) for token in eligible]
    assert len(texts) == 20
    assert {text for text in texts if text} <= set(service.likely(PROMPT, 3))
    shares = on_simplex(logits[eligible])
    assert shares is not None
    assert sum(share for share, text in zip(shares, texts, strict=True) if not text and share) <= (
        0 if "<|im_end|>" not in service.likely(PROMPT, 3) else shares.max()
    )


def test_all_ways_to_end_are_one_token(service: Any) -> None:
    service.edit = lambda _: {"</s>": math.log(0.25), "<|endoftext|>": math.log(0.25), " the": math.log(0.5)}
    model = _model(service.url)
    logits = model.start([model.encode(PROMPT)], width=50).logits[0]
    (end,) = model.stop_tokens
    assert logits[end] == pytest.approx(math.log(0.5))
    assert model.decode([end]) == ""


def test_text_methods_are_the_servers(service: Any) -> None:
    model = _model(service.url)
    prompts = [PROMPT, "Please write an e-mail"]
    assert model.generate(prompts, max_tokens=5) == TOY.generate(prompts, max_tokens=5)
    assert model.generate(prompts, max_tokens=5, template="chat") == TOY.generate(
        prompts, max_tokens=5, template="chat"
    )
    assert service.requests[-1][1]["temperature"] == 0
    assert model.continuations(prompts, max_tokens=5, stop=" ") == [
        text.partition(" ")[0] for text in TOY.generate(prompts, max_tokens=5)
    ]


def test_given_text_is_scored_by_echo(service: Any) -> None:
    model = _model(service.url)
    prompts, answers = [PROMPT, PROMPT, "The"], [" is here", " with the invoice", ""]
    assert model.log_likelihoods(prompts, answers) == pytest.approx(TOY.log_likelihoods(prompts, answers), abs=1e-6)
    choices = model.choice_log_likelihoods([PROMPT, "The"], [" is", " company market"])
    assert choices == pytest.approx(TOY.choice_log_likelihoods([PROMPT, "The"], [" is", " company market"]), abs=1e-6)
    service.echo = False
    with pytest.raises(ModelUnavailable, match="no log-probabilities"):
        model.log_likelihoods([PROMPT], [" is"])
    with pytest.raises(NotSupported):
        model.token_scores([PROMPT], [" is"])


def test_a_busy_server_is_asked_again_and_no_longer_than_stated(service: Any) -> None:
    model = _model(service.url)
    service.faults = [(503, {}, b""), (429, {"Retry-After": "7"}, b"")]
    model.probe()
    assert model.waits == [0.5, 7.0]  # type: ignore[attr-defined]
    service.faults = [(500, {}, b"")] * 3
    with pytest.raises(ModelUnavailable, match="status 500, 3 times"):
        model.probe()
    assert not service.faults


@pytest.mark.parametrize(
    ("fault", "message", "hint"),
    [
        ((401, {}, b"SECRET"), "status 401", "api_key_env"),
        ((404, {}, b"SECRET"), "status 404", "/v1"),
        ((400, {}, b"SECRET"), "status 400", "top_logprobs"),
        ((200, {}, b"<html>SECRET"), "not JSON", "OpenAI-compatible"),
        ((200, {}, b'{"error": "SECRET"}'), "no log-probabilities", "need text only"),
        ((200, {}, b'{"choices": [{"logprobs": {"top_logprobs": [{"SECRET": "high"}]}}]}'), "likely tokens", "K"),
        ((200, {}, b'{"choices": [{"logprobs": {"top_logprobs": [{"SECRET": 3.5}]}}]}'), "likely tokens", "K"),
    ],
)
def test_a_wrong_answer_is_refused_and_not_shown(
    fault: tuple[int, dict[str, str], bytes], message: str, hint: str, service: Any
) -> None:
    service.faults = [fault]
    with pytest.raises(ModelUnavailable, match=message) as refusal:
        _model(service.url).probe()
    assert hint in refusal.value.hint
    assert "SECRET" not in str(refusal.value)


def test_a_server_that_is_not_there_and_one_that_does_not_answer(service: Any) -> None:
    with pytest.raises(ModelUnavailable, match="ConnectError, 3 times"):
        _model("http://127.0.0.1:9/v1").probe()
    asked_enough = threading.Event()
    service.edit = lambda shown: (asked_enough.wait(60.0), shown)[1]  # type: ignore[func-returns-value]
    with pytest.raises(ModelUnavailable, match="ReadTimeout, 1 times"):
        _model(service.url, timeout_s=0.5, retries=0).probe()
    asked_enough.set()


def test_the_key_is_sent_and_never_shown(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOY_KEY", raising=False)
    with pytest.raises(UsageError, match="TOY_KEY is not set"):
        _model(service.url, api_key_env="TOY_KEY")
    monkeypatch.setenv("TOY_KEY", KEY)
    model = _model(service.url, api_key_env="TOY_KEY")
    model.probe()
    assert service.requests[-1][2] == f"Bearer {KEY}"
    service.faults = [(403, {}, b"")]
    with pytest.raises(ModelUnavailable) as refusal:
        model.probe()
    assert KEY not in f"{refusal.value!r}{refusal.value}{model!r}{model.versions}"


def test_loading_asks_whether_enough_tokens_are_shown(service: Any) -> None:
    settings = ServerSettings(url=service.url, model="toy", top_logprobs=20, retries=0)
    loaded = load_model(service.url, server=settings)
    assert loaded.digest == model_digest(service.url, server=settings)
    assert model_digest(service.url, server=ServerSettings(url=service.url, model="other")) != loaded.digest
    service.top = 5
    with pytest.raises(ModelUnavailable, match="gives 5 tokens") as refusal:
        load_model(service.url, server=settings)
    assert "top_logprobs = 5" in refusal.value.hint


def test_any_text_survives_its_pieces() -> None:
    model = _model("http://127.0.0.1:9/v1")
    for text in (
        "",
        "  two  blanks\n\nand lines\t",
        "naïve — 東京 🙂 e\u0301 \ufdfa",
        "<|im_end|> is text",
        "x" * 5000,
    ):
        assert model.decode(model.encode(text)) == text
    assert model.decode(model.encode("half \ud83d of one")) == "half \ufffd of one"
    assert not set(model.encode("the words")) & set(range(model.vocabulary_size))
    with pytest.raises(UsageError, match="empty or longer"):
        model.start([[]], width=3)


WITHOUT_BLANKS = {"letters": "a" * 5000, "kanji": "東京" * 900, "ligature": "\ufdfa" * 40, "marks": "e\u0301ﬃ½" * 300}


@pytest.mark.parametrize("text", [*WITHOUT_BLANKS.values(), "two words " * 400, "🙂 " * 500], ids=len)
def test_a_cut_in_pieces_bounds_the_bytes_of_every_normal_form(text: str) -> None:
    """So the tokens too, of a tokenizer that makes at most one of a byte: a run without blanks is cut as any other."""
    model = _model("http://127.0.0.1:9/v1")
    tokens = model.encode(text)
    assert len(tokens) <= len(unicodedata.normalize("NFKD", text).encode())
    for count in (1, 7, 96):
        cut = model.decode(tokens[:count])
        assert text.startswith(cut)
        for form in ("NFC", "NFD", "NFKC", "NFKD"):
            assert len(unicodedata.normalize(form, cut).encode()) <= 4 * count  # type: ignore[arg-type]


def test_the_context_is_counted_in_pieces_and_leaves_room_for_what_a_server_adds() -> None:
    assert _model("http://127.0.0.1:9/v1", context_length=4096).context_length == (4096 - 16) // 4
    assert _model("http://127.0.0.1:9/v1", context_length=4096, endpoint="chat").context_length == (4096 - 256) // 4


def test_tokens_too_long_for_their_place_are_not_named(service: Any) -> None:
    service.edit = lambda _: {"=" * 17: -0.1, "=" * 16: -3.0, " the": -4.0}
    model = _model(service.url)
    logits = model.start([model.encode(PROMPT)], width=50).logits[0]
    named = {model.decode([int(token)]) for token in np.flatnonzero(logits > -100.0)}
    assert named == {"=" * 16, " the"}


@pytest.mark.parametrize(
    "fault",
    [
        (400, {}, b"SECRET"),
        (404, {}, b""),
        (503, {}, b""),
        (200, {}, b"<html>"),
        (200, {}, b'{"choices": []}'),
        (200, {}, b'{"choices": [{"logprobs": {"top_logprobs": [{"x": NaN}]}}]}'),
        (200, {}, b'{"choices": [{"logprobs": {"top_logprobs": [{"x": -1' + b"0" * 400 + b"}]}}]}"),
        (200, {}, b"[" * 100_000),
    ],
)
def test_a_private_prompt_that_is_refused_is_a_row_of_nothing(fault: Any, service: Any) -> None:
    """Whatever the server does with it: its neighbour's run goes on. A public prompt ends the run."""
    model = _model(service.url, retries=0)
    rows = [model.encode(PROMPT), model.encode("Hello")]
    model.start(rows[:1], width=50).logits  # noqa: B018 - names what is public
    expected = model.start_apart(rows, width=50, steps=1).logits
    service.faults = [fault]
    found = model.start_apart(rows, width=50, steps=1).logits
    assert np.isnan(found[0]).all()
    assert np.array_equal(found[1], expected[1])
    assert on_simplex(found[0][:5]) is None
    service.faults = [fault]
    assert model.answer_rows(rows, max_tokens=3, private=True)[0] == ""
    if fault[0] != 200:
        service.faults = [fault]
        with pytest.raises(ModelUnavailable):
            model.start(rows[:1], width=50).logits  # noqa: B018 - asks the server
        service.faults = [fault]
        with pytest.raises(ModelUnavailable):
            model.answer_rows(rows[:1], max_tokens=3, private=False)


@pytest.mark.parametrize("private", [True, False])
def test_halves_of_characters_in_an_answer_become_replacement_characters(service: Any, *, private: bool) -> None:
    """JSON can say them, and no UTF-8: an embedding fails at such a private answer, a run's files at a public one."""
    model = _model(service.url, retries=0)
    rows = [model.encode(PROMPT)]
    service.faults = [(200, {}, rb'{"choices": [{"text": "half \ud83d of it"}]}')]
    assert model.answer_rows(rows, max_tokens=3, private=private) == ["half \ufffd of it"]
    service.faults = [(200, {}, rb'{"choices": [{"logprobs": {"top_logprobs": [{"\ud83d": -1.0, "\udc00": -1.0}]}}]}')]
    logits = model.start(rows, width=50).logits[0]
    shown = {model.decode([int(token)]): float(logits[token]) for token in np.flatnonzero(logits > -100.0)}
    assert shown == {"\ufffd": pytest.approx(math.log(2.0) - 1.0)}


def test_private_rows_name_no_token(service: Any) -> None:
    """So how many strings private rows have shown can change nothing, and never fills the table."""
    model = _model(service.url)
    logits = model.start_apart([model.encode("a private row about a film")], width=50, steps=1).logits[0]
    assert not [token for token in np.flatnonzero(logits > -100.0) if token]
    assert len(model._strings) == 1 + model.top_logprobs


def test_one_prompt_at_a_time_unless_the_server_is_declared_independent(service: Any) -> None:
    both = threading.Barrier(2)
    rows = [f"{PROMPT} {number}" for number in range(2)]
    model = _model(service.url)
    model.start_apart([model.encode(row) for row in rows * 3], width=50, steps=1).logits  # noqa: B018
    model.answer_rows([model.encode(row) for row in rows * 3], max_tokens=2, private=True)
    assert service.most == 1
    model.keep_apart([])
    assert model.versions["rows"].endswith("one at a time")
    service.edit = lambda shown: (both.wait(), shown)[1]
    model = _model(service.url, independent=True)
    model.start_apart([model.encode(row) for row in rows], width=50, steps=1).logits  # noqa: B018
    assert service.most == 2
    service.edit = lambda shown: shown
    model.keep_apart([BatchShape(4, 50, 3)])
    assert "declared independent, and 8 public prompts were answered alike" in model.versions["rows"]
    asked = len(service.requests)
    model.keep_apart([BatchShape(4, 30, 3)])
    assert len(service.requests) == asked, "shorter prompts were tried with the longer ones"


class Together:
    """Numbers that move by a bit where another prompt is answered at the same time: a batch."""

    def __init__(self, service: Any) -> None:
        self.service = service

    def __call__(self, shown: dict[str, float]) -> dict[str, float]:
        time.sleep(0.02)  # long enough for those that were asked at once to be there
        return moved(shown) if self.service.now > 1 else shown


class Remembering:
    """Numbers that move by a bit where the prompt begins as an earlier one did: a cache of what was computed."""

    def __init__(self, service: Any) -> None:
        self.service, self.known = service, set[str]()

    def __call__(self, shown: dict[str, float]) -> dict[str, float]:
        body = self.service.requests[-1][1]
        begins = (body.get("prompt") or body["messages"][0]["content"])[:20]
        again = begins in self.known
        self.known.add(begins)
        return moved(shown) if again else shown


def moved(shown: dict[str, float]) -> dict[str, float]:
    first = next(iter(shown))
    return {**shown, first: float(np.nextafter(shown[first], -np.inf))}


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("fault", [Together, Remembering])
def test_a_server_whose_numbers_move_is_not_asked_eight_at_once(fault: Any, endpoint: str, service: Any) -> None:
    service.edit = fault(service)
    model = _model(service.url, independent=True, endpoint=endpoint)
    with pytest.raises(NotSupported, match="answers a prompt otherwise") as refused:
        model.keep_apart([BatchShape(4, 50, 3)])
    assert "`model.independent`" in refused.value.hint
    assert "rows" not in model.versions
    assert {key for _, body, _ in service.requests for key in body} <= {
        "model", "prompt", "messages", "logprobs", "top_logprobs", "max_tokens", "temperature",
    }  # fmt: skip
    model = _model(service.url, endpoint=endpoint)
    model.keep_apart([BatchShape(4, 50, 3)])
    assert model.versions["rows"].endswith("one at a time")


def test_a_server_that_shows_no_numbers_is_tried_by_its_words(service: Any) -> None:
    whole = service.answer

    def answer(path: str, body: dict[str, Any]) -> dict[str, Any]:
        time.sleep(0.02)
        given: dict[str, Any] = whole(path, body)
        if service.now > 1:
            given["choices"][0]["text"] += " and more"
        return given

    model = _model(service.url, independent=True, top_logprobs=0)
    model.keep_apart([BatchShape(4, 50, 3)])
    service.answer = answer
    with pytest.raises(NotSupported, match="answers a prompt otherwise"):
        _model(service.url, independent=True, top_logprobs=0).keep_apart([BatchShape(4, 50, 3)])


def test_the_prompts_that_a_server_is_tried_with() -> None:
    """Of many lengths, none longer than the run's own; half begin alike; and all are there in every order."""
    asked: list[tuple[list[str], bool]] = []

    def ask(prompts: Sequence[str], at_once: bool) -> list[int]:
        asked.append((list(prompts), at_once))
        return [len(prompt) for prompt in prompts]

    assert alike(ask, longest=400)
    assert [at_once for _, at_once in asked] == [False, False, True, True, True]
    first = asked[0][0]
    assert len(set(first)) == 8
    assert max(map(len, first)) == 400
    assert len({prompt[:40] for prompt in first[1::2]}) == 1
    assert set(asked[4][0][1::2]).isdisjoint(first)
    assert alike(ask, longest=4)


def test_a_chat_end_point_continues_the_answer_that_has_begun(service: Any) -> None:
    model = _model(service.url, endpoint="chat")
    model.probe()
    head, tail = model.frame("chat")
    row = model.encode(head + "Write a letter." + tail + "Dear", trusted=True)
    decoding = model.start([row], width=90)
    shown = {model.decode([int(token)]) for token in np.flatnonzero(decoding.logits[0] > -100.0)}
    prompt = "<user>Write a letter.<assistant>Dear"
    assert shown == {"" if name == "<|im_end|>" else name for name in service.likely(prompt, 20)}
    best = int(decoding.logits[0].argmax())
    decoding.append([best])
    decoding.logits  # noqa: B018 - asks the server
    path, body, _ = service.requests[-1]
    assert path == "/v1/chat/completions"
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"]
    assert body["messages"][1]["content"] == "Dear" + model.decode([best])
    assert model.answer_rows([row[: row.index(model.encode(tail, trusted=True)[0])]], max_tokens=4, private=True) == (
        TOY.generate(["Write a letter."], max_tokens=4, template="chat")
    )
    assert [message["role"] for message in service.requests[-1][1]["messages"]] == ["user"]


def test_the_mark_of_an_answer_in_a_record_stays_text(service: Any) -> None:
    model = _model(service.url, endpoint="chat")
    mark = model.frame("chat")[1]
    model.start([model.encode(f"one {mark} two")], width=90).logits  # noqa: B018 - asks the server
    assert service.requests[-1][1]["messages"] == [{"role": "user", "content": f"one {mark} two"}]
