"""A certified run whose private rows two processes compute: texts side by side, one receipt, every draw paid once."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from affidavit.generation import prism


@pytest.mark.parametrize("randomness", ["", "[randomness]\nnoise = {seed = 3}\n"], ids=["secure", "seeded"])
def test_a_run_with_workers_is_verified_as_any_other(
    empty_workplace: Any, monkeypatch: pytest.MonkeyPatch, randomness: str
) -> None:
    place = empty_workplace
    place.edit("[generator]", f"{randomness}[generator]")
    place.keyring.init()
    place.open_account()
    certified = place.certify()
    assert certified.code == 0, certified.err
    threads: set[int | None] = set()
    scores = prism.token_scores

    def seen(*given: Any) -> Any:
        threads.add(threading.get_ident())
        return scores(*given)

    monkeypatch.setattr(prism, "token_scores", seen)
    monkeypatch.setenv("AFFIDAVIT_WORKERS", "2")
    done = place.generate()
    assert done.code == 0, done.err
    assert (threading.main_thread().ident in threads) == bool(randomness)
    receipt = place.out / "receipt.json"
    verified = place.command("verify", place.certificate, "--receipt", receipt)
    assert verified.code == bool(randomness), verified.err  # seeded: no guarantee
    checked = place.command("check-trace", place.out / "trace.jsonl", "--certificate", place.certificate)
    assert checked.code == bool(randomness), checked.err
    lines = [json.loads(line) for line in (place.out / "trace.jsonl").read_text("utf-8").splitlines()]
    paths = [line["path"] for line in lines if line["event"] == "draw"]
    assert paths == sorted(paths)
    assert set(paths) == {"plan.parts[0].of", "plan.parts[1].of"}
