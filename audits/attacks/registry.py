"""The membership attacks by name, as audit files call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from affidavit.audits.attacks.brainwash import Brainwash
from affidavit.audits.attacks.gap import Gap
from affidavit.audits.attacks.inquiry import Inquiry
from affidavit.audits.attacks.label_probability import LabelProbability
from affidavit.audits.attacks.lira import LiRA
from affidavit.audits.attacks.loss import Loss
from affidavit.audits.attacks.min_k import MinK
from affidavit.audits.attacks.min_k_plus_plus import MinKPlusPlus
from affidavit.audits.attacks.prompting import LabelPrompt
from affidavit.audits.attacks.protocol import MembershipAttack
from affidavit.audits.attacks.reference import Reference
from affidavit.audits.attacks.repeat import Repeat
from affidavit.audits.attacks.rmia import RMIA
from affidavit.audits.attacks.shadow import Shadows
from affidavit.audits.attacks.zlib_ratio import ZlibRatio
from affidavit.audits.textmodel import TextModel

__all__ = ["MEMBERSHIP_ATTACKS", "SHADOWED", "MembershipName", "Settings", "membership_attack"]

MembershipName: TypeAlias = Literal[
    "gap",
    "inquiry",
    "repeat",
    "brainwash",
    "label-probability",
    "loss",
    "reference",
    "zlib",
    "min-k",
    "min-k++",
    "rmia",
    "lira",
]

MEMBERSHIP_ATTACKS: tuple[MembershipName, ...] = get_args(MembershipName)

SHADOWED: frozenset[MembershipName] = frozenset({"rmia", "lira"})
"""Those that need shadow prompts."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an attack may be given: wording, the task's labels, shadow prompts.

    ``own_model`` is the attacker's, for what he asks apart from the audited view; needed where that
    is an endpoint.
    """

    prompt: LabelPrompt = field(default_factory=LabelPrompt)
    labels: tuple[str, ...] = ()
    shadows: Shadows = field(default_factory=lambda: Shadows(()))
    own_model: TextModel | None = None


_MAKERS: Mapping[MembershipName, Callable[[Settings], MembershipAttack]] = {
    "gap": lambda given: Gap(given.prompt),
    "inquiry": lambda given: Inquiry(given.prompt),
    "repeat": lambda given: Repeat(given.prompt),
    "brainwash": lambda given: Brainwash(given.labels, given.prompt),
    "label-probability": lambda given: LabelProbability(given.prompt),
    "loss": lambda given: Loss(given.prompt),
    "reference": lambda given: Reference(given.prompt, given.own_model),
    "zlib": lambda given: ZlibRatio(given.prompt),
    "min-k": lambda given: MinK(given.prompt),
    "min-k++": lambda given: MinKPlusPlus(given.prompt),
    "rmia": lambda given: RMIA(given.shadows, given.prompt, model=given.own_model),
    "lira": lambda given: LiRA(given.shadows, given.prompt, model=given.own_model),
}


def membership_attack(name: MembershipName, settings: Settings) -> MembershipAttack:
    """The attack of that name. Raises ``UsageError`` when it lacks labels or shadow prompts."""
    return _MAKERS[name](settings)
