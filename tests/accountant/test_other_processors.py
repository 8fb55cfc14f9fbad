"""What is settled here is confirmed where arithmetic below Python rounds in another order.

Signed on one machine, verified on another: matrix products and vector instructions differ in the last digits, and the
verifier's search for a law turns that into up to 4e-6 of ε (67.798153 and 67.798438 for 1,000 uses of range .5).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from affidavit.accountant.plan import Compose, Exponential, Gaussian, Laplace, Plan, Poisson, Repeat, to_dict
from affidavit.accountant.settle import settle

PLANS: tuple[Plan, ...] = (
    Repeat(1_000, Exponential(0.5)),
    Repeat(1_000, Exponential(4.0)),
    Repeat(100_000, Exponential(0.01)),
    Repeat(100, Exponential(0.5)),
    Compose((Repeat(3_000, Exponential(0.1)), Repeat(2_000, Exponential(0.7)), Gaussian(5.0))),
    Repeat(1_000, Poisson(0.01, Gaussian(1.0))),
    Compose((Repeat(50, Laplace(3.0)), Gaussian(2.0))),
)
OLD = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL AVX2 FMA3"
ELSEWHERE = """
import json, sys
from affidavit.accountant.verifier import recompute
for plan in json.load(sys.stdin):
    print(repr(recompute(plan, relation="add-remove", delta=1e-6).epsilon_upper))
"""


def test_an_older_processor_confirms_what_is_settled_here() -> None:
    settings = {"NPY_DISABLE_CPU_FEATURES": OLD, "OPENBLAS_CORETYPE": "Prescott", "PYTHONWARNINGS": "ignore"}
    ran = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        input=json.dumps([to_dict(plan) for plan in PLANS]),
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=True,
    )
    there = [float(line) for line in ran.stdout.split()]
    here = [settle(plan, relation="add-remove", delta=1e-6).epsilon_upper for plan in PLANS]
    assert len(there) == len(here)
    assert all(one >= other for one, other in zip(here, there, strict=True)), (here, there)
