"""Every check of one trace, under one alpha.

Facts need no alpha. The statistical tests are counted from the plan alone, before the trace is looked at, and
share alpha equally (Bonferroni): with probability at least 1 − alpha a run that is as stated shows no fault.
"""

from __future__ import annotations

from collections.abc import Iterable

from affidavit.accountant.plan import Plan
from affidavit.accountant.validate import Relation
from affidavit.audits.checks import Check, CheckReport
from affidavit.audits.trace.claims import stated_cost
from affidavit.audits.trace.counts import draw_counts, draw_order
from affidavit.audits.trace.events import Trace
from affidavit.audits.trace.noise import fresh_noise, noise_scale, noise_scale_tests, noise_source
from affidavit.audits.trace.parameters import parameters
from affidavit.audits.trace.rows import disjoint_parts, public_rows, summed_rows
from affidavit.audits.trace.samples import TESTS_PER_NODE, subsample_nodes, subsamples
from affidavit.audits.trace.sources import sample_source

__all__ = ["ALPHA", "check_trace"]

ALPHA = 1e-3


def check_trace(
    trace: Trace,
    plan: Plan,
    *,
    relation: Relation,
    delta: float | None = None,
    alpha: float = ALPHA,
    certificate_sha256: str | None = None,
) -> CheckReport:
    """Hold ``trace`` against ``plan``. What the trace does not record is listed as not checked.

    delta: at which a fault's cost in ε is told, where there is one to tell.
    alpha: a bound on the chance that a run which is as stated shows any fault.
    """
    tests = TESTS_PER_NODE * sum(1 for _ in subsample_nodes(plan)) + noise_scale_tests(plan)
    share = alpha / max(1, tests)
    checks: Iterable[Check] = (
        *draw_counts(trace, plan),
        draw_order(trace, plan),
        *subsamples(trace, plan, relation=relation, alpha=share),
        fresh_noise(trace, plan),
        *noise_scale(trace, plan, alpha=share),
        *noise_source(trace, plan),
        *sample_source(trace, plan, relation=relation, delta=delta),
        *parameters(trace, plan, relation=relation),
        summed_rows(trace),
        public_rows(trace),
        *disjoint_parts(trace, plan),
        stated_cost(trace, plan, relation=relation),
    )
    return CheckReport(title="trace check", checks=tuple(checks), alpha=alpha, certificate_sha256=certificate_sha256)
