"""What the parts of an audit refuse when Python calls them: attacks, models, findings, traces, chapters."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from cases_audits import AUDIT
from remedy_cases import Api, Case, Place

from affidavit.accountant.plan import Pure, Repeat, parse_plan
from affidavit.accountant.release.randomness import SeededNoise
from affidavit.audits import findings, neighbour, overlap, sensitivity
from affidavit.audits.attacks import cases, extraction_prompts, one_step, protocol, rmia, shadow
from affidavit.audits.attacks.echo import make_echo_canaries
from affidavit.audits.auditfile import parse_audit
from affidavit.audits.certified import Certified
from affidavit.audits.experiments import membership
from affidavit.audits.given import Given, Material
from affidavit.audits.pii.identifier import Pseudonyms
from affidavit.audits.report.inputs import Chapter, ReportInput
from affidavit.audits.run import run_audit
from affidavit.audits.textmodel import Record
from affidavit.audits.trace import events
from affidavit.audits.under_test import RunUnderTest
from affidavit.generation.models.toy import ToyModel

GAUSSIAN = parse_plan({"kind": "gaussian", "noise_multiplier": 1.0})
RECORDS = tuple(
    Record(f"r{n}", f"{word} {word} wind number {n * n}", "north" if n % 2 else "south")
    for n, word in enumerate(("amber", "birch", "cedar", "delta", "ember", "fjord"))
)
OTHERS = tuple(
    Record(f"o{n}", f"{word} ships on the quiet sea {n * 7}", "north")
    for n, word in enumerate(("grain", "heron", "inlet", "juniper"))
)


class _Answers:
    """A model that shows text only."""

    name = "answers"
    digest = "00" * 32

    def generate(self, prompts: Sequence[str], **_: object) -> list[str]:
        return list(prompts)


class _Sums(_Answers):
    """One that shows sums of log-probabilities as well."""

    name = "sums"

    def log_likelihoods(self, prompts: Sequence[str], continuations: Sequence[str]) -> list[float]:  # noqa: ARG002
        return [0.0] * len(continuations)


def _certified() -> Certified:
    return Certified.of_plan(GAUSSIAN, relation="add-remove", delta=1e-5)


def _given(**changes: Any) -> Given:
    content = {"attack": "gap", "members": 2, "non_members": 2, "runs": 1}
    given = Given(audit=parse_audit(content), certified=_certified(), alpha=0.05)
    return replace(given, **changes)


def _permit(*, uses: int) -> None:
    permit = one_step.AuditPermit(Repeat(2, GAUSSIAN), "add-remove", SeededNoise(0))
    for _ in range(uses):
        permit.use("plan.of")


def _run(generate: Any) -> RunUnderTest:
    """One that can write, or can do nothing."""
    return type("Writes", (RunUnderTest,), {} if generate is None else {"generate": staticmethod(generate)})()


def _protected_extraction(*, generate: Any) -> object:
    settings = {"attack": "canary", "members": 2, "non_members": 2, "runs": 1, "target": "protected", "max_tokens": 2}
    settings["background"] = 2
    return run_audit(parse_audit(settings), _certified(), Material(records=RECORDS, model=ToyModel()), _run(generate))


def _echo(*, background: int) -> object:
    settings = {"attack": "echo", "members": 2, "non_members": 2, "target": "null", "background": background}
    return run_audit(parse_audit(settings), _certified(), Material(records=RECORDS))


def _scored(*, members: int, non_members: int) -> object:
    def shown(drawn: Sequence[Record], _: int) -> membership.Demonstrated:
        return membership.Demonstrated(("nothing",), tuple(drawn))

    attack: Any = SimpleNamespace(name="gap", needs=frozenset(), scores=lambda _, found: [0.0] * len(found))
    return membership.score_runs(
        RECORDS, shown, attack, ToyModel(), members=members, non_members=non_members, runs=1, seed=0
    )


def _read(*, path: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        findings.write(findings.Findings(certificate_sha256=None, items=()), Path(folder) / "findings.json")
        return findings.read(Path(folder) / path)


def _overlap(*, held_out: Sequence[Record]) -> object:
    return overlap.measure_overlap(["nothing"], RECORDS, held_out, alpha=0.05, pseudonyms=Pseudonyms(), rouge=False)


def _rmia(*, shadow_prompts: int = 1, population: int = 1, gamma: float = 1.0, offline: float = 0.3) -> object:
    prompts = tuple((record,) for record in RECORDS[:shadow_prompts])
    return rmia.RMIA(shadow.Shadows(prompts, RECORDS[:population]), gamma=gamma, offline=offline)


def _chapter(*, bound: str) -> object:
    certificate: Any = SimpleNamespace(sha256="aa" * 32)
    found: Any = SimpleNamespace(certificate_sha256=bound)
    return Chapter(certificate=certificate, findings=found)


def _compared() -> Any:
    seen = neighbour.Observed(texts=("nothing",))
    return neighbour.neighbour_test(lambda *_: seen, (), (), secrets=["a secret that is long enough"])


def _rehearsed(*, pairs: Sequence[sensitivity.Neighbours]) -> object:
    return sensitivity.sensitivity_check(pairs, plan=Pure(1.0), relation="zero-out")


_PAIR = sensitivity.Neighbours("nothing changes", "dropped", lambda _watch: "text", lambda _watch: "text")


def _other_schema(place: Place) -> None:
    place.generated()
    place.save("audit.toml", AUDIT)
    place.write("out/findings.json", json.dumps({"schema": "other", "certificate_sha256": None, "items": []}))


def _trace(*, path: str) -> object:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "trace.jsonl").write_text("", encoding="utf-8")
        return events.read(Path(folder) / path)


CASES = [
    Case("audits/findings.py:parse", "report .", _other_schema),
]

API = [
    Api(
        "audits/attacks/cases/__init__.py:cases_of",
        lambda *, mechanism: cases.cases_of(GAUSSIAN, mechanism=mechanism),
        {"mechanism": "nothing"},
    ),
    Api(
        "audits/attacks/extraction_prompts.py:prompt_named",
        lambda *, prompt: extraction_prompts.prompt_named(prompt),
        {"prompt": "few_shots"},
    ),
    Api("audits/attacks/one_step.py:use", _permit, {"uses": 3}, {"uses": 2}),
    Api(
        "audits/attacks/protocol.py:answering_model",
        lambda *, model: protocol.answering_model(protocol.View((), model), "gap"),
        {"model": None},
        {"model": ToyModel()},
    ),
    Api(
        "audits/attacks/protocol.py:text_model",
        lambda *, attack: _needing(_Answers(), attack),
        {"attack": "loss"},
    ),
    Api(
        "audits/attacks/protocol.py:token_scoring_model",
        lambda *, attack: _needing(_Sums(), attack),
        {"attack": "min-k"},
    ),
    Api("audits/attacks/rmia.py:__post_init__", _rmia, {"shadow_prompts": 0, "population": 0}),
    Api("audits/attacks/rmia.py:__post_init__#2", _rmia, {"gamma": 0.0, "offline": 2.0}),
    Api(
        "audits/attacks/shadow.py:make_shadows",
        lambda *, shadow_prompts: shadow.make_shadows(RECORDS, prompts=shadow_prompts, shots=2, population=0, seed=0),
        {"shadow_prompts": 4},
    ),
    Api(
        "audits/attacks/echo.py:make_echo_canaries",
        lambda *, count: make_echo_canaries(RECORDS, count=count, seed=0),
        {"count": len(RECORDS) + 1},
    ),
    Api("audits/experiments/run_echo.py:run_echo", _echo, {"background": 9}),
    Api("audits/experiments/membership.py:score_runs", _scored, {"members": 4, "non_members": 4}),
    Api(
        "audits/under_test.py:_missing",
        _protected_extraction,
        {"generate": None},
        {"generate": lambda *_, **__: "nothing"},
    ),
    Api("audits/trace/events.py:read", _trace, {"path": "traces.jsonl"}, {"path": "trace.jsonl"}),
    Api("audits/findings.py:read", _read, {"path": "finding.json"}, {"path": "findings.json"}),
    Api(
        "audits/given.py:answering_model",
        lambda *, model: _given(material=Material(model=model)).answering_model("gap"),
        {"model": None},
        {"model": ToyModel()},
    ),
    Api(
        "audits/given.py:text_model",
        lambda *, model: _given(material=Material(model=model)).text_model("loss"),
        {"model": _Answers()},
        {"model": ToyModel()},
    ),
    Api(
        "audits/neighbour.py:combine",
        lambda *, reports: neighbour.combine(reports),
        {"reports": []},
        {"reports": [_compared()]},
    ),
    Api("audits/sensitivity.py:sensitivity_check", _rehearsed, {"pairs": ()}, {"pairs": (_PAIR,)}),
    Api("audits/overlap.py:measure_overlap", _overlap, {"held_out": ()}, {"held_out": OTHERS}),
    Api("audits/report/inputs.py:__post_init__", _chapter, {"bound": "bb" * 32}, {"bound": "aa" * 32}),
    Api(
        "audits/report/inputs.py:__post_init__#2",
        lambda *, chapters: ReportInput(title="letters", made=datetime(2026, 1, 1, tzinfo=UTC), chapters=chapters),
        {"chapters": ()},
        {"chapters": (_chapter(bound="aa" * 32),)},
    ),
]


def _needing(model: Any, attack: str) -> object:
    """What each attack asks of the view's model."""
    asked: Any = {
        "gap": protocol.answering_model,
        "loss": protocol.text_model,
        "min-k": protocol.token_scoring_model,
    }[attack]
    return asked(protocol.View((), model), attack)
