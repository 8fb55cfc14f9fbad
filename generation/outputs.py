"""What a run leaves behind.

    synthetic.jsonl   public    {"id", "label", "text"}, one line a sample; "query" where a text answers one
    receipt.json      public    what ran, under which certificate (schemas/receipt.schema.json)
    trace.jsonl       private   what was drawn: one JSON object a line, see ``Generated.trace``

Public files hold nothing that is a function of the private data, except through the released tokens:
no record counts, no batch sizes, no digests of data or noise. The time is rounded down to the hour,
because a running time tells how many minibatches ran. All three are written beside their places and
renamed, the receipt last: a run that dies leaves no half-written file, and no receipt without its text. What it had
drawn is in ``unfinished.jsonl`` (``accountant.release.journal``), private too.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from affidavit.accountant import files
from affidavit.accountant.attestation import receipt as receipts
from affidavit.accountant.attestation.keys import Signer
from affidavit.accountant.errors import UsageError
from affidavit.accountant.plan import Leaf, Plan
from affidavit.accountant.remedies import setting
from affidavit.accountant.validate import Relation
from affidavit.mechanisms.base import Noise, samplers

__all__ = ["Generated", "GeneratorPermit", "Provenance", "Sample", "Written", "receipt", "write"]

TRACE_SCHEMA = "https://affidavit.dev/schemas/trace/v1"

_SECURE = "noise from the operating system; the certificate covers this output"
_SEEDED = "NONE: the noise was seeded and can be reproduced; no privacy is claimed for this output"
_UNPROTECTED = "NONE: an unprotected baseline; it shows what the data give away without a certificate"


class GeneratorPermit(Protocol):
    """What a generator needs of a live permit (``affidavit.accountant.release.permit``)."""

    @property
    def noise(self) -> Noise: ...

    @property
    def relation(self) -> Relation: ...

    def use(self, path: str) -> Leaf: ...

    def finish(self, path: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One synthetic text. ``stopped``: by an end token, rather than by the limit.

    ``query``: the public question that ``text`` answers, for generators that answer.
    """

    label: str
    number: int
    text: str
    tokens: tuple[int, ...]
    stopped: bool
    query: str = ""


@dataclass(frozen=True, slots=True)
class Generated:
    """A finished run.

    ``trace`` lines have an ``event`` (``batch``, ``sample`` or ``draw``; docs/trace.md). They are private.
    """

    generator: str
    samples: tuple[Sample, ...]
    trace: tuple[Mapping[str, Any], ...] = field(repr=False)
    draws_per_node: Mapping[str, int]
    protected: bool
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Under what a run was made; ``None`` fields for unprotected baselines.

    ``ledger_end``: number and MAC of the ledger's entry that paid. ``plan``: the certified one, which says how outputs
    were drawn. ``resumed``: how often the run was gone on with after it stopped; ``lost``: draws of which nothing came
    out, because it stopped there; ``closed``: it was ended before its last text.
    """

    certificate_sha256: str | None = None
    ledger_entry: str | None = None
    ledger_end: tuple[int, str] | None = None
    noise: str | None = None
    guarantee: bool = False
    plan: Plan | None = None
    resumed: int = 0
    lost: int = 0
    closed: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """The three files, and the receipt's digest for the ledger."""

    synthetic: Path
    receipt: Path
    trace: Path
    receipt_sha256: str


def receipt(generated: Generated, provenance: Provenance, *, synthetic_sha256: str, ended: datetime) -> dict[str, Any]:
    """The public receipt; its first line says whether the output carries a guarantee."""
    import numpy as np

    plan = provenance.plan if generated.protected else None
    drawn = "; ".join(samplers(plan)) if plan is not None else ""
    guarantee = _UNPROTECTED if not generated.protected else _SECURE if provenance.guarantee else _SEEDED
    end = provenance.ledger_end
    hour = ended.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    return {
        "guarantee": guarantee,
        "schema": receipts.SCHEMA,
        "protected": generated.protected,
        "generator": generated.generator,
        "certificate_sha256": provenance.certificate_sha256,
        "ledger_entry": provenance.ledger_entry,
        "ledger_head": end and {"count": end[0], "mac": end[1]},
        "sampler": drawn or None,
        "noise": provenance.noise,
        "draws_per_node": dict(generated.draws_per_node),
        "resumed": provenance.resumed,
        "lost_draws": provenance.lost,
        "closed": provenance.closed,
        "outputs_sha256": {"synthetic.jsonl": synthetic_sha256},
        "versions": {
            "affidavit": version("affidavit"),
            "python": platform.python_version(),
            "numpy": np.__version__,
            **generated.versions,
        },
        "ended": hour.isoformat().replace("+00:00", "Z"),
    }


def write(
    folder: Path, generated: Generated, provenance: Provenance, *, ended: datetime, signer: Signer | None = None
) -> Written:
    """Write the three files into ``folder``, the receipt signed. Raises ``UsageError`` where that cannot be done.

    ``signer`` may be left out for unprotected baselines.
    """
    synthetic = _lines(
        {"id": f"{sample.label}-{sample.number}", "label": sample.label, "text": sample.text}
        | ({"query": sample.query} if sample.query else {})
        for sample in generated.samples
    )
    stated = receipt(generated, provenance, synthetic_sha256=hashlib.sha256(synthetic).hexdigest(), ended=ended)
    stated_bytes = receipts.render(stated, signer=signer)
    written = Written(
        folder / "synthetic.jsonl",
        folder / "receipt.json",
        folder / "trace.jsonl",
        hashlib.sha256(stated_bytes).hexdigest(),
    )
    contents = (
        (written.trace, _lines((_run_line(generated, provenance), *generated.trace)), 0o600),
        (written.synthetic, synthetic, 0o644),
        (written.receipt, stated_bytes, 0o644),
    )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        drafts: list[tuple[Path, Path]] = []
        try:
            for path, content, mode in contents:
                drafts.append((files.draft(path, content, mode=mode), path))
            for draft, path in drafts:
                draft.replace(path)
        finally:
            for draft, _ in drafts:
                with contextlib.suppress(FileNotFoundError):
                    draft.unlink()
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be written: {error.strerror}",
            hint=f"Choose another place: {setting('-o', Path.home() / folder.name)}.",
        ) from None
    return written


def _run_line(generated: Generated, provenance: Provenance) -> dict[str, Any]:
    """The trace's first line (docs/trace.md)."""
    line: dict[str, Any] = {"event": "run", "schema": TRACE_SCHEMA, "generator": generated.generator}
    if provenance.noise is not None:
        line["sampler"] = {"algorithm": provenance.noise}
    return line


def _lines(objects: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(dict(item), ensure_ascii=False) + "\n" for item in objects).encode()
