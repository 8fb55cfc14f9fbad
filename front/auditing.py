"""Audit a certificate: hand the attacks what they may attack, and put the report together.

The audits know no generator. What they attack is made here: text and demonstrations from the
run's own generator, under the cost that was certified, with noise from the operating system. An
audit releases nothing, so it charges no ledger; its findings are private.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from affidavit.accountant.attestation import certificate as certificates
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.attestation.recheck import recheck
from affidavit.accountant.clock import Clock, utc_now
from affidavit.accountant.errors import LedgerMissing, NotSupported, UsageError, WrongRun
from affidavit.audits.attacks.prompting import LabelPrompt
from affidavit.audits.certified import Certified
from affidavit.audits.experiments.demonstrating import behind
from affidavit.audits.experiments.registry import chosen
from affidavit.audits.given import Material
from affidavit.audits.run import require_packages, run_audit
from affidavit.audits.textmodel import AnsweringModel
from affidavit.audits.textmodel import Record as AuditRecord
from affidavit.audits.under_test import RunUnderTest
from affidavit.generation.dataset import Fields, Record, load_records
from affidavit.generation.models import load_model
from affidavit.generation.models.prefills import keeping_prefills
from affidavit.generation.models.remembering import RememberingModel
from affidavit.generator_checks import generator_check
from affidavit.noise import solve_noise
from affidavit.records import parse_all, read_all, read_texts
from affidavit.runfile import RunFile
from affidavit.trial import TrialPermit

if TYPE_CHECKING:
    from affidavit.accountant.attestation.statement import Certificate
    from affidavit.accountant.ledger import Account, Ledger
    from affidavit.audits.attacks.extraction import ExtractionPrompt
    from affidavit.audits.auditfile import AuditFile
    from affidavit.audits.checks import CheckReport
    from affidavit.audits.experiments.registry import CheckName, Need
    from affidavit.audits.findings import Findings
    from affidavit.audits.report.inputs import Exhibit, Recomputation
    from affidavit.generation.models.base import LanguageModel
    from affidavit.generation.outputs import Generated, Sample

__all__ = ["CI_ALPHA", "audit", "findings_in", "in_ci", "report", "strict_in_ci"]

CI_ALPHA = 1e-3
"""A job that runs on every push may not cry wolf once in twenty: α in CI, unless the audit file states one."""


@dataclass(frozen=True, slots=True)
class Checked(RunUnderTest):
    """A run of which nothing but checks is asked: no model is loaded."""

    run: RunFile
    certified: Certified

    def check(self, name: CheckName) -> CheckReport:
        """Of the generator's own code, on invented records."""
        return generator_check(name, self.run, self.certified.plan)


@dataclass(frozen=True, slots=True)
class Protected(RunUnderTest):
    """The run's generator, on the records of a trial, at the certified cost or calibrated to another ε."""

    run: RunFile
    model: LanguageModel
    certified: Certified

    def generate(
        self,
        records: Sequence[AuditRecord],
        prompt: ExtractionPrompt,
        *,
        max_tokens: int,
        epsilon: float,
        seed: int,  # noqa: ARG002
    ) -> list[str]:
        """Answers to an extraction prompt, made as the run makes text: one for all records together.

        ``seed`` is not used: an audited mechanism draws as it does in production.
        """
        self.check_extraction()
        label = "record"
        wording = {
            "private": f"{_literal(prompt.before)}{{text}}{_literal(prompt.after)}",
            "public": _literal(prompt.public()),
            "frame": prompt.template,
        }
        settings = self.run.with_generator(
            labels=[label],
            samples_per_label=1,
            prompts=wording,
            max_tokens=min(max_tokens, int(self.run.numbers()["max_tokens"])),
        )

        def shown(record: Record | AuditRecord) -> Record:
            return Record(record.id, prompt.shown(record.text), label)

        members, public = [shown(record) for record in records], [shown(record) for record in self._public()]
        return [sample.text for sample in self._made(settings, members, epsilon, public=public)]

    def demonstrate(self, records: Sequence[AuditRecord], *, epsilon: float, seed: int) -> list[AuditRecord]:  # noqa: ARG002
        """Demonstrations, as the run makes its text; ``seed`` as in ``generate``.

        A text with its label; of a generator of answers, a public question with its answer, as its records are.
        """
        members = [Record(record.id, record.text, record.label or "") for record in records]
        made = self._made(self.run, members, epsilon, public=self._public())
        return [
            AuditRecord(f"released-{number}", each.query, each.text)
            if each.query
            else AuditRecord(f"released-{number}", each.text, each.label)
            for number, each in enumerate(made)
        ]

    def serve(self, records: Sequence[AuditRecord], *, epsilon: float, seed: int) -> AnsweringModel:
        """The run's model behind such demonstrations, none of which it shows: a service at the same cost.

        What it answers follows from the demonstrations alone, however often it is asked.
        """
        made = self.demonstrate(records, epsilon=epsilon, seed=seed)
        return behind(self.model, tuple(LabelPrompt().demonstration(record) for record in made))

    def check(self, name: CheckName) -> CheckReport:
        """Of the generator's own code, on invented records."""
        return generator_check(name, self.run, self.certified.plan)

    def _public(self) -> tuple[Record, ...]:
        content = self.run.public_content
        return () if content is None else parse_all(content, fields=self.run.fields, name="the public file")

    def _made(
        self, settings: RunFile, records: Sequence[Record], epsilon: float, *, public: Sequence[Record]
    ) -> tuple[Sample, ...]:
        settings = _crowded(settings)
        if epsilon != self.certified.epsilon:
            settings = settings.with_generator(**solve_noise(settings, epsilon=epsilon))
        permit = TrialPermit(settings.plan(), settings.relation)
        done: Generated = settings.source.run(
            permit, settings.generator, records, self.model, size=settings.data.size, public=public
        )
        return done.samples

    def check_extraction(self) -> None:
        """Refuse a generator of answers: what it is asked is public, not to give away what its prompts show."""
        if self.run.source.makes == "answers":
            raise NotSupported(
                f"{self.run.kind} answers the run's public questions, and cannot be asked to extract anything",
                hint='`attack = "one-step"` audits its mechanisms, `attack = "reference"` who is a member.',
            )


def audit(
    settings: AuditFile,
    run: RunFile,
    *,
    certificate: Path | None,
    keyring: Keyring | None = None,
    model: LanguageModel | None = None,
    progress: Callable[[str], None] | None = None,
    clock: Clock = utc_now,
) -> Findings:
    """Run what ``settings`` asks for against a certificate of ``run``.

    Raises ``CertificateError`` (``WrongRun`` if the certificate is for another run file),
    ``DataError``, ``ModelMissing``, ``NotSupported``, ``PackageMissing``.
    """
    require_packages(settings)
    keyring = keyring or Keyring.default()
    found = certificates.load(certificate, trusted=keyring.trusted(), clock=clock)
    if found.config_sha256 != run.sha256() or found.plan != run.plan():
        raise WrongRun(
            "config",
            "the certificate is for another run file than the one given",
            hint="Name the certified run file with --run, or certify this: `affidavit certify RUN.toml -o CERT.json`",
        )
    certified = Certified.of_certificate(found)
    needs: set[Need] = set().union(*(experiment.needs for experiment, _ in chosen(settings)))
    material = _material(settings, run, needs)
    if "model" not in needs:
        return run_audit(settings, certified, material, Checked(run, certified), progress=progress)
    model = model or load_model(
        run.model.name, dtype=getattr(run.generator, "dtype", "auto"), base=run.folder, server=run.model.server
    )
    if model.digest != found.model_sha256:
        raise UsageError(
            "the model is not the certified one",
            hint="Restore the certified model, or certify with this one: `affidavit certify RUN.toml -o CERT.json`",
        )
    # Releases with and without one record have the same private rows: their logits are computed once.
    protected = Protected(run, RememberingModel(model) if settings.game == "per-run" else model, certified)
    if settings.target == "protected" and not {"extraction", "canary"}.isdisjoint(settings.attacks):
        protected.check_extraction()
    if progress is not None and (warning := _thin_samples(settings, run)):
        progress(warning)
    with keeping_prefills(model):
        return run_audit(settings, certified, replace(material, model=model), protected, progress=progress)


def _material(settings: AuditFile, run: RunFile, needs: Collection[Need]) -> Material:
    """What the file's experiments read beside the run, and nothing else."""
    if "records" not in needs:
        return Material()
    found = Material(records=_records(settings, run), users=_users(settings, run))
    if "released" not in needs:
        return found
    held_out = _for_audit(read_all(settings.held_out_path, fields=run.fields))
    return replace(found, released=read_texts(settings.released_path), held_out=held_out)


def in_ci(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether ``CI`` is set, as GitHub, GitLab and most others do, to anything but a no."""
    return environment.get("CI", "").casefold() not in ("", "0", "false", "no")


def strict_in_ci(settings: AuditFile, *, environment: Mapping[str, str] = os.environ) -> AuditFile:
    """The settings with ``CI_ALPHA`` where CI is set and the audit file states no alpha."""
    if in_ci(environment) and "alpha" not in settings.model_fields_set:
        return settings.model_copy(update={"alpha": CI_ALPHA})
    return settings


def findings_in(folder: Path, *, certificate: Path | None = None) -> Findings:
    """All findings in ``folder`` and below, merged; of one certificate, where it is named.

    Raises ``UsageError`` where there are none, or of several certificates.
    """
    from affidavit.audits import findings

    wanted = None if certificate is None else hashlib.sha256(certificates.read(certificate)).hexdigest()
    found = [findings.read(path) for path in sorted(folder.rglob("findings*.json"))]
    return findings.merge(part for part in found if wanted in (None, part.certificate_sha256))


def report(
    folder: Path,
    *,
    keyring: Keyring | None = None,
    ledger: Ledger | None = None,
    title: str = "",
    certificate: Path | None = None,
    recompute: bool = False,
    public: bool = False,
    exhibit: Exhibit | None = None,
    clock: Clock = utc_now,
) -> Path:
    """Write report.html from what ``certify``, ``generate`` and ``audit`` left in ``folder``, for any number of runs.

    ``public``: certificate.html instead, of the certificates alone, to be shared; what audits found follows from the
    records, so it is not in it. ``exhibit``: invented records, shown beside what was made from them.

    Raises ``CertificateError`` and its kinds, ``UsageError`` for files that do not belong together, ``PackageMissing``.
    """
    from affidavit.accountant.ledger import Ledger
    from affidavit.audits.report import folder as folders
    from affidavit.audits.report import page

    page.require_packages()
    keyring = keyring or Keyring.default()
    found = folders.read_folder(folder, trusted=keyring.trusted(), title=title, certificate=certificate, clock=clock)
    accounts = _accounts_charged(
        {each.certificate.sha256 for each in found.chapters}, ledger or Ledger(keyring=keyring)
    )
    chapters = found.chapters
    if recompute:
        chapters = tuple(replace(each, recomputed=_recomputed(each.certificate)) for each in chapters)
    named = title or (accounts[0].dataset if len(accounts) == 1 else found.title)
    shown = replace(found, title=named, chapters=chapters, accounts=accounts, exhibit=exhibit)
    target = folder / ("certificate.html" if public else "report.html")
    page.write(shown, target, public=public)
    return target


def _recomputed(certificate: Certificate) -> Recomputation:
    """The independent path's worst answer about the claims."""
    answers = {check.answer for check in recheck(certificate)}
    return "does not hold" if "does not hold" in answers else "undecided" if "undecided" in answers else "holds"


def _accounts_charged(certificates_sha256: Collection[str], ledger: Ledger) -> tuple[Account, ...]:
    """The accounts that paid for runs under these certificates, as far as the ledger knows them."""
    try:
        accounts = ledger.accounts()
    except (LedgerMissing, UsageError):
        return ()
    return tuple(
        account
        for account in accounts
        if any(item.certificate_sha256 in certificates_sha256 for item in account.reservations)
    )


def _records(settings: AuditFile, run: RunFile) -> list[AuditRecord]:
    path = settings.data_path
    if path is None:
        records = load_records(run.data_path, size=run.data.size, fields=run.fields)
    else:
        records = read_all(path, fields=run.fields)
    return _for_audit(records)


def _for_audit(records: Sequence[Record]) -> list[AuditRecord]:
    return [AuditRecord(record.id, record.text, record.label) for record in records]


def _users(settings: AuditFile, run: RunFile) -> dict[str, str] | None:
    """Record id → whose it is, from the field that the audit file names; None where it names none."""
    if settings.user is None:
        return None
    owned = read_all(settings.data_path or run.data_path, fields=Fields(text=run.fields.text, label=settings.user))
    return {record.id: record.label for record in owned}


def _crowded(settings: RunFile) -> RunFile:
    """The same mechanism on the least size that its batches fit, so that every record of a trial is in one.

    A text costs what it costs whatever the size; at the declared size most of a trial's few records
    would fall into batches from which nothing is released, and the audit would see little.
    """
    least = settings.source.trial_size(settings.generator)
    if least is None:
        return settings
    return settings.model_copy(update={"data": settings.data.model_copy(update={"size": least})})


def _thin_samples(settings: AuditFile, run: RunFile) -> str:
    """A warning where samples, certified for the declared size, hold next to none of a trial's records; else empty."""
    size, present = run.data.size, settings.members
    sample = run.source.sample_size(run.generator, size=size)
    if settings.game == "per-run" or "canary" in settings.attacks:
        present = settings.background + 1
    if settings.target != "protected" or sample is None or 2 * present >= size:
        return ""
    seen = sample * present / size
    return (
        f"a sample is certified for {size} records; of the {present} in a trial it holds about {seen:.2g}, and "
        f"an attack sees little. Give about {size} members, or certify a run of about {present} records"
    )


def _literal(text: str) -> str:
    """Text for a prompt template, in which braces have a meaning."""
    return text.replace("{", "{{").replace("}", "}}")
