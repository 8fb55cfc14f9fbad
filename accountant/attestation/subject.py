"""What a certificate is about: one run, on one data set, with one model."""

from __future__ import annotations

from dataclasses import dataclass, field

from affidavit.accountant import validate
from affidavit.accountant.errors import PlanError
from affidavit.accountant.plan import Plan, parse_plan
from affidavit.accountant.strictjson import hexadecimal
from affidavit.accountant.unit import Unit
from affidavit.accountant.validate import Relation

__all__ = ["RunSubject"]


@dataclass(frozen=True, slots=True)
class RunSubject:
    """The facts that bind a certificate to a run; built anew from the run file each time.

    config_sha256: digest of the run file as parsed, in one spelling, without private data.
    model_sha256: digest of the model's *source* weights, before any conversion.
    data_hmac: the private fingerprint of the data (``commitment.fingerprint``); a certificate
    publishes only a salted commitment to it.
    size: the declared number of records, a public fact that is never read from the data.
    """

    relation: Relation
    unit: Unit
    plan: Plan
    config_sha256: str
    model_sha256: str
    data_hmac: str = field(repr=False)
    size: int

    def __post_init__(self) -> None:
        validate.relation(self.relation)
        validate.whole(self.size, path="size", minimum=0)
        for name in ("config_sha256", "model_sha256", "data_hmac"):
            hexadecimal(getattr(self, name), path=name)
        if not isinstance(self.unit, Unit):
            raise PlanError("unit", "not a unit of protection", allowed="a Unit; see parse_unit")
        if parse_plan(self.plan) != self.plan:
            raise PlanError("plan", "not in the form that parse_plan returns", allowed="a parsed plan")
