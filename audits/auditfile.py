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
    prefix_words = 25              # discoverable: the words of a record that the attacker knows
    target_words = 10              # discoverable: the next ones, which a service is asked for
    queries = 100                  # discoverable: how often it is asked (n)
    chance = 0.5                   # discoverable: the chance of one right answer that worries (p)
    temperature = 1.0              # discoverable: at which the service samples
    top_k = 40                     # discoverable: from how many tokens; left out: all
    kinds = ["email", "phone"]     # extraction (asks for the first), released-text: also url, account, name
    region = "US"                  # where phone numbers without a country code are from
    user = "mailbox"               # the field that says whose record it is: intervals over users
    released = "out/synthetic.jsonl"   # released-text: what to search for what the records hold
    held_out = "held_out.jsonl"        # released-text: records that were not in the data

``sensitivity`` and ``neighbours`` check how the generator is written: they take none of these keys, and no chance.

    [policy]
    max_leaked = 0                 # identifiers beyond those anyone could have guessed
    max_verbatim = 0               # texts with 20 words in a row of a member's
    max_extractable = 0            # records that can be asked out of a service; judged where chance explains fewer
    max_near_copies = 0            # texts with 20 words of a member's, up to 4 edited; judged where chance copies fewer
    allow_underpowered = false

Strict: an unknown key, a wrong type, a value out of range or a key that no attack here uses is a
``RunFileError`` naming the key.
"""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from affidavit.accountant import files
from affidavit.accountant.errors import RunFileError
from affidavit.accountant.remedies import did_you_mean, near_file, setting
from affidavit.accountant.validate import kept
from affidavit.audits.attacks.cases import covered
from affidavit.audits.attacks.extraction import PROMPTS
from affidavit.audits.experiments.registry import CHECKS, KEYS, AttackName, chosen
from affidavit.audits.finding import Target
from affidavit.audits.findings import Policy
from affidavit.audits.pii.identifier import KINDS, IdentifierKind
from affidavit.audits.pii.phone import is_region
from affidavit.audits.statistics.correction import Level
from affidavit.audits.table_remedies import faults_of, known_beside, known_keys, remedy

__all__ = ["AuditFile", "PolicyTable", "load_audit", "parse_audit"]

Count = Annotated[int, Field(ge=1, le=10**7)]

_LISTS = ("attack", "epsilons", "thresholds", "kinds")
_FILES = {"released": "out/synthetic.jsonl", "held_out": "held_out.jsonl"}


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class PolicyTable(_Table):
    """``[policy]``."""

    max_leaked: Annotated[int, Field(ge=0)] = 0
    max_verbatim: Annotated[int, Field(ge=0)] = 0
    max_near_copies: Annotated[int, Field(ge=0)] = 0
    max_extractable: Annotated[int, Field(ge=0)] = 0
    allow_underpowered: bool = False

    def policy(self) -> Policy:
        """As findings hold it."""
        return Policy(**self.model_dump())


class AuditFile(_Table):
    """A whole audit file; relative paths start at ``folder``, where the file stands."""

    attack: Annotated[AttackName | tuple[AttackName, ...], Field(examples=["one-step"])]
    target: Target = "protected"
    members: Annotated[int, Field(ge=0, le=10**7, examples=[50])] = 0
    non_members: Annotated[int, Field(ge=0, le=10**7, examples=[50])] = 0
    runs: Count = 1
    alpha: Annotated[float, Field(ge=1e-12, lt=1.0)] = 0.05
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
    prefix_words: Count = 25
    target_words: Count = 10
    queries: Count = 100
    chance: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    temperature: Annotated[float, Field(gt=0.0)] = 1.0
    top_k: Count | None = None
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
                raise RunFileError(
                    "attack",
                    f"{shown} is not known",
                    allowed=" | ".join(known),
                    hint=did_you_mean(name, known, path="attack") or 'For example `attack = "one-step"`.',
                )
        if not names or len(set(names)) < len(names):
            hint = f"For example {setting('attack', list(dict.fromkeys(names)) or 'one-step')}."
            raise RunFileError("attack", "one is named twice, or none", hint=hint)
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
        for key in sorted(self.model_fields_set & KEYS.keys()):
            if not KEYS[key] & set(self.attacks):
                raise RunFileError(
                    key,
                    f"none of the attacks uses it; it is for {', '.join(sorted(KEYS[key]))}",
                    hint=f"Remove `{key}`.",
                )
        self._sized()
        if not self.kinds:
            hint = 'For example `kinds = ["email"]`.'
            raise RunFileError("kinds", "none is named", allowed=" | ".join(KINDS), hint=hint)
        if "region" in self.model_fields_set and not is_region(self.region):
            raise RunFileError(
                "region", "not two letters of a country with phone numbers", hint='For example `region = "US"`.'
            )
        if self.prompt not in (known := [prompt.name for prompt in PROMPTS]):
            hint = did_you_mean(self.prompt, known, path="prompt")
            raise RunFileError("prompt", "not known", allowed=" | ".join(known), hint=hint)
        if self.mechanism and self.mechanism not in covered():
            hint = did_you_mean(self.mechanism, covered(), path="mechanism")
            raise RunFileError("mechanism", "not known", allowed=" | ".join(covered()), hint=hint)
        if "one-step" in self.attacks and self.members != self.non_members:
            raise RunFileError(
                "non_members",
                "the one-step audit makes as many trials with the record as without it",
                hint=setting("non_members", self.members),
            )
        if self.attacks == ("one-step",) and self.epsilons:
            raise RunFileError("epsilons", "the one-step audit runs the certified mechanism", hint="Remove `epsilons`.")
        if self.game == "split" and self.thresholds:
            hint = 'Remove `thresholds`, or play `game = "per-run"`.'
            raise RunFileError("thresholds", 'they are for game = "per-run"; a split has none to fix', hint=hint)
        if self.game == "per-run" and self.runs != 1:
            raise RunFileError(
                "runs", "in the per-run game members and non_members count the runs", hint="Remove `runs`."
            )
        for key in ("members", "non_members"):
            if self.game == "per-run" and getattr(self, key) < 2:
                raise RunFileError(
                    key,
                    "one run a side: the self-tests choose a threshold on half of the runs, and test it on the others",
                    allowed="2 or more",
                    hint=f"At least `{key} = 2`; an ε takes dozens.",
                )
        return self

    def _sized(self) -> None:
        searching = "released-text" in self.attacks
        if searching and len(self.attacks) > 1:
            raise RunFileError(
                "attack",
                "released-text searches a file, the others query a model",
                hint='`attack = "released-text"`, and the others in an audit file of their own.',
            )
        checking = CHECKS.issuperset(self.attacks)
        if not CHECKS.isdisjoint(self.attacks) and self.target != "protected":
            raise RunFileError("target", "checks are of the protected generator", hint="Remove `target`.")
        for key in ("members", "non_members"):
            if (getattr(self, key) > 0) == (searching or checking):
                if searching or checking:
                    why = "all records are searched for" if searching else "checks run on invented records"
                    raise RunFileError(key, why, hint=f"Remove `{key}`.")
                raise RunFileError(key, "missing", allowed="a whole number >= 1", hint=f"For example `{key} = 50`.")
        for key in ("released", "held_out"):
            if searching and getattr(self, key) is None:
                raise RunFileError(key, "missing", allowed="a file", hint=f"For example {setting(key, _FILES[key])}.")

    @property
    def attacks(self) -> tuple[AttackName, ...]:
        """One or several."""
        return self.attack if isinstance(self.attack, tuple) else (self.attack,)

    @property
    def level(self) -> Level:
        """``alpha``, shared by every attack at every ε; a check leaves nothing to chance."""
        each = max(1, len(self.epsilons)) if self.target == "protected" else 1
        tests = sum(
            len(attacks) * (each if experiment.each_epsilon else 1)
            for experiment, attacks in chosen(self)
            if not experiment.is_check
        )
        return Level(total=self.alpha, tests=max(1, tests))

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
        raise RunFileError("folder", "unknown key", allowed=", ".join(known_keys(AuditFile)), hint="Remove `folder`.")
    try:
        return AuditFile.model_validate({**content, "folder": folder})
    except ValidationError as error:
        first = faults_of(error)[0]
    key = ".".join(str(step)[:40] for step in first["loc"])
    hint = remedy(AuditFile, first, content=content)
    if first["type"] == "extra_forbidden":
        known = known_beside(AuditFile, first["loc"])
        raise RunFileError(key, "unknown key", allowed=", ".join(known), hint=hint)
    message = first["msg"].removeprefix("Value error, ")
    raise RunFileError(key, message[:1].lower() + message[1:], hint=hint)


def load_audit(path: Path) -> AuditFile:
    """Read an audit file. Raises ``RunFileError``."""
    try:
        content = tomllib.loads(files.read_bytes(path).decode("utf-8-sig"), parse_float=kept)
    except OSError as error:
        first = r"""printf 'attack = "one-step"\nmembers = 2000\nnon_members = 2000\n'"""
        hint = f"{near_file(path)} A first one: `{first} > {shlex.quote(str(path))}`"
        raise RunFileError(path.name, f"cannot be read: {error.strerror}", hint=hint) from None
    except (ValueError, RecursionError) as error:
        hint = 'A whole audit file is `attack = "one-step"` and `members = 200` and `non_members = 200`, a line each.'
        raise RunFileError(path.name, f"not TOML: {error}", hint=hint) from None
    return parse_audit(content, folder=path.parent)
