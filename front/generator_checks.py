"""The checks of a run's own generator that an audit file may ask for: no data, no key, no language model needed.

Both run the generator's code on invented records under a permit that releases nothing: ``sensitivity`` with chosen
answers (``affidavit.sensitivity``), ``neighbours`` with the toy model (``affidavit.neighbours``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affidavit.invented import Invented
from affidavit.neighbours import Trial, try_neighbours
from affidavit.sensitivity import Rehearsed, try_sensitivity

if TYPE_CHECKING:
    from affidavit.accountant.plan import Plan
    from affidavit.audits.checks import CheckReport
    from affidavit.audits.experiments.registry import CheckName
    from affidavit.runfile import RunFile

__all__ = ["generator_check"]


def generator_check(name: CheckName, run: RunFile, plan: Plan) -> CheckReport:
    """The check called ``name`` of ``run``, whose signed plan is ``plan``."""
    if name == "sensitivity":
        return try_sensitivity(Rehearsed(run.source, run.generator, run.relation, plan))
    from affidavit.generation.models.toy import ToyModel

    model, invented = ToyModel(), Invented.of(run.generator)
    config, most = invented.config, getattr(invented.config, "top_k", 0)
    if most > model.vocabulary_size:  # which tokens are eligible is public, and costs nothing
        config = config.model_copy(update={"top_k": model.vocabulary_size})
    trial = Trial(run.source, config, model, run.relation, invented.size, invented.public())
    return try_neighbours(trial, invented.records())
