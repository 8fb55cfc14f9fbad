"""What is taken of float64's functions holds, and each engine's allowances for rounding stand in one table."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_ndtr

from affidavit.accountant import rounding
from affidavit.accountant.verifier import rounding as verified

ACCOUNTANT = Path(__file__).parents[2] / "accountant"
ALLOWANCE = re.compile(r"ROUNDING|ROUNDED|UNITS?|ULP|LIBM|QUADRATURE|MISSED|ALIGNED")
FUNCTIONS: dict[str, tuple[Callable[[float], float], Callable[[float], object]]] = {
    "exp": (np.exp, mpmath.exp),
    "expm1": (np.expm1, mpmath.expm1),
    "log": (lambda x: np.log(np.exp(x)), lambda x: mpmath.log(float(np.exp(x)))),
    "log1p": (lambda x: np.log1p(np.exp(x)), lambda x: mpmath.log1p(float(np.exp(x)))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(x=st.floats(-700.0, 700.0))
def test_functions_are_good_to_four_units(name: str, x: float) -> None:
    rounded, exact = FUNCTIONS[name]
    with mpmath.workdps(60):
        truth = exact(x)
        assert abs(mpmath.mpf(float(rounded(x))) - truth) <= 4.0 * rounding.UNIT * abs(truth) + 5e-324  # type: ignore[operator]
        assert abs(mpmath.mpf(float(rounded(x))) - truth) <= verified.LIBM * abs(truth) + 5e-324  # type: ignore[operator]


@given(x=st.floats(-37.0, 37.0))
def test_the_logarithm_of_a_normal_tail_is_good_to_eight_units(x: float) -> None:
    with mpmath.workdps(60):
        truth = mpmath.log(mpmath.erfc(-mpmath.mpf(x) / mpmath.sqrt(2)) / 2)
        error = abs(mpmath.mpf(float(log_ndtr(x))) - truth)
        assert error <= rounding.TAIL * (4 + abs(truth))


def _constants(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))


@pytest.mark.parametrize("folder", ["cases", "methods", "pld", "verifier"])
def test_no_allowance_stands_anywhere_else(folder: str) -> None:
    """So that a reader finds each, with its reason; what is charged term by term is in units of the table's."""
    files = [path for path in sorted((ACCOUNTANT / folder).glob("*.py")) if path.name != "rounding.py"]
    found = {path.name: [name for name in _constants(path) if ALLOWANCE.fullmatch(name)] for path in files}
    assert not {name for name, constants in found.items() if constants}
    for path in files:
        assert not re.search(r"2\.0\s*\*\*\s*-\s*5[0-4]\b", path.read_text("utf-8")), path.name
