"""AUDIT.toml: which attack, on what, how often, at which level, and what is tolerated.

    attack = "extraction"          # extraction | label-probability | reference | one-step | released-text
    target = "protected"           # protected | unprotected | null
    members = 30                   # one-step: trials with the record
    non_members = 30               # one-step: trials without it
    runs = 2
    alpha = 0.05
    seed = 7                       # of the audit (coins, splits), never of the mechanism's noise
    prompt = "few-shot"            # extraction: plain | chat | one-shot | few-shot
    max_tokens = 15                # extraction
    epsilons = [1.0, 4.0, 8.0]     # protected text at these; empty: as certified
    data = "held.jsonl"            # records to draw from; default: the run's own
    kinds = ["email", "phone"]     # extraction, released-text: also url, account, name; default: email
    user = "mailbox"               # the field that says whose record it is: intervals over users
    released = "out/synthetic.jsonl"   # released-text: what to search for what the records hold
    held_out = "held_out.jsonl"        # released-text: records that were not in the data

    [policy]
    max_leaked = 0                 # identifiers beyond those anyone could have guessed
    max_verbatim = 0               # texts with 20 words in a row of a member's
    allow_underpowered = false

Strict: an unknown key, a wrong type or a value out of range is a ``RunFileError`` naming the key.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from affidavit.accountant.errors import RunFileError
from affidavit.audits.attacks.extraction import PROMPTS
from affidavit.audits.findings import Policy, Target
from affidavit.audits.pii.identifier import KINDS, IdentifierKind

__all__ = ["AttackName", "AuditFile", "PolicyTable", "load_audit", "parse_audit"]

AttackName = Literal["extraction", "label-probability", "reference", "one-step", "released-text"]

Count = Annotated[int, Field(ge=1, le=10**7)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class PolicyTable(_Table):
    """``[policy]``."""

    max_leaked: Annotated[int, Field(ge=0)] = 0
    max_verbatim: Annotated[int, Field(ge=0)] = 0
    allow_underpowered: bool = False

    def policy(self) -> Policy:
        """As findings hold it."""
        return Policy(
            max_leaked=self.max_leaked,
            max_verbatim=self.max_verbatim,
            allow_underpowered=self.allow_underpowered,
        )


class AuditFile(_Table):
    """A whole audit file; relative paths start at ``folder``, where the file stands."""

    attack: AttackName
    target: Target = "protected"
    members: Annotated[int, Field(ge=0, le=10**7)] = 0
    non_members: Annotated[int, Field(ge=0, le=10**7)] = 0
    runs: Count = 1
    alpha: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.05
    seed: Annotated[int, Field(ge=0, lt=2**53)] = 0
    prompt: str = "few-shot"
    max_tokens: Count = 15
    epsilons: tuple[Annotated[float, Field(gt=0.0)], ...] = ()
    data: str | None = None
    kinds: tuple[IdentifierKind, ...] = ("email",)
    user: str | None = None
    released: str | None = None
    held_out: str | None = None
    policy: PolicyTable = PolicyTable()
    folder: Annotated[Path, Field(exclude=True)] = Path()

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, content: Any) -> Any:
        """TOML has lists only."""
        if not isinstance(content, dict):
            return content
        lists = {key: tuple(content[key]) for key in ("epsilons", "kinds") if isinstance(content.get(key), list)}
        return {**content, **lists}

    @model_validator(mode="after")
    def _consistent(self) -> AuditFile:
        known = [prompt.name for prompt in PROMPTS]
        if self.prompt not in known:
            raise ValueError(f"prompt: not known; allowed: {' | '.join(known)}")
        searching = self.attack == "released-text"
        for key in ("members", "non_members"):
            if (getattr(self, key) > 0) == searching:
                raise ValueError(
                    f"{key}: " + ("all records are searched for; leave it out" if searching else "at least 1")
                )
        for key in ("released", "held_out"):
            if (getattr(self, key) is not None) != searching:
                raise ValueError(f"{key}: " + ("a file is needed" if searching else "only of attack released-text"))
        if not self.kinds:
            raise ValueError(f"kinds: at least one of {' | '.join(KINDS)}")
        if self.attack == "one-step" and self.members != self.non_members:
            raise ValueError("non_members: the one-step audit makes as many trials with the record as without it")
        if self.attack == "one-step" and self.epsilons:
            raise ValueError("epsilons: the one-step audit runs the certified mechanism; leave them out")
        return self

    @property
    def released_path(self) -> Path:
        """The text to search. Only for attack ``released-text``."""
        return self.folder / Path(self.released or "").expanduser()

    @property
    def held_out_path(self) -> Path:
        """Records that were not in the data. Only for attack ``released-text``."""
        return self.folder / Path(self.held_out or "").expanduser()

    @property
    def data_path(self) -> Path | None:
        """The file to draw records from, if it is not the run's own."""
        return None if self.data is None else self.folder / Path(self.data).expanduser()


def parse_audit(content: dict[str, Any], *, folder: Path = Path()) -> AuditFile:
    """A parsed TOML table as an audit file. Raises ``RunFileError`` naming the first wrong key."""
    if "folder" in content:
        raise RunFileError("folder", "unknown key", allowed=", ".join(_known_keys(())))
    try:
        return AuditFile.model_validate({**content, "folder": folder})
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
    location = tuple(str(step)[:40] for step in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if not location:
        key, _, message = message.partition(": ")
        raise RunFileError(key, message)
    if first["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        near = difflib.get_close_matches(location[-1], known, n=1)
        raise RunFileError(
            ".".join(location),
            "unknown key",
            allowed=", ".join(known),
            hint=f"did you mean {near[0]}?" if near else "",
        )
    raise RunFileError(".".join(location), message[:1].lower() + message[1:])


def _known_keys(location: tuple[str, ...]) -> list[str]:
    table: type[BaseModel] = PolicyTable if location[:1] == ("policy",) else AuditFile
    return [name for name, field in table.model_fields.items() if not field.exclude]


def load_audit(path: Path) -> AuditFile:
    """Read an audit file. Raises ``RunFileError``."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunFileError(path.name, "no such file", hint="see docs: the keys of an audit file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise RunFileError(path.name, f"not TOML: {error}") from None
    return parse_audit(content, folder=path.parent)
