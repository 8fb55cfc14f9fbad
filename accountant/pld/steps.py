r"""From a plan node to a one-step curve: leaves, samples of leaves, samples of compositions.

A sample that is reused for several steps is composed first and amplified once: amplification is
per fresh, independent sample. Where no theorem covers a nesting, ``NotSupported`` says what
would work.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from affidavit.accountant import nodes
from affidavit.accountant.cases.choices import concentrated
from affidavit.accountant.cases.dominance import covers
from affidavit.accountant.cases.nodes import AnyOrder, Moved, OneOf
from affidavit.accountant.cases.populations import check_inner_populations, check_no_inner_population
from affidavit.accountant.errors import NotSupported
from affidavit.accountant.plan import Plan
from affidavit.accountant.pld.atomic import approximate
from affidavit.accountant.pld.bounded_range import BoundedRange, best_share, one_choice
from affidavit.accountant.pld.concentrated import concentrated_step
from affidavit.accountant.pld.curve import Curve, Direction, FullLoss, NoLoss, OneStep
from affidavit.accountant.pld.discrete_gaussian import discrete_gaussian
from affidavit.accountant.pld.gaussian import Gaussian
from affidavit.accountant.pld.laplace import Laplace
from affidavit.accountant.pld.largest import Largest, Least
from affidavit.accountant.pld.nested import LOG_NOTHING, composed_step
from affidavit.accountant.pld.replaced import replaced_step
from affidavit.accountant.pld.subsample import Diluted, Mixed, PoissonSubstitution, TwoSided
from affidavit.accountant.pld.three_gaussians import gaussian_shifts, replaced_gaussian
from affidavit.accountant.validate import Relation

__all__ = ["flatten", "one_step"]

NOTHING = OneStep.attained(NoLoss(), symmetric=True)
EVERYTHING = OneStep.attained(FullLoss(), symmetric=True)


Together: TypeAlias = "Callable[[tuple[tuple[float, int], ...], float], OneStep | None]"


class _Asked(NamedTuple):
    """How a step is looked at: see ``one_step``."""

    explicit: bool
    log_nothing: float
    tilt: float
    together: Together | None


def one_step(
    node: Plan,
    relation: Relation,
    *,
    explicit: bool = False,
    log_nothing: float = LOG_NOTHING,
    tilt: float = 0.0,
    together: Together | None = None,
) -> OneStep:
    """Both directions of what one use of ``node`` costs under ``relation``.

    Leaves state their parameters for ``relation`` (under sampling without replacement: for
    substitution on the sample).

    ``explicit`` matters for sampling without replacement under substitution and zero-out, where
    no single pair of data sets is known to reach the curve that dominates. False: the lower side is
    that curve's own, and the bracket tells how exactly the best provable number is computed. True: the lower
    side composes the explicit pair (γP + (1−γ)Q, Q) of data sets whose other records are all equal,
    so what it exceeds is refuted.

    ``log_nothing`` is ln of the mass beyond which what is composed on a sample is truncated; 0: it is not
    composed at all, to see whether it could be.

    ``tilt``: the lower side of an exponential mechanism is its choice of the largest moment of that order; 0: its
    randomised response, of half its range. ``together``: what exponential mechanisms that run together on a sample cost
    at most, given (range, uses) and ``log_nothing``, as one pair above; their envelopes where it is None, or says so.

    Raises ``NotSupported`` for ``parallel`` inside a sample, and for nestings that no theorem covers.
    """
    by_data = explicit and any(isinstance(below, nodes.WithoutReplacement) for below in nodes.walk(node))
    nested = any(isinstance(below, (nodes.Compose, nodes.Repeat)) for below in nodes.walk(node))
    chosen = any(isinstance(below, nodes.Exponential) for below in nodes.walk(node))
    asked = _Asked(
        by_data, log_nothing if nested else LOG_NOTHING, tilt if chosen else 0.0, together if chosen else None
    )
    return _one_step(node, relation, asked)


def _below(node: Plan, relation: Relation, asked: _Asked) -> OneStep:
    return one_step(node, relation, **asked._asdict())


@lru_cache(maxsize=256)
def _one_step(node: Plan, relation: Relation, asked: _Asked) -> OneStep:
    match node:
        case Moved(node=sample, leaves=leaves):
            left = _below(sample, node.relation, asked)
            return left if leaves else OneStep(left.backward, left.forward)
        case nodes.Poisson():
            return _poisson(node, relation, asked)
        case nodes.WithoutReplacement():
            return _without_replacement(node, relation, asked)
        case nodes.Repeat() | nodes.Compose():
            parts = _parts(node, relation, asked)
            if len(parts) == 1 and parts[0][1] == 1:
                return parts[0][0]
            if asked.log_nothing >= 0.0:
                return EVERYTHING
            return composed_step(tuple(parts), asked.log_nothing) if parts else NOTHING
        case AnyOrder(of=of):  # every mechanism has a pair here
            return _below(of, relation, asked)
        case OneOf(options=options):
            return _largest([_below(option, relation, asked._replace(explicit=False)) for option in options])
        case nodes.Exponential(range=eta) if eta > 0.0:
            # Every member of the family is attained; the envelope of all is not.
            share = best_share(eta, asked.tilt) if asked.tilt else 0.5
            return OneStep.dominated(BoundedRange(eta), lower=one_choice(eta, share), symmetric=True)
        case nodes.Parallel():
            raise NotSupported(
                "a parallel node has no single privacy loss distribution",
                hint="put `parallel` outermost, or each part's sampling inside its part",
            )
        case _:
            return _leaf(node)


def _largest(steps: list[OneStep]) -> OneStep:
    """The pair of the largest curve, in each direction."""
    forward = Direction(Largest(tuple(step.forward.upper for step in steps)), None)
    symmetric = all(step.symmetric for step in steps)
    return OneStep(
        forward, forward if symmetric else Direction(Largest(tuple(step.backward.upper for step in steps)), None)
    )


def flatten(node: Plan, relation: Relation, *, explicit: bool = False) -> list[tuple[OneStep, int]]:
    """``compose`` and ``repeat`` unrolled into one-step curves with counts; what is concentrated is one, the last."""
    return _parts(node, relation, _Asked(explicit, LOG_NOTHING, 0.0, None))


def _parts(node: Plan, relation: Relation, asked: _Asked) -> list[tuple[OneStep, int]]:
    rho, rest = concentrated(nodes.unrolled(node))
    steps = [(_below(one, relation, asked), count) for one, count in rest]
    if asked.together is not None and asked.log_nothing < 0.0:
        runs = Counter[float]()
        for one, count in rest:
            if isinstance(one, nodes.Exponential) and one.range > 0.0:
                runs[one.range] += count
        pair = asked.together(tuple(sorted(runs.items())), asked.log_nothing)
        if pair is not None:
            both = zip(steps, rest, strict=True)
            steps = [(step.least if isinstance(one, nodes.Exponential) else step, n) for (step, n), (one, _) in both]
            steps.append((pair, 1))
    return [*steps, (concentrated_step(rho), 1)] if rho > 0.0 else steps


@lru_cache(maxsize=256)
def _leaf(node: Plan) -> OneStep:
    match node:
        case nodes.Gaussian(noise_multiplier=noise):
            return _noise(noise, lambda: Gaussian(1.0 / noise))
        case nodes.Laplace(noise_multiplier=noise):
            return _noise(noise, lambda: Laplace(1.0 / noise))
        case nodes.DiscreteGaussian(noise_multiplier=noise, granularity=granularity):
            return discrete_gaussian(noise, granularity)
        case nodes.Pure(epsilon=epsilon):
            return OneStep.attained(approximate(epsilon, 0.0), symmetric=True) if epsilon > 0.0 else NOTHING
        case nodes.Approximate(epsilon=epsilon, delta=delta):
            if delta >= 1.0:
                return EVERYTHING
            if epsilon == 0.0 and delta == 0.0:
                return NOTHING
            return OneStep.attained(approximate(epsilon, delta), symmetric=True)
        case nodes.Exponential():  # of range 0
            return NOTHING
        case nodes.ZeroConcentrated(rho=rho):
            return concentrated_step(rho) if rho > 0.0 else NOTHING
    raise TypeError(type(node).__name__)


def _noise(noise: float, curve: Callable[[], Curve]) -> OneStep:
    """Noise 0 reveals everything; so does noise whose loss exceeds float64."""
    if noise <= 0.0 or not math.isfinite(1.0 / noise) or 1.0 / noise > 1e150:
        return EVERYTHING
    return OneStep.attained(curve(), symmetric=True)


def _poisson(node: nodes.Poisson, relation: Relation, asked: _Asked) -> OneStep:
    rate, of = node.rate, node.of
    check_no_inner_population(of)
    if rate == 0.0:
        return NOTHING
    inner = _below(of, relation, asked)
    if rate == 1.0 or inner is NOTHING:
        return inner
    if relation == "substitution":
        if node.absent is not None:
            return _poisson_substitution(node, node.absent, inner, asked)
        return _diluted(inner, rate)
    forward = inner.forward.through(lambda curve: Mixed(curve, rate))
    backward = inner.backward.through(lambda curve: Mixed(curve.swapped(), rate).swapped())
    if inner.symmetric:
        swapped = forward.upper.swapped()  # of one object, so that lower is upper where it is attained
        backward = Direction(swapped, swapped if inner.tight else backward.lower)
    return OneStep(forward, backward)


def _poisson_substitution(node: nodes.Poisson, absent: Plan, inner: OneStep, asked: _Asked) -> OneStep:
    """Both costs on the sample known; the lower side is that of a record replaced by one that contributes nothing.

    Of two pure mechanisms and of two Gaussians the curve is exact (``replaced``, ``three_gaussians``).
    """
    match node.of, absent:
        case nodes.Pure(epsilon=replaced), nodes.Pure(epsilon=gone_epsilon) if replaced > 0.0 and gone_epsilon > 0.0:
            return replaced_step(replaced=replaced, absent=gone_epsilon, rate=node.rate)
    shifts = gaussian_shifts(node.of, absent)
    if shifts is not None and shifts[1] < shifts[0]:
        return replaced_gaussian(replaced=shifts[0], absent=shifts[1], rate=node.rate)
    gone = _below(absent, "zero-out", asked)
    if gone is NOTHING:
        return NOTHING if inner is NOTHING else _diluted(inner, node.rate)
    change = _either_order(inner)
    upper: Curve = PoissonSubstitution(_either_order(gone), change, node.rate)
    if not covers(node.of, absent, gaussians=True):
        # Where taking a record away costs more than replacing it, to know it need not help.
        upper = Least((upper, Diluted(change, node.rate)))
        least = inner if covers(absent, node.of, gaussians=True) else None
    else:
        least = gone
    seen = None if least is None else least.forward.lower
    if seen is None:
        return OneStep.dominated(upper, symmetric=True)
    pair = Mixed(seen, node.rate)
    return OneStep.dominated(upper, lower=pair)


def _diluted(inner: OneStep, rate: float) -> OneStep:
    return inner.each(lambda one: one.through(lambda curve: Diluted(curve, rate)))


def _without_replacement(node: nodes.WithoutReplacement, relation: Relation, asked: _Asked) -> OneStep:
    check_inner_populations(node, node.of)
    if node.sample == 0:
        return NOTHING
    inner = _below(node.of, "substitution", asked)
    rate = node.rate
    if rate == 1.0 or inner is NOTHING:
        return inner
    curve, attained = _either_order(inner), inner.forward.lower
    if any(isinstance(one, nodes.Poisson) for one in nodes.walk(node.of)):
        # Whom the inner sample leaves out is not alone in it: reached is what a record that contributes nothing does.
        attained = (
            None
            if _replaces_both(node.of)
            else _below(node.of, "zero-out", asked._replace(explicit=True)).forward.lower
        )
    mixed = Direction(curve, attained).through(lambda one: Mixed(one, rate))
    if relation == "add-remove":
        return OneStep.dominated(mixed.upper, lower=mixed.lower)
    combined = TwoSided(mixed.upper)
    if attained is None:
        return OneStep.dominated(combined, symmetric=True)
    if attained is curve and not asked.explicit:
        return OneStep.attained(combined, symmetric=True)
    return OneStep.dominated(combined, lower=mixed.lower)


def _either_order(step: OneStep) -> Curve:
    """What dominates both orders of the data: records come where others leave, in either of the three laws."""
    forward, backward = step.forward.upper, step.backward.upper
    return forward if forward is backward else Largest((forward, backward))


def _replaces_both(node: Plan) -> bool:
    """Whether a Poisson sample inside states ``absent``, too: then its two costs must not be taken for one."""
    return any(isinstance(one, nodes.Poisson) and one.absent is not None for one in nodes.walk(node))
