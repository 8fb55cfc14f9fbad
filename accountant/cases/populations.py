"""Samples without replacement inside others: which populations they are drawn from."""

from __future__ import annotations

from affidavit.accountant.errors import NotSupported
from affidavit.accountant.nodes import Compose, Plan, Repeat, WithoutReplacement, outermost

__all__ = ["check_inner_populations", "check_no_inner_population", "only_sample"]


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
    if next(outermost(of, WithoutReplacement), None) is not None:
        raise NotSupported(
            "sampling without replacement inside a Poisson sample: the inner population is random",
            hint="swap the two, or use one scheme for both",
        )


def check_inner_populations(node: WithoutReplacement, of: Plan) -> None:
    """Inner samples without replacement must be drawn from this node's sample."""
    for inner in outermost(of, WithoutReplacement):
        if inner.population != node.sample:
            raise NotSupported(
                f"a sample of {node.sample} cannot be the population of {inner.population} of the inner sampling",
                hint=f"set the inner population to {node.sample}",
            )
