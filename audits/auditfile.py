"""AUDIT.toml: which attacks, on what, how often, at which level, and what is tolerated.

    attack = "extraction"          # or several: attack = ["loss", "reference", "lira"]
    target = "protected"           # protected | unprotected | null
    members = 30                   # one-step: trials with the record
    non_members = 30               # one-step: trials without it
    runs = 2
    alpha = 0.05                   # for the whole report, shared by its tests
    seed = 7                       # of the audit (coins, splits, shadows), never of the mechanism's noise
    prompt = "few-shot"            # extraction, canary: plain | chat | one-shot | few-shot
    max_tokens = 15                # extraction, canary
    epsilons = [1.0, 4.0, 8.0]     # protected text at these; empty: as certified
    data = "held.jsonl"            # records to draw from; default: the run's own
    game = "split"                 # membership: split (members of a pool) | per-run (one record, in or out)
    through = "text"               # membership: text (released demonstrations) | endpoint (hidden ones)
    thresholds = [0.0]             # per-run: one fixed, several corrected for; empty: chosen on half the runs
    background = 40                # per-run, canary: records that are always in the data
    shadow_prompts = 8             # lira, rmia: prompts of the attacker's own, from records of neither side
    population = 16                # rmia: records of neither side that are compared with
    mechanism = "projected-mean"   # one-step: which mechanism draws; default: the one named as the leaf
    kinds = ["email", "phone"]     # extraction (asks for the first), released-text: also url, account, name
    region = "US"                  # where phone numbers without a country code are from
    user = "mailbox"               # the field that says whose record it is: intervals over users
    released = "out/synthetic.jsonl"   # released-text: what to search for what the records hold
    held_out = "held_out.jsonl"        # released-text: records that were not in the data

    [policy]
    max_leaked = 0                 # identifiers beyond those anyone could have guessed
    max_verbatim = 0               # texts with 20 words in a row of a member's
    allow_underpowered = false

Strict: an unknown key, a wrong type, a value out of range or a key that no attack here uses is a
``RunFileError`` naming the key.
"""

from __future__ import annotations

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from affidavit.accountant import files
from affidavit.accountant.errors import RunFileError
from affidavit.audits.attacks.cases import covered
from affidavit.audits.attacks.extraction import PROMPTS
from affidavit.audits.attacks.registry import MEMBERSHIP_ATTACKS, SHADOWED, MembershipName
from affidavit.audits.findings import Policy, Target
from affidavit.audits.pii.identifier import KINDS, IdentifierKind
from affidavit.audits.pii.phone import is_region
from affidavit.audits.statistics.correction import Level

__all__ = ["AttackName", "AuditFile", "PolicyTable", "load_audit", "parse_audit"]

AttackName = Literal["extraction", "canary", "one-step", "released-text", MembershipName]

Count = Annotated[int, Field(ge=1, le=10**7)]

_LISTS = ("attack", "epsilons", "thresholds", "kinds")
_MEMBERSHIP: frozenset[str] = frozenset(MEMBERSHIP_ATTACKS)
_USED_BY: dict[str, frozenset[str]] = {
    "prompt": frozenset({"extraction", "canary"}),
    "max_tokens": frozenset({"extraction", "canary"}),
    "game": _MEMBERSHIP,
    "through": _MEMBERSHIP,
    "thresholds": _MEMBERSHIP,
    "background": frozenset({"canary", *_MEMBERSHIP}),
    "shadow_prompts": frozenset(SHADOWED),
    "population": frozenset({"rmia"}),
    "mechanism": frozenset({"one-step"}),
    "kinds": frozenset({"extraction", "released-text"}),
    "region": frozenset({"extraction", "released-text"}),
    "released": frozenset({"released-text"}),
    "held_out": frozenset({"released-text"}),
}
"""Keys that only some attacks use."""


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
            max_leaked=self.max_leaked, max_verbatim=self.max_verbatim, allow_underpowered=self.allow_underpowered
        )


class AuditFile(_Table):
    """A whole audit file; relative paths start at ``folder``, where the file stands."""

    attack: AttackName | tuple[AttackName, ...]
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
    region: str = "US"
    user: str | None = None
    released: str | None = None
    held_out: str | None = None
    game: Literal["split", "per-run"] = "split"
    through: Literal["text", "endpoint"] = "text"
    thresholds: tuple[float, ...] = ()
    background: Count = 40
    shadow_prompts: Count = 8
    population: Count = 16
    mechanism: str = ""
    policy: PolicyTable = PolicyTable()
    folder: Annotated[Path, Field(exclude=True)] = Path()

    @field_validator("attack", mode="before")
    @classmethod
    def _known_attacks(cls, value: Any) -> Any:
        """Named one by one, so that the message says which is wrong."""
        names = value if isinstance(value, tuple) else (value,)
        known = get_args(AttackName)
        for name in names:
            if name not in known:
                shown = repr(name[:40]) if isinstance(name, str) else "not a name"
                raise ValueError(f"{shown} is not known; allowed: {' | '.join(known)}")
        if not names or len(set(names)) < len(names):
            raise ValueError("name each attack once, and at least one")
        return value

    @model_validator(mode="before")
    @classmethod
    def _lists_are_tuples(cls, content: Any) -> Any:
        """TOML has lists only."""
        if not isinstance(content, dict):
            return content
        return {k: tuple(v) if k in _LISTS and isinstance(v, list) else v for k, v in content.items()}

    @model_validator(mode="after")
    def _consistent(self) -> AuditFile:
        for key in sorted(self.model_fields_set & _USED_BY.keys()):
            if not _USED_BY[key] & set(self.attacks):
                raise ValueError(f"{key}: none of the attacks uses it; it is for {', '.join(sorted(_USED_BY[key]))}")
        self._sized()
        if not self.kinds:
            raise ValueError(f"kinds: at least one of {' | '.join(KINDS)}")
        if "region" in self.model_fields_set and not is_region(self.region):
            raise ValueError('region: two letters of a country with phone numbers, such as "US" or "DE"')
        if self.prompt not in (known := [prompt.name for prompt in PROMPTS]):
            raise ValueError(f"prompt: not known; allowed: {' | '.join(known)}")
        if self.mechanism and self.mechanism not in covered():
            raise ValueError(f"mechanism: not known; allowed: {' | '.join(covered())}")
        if "one-step" in self.attacks and self.members != self.non_members:
            raise ValueError("non_members: the one-step audit makes as many trials with the record as without it")
        if self.attacks == ("one-step",) and self.epsilons:
            raise ValueError("epsilons: the one-step audit runs the certified mechanism; leave them out")
        if self.game == "split" and self.thresholds:
            raise ValueError('thresholds: they are for game = "per-run"; a split has no threshold to fix')
        if self.game == "per-run" and self.runs != 1:
            raise ValueError("runs: in the per-run game members and non_members count the runs; leave it out")
        return self

    def _sized(self) -> None:
        searching = "released-text" in self.attacks
        if searching and len(self.attacks) > 1:
            raise ValueError("attack: released-text searches a file; give it an audit file of its own")
        for key in ("members", "non_members"):
            if (getattr(self, key) > 0) == searching:
                raise ValueError(
                    f"{key}: " + ("all records are searched for; leave it out" if searching else "at least 1")
                )
        for key in ("released", "held_out"):
            if searching and getattr(self, key) is None:
                raise ValueError(f"{key}: a file is needed")

    @property
    def attacks(self) -> tuple[AttackName, ...]:
        """One or several."""
        return self.attack if isinstance(self.attack, tuple) else (self.attack,)

    @property
    def level(self) -> Level:
        """``alpha``, shared by every attack at every ε."""
        each = max(1, len(self.epsilons)) if self.target == "protected" else 1
        single = {"one-step", "released-text"}
        return Level(total=self.alpha, tests=sum(1 if name in single else each for name in self.attacks))

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
        content = tomllib.loads(files.read_bytes(path).decode("utf-8"))
    except FileNotFoundError:
        raise RunFileError(path.name, "no such file", hint="see docs/audits.md: the keys of an audit file") from None
    except OSError as error:
        raise RunFileError(path.name, f"cannot be read: {error.strerror}", hint="Check the path.") from None
    except (ValueError, RecursionError) as error:
        raise RunFileError(path.name, f"not TOML: {error}") from None
    return parse_audit(content, folder=path.parent)
