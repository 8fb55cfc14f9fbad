"""A whole run on a served model: certified, charged, generated, and what is refused before that."""

from __future__ import annotations

import json
from typing import Any

import pytest

GENERATORS = {
    "few-shot": {
        "mechanism": "gaussian", "noise_multiplier": 2.0, "subsets": 4, "top_k": 20, "sampling": "poisson",
        "max_tokens": 3, "max_record_tokens": 12, "minibatch_rows": 4,
    },
    "adadpsyn": {
        "radius_noise_multiplier": 20.0, "mean_noise_multiplier": 5.0, "count_noise_multiplier": 20.0, "subsets": 4,
        "top_k": 20, "sampling": "poisson", "max_tokens": 2, "max_record_tokens": 12, "minibatch_rows": 4,
    },
    "ksa": {
        "mechanism": "joint-exponential", "keywords": 2, "keyword_epsilon": 2.0, "use_public": True, "subsets": 6,
        "sampling": "disjoint", "max_answer_tokens": 3, "max_tokens": 3, "max_record_tokens": 12, "minibatch_rows": 4,
    },
}  # fmt: skip


def _serve(workplace: Any, service: Any, kind: str, **model: Any) -> None:
    """The workplace's run file, for a served model and another generator."""
    table = {"name": service.url, "id": "toy", "retries": 0, **model}
    settings = {"kind": kind, "labels": ["north", "south"], **GENERATORS.get(kind, {})}
    head = (
        workplace.run_file.read_text(encoding="utf-8")
        .partition("[model]")[0]
        .replace("epsilon = 4.0", "epsilon = 50.0")
    )
    if kind == "ksa":
        head = head.replace("size = 24\n", 'size = 24\npublic = "public.jsonl"\n')
        public = [{**record, "text": f"{record['text']} over the harbour"} for record in workplace.records()]
        (workplace.folder / "public.jsonl").write_text("".join(json.dumps(line) + "\n" for line in public))
    lines = [head, "[model]", *_toml(table), "[generator]", *_toml(settings)]
    workplace.run_file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _toml(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_served_model_writes_under_a_certificate(kind: str, empty_workplace: Any, service: Any) -> None:
    _serve(empty_workplace, service, kind)
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="50")
    certified = empty_workplace.certify()
    assert certified.code == 0, certified.err
    assert not service.requests, "certifying needs no server"
    assert f"the model is what {service.url} serves as toy: its weights cannot be digested" in certified.err
    done = empty_workplace.generate()
    assert done.code == 0, done.err
    texts = [json.loads(line) for line in (empty_workplace.out / "synthetic.jsonl").read_text().splitlines()]
    assert [text["label"] for text in texts] == ["north", "south"]
    receipt = json.loads((empty_workplace.out / "receipt.json").read_text())
    assert receipt["protected"] is True
    assert receipt["versions"]["server"] == service.url
    assert any("wind number" in body.get("prompt", "") for _, body, _ in service.requests)


def test_a_method_that_needs_all_logits_is_refused_at_once(empty_workplace: Any, service: Any) -> None:
    empty_workplace.keyring.init()
    for kind in ("prism", "private-prediction", "invisible-ink"):
        _serve(empty_workplace, service, kind)
        refused = empty_workplace.certify()
        assert refused.code == 2
        assert f"{kind} needs the logits of every token, and a server shows 20" in refused.err
        assert "few-shot, adadpsyn, ksa" in refused.err
    assert not service.requests


def test_more_tokens_than_the_server_shows_are_refused(empty_workplace: Any, service: Any) -> None:
    empty_workplace.keyring.init()
    _serve(empty_workplace, service, "few-shot", top_logprobs=10)
    refused = empty_workplace.certify()
    assert refused.code == 2
    assert "At most `generator.top_k = 10`" in refused.err


def test_nothing_is_charged_where_the_server_fails_or_shows_less(
    empty_workplace: Any, service: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    _serve(empty_workplace, service, "few-shot", api_key_env="TOY_KEY")
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="50")
    assert empty_workplace.certify().code == 0
    monkeypatch.delenv("TOY_KEY", raising=False)
    for prepare, message in (
        (lambda: None, "TOY_KEY is not set"),
        (lambda: monkeypatch.setenv("TOY_KEY", "k"), "gives 5 tokens"),
        (lambda: service.faults.append((401, {}, b"")), "status 401"),
    ):
        service.top = 5
        prepare()
        refused = empty_workplace.generate()
        assert refused.code == 2
        assert message in refused.err
    shown = empty_workplace.command("ledger", "show", "letters", "--json")
    assert shown.json[0]["reservations"] == []


def test_the_certificate_binds_address_and_model_not_how_they_are_reached(empty_workplace: Any, service: Any) -> None:
    from affidavit.runfile import load_run

    _serve(empty_workplace, service, "few-shot")
    first = load_run(empty_workplace.run_file)
    for change, same in (
        ({"retries": 7}, True),
        ({"timeout_s": 5.0}, True),
        ({"api_key_env": "OTHER"}, True),
        ({"id": "other"}, False),
        ({"endpoint": "chat"}, False),
        ({"independent": True}, False),
        ({"independent": False, "endpoint": "completions"}, True),
        ({"top_logprobs": 30}, False),
        ({"name": "http://example.org/v1"}, False),
    ):
        _serve(empty_workplace, service, "few-shot", **change)
        assert (load_run(empty_workplace.run_file).sha256() == first.sha256()) is same, change


NONE, ONE, ALL = range(0), range(3, 4), range(24)
LONG = "".join(f"{number:05d}" for number in range(5400))
"""27,000 characters without a blank: a run of which a server that reads 4,096 tokens refuses to read all."""


def _ends(workplace: Any, changed: str, places: range) -> tuple[Any, ...]:
    """How a run ends whose records in some places are ``changed``: what an outsider sees, but for what was drawn."""
    first = workplace.records()
    data = [{**each, "text": f"{changed} {n}"} if n in places else each for n, each in enumerate(first)]
    workplace.write_records(data)
    certified = workplace.certify()
    assert certified.code == 0, certified.err
    out = workplace.folder / f"out-{len(places)}"
    done = workplace.command("generate", workplace.run_file, "--certificate", workplace.certificate, "-o", out)
    workplace.write_records(first)
    spent = workplace.command("ledger", "show", "letters", "--json").json[0]["reservations"][-1]
    receipt = json.loads((out / "receipt.json").read_text())
    labels = [json.loads(text)["label"] for text in (out / "synthetic.jsonl").read_text().splitlines()]
    files, state = sorted(path.name for path in out.iterdir()), spent["state"].split()[0]
    return done.code, files, state, receipt["versions"], labels


@pytest.mark.parametrize("endpoint", ["completions", "chat"])
@pytest.mark.parametrize("kind", GENERATORS)
def test_a_record_too_long_for_the_server_is_cut_before_it_is_asked(
    kind: str, endpoint: str, empty_workplace: Any, service: Any
) -> None:
    """A record of 27,000 characters without blanks counted as one token: the server refused, and the run ended."""
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="500", delta="0.1")
    service.refuses = lambda prompt: len(prompt.encode()) > 4096
    _serve(empty_workplace, service, kind, endpoint=endpoint)
    ordinary = _ends(empty_workplace, LONG, NONE)
    assert ordinary[:3] == (0, ["receipt.json", "synthetic.jsonl", "trace.jsonl"], "committed")
    assert ordinary == _ends(empty_workplace, LONG, ONE) == _ends(empty_workplace, LONG, ALL)
    prompts = [body.get("prompt") or body["messages"][0]["content"] for _, body, _ in service.requests]
    assert any(LONG[:48] in prompt for prompt in prompts)
    assert not any(LONG[:49] in prompt for prompt in prompts), "cut to 12 pieces of four bytes"


@pytest.mark.parametrize("kind", GENERATORS)
def test_a_run_ends_as_its_neighbours_does_where_the_server_refuses_a_record(
    kind: str, empty_workplace: Any, service: Any
) -> None:
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="500", delta="0.1")
    service.refuses = lambda prompt: "refused" in prompt
    _serve(empty_workplace, service, kind)
    ordinary = _ends(empty_workplace, "the refused wind", NONE)
    assert ordinary[:3] == (0, ["receipt.json", "synthetic.jsonl", "trace.jsonl"], "committed")
    assert ordinary == _ends(empty_workplace, "the refused wind", ONE)
    assert ordinary == _ends(empty_workplace, "the refused wind", ALL)
    assert any("refused" in body.get("prompt", "") for _, body, _ in service.requests)


def test_a_server_that_refuses_the_public_prompt_ends_every_run(empty_workplace: Any, service: Any) -> None:
    _serve(empty_workplace, service, "few-shot")
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="50")
    assert empty_workplace.certify().code == 0
    service.refuses = lambda prompt: "category" in prompt and "wind" not in prompt
    refused = empty_workplace.generate()
    assert refused.code == 2
    assert "status 400" in refused.err


def test_the_certificate_says_whether_the_server_is_declared_independent(empty_workplace: Any, service: Any) -> None:
    empty_workplace.keyring.init()
    for independent, said in ((False, "(one is asked at a time)"), (True, "(declared; several are asked at once)")):
        _serve(empty_workplace, service, "few-shot", independent=independent)
        certified = empty_workplace.certify()
        assert f"the server's answer to a prompt depends on no other prompt {said}" in certified.err


def test_a_server_of_text_alone_is_enough_for_methods_that_need_no_more(empty_workplace: Any, service: Any) -> None:
    """Such as `transformers serve`, which shows no log-probability."""
    empty_workplace.keyring.init()
    empty_workplace.open_account(epsilon="50")
    service.edit = lambda _: {}
    _serve(empty_workplace, service, "ksa", endpoint="chat")
    assert empty_workplace.certify().code == 0
    done = empty_workplace.generate()
    assert done.code == 0, done.err
    assert {path for path, _, _ in service.requests} == {"/v1/chat/completions"}
    assert not any("logprobs" in body for _, body, _ in service.requests)
