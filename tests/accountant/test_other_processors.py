"""What is settled here is confirmed where arithmetic below Python rounds in another order.

Signed on one machine, verified on another: matrix products and vector instructions differ in the last digits, and the
verifier's search for a law turns that into up to 4e-6 of ε (67.798153 and 67.798438 for 1,000 uses of range .5), on a
sample into up to 3e-8 (4.2887703 and 4.2887704 for the last of these).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from affidavit.accountant.plan import (
    Compose,
    Exponential,
    Gaussian,
    Laplace,
    Plan,
    Poisson,
    Repeat,
    WithoutReplacement,
    to_dict,
)

PLANS: tuple[Plan, ...] = (
    Repeat(1_000, Exponential(0.5)),
    Repeat(1_000, Exponential(4.0)),
    Repeat(100_000, Exponential(0.01)),
    Repeat(100, Exponential(0.5)),
    Compose((Repeat(3_000, Exponential(0.1)), Repeat(2_000, Exponential(0.7)), Gaussian(5.0))),
    Repeat(1_000, Poisson(0.01, Gaussian(1.0))),
    Compose((Repeat(50, Laplace(3.0)), Gaussian(2.0))),
    Poisson(0.1, Repeat(600, Exponential(0.3))),
    Poisson(0.1, Compose((Repeat(600, Exponential(0.3)), Gaussian(3.0)))),
    WithoutReplacement(1_000, 100, Repeat(500, Exponential(0.5))),
    Repeat(20, Poisson(0.1, Repeat(400, Exponential(0.1)))),
)
OLD = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX2 FMA3"
SAYS = """
import json, sys
from affidavit.accountant.settle import settle
from affidavit.accountant.verifier import recompute
for plan in json.load(sys.stdin):
    for said in (settle, recompute):
        print(repr(said(plan, relation="add-remove", delta=1e-6).epsilon_upper))
"""


def _said(settings: dict[str, str]) -> tuple[list[float], list[float]]:
    """What is settled, and what the verifier says, on a machine of these settings."""
    ran = subprocess.run(
        [sys.executable, "-c", SAYS],
        input=json.dumps([to_dict(plan) for plan in PLANS]),
        env={**os.environ, "PYTHONWARNINGS": "ignore", **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    every = [float(line) for line in ran.stdout.split()]
    assert len(every) == 2 * len(PLANS)
    return every[::2], every[1::2]


def test_an_older_processor_confirms_what_is_settled_here_and_the_other_way_round() -> None:
    here, there = _said({}), _said({"NPY_DISABLE_CPU_FEATURES": OLD, "OPENBLAS_CORETYPE": "Prescott"})
    for (settled, _), (_, recomputed) in ((here, there), (there, here)):
        assert all(one >= other for one, other in zip(settled, recomputed, strict=True)), (settled, recomputed)
