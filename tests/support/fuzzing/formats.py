"""Every kind of file that is read, as a valid example, and the commands that read it.

``formats(place)`` makes them in a workplace with keys, an account, a certificate and a finished run.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from affidavit.accountant.attestation import dsse, receipt
from affidavit.accountant.attestation.keylimits import KeyLimits
from affidavit.accountant.attestation.keys import Keyring
from affidavit.accountant.ledger import Ledger
from affidavit.accountant.ledger.witness import Witness
from affidavit.accountant.unit import RECORD
from support.fuzzing.mutations import (
    BYTES,
    PIECES,
    Mutation,
    json_document,
    json_lines,
    mutated_value,
    spelled,
    toml_document,
)

PLAN: dict[str, Any] = {
    "relation": "zero-out",
    "delta": 1e-3,
    "plan": {
        "kind": "compose",
        "parts": [
            {"kind": "repeat", "count": 3, "of": {"kind": "gaussian", "noise_multiplier": 4.0}},
            {"kind": "pure", "epsilon": 0.1},
        ],
    },
}
SAMPLED: dict[str, Any] = {
    "relation": "add-remove",
    "delta": 1e-3,
    "plan": {
        "kind": "repeat",
        "count": 4,
        "of": {"kind": "subsample", "scheme": "poisson", "rate": 0.1, "of": {"kind": "laplace", "noise_multiplier": 2}},
    },
}
AUDIT = """\
attack = "one-step"
target = "protected"
members = 40
non_members = 40
alpha = 0.05
seed = 3
[policy]
allow_underpowered = true
"""
GRID = """\
title = "A toy table"
relation = "zero-out"
delta = 1e-3
epsilon = [2.0, inf]
seeds = [0, 1]
model = { name = "toy" }
icl = { shots = [1, 2], test = 4 }
[[datasets]]
name = "winds"
task = "ag-news"
path = "train.jsonl"
size = 24
test = "train.jsonl"
labels = ["north", "south"]
[[methods]]
name = "prism"
generator = { kind = "prism", max_tokens = 3, max_record_tokens = 12, batch_size = 6, clip = 4.0 }
[methods.grid]
samples_per_label = [1, 2]
"""
TASK = """\
labels = ["north", "south"]
instruction = "Which way does it blow?"
input = "Text"
answer = "Way"
"""
SCHEMA = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "maxLength": 5}}}
GENERATORS = {
    "few-shot": 'kind = "few-shot"\nlabels = ["north", "south"]\nsubsets = 3\nshots_per_subset = 1\nmax_tokens = 3\n'
    "noise_multiplier = 1.0\nmax_record_tokens = 12\n",
    "sga": 'kind = "sga"\nqueries = ["which way"]\nmax_tokens = 4\nmax_record_tokens = 12\nembedding = "toy"\n'
    'ensemble = 3\nselection = "top-1"\n[generator.dpm]\ndimensions = 2\nlevels = 1\n',
}


@dataclass(frozen=True)
class Format:
    """One kind of file: where it stands, a valid example, how it is damaged, and the commands that read it.

    ``variables``: what the commands find in the environment. ``share``: how many inputs it gets, of 16 for a
    format that is read in an instant. ``answers``: the exit codes for the valid example.
    """

    name: str
    file: Path
    example: bytes
    commands: Sequence[Sequence[object]]
    mutations: Sequence[Mutation] = BYTES
    variables: Callable[[bytes], dict[str, str]] = field(default=lambda _content: {})
    share: int = 16
    answers: tuple[int, ...] = (0,)


def formats(place: Any) -> tuple[Format, ...]:
    """Of a ``Workplace`` that has a certificate; a run is made in ``place.out``."""
    made = place.generate()
    assert made.code == 0, made.err
    certificate, keyring = place.certificate, place.keyring
    folder: Path = place.folder / "fuzz"
    folder.mkdir()
    for name in ("train.jsonl", "public.jsonl", "read.jsonl"):
        (folder / name).write_bytes(place.data.read_bytes())
    received = place.out / "receipt.json"
    signer = keyring.signer()
    payload_type = json.loads(certificate.read_bytes())["payloadType"]
    payload = dsse.verify(certificate.read_bytes(), payload_type=payload_type, trusted=keyring.trusted()).payload

    def resigned(content: bytes, chance: random.Random) -> bytes:
        """A certificate of other content by a trusted key: what stands behind the signature is read too."""
        changed = chance.choice((json_document, *BYTES))(payload, chance)
        return dsse.sign(changed, payload_type=payload_type, signer=signer)

    def signed_anew(content: bytes, chance: random.Random) -> bytes:
        facts = {name: value for name, value in json.loads(content).items() if name != "signature"}
        changed = mutated_value(facts, chance)
        try:
            return receipt.render(changed if isinstance(changed, dict) else facts, signer=signer)
        except UnicodeEncodeError:
            return content

    def audited(audit: Path) -> list[Sequence[object]]:
        run = ("--run", place.run_file)
        return [("audit", audit, "--certificate", certificate, *run, "-o", folder / "audit")]

    audit = folder / "audit.toml"
    audit.write_text(AUDIT, encoding="utf-8")
    done = place.command(*audited(audit)[0])
    assert done.code in (0, 1, 5), done.err
    findings = folder / "audit" / "findings.json"
    reported = folder / "report"
    reported.mkdir()
    for source in (certificate, received, place.out / "synthetic.jsonl"):
        (reported / source.name).write_bytes(source.read_bytes())

    run_text, run = place.run_file.read_text(encoding="utf-8"), folder / "run.toml"
    head, _, own = run_text.partition("[generator]\n")
    runs = {"prism": own, **GENERATORS}
    head = head.replace("size = 24\n", 'size = 24\npublic = "public.jsonl"\n')
    run_files = [
        Format(
            f"run file, {kind}",
            run,
            f"{head}[generator]\n{table}".encode(),
            [("plan", run), ("certify", run, "-o", folder / "c.json")],
            (toml_document, toml_document, *BYTES),
            share=8 if kind == "prism" else 2,
        )
        for kind, table in runs.items()
    ]
    (folder / "read.toml").write_text(run_text.replace("train.jsonl", "read.jsonl"), encoding="utf-8")
    plan, plan_toml = folder / "plan.json", folder / "plan.toml"
    trace, table = folder / "trace.jsonl", folder / "table.csv"
    home: Path = keyring.home
    other = Keyring(folder / "other")
    other.init()
    pem = other.show()[0].pem
    trusted = home / "trusted" / f"{other.signer().keyid}.pem"
    trusted.parent.mkdir(exist_ok=True)
    [anchor] = (home / "anchors").glob("*.json")
    heads = folder / "heads.jsonl"
    heads.write_bytes(b"")
    place.ledger.witness(Witness(heads))
    request, office = folder / "request.json", Ledger(keyring=keyring, url=f"sqlite:///{folder / 'office.db'}")
    office.init_account("letters", relation="zero-out", unit=RECORD, epsilon=4, delta="0.001")
    office.set_officers([keyring.show()[0].pem, pem])
    asked = dsse.add_signature(office.request_raise("letters", epsilon=5, delta="0.001"), other.signer())
    wanted = json.loads(base64.b64decode(json.loads(asked)["payload"]))

    def requested(content: bytes, chance: random.Random) -> bytes:
        """Another request, by both officers."""
        asks_for = json.loads(content)["payloadType"]
        changed = spelled(mutated_value(wanted, chance))
        return dsse.add_signature(dsse.sign(changed, payload_type=asks_for, signer=signer), other.signer())

    ledger, task, schema = folder / "ledger.db", folder / "task.toml", folder / "schema.json"
    rows = "".join(f'r{n};"the wind; number {n}";{"north" if n % 2 else "south"}\r\n' for n in range(24))
    wide = "id;text;label\r\n" + rows
    made_of = ("-o", folder / "made.toml", "--records", folder / "made.jsonl", "--records-only")
    table_commands = [("init", table, *made_of)]
    films = folder / "films.jsonl"
    films.write_text('{"text": "A film of 1999.", "title": "A", "year": 1999, "label": "Drama"}\n', encoding="utf-8")
    small = ("--model", "toy", "--seeds", "0", "--limit", "1")
    icl = ("icl", folder / "train.jsonl", *small)
    return (
        *run_files,
        Format(
            "plan, JSON",
            plan,
            spelled(PLAN),
            [("epsilon", plan), ("delta", plan, "--epsilon", "1")],
            (json_document, json_document, *BYTES),
        ),
        Format("plan of a sample", plan, spelled(SAMPLED), [("epsilon", plan)], (json_document, *BYTES), share=1),
        Format(
            "plan, TOML",
            plan_toml,
            b'relation = "zero-out"\ndelta = 1e-3\n[plan]\nkind = "repeat"\ncount = 3\n[plan.of]\n'
            b'kind = "gaussian"\nnoise_multiplier = 4.0\n',
            [("epsilon", plan_toml), ("calibrate", plan_toml, "--epsilon", "1")],
            (toml_document, *BYTES),
        ),
        Format("certificate", folder / "c.json", certificate.read_bytes(), [("verify", folder / "c.json")]),
        Format(
            "certificate, signed",
            folder / "c.json",
            certificate.read_bytes(),
            [
                ("verify", folder / "c.json"),
                ("verify", folder / "c.json", "--recompute"),
                ("generate", place.run_file, "--certificate", folder / "c.json", "-o", place.out),
            ],
            (resigned,),
            answers=(0, 2),
        ),
        Format(
            "receipt",
            folder / "r.json",
            received.read_bytes(),
            [("verify", certificate, "--receipt", folder / "r.json", "--text", place.out / "synthetic.jsonl")],
            (json_document, *BYTES),
        ),
        Format(
            "receipt, signed",
            folder / "r.json",
            received.read_bytes(),
            [("verify", certificate, "--receipt", folder / "r.json", "--text", place.out / "synthetic.jsonl")],
            (signed_anew,),
        ),
        Format(
            "receipt in a report",
            reported / "receipt.json",
            received.read_bytes(),
            [("report", reported)],
            (signed_anew, signed_anew, json_document, *BYTES),
            share=4,
        ),
        Format(
            "text",
            reported / "synthetic.jsonl",
            (place.out / "synthetic.jsonl").read_bytes(),
            [
                ("report", reported),
                ("verify", certificate, "--receipt", received, "--text", reported / "synthetic.jsonl"),
            ],
            (json_lines, *BYTES),
            share=4,
        ),
        Format(
            "trace",
            trace,
            (place.out / "trace.jsonl").read_bytes(),
            [("check-trace", trace, "--certificate", certificate)],
            (json_lines, json_lines, *BYTES),
        ),
        Format(
            "findings",
            reported / "findings.json",
            findings.read_bytes(),
            [("report", reported, "--format", form) for form in ("json", "junit", "sarif", "markdown")],
            (json_document, json_document, *BYTES),
        ),
        Format("audit file", audit, AUDIT.encode(), audited(audit), (toml_document, toml_document, *BYTES), share=2),
        Format("public key", folder / "key.pem", pem, [("verify", certificate, "--trust", folder / "key.pem")]),
        Format("trusted key", trusted, pem, [("keys", "show"), ("verify", certificate)]),
        Format("signing key", home / "signing-key.pem", (home / "signing-key.pem").read_bytes(), [("keys", "show")]),
        *(
            Format(
                f"secret, {name}",
                home / f"{name}.key",
                (home / f"{name}.key").read_bytes(),
                [("ledger", "verify"), ("certify", place.run_file, "-o", folder / "c.json")],
            )
            for name in ("ledger", "commitment")
        ),
        Format("anchor", anchor, anchor.read_bytes(), [("ledger", "verify")], (json_document, *BYTES)),
        Format(
            "key's limits",
            trusted.with_suffix(".json"),
            KeyLimits(("letters",), "zero-out", Decimal(4)).to_json().encode(),
            [("keys", "show"), ("verify", certificate)],
            (json_document, *BYTES),
        ),
        Format(
            "witness",
            heads,
            heads.read_bytes(),
            [("ledger", "verify", "--witness", heads)],
            (json_lines, *BYTES),
            share=4,
        ),
        Format(
            "request to officers",
            request,
            asked,
            [("ledger", "apply", request), ("ledger", "approve", request)],
            (requested, requested, json_document, *BYTES),
            variables=lambda _content: {"AFFIDAVIT_LEDGER": office.url},
            answers=(0, 4),
        ),
        Format(
            "ledger",
            ledger,
            _one_file(home / "ledger.db"),
            [("ledger", "show"), ("ledger", "verify")],
            variables=lambda _content: {"AFFIDAVIT_LEDGER": f"sqlite:///{ledger}"},
            share=32,
        ),
        Format(
            "ledger's address",
            folder / "url",
            f"sqlite:///{ledger}".encode(),
            [("ledger", "show")],
            (*BYTES, _addressed),
            answers=(0, 4),
            variables=lambda content: {
                "AFFIDAVIT_LEDGER": content[:3000].replace(b"\0", b"").decode("utf-8", "surrogateescape")
            },
        ),
        Format(
            "records",
            folder / "read.jsonl",
            place.data.read_bytes(),
            [("init", folder / "read.jsonl", *made_of), ("certify", folder / "read.toml", "-o", folder / "c.json")],
            (json_lines, *BYTES),
        ),
        Format("table, CSV", table, wide.encode(), table_commands),
        Format("table, in UTF-16", table, wide.encode("utf-16"), table_commands),
        Format(
            "table, JSON",
            folder / "table.json",
            spelled(place.records()),
            [("init", folder / "table.json", *made_of)],
            (json_document, json_document, *BYTES),
        ),
        Format("table, Parquet", folder / "t.parquet", _parquet(place), [("init", folder / "t.parquet", *made_of)]),
        Format(
            "grid",
            folder / "grid.toml",
            GRID.encode(),
            [("experiment", folder / "grid.toml", "-o", folder / "train.jsonl" / "x")],
            (toml_document, toml_document, *BYTES),
            answers=(2,),
        ),
        Format("task", task, TASK.encode(), [(*icl, "--task", task)], (toml_document, *BYTES)),
        Format(
            "schema of records",
            schema,
            spelled(SCHEMA),
            [
                (
                    "icl",
                    films,
                    "--model",
                    "toy",
                    "--seeds",
                    "0",
                    "--limit",
                    "1",
                    "--task",
                    "wikimovies",
                    "--schema",
                    schema,
                )
            ],
            (json_document, *BYTES),
        ),
        Format(
            "labels",
            folder / "labels.txt",
            b"north\nsouth\n",
            [(*icl, "--task", "generic", "--labels-file", folder / "labels.txt")],
        ),
    )


def _one_file(path: Path) -> bytes:
    """An SQLite database as one file, with what its log holds."""
    with create_engine(f"sqlite:///{path}", poolclass=NullPool).connect() as connection:
        copy = path.with_name("copy.db")
        connection.execute(text("VACUUM INTO :copy"), {"copy": str(copy)})
    content = copy.read_bytes()
    copy.unlink()
    return content


def _parquet(place: Any) -> bytes:
    import pyarrow
    from pyarrow import parquet

    path = place.folder / "t.parquet"
    parquet.write_table(pyarrow.Table.from_pylist(place.records()), path)
    return path.read_bytes()


def _addressed(content: bytes, chance: random.Random) -> bytes:
    """Another address, odd in a way that addresses are."""
    scheme = chance.choice(("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg", "mysql", "", "sqlite+x"))
    rest = chance.choice(
        (":///", "://", "://h:99999/x", "://u:p@[::1/x", "://h:x/y", ":////dev/null", ":////dev/zero", ":////", "://?a=b",
         ":///\x7f", ":///a%00b", ":////proc/1/mem", "://localhost:1/x?connect_timeout=1", ":///" + "a" * 300, ":///~/x",
         ":////tmp", "://u@localhost:1/x?sslmode=bad", "://localhost:1/x?host=/nowhere&port=a", ":///:memory:")
    )  # fmt: skip
    return (scheme + rest).encode() + chance.choice((b"", b"", chance.choice(PIECES)[:50]))
