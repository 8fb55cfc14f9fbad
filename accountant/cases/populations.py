"""Samples without replacement inside others: which populations they are drawn from."""

from __future__ import annotations

from collections.abc import Iterator

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.nodes import Compose, Parallel, Plan, Poisson, Repeat, WithoutReplacement

__all__ = ["check_inner_populations", "check_no_inner_population", "only_sample", "outer_samples"]


def outer_samples(plan: Plan) -> Iterator[WithoutReplacement]:
    """The outermost samples without replacement."""
    match plan:
        case WithoutReplacement():
            yield plan
        case Compose(parts=parts) | Parallel(parts=parts):
            for part in parts:
                yield from outer_samples(part)
        case Repeat(of=of) | Poisson(of=of):
            yield from outer_samples(of)


def only_sample(of: Plan) -> WithoutReplacement | None:
    """A sample without replacement, if nothing else runs."""
    match of:
        case WithoutReplacement():
            return of
        case Repeat(count=1, of=inner) | Compose(parts=(inner,)):
            return only_sample(inner)
    return None


def check_no_inner_population(of: Plan) -> None:
    """Raises ``NotSupported`` where a Poisson sample would be the population."""
    if next(outer_samples(of), None) is not None:
        raise NotSupported(
            "sampling without replacement inside a Poisson sample: the inner population is random",
            hint="swap the two, or use one scheme for both",
        )


def check_inner_populations(node: WithoutReplacement, of: Plan) -> None:
    """Inner samples without replacement must be drawn from this node's sample."""
    for inner in outer_samples(of):
        if inner.population != node.sample:
            raise NotSupported(
                f"a sample of {node.sample} cannot be the population of {inner.population} of the inner sampling",
                hint=f"set the inner population to {node.sample}",
            )
