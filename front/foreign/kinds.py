"""The calls of random generators that are watched: what kind of draw each is, and how its arguments are called.

noise    a location and a scale: the number is added to something
choice   by given probabilities: the outcome is itself released
sample   of a population, each as likely: who takes part
coin     uniform numbers, which decide who takes part, or anything else
other    numbers of another law, which may be noise
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["NUMPY", "PYTHON", "TORCH", "Kind", "Method", "kind_of"]

Kind: TypeAlias = Literal["noise", "choice", "sample", "coin", "other"]


@dataclass(frozen=True, slots=True)
class Method:
    """``names``: of the positional arguments. ``loc`` and ``scale``: which of them is the location, and the scale."""

    kind: Kind
    names: tuple[str, ...]
    loc: str = ""
    scale: str = ""

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """By name; what is left out is left out."""
        return {**dict(zip(self.names, args, strict=False)), **kwargs}


_AROUND = Method("noise", ("loc", "scale", "size"), "loc", "scale")
_FROM_ZERO = Method("noise", ("scale", "size"), "", "scale")
_STANDARD = Method("noise", ("size",))
_CHOICE = Method("sample", ("a", "size", "replace", "p"))
_COINS = Method("coin", ("size",))

NUMPY: Mapping[str, Method] = {
    "normal": _AROUND,
    "laplace": _AROUND,
    "gumbel": _AROUND,
    "logistic": _AROUND,
    "exponential": _FROM_ZERO,
    "standard_normal": _STANDARD,
    "standard_exponential": _STANDARD,
    "standard_cauchy": _STANDARD,
    "randn": Method("noise", ()),
    "choice": _CHOICE,
    "permutation": Method("sample", ("x",)),
    "shuffle": Method("sample", ("x",)),
    "integers": Method("sample", ("low", "high", "size")),
    "randint": Method("sample", ("low", "high", "size")),
    "random": _COINS,
    "random_sample": _COINS,
    "rand": Method("coin", ()),
    "uniform": Method("coin", ("low", "high", "size")),
    "binomial": Method("coin", ("n", "p", "size")),
    "multinomial": Method("other", ("n", "pvals", "size")),
    "geometric": Method("other", ("p", "size")),
    "poisson": Method("other", ("lam", "size")),
    "gamma": Method("other", ("shape", "scale", "size")),
    "beta": Method("other", ("a", "b", "size")),
    "dirichlet": Method("other", ("alpha", "size")),
    "multivariate_normal": Method("other", ("mean", "cov", "size")),
    "bytes": Method("sample", ("length",)),
}

PYTHON: Mapping[str, Method] = {
    "gauss": Method("noise", ("mu", "sigma"), "mu", "sigma"),
    "normalvariate": Method("noise", ("mu", "sigma"), "mu", "sigma"),
    "expovariate": Method("other", ("lambd",)),
    "sample": Method("sample", ("population", "k")),
    "shuffle": Method("sample", ("x",)),
    "choice": Method("sample", ("seq",)),
    "choices": Method("sample", ("population", "weights")),
    "randrange": Method("sample", ("start", "stop", "step")),
    "randint": Method("sample", ("a", "b")),
    "random": Method("coin", ()),
    "uniform": Method("coin", ("a", "b")),
    "getrandbits": Method("sample", ("k",)),
}

TORCH: Mapping[str, Method] = {
    "normal": Method("noise", ("mean", "std", "size"), "mean", "std"),
    "normal_": Method("noise", ("self", "mean", "std"), "mean", "std"),
    "randn": Method("noise", ("size",)),
    "randn_like": Method("noise", ("input",)),
    "exponential_": Method("noise", ("self", "lambd")),
    "cauchy_": Method("noise", ("self", "median", "sigma"), "median", "sigma"),
    "multinomial": Method("choice", ("input", "num_samples", "replacement")),
    "randperm": Method("sample", ("n",)),
    "randint": Method("sample", ("low", "high", "size")),
    "bernoulli": Method("coin", ("input",)),
    "rand": Method("coin", ("size",)),
    "rand_like": Method("coin", ("input",)),
    "uniform_": Method("coin", ("self", "from", "to")),
}


def kind_of(method: Method, arguments: Mapping[str, Any]) -> Kind:
    """A choice with probabilities is a choice, without them a sample."""
    weighted = arguments.get("p") is not None or arguments.get("weights") is not None
    weighted = weighted or arguments.get("cum_weights") is not None
    return "choice" if method.kind == "sample" and weighted else method.kind
