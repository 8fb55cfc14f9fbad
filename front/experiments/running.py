"""One cell: its text is generated under a certificate and charged, then used; what it cost is measured.

    runs/CELL/attempt-N/   synthetic.jsonl, receipt.json, trace.jsonl, ledger.db, cost.json
    cells/CELL.json        the cell's row of the table

The scratch account is the cell's own: it holds exactly the target (ε, δ), in a ledger of its own, and pays
for one run. An attempt that was killed stays charged; the next one opens another ledger. So a table says what
each of its cells cost alone: publishing several of them about the same records costs their composition.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.errors import UsageError
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.release.randomness import SecureNoise
from affidavit.accountant.unit import RECORD
from affidavit.certification import prepare
from affidavit.experiments.cells import Cell
from affidavit.experiments.settling import Settled
from affidavit.generation import baselines
from affidavit.generation.icl.answering import Answered, named_label, score
from affidavit.generation.icl.evaluation import evaluate
from affidavit.generation.icl.examples import Example, load_examples
from affidavit.generation.models.counted import CountedModel
from affidavit.generation.outputs import Provenance, write
from affidavit.generation.prism import PrismConfig
from affidavit.generation.sga.settings import SgaConfig
from affidavit.synthesis import generate, public_records
from affidavit.trial import TrialPermit
from affidavit.writing import write_whole

if TYPE_CHECKING:
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated
    from affidavit.runfile import RunFile

__all__ = ["CellResult", "read_result", "run_cell"]


@dataclass(frozen=True, slots=True)
class CellResult:
    """A row of the table for each number of shots.

    ``scores`` maps shots to the task's scores, ``right`` to each test example's share of right answers. ``beside``: the
    method that it is compared with. Times are wall-clock seconds; ``calls`` as ``CountedModel`` counts.
    """

    cell: str
    dataset: str
    method: str
    epsilon: float
    seed: int
    metric: str
    scores: Mapping[int, Mapping[str, float]]
    epsilon_upper: float
    delta: float
    relation: str
    values: Mapping[str, float | int]
    texts: int
    tokens: int
    calls: int
    seconds: float
    refused: str = ""
    model: str = ""
    beside: str = ""
    right: Mapping[int, Sequence[float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values; ε as text, because it may be infinite."""
        facts = {name: getattr(self, name) for name in self.__slots__}
        return {**facts, "epsilon": str(self.epsilon), "epsilon_upper": str(self.epsilon_upper)}


@dataclass(frozen=True, slots=True)
class _Cost:
    """What a generation took."""

    texts: int = 0
    tokens: int = 0
    calls: int = 0
    seconds: float = 0.0


def read_result(path: Path) -> CellResult | None:
    """A finished cell's result, or None if it is not there."""
    if not path.is_file():
        return None
    facts = json.loads(path.read_text(encoding="utf-8"))
    for name in ("scores", "right"):
        facts[name] = {int(shots): values for shots, values in facts[name].items()}
    for name in ("epsilon", "epsilon_upper"):
        facts[name] = float(facts[name])
    return CellResult(**facts)


def run_cell(cell: Cell, settled: Settled, out: Path, *, model: LanguageModel, keyring: Keyring) -> CellResult:
    """Generate (or find what an earlier attempt finished), measure, and write ``cells/CELL.json``.

    Raises what ``generate`` and ``evaluate`` raise.
    """
    task = cell.task
    scores: dict[int, dict[str, float]] = {}
    right: dict[int, tuple[float, ...]] = {}
    cost = _Cost()
    if settled.refused:
        pass
    elif cell.answers:
        attempt, cost = _generated(cell, settled, out, model, keyring)
        scores = {0: _scored_answers(cell, attempt)}
    else:
        pool, cost = _demonstrations(cell, settled, out, model, keyring)
        scores, right = _measured(cell, pool, model)
    result = CellResult(
        cell=cell.id,
        dataset=cell.dataset.name,
        method=cell.label,
        epsilon=cell.epsilon,
        seed=cell.seed,
        metric=task.metric,
        scores=scores,
        epsilon_upper=settled.epsilon_upper if cell.protected else cell.epsilon,
        delta=cell.grid.delta if cell.protected else 0.0,
        relation=cell.method.relation or cell.grid.relation,
        values=settled.values,
        texts=cost.texts,
        tokens=cost.tokens,
        calls=cost.calls,
        seconds=cost.seconds,
        refused=settled.refused,
        model=cell.model_name,
        beside=cell.grid.beside(cell.method),
        right=right,
    )
    write_whole(out / "cells" / f"{cell.id}.json", json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    return result


def _measured(
    cell: Cell, pool: Sequence[Example], model: LanguageModel
) -> tuple[dict[int, dict[str, float]], dict[int, tuple[float, ...]]]:
    """The scores, and what each test example's answers were worth, by number of shots."""
    task, test = cell.task, cell.test_examples()
    scores: dict[int, dict[str, float]] = {}
    right: dict[int, tuple[float, ...]] = {}
    for shots in cell.shots:
        measured = evaluate(
            model,
            task,
            demonstrations=pool,
            examples=test,
            shots=min(shots, len(pool)),
            seeds=[cell.seed],
            draws=cell.grid.icl.draws,
        )
        scores[shots] = {**measured.seeds[0].scores, "demonstrations": float(measured.shots)}
        right[shots] = measured.seeds[0].right
    return scores, right


def _scored_answers(cell: Cell, attempt: Path) -> dict[str, float]:
    """The answers that the generator gave to the test questions, scored as a model's would be."""
    lines = (attempt / "synthetic.jsonl").read_bytes().splitlines()  # of text, U+2028 would end a line as well
    given = {line["query"]: line["text"] for line in map(json.loads, lines)}
    examples = cell.test_examples()
    found = tuple(named_label(cell.task, " ".join(given[one.input].split())) for one in examples)
    return score(cell.task, Answered(found, found), examples)


def _demonstrations(
    cell: Cell, settled: Settled, out: Path, model: LanguageModel, keyring: Keyring
) -> tuple[tuple[Example, ...], _Cost]:
    """The texts of the cell as demonstrations."""
    if cell.method.baseline == "zero-shot":
        return (), _Cost()
    if cell.method.baseline == "real":
        return load_examples(cell.grid.folder / cell.files.private, cell.task).examples, _Cost()
    if cell.method.baseline == "public-records" and cell.files.public is not None:
        return load_examples(cell.grid.folder / cell.files.public, cell.task).examples, _Cost()
    attempt, cost = _generated(cell, settled, out, model, keyring)
    return load_examples(attempt / "synthetic.jsonl", cell.task, blank="drop").examples, cost


def _generated(cell: Cell, settled: Settled, out: Path, model: LanguageModel, keyring: Keyring) -> tuple[Path, _Cost]:
    """The folder of the cell's text, which is generated unless an earlier attempt was finished."""
    place = out / "runs" / cell.id
    attempts = sorted(place.glob("attempt-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    for attempt in reversed(attempts):
        if (attempt / "cost.json").is_file():
            return attempt, _Cost(**json.loads((attempt / "cost.json").read_text(encoding="utf-8")))
    attempt = place / f"attempt-{len(attempts) + 1}"
    attempt.mkdir(parents=True)
    counted = CountedModel(model)
    started = time.monotonic()
    made = _generate(cell, settled, out, attempt, counted, keyring)
    cost = _Cost(len(made.samples), _tokens(made, model), counted.calls, time.monotonic() - started)
    facts = {name: getattr(cost, name) for name in _Cost.__slots__}
    write_whole(attempt / "cost.json", json.dumps(facts) + "\n")
    return attempt, cost


def _tokens(made: Generated, model: LanguageModel) -> int:
    return sum(len(sample.tokens) or len(model.encode(sample.text)) for sample in made.samples)


def _generate(
    cell: Cell, settled: Settled, out: Path, attempt: Path, model: CountedModel, keyring: Keyring
) -> Generated:
    run = cell.run(settled.values)
    if cell.protected:
        run.plan()  # in a process of its own: the certificate's kinds are known once their mechanisms are imported
        if settled.certificate is None:
            raise UsageError(
                f"{cell.label} was not certified",
                hint=f"Settle it anew: `rm {shlex.quote(str(out / 'settled' / f'{cell.setting_id}.json'))}`",
            )
        ledger = Ledger(keyring=keyring, url=f"sqlite:///{(attempt / 'ledger.db').resolve()}", apart=True)
        ledger.init_account(
            run.data.name, relation=run.relation, unit=RECORD, epsilon=run.budget.epsilon, delta=run.budget.delta
        )
        certificate = out / "settled" / settled.certificate
        return generate(
            run, certificate=certificate, out=attempt, keyring=keyring, ledger=ledger, model=model
        ).generated
    made = _unprotected(cell, run, model, keyring)
    write(attempt, made, Provenance(), ended=datetime.now(UTC))
    return made


def _unprotected(cell: Cell, run: RunFile, model: CountedModel, keyring: Keyring) -> Generated:
    """Baselines, and a generator with its noise turned down: nothing is charged, the receipt says so."""
    config = run.generator
    if cell.method.baseline == "public-only":
        temperature = config.temperature if isinstance(config, PrismConfig) else baselines.PUBLIC_TEMPERATURE
        texts = cast("baselines.TextSettings", config)
        return baselines.public_only(texts, model, noise=SecureNoise(), temperature=temperature)
    _, records = prepare(run, keyring=keyring)
    if cell.method.baseline == "aggregation" and isinstance(config, PrismConfig):
        return baselines.noise_off(config, records, model, size=run.data.size)
    public = public_records(run)
    if isinstance(config, SgaConfig):
        return baselines.answers_noise_off(
            config, records, model, size=run.data.size, public=public, noise=SecureNoise()
        )
    run.source.check(config, model, public=public)
    permit = TrialPermit(run.plan(), run.relation)
    made = run.source.run(permit, config, records, model, size=run.data.size, public=public)
    return baselines.unprotected(made)
