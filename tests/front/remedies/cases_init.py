"""``init``: files of records in every format and state, facts that were not declared, accounts that are there."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable

from remedy_cases import Case, Place

BASE = "--relation zero-out --model toy -o new.toml"
PUBLIC = f"{BASE} --declare-public"
LABELS = ("north", "south")


def rows(*, header: str = "text,label\n", cells: str = "{text},{label}", separator: str = ",", count: int = 24) -> str:
    """A file of separated values."""
    lines = [cells.format(n=n, text=f"the wind of day number {n}", label=LABELS[n % 2]) for n in range(count)]
    return (header + "\n".join(lines) + "\n").replace(",", separator)


def file(name: str, content: str | bytes) -> Callable[[Place], None]:
    """A file with this in it."""

    def arrange(place: Place) -> None:
        (place.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)

    return arrange


def _init(at: str, name: str, content: str | bytes, flags: str = "", **more: object) -> Case:
    return Case(at, f"init {name} {PUBLIC} {flags}".strip(), file(name, content), **more)  # type: ignore[arg-type]


def _zip() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("letters.csv", rows())
    return packed.getvalue()


def _objects(count: int = 24, **more: object) -> list[dict[str, object]]:
    return [{"text": f"the wind of day number {n}", "label": LABELS[n % 2], **more} for n in range(count)]


def _jsonl(found: list[dict[str, object]]) -> str:
    return "".join(json.dumps(one) + "\n" for one in found)


def _account(place: Place, relation: str = "zero-out", **budget: str) -> None:
    """An account for the records, as ``init`` opens it."""
    flags = [word for name, value in budget.items() for word in (f"--{name.replace('_', '-')}", value)]
    place.must("init", "train.jsonl", "--relation", relation, "--model", "toy", "-o", "first.toml",
               "--declare-public", *flags)  # fmt: skip


def _spent(epsilon: str, delta: str) -> Callable[[Place], None]:
    """An account that is smaller than a run of the usual budget."""
    return lambda place: _account(place, epsilon=epsilon, delta=delta, account_epsilon=epsilon, account_delta=delta)


def _converted(place: Place) -> None:
    file("letters.csv", rows())(place)
    place.write("letters.records.jsonl", _jsonl(_objects(3, id="x")))


WHOLE = file("letters.csv", rows())
JSON_LINES = file("letters.jsonl", _jsonl(_objects()))
THREE = rows(header="id,text,label\n", cells="{n},{text},{label}")
MIXED = b"\xef\xbb\xbf" + rows(cells="{text} à,{label}").encode("cp1252")

CASES = [
    Case("front/cli/starting.py:init", "init train.jsonl --relation zero-out --model toy --declare-public"),
    Case("front/cli/starting.py:init#2", "init --records-only", WHOLE),
    Case("front/cli/starting.py:init#3", f"init letters.csv {PUBLIC}", _converted),
    Case("front/tables/canonical.py:records_file", f"init letters.csv {PUBLIC}", _converted),
    Case("front/tables/canonical.py:records_file", "init letters.csv --records-only", _converted),
    Case("front/cli/_declaring.py:ask_relation", "init train.jsonl --model toy -o new.toml --declare-public"),
    Case("front/cli/_declaring.py:_confirm", f"init train.jsonl {BASE}"),
    Case("front/cli/_declaring.py:_confirm", f"init train.jsonl {BASE} --label north --label south"),
    Case("front/cli/_declaring.py:declare", f"init train.jsonl {PUBLIC} --size 25"),
    Case("front/cli/_declaring.py:declare#2", f"init train.jsonl {BASE} --size 24 --label North"),
    Case(
        "front/cli/_declaring.py:labels_of",
        f"init train.jsonl {PUBLIC} --labels-file labels.txt",
        by_hand=file("labels.txt", "north\nsouth\n"),
    ),
    *(
        Case(
            f"front/cli/_declaring.py:labels_of#{number}",
            f"init train.jsonl {PUBLIC} --labels-file labels.txt",
            file("labels.txt", content),
            by_hand=file("labels.txt", "north\nsouth\n"),
        )
        for number, content in ((2, b"\xff\xfe\xff"), (3, "\n"), (4, '{"text": "the wind"}\n'))
    ),
    Case("front/starters.py:settings", f"init {PUBLIC} --size 1"),
    Case("front/cli/_starting.py:starter", f"init train.jsonl {PUBLIC} --generator prsm"),
    Case("front/cli/_starting.py:starter", f"init train.jsonl {PUBLIC} --generator gpt", past=True),
    Case("front/cli/_starting.py:starter#2", f"init train.jsonl {PUBLIC} --generator ksa-answers"),
    Case("front/cli/_starting.py:starter#3", f"init train.jsonl {PUBLIC} --query 'What now?'"),
    Case(
        "front/cli/_starting.py:starter#4",
        f"init train.jsonl {PUBLIC} --generator sga --query 'What now?' --epsilon 900",
        file("public.csv", rows()),
    ),
    Case(
        "front/cli/_starting.py:fitted",
        f"init train.jsonl {PUBLIC} --generator sga --query 'What now?' --public public.csv",
        file("public.csv", rows()),
    ),
    Case(
        "front/starters.py:settings",
        f"init letters.csv {PUBLIC} --label north --label south --label west --label east",
        file("letters.csv", rows(count=3)),
    ),
    _init(
        "front/scaffold.py:proposed_labels",
        "letters.csv",
        rows(cells="{text},{label} {n}"),
    ),
    # tables
    _init(
        "front/tables/columns.py:choose",
        "letters.json",
        json.dumps({"train": _objects(), "test": _objects(12)}, indent=1),
    ),
    _init("front/tables/columns.py:choose#2", "letters.json", "[]", by_hand=file("letters.json", _jsonl(_objects()))),
    _init("front/tables/columns.py:choose#3", "letters.csv", THREE, "--id-column number"),
    _init("front/tables/columns.py:choose#4", "letters.csv", THREE, "--header --text-column text --label-column text"),
    _init("front/tables/columns.py:choose#5", "letters.csv", "text,label\n", by_hand=WHOLE),
    _init(
        "front/tables/columns.py:_named",
        "letters.csv",
        rows(header="text,text,label\n", cells="{text},{text} again,{label}"),
        "--text-column text --label-column label --header",
    ),
    _init("front/tables/columns.py:_unclear", "letters.csv", rows(header="")),
    _init("front/tables/columns.py:_unclear", "letters.csv", rows(header="what,kind\n")),
    _init("front/tables/columns.py:_unclear", "letters.csv", THREE, "--text-column body --label-column label"),
    _init(
        "front/tables/curation.py:_incomplete",
        "letters.csv",
        rows() + "the wind of no day,\n",
    ),
    _init(
        "front/tables/curation.py:_incomplete",
        "letters.csv",
        rows(header="text,label,kind\n", cells="{text},,{label}"),
        by_hand=WHOLE,
    ),
    _init(
        "front/tables/curation.py:curate",
        "letters.csv",
        rows(header="text,label,kind\n", cells="{text},,{label}"),
        "--drop-incomplete",
        by_hand=WHOLE,
    ),
    _init(
        "front/tables/curation.py:curate#2",
        "letters.csv",
        rows(header="id,text,label\n", cells="7,{text},{label}"),
        "--id-column id",
    ),
    _init("front/tables/delimited.py:separator", "letters.csv", rows(separator=";"), "--delimiter both", past=True),
    _init("front/tables/delimited.py:read_delimited", "letters.csv", "\n \n", by_hand=WHOLE),
    _init("front/tables/encoding.py:_as_asked", "letters.csv", rows(), "--encoding utf-99"),
    _init("front/tables/encoding.py:_as_asked", "letters.csv", rows(), "--encoding rot13"),
    _init("front/tables/encoding.py:_as_asked", "letters.csv", rows(), "--encoding zip"),
    _init("front/tables/encoding.py:_cut", "letters.csv", rows(cells="{text} à,{label}"), "--encoding idna"),
    _init("front/tables/encoding.py:_cut", "letters.csv", rows(cells="{text} à,{label}"), "--encoding ascii"),
    _init(
        "front/tables/encoding.py:_cut",
        "letters.csv",
        MIXED,
        past=True,
    ),
    _init(
        "front/tables/encoding.py:_guess",
        "letters.csv",
        rows(cells="{text} \x81\x98\xaa\xd2\xff\x80\xa0\x83\x88\x90,{label}").encode("latin-1"),
    ),
    _init(
        "front/tables/jsonfile.py:_member",
        "letters.json",
        '{\n"train": 3}',
        by_hand=file("letters.json", _jsonl(_objects())),
    ),
    _init("front/tables/jsonfile.py:read_json", "letters.jsonl", "{\n", by_hand=JSON_LINES),
    _init("front/tables/parquet.py:read_parquet", "letters.jsonl", b"PAR1 and no more", by_hand=JSON_LINES),
    _init("front/tables/reading.py:read_table#2", "letters.csv", _zip(), by_hand=WHOLE),
    Case(
        "front/tables/reading.py:read_table",
        f"init letters.csv {PUBLIC}",
        lambda place: os.mkfifo(place.folder / "letters.csv"),
        by_hand=lambda place: ((place.folder / "letters.csv").unlink(), WHOLE(place)),
    ),
    # accounts
    Case(
        "front/accounts.py:_check_owner",
        f"init train.jsonl {PUBLIC}",
        lambda place: place.generated(),
        code=4,
        past=True,
    ),
    Case("front/accounts.py:_refuse_small", f"init train.jsonl {PUBLIC} --account-epsilon 0.5"),
    Case("front/accounts.py:_refuse_small", f"init train.jsonl {PUBLIC} --account-delta 1e-9"),
    Case(
        "front/accounts.py:_refuse_other",
        f"init train.jsonl {PUBLIC}",
        lambda place: _account(place, "add-remove"),
        code=4,
    ),
    Case(
        "front/accounts.py:_refuse_other#2",
        f"init train.jsonl {PUBLIC}",
        lambda place: (
            place.keys(),
            place.must(
                "ledger",
                "init",
                "--dataset",
                "train",
                "--relation",
                "zero-out",
                "--unit",
                "user:5",
                "--epsilon",
                "9",
                "--delta",
                "0.001",
            ),
        ),
        code=4,
    ),
    Case("front/accounts.py:_refuse_other#3", f"init train.jsonl {PUBLIC} --filter zcdp", _account, code=4),
    Case("front/accounts.py:_refuse_other#4", f"init train.jsonl {PUBLIC} --account-epsilon 7", _account, code=4),
    Case("front/accounts.py:_new", f"init train.jsonl {PUBLIC} --generator few-shot --epsilon 8 --filter gdp"),
    Case("front/accounts.py:_cannot_pay", f"init train.jsonl {PUBLIC}", _spent("0.5", "1e-6"), code=4),
    Case("front/accounts.py:_cannot_pay", f"init train.jsonl {PUBLIC}", _spent("0.5", "1e-5"), code=4),
]
