"""Run files: what will be run, on which data, under which relation and budget.

TOML, strict: an unknown key or a wrong type is a ``RunFileError`` that names the key. Nothing
here reads the data; ``size`` and ``labels`` are declared public facts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from affidavit.accountant import files
from affidavit.accountant.errors import NotSupported, PlanError, RunFileError
from affidavit.accountant.plan import Plan
from affidavit.accountant.release.randomness import Randomness as NoiseSetting
from affidavit.accountant.remedies import near_file
from affidavit.accountant.unit import RECORD, Unit, parse_unit
from affidavit.accountant.validate import Relation
from affidavit.generation.configs import GeneratorConfig
from affidavit.generation.dataset import Fields
from affidavit.generation.registry import Generator, check_access, generator
from affidavit.strict import StrictTable, checked, known_keys, read_toml

if TYPE_CHECKING:
    from affidavit.generation.models.served_requests import ServerSettings

__all__ = ["Budget", "Data", "FieldNames", "Model", "Randomness", "RunFile", "load_run", "parse_run"]

Name = Annotated[str, Field(min_length=1, max_length=200)]


def _unit(value: object) -> Unit:
    try:
        return parse_unit(value)
    except PlanError:
        raise ValueError('not a unit; allowed: "record", or {key = "user_id", max_records = 5}') from None


def _noise(value: object) -> NoiseSetting:
    if value == "secure":
        return "secure"
    if isinstance(value, Mapping) and set(value) == {"seed"}:
        seed = value["seed"]
        if isinstance(seed, int) and not isinstance(seed, bool) and 0 <= seed < 2**53:
            return seed
    raise ValueError('not known; allowed: "secure", or {seed = a whole number >= 0}, which carries no guarantee')


class Budget(StrictTable):
    """What the run may cost: (ε, δ) under the run's relation."""

    epsilon: Annotated[float, Field(ge=0.0, examples=[1.0])]
    delta: Annotated[float, Field(ge=0.0, le=1.0, examples=[1e-5])]


class FieldNames(StrictTable):
    """Which fields of a line hold the text and the label (or question and answer); both files name them alike."""

    text: Name = "text"
    label: Name = "label"


class Data(StrictTable):
    """The private records: ledger account, file (JSON Lines), declared public size; and the public records' file."""

    name: Annotated[Name, Field(examples=["my-records"])]
    path: Annotated[Name, Field(examples=["train.jsonl"])]
    size: Annotated[int, Field(ge=1, examples=[1000])]
    public: Name | None = None
    fields: FieldNames = FieldNames()


class Model(StrictTable):
    """A packaged model's name, a local folder, ``toy`` for tests, or a server's address with the model's ``id``.

    The other keys are for a server: ``api_key_env`` names the environment variable that holds the key; ``independent``
    declares that its answer to a prompt does not depend on what it answers at the same time, so that several are asked
    at once.
    """

    name: Annotated[Name, Field(examples=["smollm2-135m"])]
    id: Name | None = None
    api_key_env: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")] | None = None
    top_logprobs: Annotated[int, Field(ge=1, le=100)] = 20
    context_length: Annotated[int, Field(ge=16, le=10_000_000)] = 4096
    endpoint: Literal["completions", "chat"] = "completions"
    independent: bool = False
    timeout_s: Annotated[float, Field(gt=0.0, le=3600.0)] = 60.0
    retries: Annotated[int, Field(ge=0, le=20)] = 4

    @model_validator(mode="after")
    def _whole(self) -> Model:
        served = self.name.startswith(("http://", "https://"))
        if served and self.id is None:
            hint = 'The model that the server is to use, for example `model.id = "qwen2.5-7b"`.'
            raise RunFileError("model.id", "missing", hint=hint)
        if served and "@" in self.name:
            plain = re.sub(r"//[^/]*@", "//", self.name)
            hint = f"`model.name = {json.dumps(plain)}`; the key stands in the variable that api_key_env names."
            raise RunFileError("model.name", "holds a user or a password", hint=hint)
        if not served and (extra := sorted(self.model_fields_set - {"name"})):
            hint = f'Remove `model.{extra[0]}`, or name a server\'s address: `model.name = "http://localhost:8000/v1"`.'
            raise RunFileError(f"model.{extra[0]}", f"is for a server, and {self.name[:80]!r} is none", hint=hint)
        return self

    @property
    def server(self) -> ServerSettings | None:
        """Where the model is served; None for a local one."""
        if self.id is None:
            return None
        from affidavit.generation.models.served_requests import ServerSettings

        return ServerSettings(
            url=self.name,
            model=self.id,
            api_key_env=self.api_key_env,
            top_logprobs=self.top_logprobs,
            context_length=self.context_length,
            timeout_s=self.timeout_s,
            retries=self.retries,
            endpoint=self.endpoint,
            independent=self.independent,
        )

    def settings(self) -> dict[str, Any]:
        """What a certificate binds: which model, and how much of it is seen; not how it is reached."""
        if self.id is None:
            return {"name": self.name}
        asked = {"endpoint": self.endpoint} if self.endpoint != "completions" else {}
        declared = {"independent": True} if self.independent else {}
        return {"name": self.name, "id": self.id, "top_logprobs": self.top_logprobs, **asked, **declared}


class Randomness(StrictTable):
    """``secure``: from the operating system. A seed is for tests: the output carries no guarantee."""

    noise: Annotated[Literal["secure"] | int, BeforeValidator(_noise)] = "secure"


class RunFile(StrictTable):
    """A whole run file. Relative paths start at ``folder``, where the file stands."""

    relation: Relation
    unit: Annotated[Unit, BeforeValidator(_unit)]
    budget: Budget
    data: Data
    model: Model
    generator: Annotated[GeneratorConfig, Field(examples=[{"kind": "prism", "labels": ["first", "second"]}])]
    randomness: Randomness = Randomness()
    folder: Annotated[Path, Field(exclude=True)] = Path()

    @property
    def data_path(self) -> Path:
        """The private records' file."""
        return self.folder / Path(self.data.path).expanduser()

    @property
    def fields(self) -> Fields:
        """Which fields hold a record's text and label."""
        return Fields(self.data.fields.text, self.data.fields.label)

    @property
    def server(self) -> ServerSettings | None:
        """How the generator asks a served model: for text alone, where it needs no more; None for a local model."""
        server = self.model.server
        return server and replace(server, top_logprobs=0) if self.source.access == "text" else server

    @cached_property
    def public_content(self) -> bytes | None:
        """The public records' file, read once, so that what a certificate binds is what runs.

        None where the run file names none. Raises ``RunFileError`` where it cannot be read.
        """
        if self.data.public is None:
            return None
        path = self.folder / Path(self.data.public).expanduser()
        try:
            return files.read_bytes(path, most=files.DATA_BYTES)
        except OSError as error:
            problem = f"{path} cannot be read: {error.strerror}"
            raise RunFileError("data.public", problem, hint=near_file(path, "data.public")) from None

    @property
    def source(self) -> Generator:
        """The generator that the configuration belongs to."""
        return generator(self.kind)

    @property
    def kind(self) -> str:
        """The generator's name."""
        return str(getattr(self.generator, "kind", ""))

    def plan(self) -> Plan:
        """What will be run, as a plan. Raises ``RunFileError``, ``NotSupported``."""
        if self.unit != RECORD:
            raise NotSupported(
                f"no theorem is implemented for {self.kind} with the unit {self.unit}",
                hint='`unit = "record"` is covered; keep one record for each person.',
            )
        return self.source.plan(self.generator, relation=self.relation, size=self.data.size)

    def numbers(self) -> dict[str, int | float]:
        """The generator's numeric settings in the order of the table; those of inner tables with a dot."""
        return dict(_numbers(self.generator.model_dump()))

    def with_generator(self, **changes: Any) -> RunFile:
        """The same run with some generator keys changed, checked anew. Raises ``RunFileError``.

        A key of an inner table is written with a dot: ``**{"dpm.levels": 3}``.
        """
        table = self.generator.model_dump()
        for key, value in changes.items():
            *outer, last = key.split(".")
            inner = table
            for step in outer:
                inner = inner[step]
            inner[last] = value
        return self.model_copy(update={"generator": checked(type(self.generator), table, prefix="generator.")})

    def settings(self) -> dict[str, Any]:
        """Everything that a certificate binds, in one spelling; without the data's whereabouts.

        Public records are bound by their digest, the private ones by a keyed commitment of its own.
        """
        settings = self.model_dump(mode="json", exclude={"folder": True, "data": {"path", "public"}})
        if self.public_content is not None:
            settings["data"]["public_sha256"] = hashlib.sha256(self.public_content).hexdigest()
        return {
            **settings,
            "unit": self.unit.to_json(),
            "model": self.model.settings(),
            "generator": self.generator.model_dump(mode="json"),
        }

    def sha256(self) -> str:
        """Digest of ``settings``: the configuration that a certificate is for."""
        import rfc8785

        return hashlib.sha256(rfc8785.dumps(self.settings())).hexdigest()


def _numbers(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, int | float]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            yield f"{prefix}{key}", value


def load_run(path: Path | str) -> RunFile:
    """Read a run file. Raises ``RunFileError`` naming the key and what is allowed there."""
    path = Path(path)
    return parse_run(read_toml(path), folder=path.parent)


def parse_run(content: Mapping[str, Any], *, folder: Path = Path()) -> RunFile:
    """``load_run`` of a parsed TOML document; relative paths start at ``folder``."""
    if "folder" in content:
        raise RunFileError("folder", "unknown key", allowed=", ".join(known_keys(RunFile)), hint="Remove `folder`.")
    table = content.get("generator")
    if not isinstance(table, Mapping):
        if "generator" in content:
            hint = 'For example `generator = {kind = "prism", labels = ["first", "second"]}`.'
            raise RunFileError("generator", "not a table", allowed="[generator] with a kind", hint=hint)
        return checked(RunFile, content)
    config = checked(generator(table.get("kind")).config, table, prefix="generator.")
    run = checked(RunFile, {**content, "generator": config, "folder": folder})
    if config.needs_public and run.data.public is None:
        raise RunFileError(
            "data.public",
            f"missing: {run.kind} with these settings uses public records",
            hint='For example `data.public = "public.jsonl"`: JSON Lines, with the fields of the private file.',
        )
    if run.model.server is not None:
        check_access(run.source, config, top_logprobs=run.model.top_logprobs)
    return run
