"""``affidavit demo``: the whole path on a shipped corpus of invented e-mails, offline.

certify -> generate -> audit, with protection and without -> report. Everything it makes is in one
folder, keys and ledger included; the user's own AFFIDAVIT_HOME is neither read nor written.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.recheck import recheck
from affidavit.accountant.errors import UsageError
from affidavit.accountant.extras import require
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.remedies import setting, unused
from affidavit.accountant.unit import RECORD
from affidavit.auditing import audit, report
from affidavit.audits.attacks.extraction import Extraction, prompt_named
from affidavit.audits.auditfile import load_audit
from affidavit.audits.findings import Findings, merge, write
from affidavit.audits.pii import Pseudonyms
from affidavit.audits.report.inputs import Exhibit
from affidavit.certification import certify
from affidavit.generation.dataset import load_records
from affidavit.generation.models import load_model, model_digest
from affidavit.runfile import load_run
from affidavit.synthesis import generate
from affidavit.writing import write_whole

if TYPE_CHECKING:
    from affidavit.accountant.attestation.statement import Certificate
    from affidavit.audits.auditfile import AuditFile
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated
    from affidavit.runfile import RunFile

__all__ = ["DemoResult", "run_demo"]

MARKER = ".affidavit-demo"
AUDITS = {"extraction": "audit.toml", "one-step": "audit_one_step.toml"}
DEFAULT_MODEL = "smollm2-135m"
_TRIED = 24  # records asked for in the search of one that plain prompting gives away


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What the demo ended with."""

    certificate: Certificate
    recomputed: bool
    generated: Generated
    findings: Findings
    report: Path
    seconds: float


def run_demo(
    out: Path,
    *,
    model_name: str = DEFAULT_MODEL,
    tell: Callable[[str], None] = lambda _: None,
    progress: Callable[[Any], None] | None = None,
) -> DemoResult:
    """Run everything in ``out``, a new folder or an earlier demo's (which is replaced).

    ``tell`` is called with a line before each step, ``progress`` as in ``generate``. Raises
    ``UsageError`` if ``out`` holds anything else, ``ModelMissing`` and ``PackageMissing`` before anything is written.
    """
    started = time.monotonic()
    model_digest(model_name)
    require("demo" if model_name == DEFAULT_MODEL else "audit", purpose="the demo")
    _prepare_folder(out, model_name)
    keyring = Keyring(out / "home")
    ledger = Ledger(keyring=keyring, url=f"sqlite:///{(out / 'home' / 'ledger.db').resolve()}")
    run = load_run(out / "run.toml")
    tell(f"Loading {run.model.name}")
    model = load_model(run.model.name, dtype=getattr(run.generator, "dtype", "auto"), base=run.folder)

    tell("Keys, and an account for the data that pays for one run")
    keyring.init()
    ledger.init_account(
        run.data.name, relation=run.relation, unit=RECORD, epsilon=run.budget.epsilon, delta=run.budget.delta
    )

    tell("Certifying what the run costs, and deriving the number again by other code")
    certified = certify(run, keyring=keyring, ledger=ledger)
    certificate = out / "certificate.json"
    write_whole(certificate, certified.envelope)
    recomputed = all(check.answer == "holds" for check in recheck(certified.certificate))

    tell("Generating under the certificate")
    done = generate(
        run,
        certificate=certificate,
        out=out / "generated",
        keyring=keyring,
        ledger=ledger,
        model=model,
        progress=progress,
    )

    found = []
    for name, file in AUDITS.items():
        settings = load_audit(out / file)
        found.append(audit(settings, run, certificate=certificate, keyring=keyring, model=model, progress=tell))
        write(found[-1], out / f"audit-{name}" / "findings.json")

    tell("Writing the report")
    shown = _exhibit(load_audit(out / AUDITS["extraction"]), run, model, done.generated)
    page = report(out, keyring=keyring, ledger=ledger, title="Support mail (demo)", recompute=True, exhibit=shown)
    return DemoResult(certified.certificate, recomputed, done.generated, merge(found), page, time.monotonic() - started)


def _exhibit(settings: AuditFile, run: RunFile, model: LanguageModel, made: Generated) -> Exhibit | None:
    """The first record of the corpus that plain prompting gives away, beside a text of the run; None if it gives none.

    The corpus is invented and shipped with the package: its records are nobody's, and only so may one be shown.
    """
    attack = Extraction(settings.kinds, settings.region)
    prompt = prompt_named(settings.prompt, kind=settings.kinds[0])
    records = load_records(run.data_path, size=run.data.size, fields=run.fields)
    asked = [record for record in records if attack.identifiers([prompt.shown(record.text)])][:_TRIED]
    answers = model.generate(
        [prompt.private(record.text) for record in asked], max_tokens=settings.max_tokens, template=prompt.template
    )
    for record, answer in zip(asked, answers, strict=True):
        own = attack.identifiers([record.text])
        given = attack.leaks([answer], own, guessable=frozenset(), pseudonyms=Pseudonyms())
        same = [sample.text for sample in made.samples if sample.label == record.label]
        if given and same:
            leaked = tuple(answer[leak.start : leak.end] for leak in given)
            return Exhibit(record=record.text, unprotected=answer, protected=same[0], leaked=leaked)
    return None


def _prepare_folder(out: Path, model_name: str) -> None:
    """An empty folder with the demo's files; an earlier demo in it is removed, anything else is not."""
    if out.exists() and any(out.iterdir()):
        if not (out / MARKER).is_file():
            raise UsageError(
                f"{out} is not empty and holds no earlier demo",
                hint=f"Choose another folder: {setting('--out', unused(out))}.",
            )
        shutil.rmtree(out)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"{out} cannot be made: {error.strerror}",
            hint=f"Choose another folder: {setting('--out', Path.home() / 'affidavit-demo')}.",
        ) from None
    (out / MARKER).touch()
    with as_file(files("affidavit") / "demo_data") as shipped:
        for path in shipped.iterdir():
            if path.suffix in {".toml", ".jsonl"}:
                shutil.copyfile(path, out / path.name)
    if model_name != DEFAULT_MODEL:
        text = (out / "run.toml").read_text(encoding="utf-8")
        write_whole(out / "run.toml", text.replace(f'"{DEFAULT_MODEL}"', f'"{model_name}"'))
