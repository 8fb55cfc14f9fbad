"""A plan from a few numbers: one mechanism, used so many times, on samples of the records.

What is left out has one meaning: one use, of all records. A batch of so many of the records is a Poisson
sample unless something else is asked for, and that is said beside the number.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from affidavit.accountant import validate
from affidavit.accountant.errors import PlanError, UsageError
from affidavit.accountant.plan import (
    Envelope,
    Exponential,
    Gaussian,
    Laplace,
    Leaf,
    Plan,
    Poisson,
    Pure,
    Repeat,
    WithoutReplacement,
    ZeroConcentrated,
    to_dict,
)

__all__ = ["MECHANISMS", "SAMPLINGS", "PlanFlags", "as_json"]

SAMPLINGS = ("poisson", "without-replacement")


@dataclass(frozen=True, slots=True)
class _Mechanism:
    parameter: str
    leaf: Callable[[float], Leaf]
    example: float


MECHANISMS: dict[str, _Mechanism] = {
    "gaussian": _Mechanism("noise", Gaussian, 1.1),
    "laplace": _Mechanism("noise", Laplace, 10.0),
    "pure": _Mechanism("epsilon_each", Pure, 0.1),
    "exponential": _Mechanism("range", Exponential, 0.1),
    "zcdp": _Mechanism("rho", ZeroConcentrated, 0.01),
}
_PARAMETERS = tuple(dict.fromkeys(each.parameter for each in MECHANISMS.values()))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanFlags:
    """What was asked for, unchecked; None is what was left out.

    ``noise`` is the noise multiplier, ``rate`` and ``epochs`` may be fractions ("256/60000"). ``target`` is the ε at
    which δ is asked for, or that a value is to meet: no part of the plan, but of the command.
    """

    mechanism: str | None = None
    noise: float | None = None
    rho: float | None = None
    range: float | None = None
    epsilon_each: float | None = None
    steps: int | None = None
    epochs: str | None = None
    rate: str | None = None
    records: int | None = None
    batch: int | None = None
    sampling: str | None = None
    target: float | None = None
    delta: float | None = None
    relation: str | None = None

    def __bool__(self) -> bool:
        """Whether anything is said of the plan itself."""
        beside = ("target", "delta", "relation")
        return any(getattr(self, each.name) is not None for each in fields(self) if each.name not in beside)

    def command(self, name: str, *arguments: str, **changes: Any) -> str:
        """The command that says this, with ``changes``, as it can be typed; what it cannot do without is filled in."""
        changed = replace(self, **changes)
        if not arguments:
            needs_delta = name != "delta" and changed.delta is None
            changed = replace(
                changed, delta=1e-5 if needs_delta else changed.delta, relation=changed.relation or "zero-out"
            )
        words = ["affidavit", name, *arguments]
        for each in fields(self):
            value = getattr(changed, each.name)
            if value is not None:
                words += [_flag(each.name), f"{value:.12g}" if isinstance(value, float) else str(value)]
        return f"`{shlex.join(words)}`"

    def envelope(self, name: str, *, start: float | None = None) -> Envelope:
        """The plan with its relation and δ (None if left out), for the command ``name``.

        ``start`` is the mechanism's parameter where it is not given, because it is to be solved for. Raises
        ``PlanError`` for numbers out of their range, ``UsageError`` for flags that do not go together; both with the
        command that works.
        """
        leaf = self._leaf(name, start)
        steps, _ = self._steps(name)
        use = self._sampled(name, leaf)
        if self.relation is None:
            raise PlanError(
                "--relation",
                "missing: the relation is never assumed",
                allowed=" | ".join(validate.RELATIONS),
                hint=f"Where the number of records is public: {self.command(name)}",
            )
        relation = validate.relation(self.relation, path="--relation")
        plan = use if steps == 1 else Repeat(steps, use)
        delta = None if self.delta is None else validate.fraction(self.delta, path="--delta")
        return Envelope(relation, plan, delta)

    def notes(self, name: str) -> tuple[str, ...]:
        """How the flags were read: the number of steps, and which sampler is meant."""
        said = []
        steps, exact = self._steps(name)
        if exact is not None:
            batches = (
                f" of {self.records} records in batches of {self.batch}" if self.batch else f" at rate {self.rate}"
            )
            rounded = f"{steps} steps" if steps == exact else f"{_decimal(exact)} steps, rounded up to {steps}"
            said.append(f"{self.epochs} epochs{batches} are {rounded}.")
        sampling = self._sampling(name)
        if sampling == "poisson":
            said += self._poisson_notes(name)
        elif sampling == "without-replacement":
            said.append(
                f"Each step takes {self.batch} of the {self.records} records, drawn afresh without replacement; the "
                "mechanism's parameter is for the replacement of one of them."
            )
        return tuple(said)

    def _poisson_notes(self, name: str) -> list[str]:
        rate = f"{self.batch}/{self.records}" if self.batch else self.rate
        said = [
            f"Poisson sampling is meant: each step takes every record on its own with probability {rate}. "
            "Shuffled batches and batches of a fixed size are other samplers: this number is not theirs."
        ]
        if self.batch:
            other = self.command(name, sampling="without-replacement", relation="substitution")
            said.append(f"A fresh batch of exactly {self.batch} at each step: {other}")
        if self.epochs and self.batch:
            passes = math.ceil(_exact(self.epochs, path="--epochs"))
            once: dict[str, Any] = {"epochs": None, "records": None, "batch": None, "sampling": None}
            other = self.command(name, **once, steps=passes, relation="zero-out")
            said.append(f"Shuffled batches, each record once an epoch: {other}")
        if self.relation == "substitution":
            said.append(
                "Under substitution nothing is known here of samples without the record, so sampling lowers nothing; "
                'a plan file may state it ("absent").'
            )
        return said

    def _leaf(self, name: str, start: float | None) -> Leaf:
        given = [each for each in _PARAMETERS if getattr(self, each) is not None]
        if len(given) > 1:
            choices = ", or ".join(
                self.command(name, mechanism=None, **{other: None for other in given if other != kept})
                for kept in given
            )
            flags = " and ".join(map(_flag, given))
            raise UsageError(f"{flags} are of different mechanisms", hint=f"One of them: {choices}")
        kind = self.mechanism or next(
            (kind for kind, each in MECHANISMS.items() if each.parameter in given), "gaussian"
        )
        validate.choice(kind, path="--mechanism", options=tuple(MECHANISMS))
        known = MECHANISMS[kind]
        if given and known.parameter not in given:
            raise UsageError(
                f"{_flag(given[0])} is not a parameter of --mechanism {kind}, which takes {_flag(known.parameter)}",
                hint=f"Leave --mechanism out: {self.command(name, mechanism=None)}",
            )
        if not given and start is not None:
            return known.leaf(start)
        if not given:
            example = self.command(name, **{known.parameter: known.example})
            raise UsageError(f"{_flag(known.parameter)} is missing", hint=f"Such as: {example}")
        return known.leaf(validate.size(getattr(self, known.parameter), path=_flag(known.parameter)))

    def _steps(self, name: str) -> tuple[int, Fraction | None]:
        """How many uses; and the exact number that was rounded up, where epochs are given."""
        if self.epochs is None:
            return (1 if self.steps is None else validate.whole(self.steps, path="--steps", minimum=1)), None
        if self.steps is not None:
            raise UsageError(
                "--steps and --epochs both say how many uses there are",
                hint=f"One of them: {self.command(name, epochs=None)}, or {self.command(name, steps=None)}",
            )
        epochs = _exact(self.epochs, path="--epochs")
        if epochs <= 0:
            raise PlanError("--epochs", f"{self.epochs} is too small", allowed="a number > 0")
        rate = self._rate(name)
        if rate is None:
            whole = self.command(name, epochs=None, steps=math.ceil(epochs))
            raise UsageError(
                "--epochs needs --records and --batch, or --rate: an epoch has records/batch steps",
                hint=f"An epoch that is one step of all records: {whole}",
            )
        if rate == 0:
            raise PlanError("--rate", "an epoch of no records has no end", allowed="a number in (0, 1]")
        return math.ceil(epochs / rate), epochs / rate

    def _rate(self, name: str) -> Fraction | None:
        """The share of the records that a step takes, exactly as it was written; None if it takes all."""
        if self.rate is not None and (self.records is not None or self.batch is not None):
            without: dict[str, Any] = {"records": None, "batch": None}
            both = (
                f", or {self.command(name, rate=None)}" if self.records is not None and self.batch is not None else ""
            )
            raise UsageError(
                "--rate and --records with --batch both say how much a step takes",
                hint=f"One of them: {self.command(name, **without)}{both}",
            )
        if self.rate is not None:
            rate = _exact(self.rate, path="--rate")
            validate.rate(_nearest(rate, self.rate), path="--rate")
            return rate
        if self.batch is None and self.records is None:
            return None
        if self.batch is None:
            example = min(256, validate.whole(self.records, path="--records", minimum=1))
            raise UsageError("--batch is missing", hint=f"Such as: {self.command(name, batch=example)}")
        batch = validate.whole(self.batch, path="--batch", minimum=1)
        if self.records is None:
            raise UsageError("--records is missing", hint=f"Such as: {self.command(name, records=max(60000, batch))}")
        records = validate.whole(self.records, path="--records", minimum=1)
        validate.whole(batch, path="--batch", minimum=1, maximum=records)
        return Fraction(batch, records)

    def _sampling(self, name: str) -> str | None:
        rate = self._rate(name)
        if self.sampling is None:
            return None if rate is None or rate == 1 else "poisson"
        validate.choice(self.sampling, path="--sampling", options=SAMPLINGS)
        if rate is None:
            # Without replacement another relation would be refused next.
            relation = "substitution" if self.sampling == "without-replacement" else self.relation
            raise UsageError(
                "--sampling needs to know how much a step takes",
                hint=f"Such as: {self.command(name, records=60000, batch=256, relation=relation)}",
            )
        return self.sampling

    def _sampled(self, name: str, leaf: Leaf) -> Plan:
        sampling, rate = self._sampling(name), self._rate(name)
        if sampling is None or rate is None:
            return leaf
        if sampling == "poisson":
            return Poisson(_as_float(rate, written=self.rate), leaf)
        if self.records is None or self.batch is None:
            changed: dict[str, Any] = {"rate": None, "relation": "substitution", **_numbers(rate, written=self.rate)}
            raise UsageError(
                "sampling without replacement depends on --records and --batch, not on their ratio alone",
                hint=f"Such as: {self.command(name, **changed)}",
            )
        if self.relation != "substitution":
            raise UsageError(
                "without replacement the parameter is for the replacement of a record of the sample: "
                "say --relation substitution, or state another relation's plan in a file",
                hint=self.command(name, relation="substitution"),
            )
        return WithoutReplacement(self.records, self.batch, leaf)


def as_json(envelope: Envelope) -> dict[str, Any]:
    """A plan file's content."""
    delta = {} if envelope.delta is None else {"delta": envelope.delta}
    return {"relation": envelope.relation, **delta, "plan": to_dict(envelope.plan)}


def _flag(field: str) -> str:
    return "--epsilon" if field == "target" else "--" + field.replace("_", "-")


def _exact(text: str, *, path: str) -> Fraction:
    """A decimal or a fraction, as it is written."""
    try:
        return Fraction(str(text).strip())
    except (ValueError, ZeroDivisionError):
        allowed = "a number such as 0.01 or 256/60000"
        hint = f"For example `{path} {'60' if path == '--epochs' else '0.01'}`."
        raise PlanError(path, f"{str(text)[:40]!r} is not a number", allowed=allowed, hint=hint) from None


def _nearest(exact: Fraction, text: str) -> float:
    """The float nearest to what was written, for a check."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return validate.underflow(text) if exact and not nearest else nearest


def _numbers(rate: Fraction, *, written: str | None) -> dict[str, int]:
    """Records and a batch of about this ratio: those that were written, where they were."""
    batch, _, records = (written or "").partition("/")
    if batch.strip().isdecimal() and records.strip().isdecimal():
        return {"records": int(records), "batch": int(batch)}
    return {"records": 60_000, "batch": max(1, round(60_000 * rate))}


def _as_float(rate: Fraction, *, written: str | None) -> float:
    """A decimal as every plan file reads it; the quotient of two numbers rounded up, since a larger rate costs more."""
    nearest = float(rate)
    if (written is not None and "/" not in written) or Fraction(nearest) >= rate:
        return nearest
    return math.nextafter(nearest, 1.0)


def _decimal(number: Fraction) -> str:
    return str(float(number)) if number.denominator in (2, 4, 5, 10) else f"{float(number):.2f}"
