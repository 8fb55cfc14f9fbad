"""The PLD engine: two-sided privacy loss accounting.

``one_step`` turns a plan node into a curve in each direction, ``flatten`` a plan into curves with counts,
``epsilon_bracket`` and ``delta_bracket`` compose them between an upper and a lower side. One noun a file: ``curve``
(what a one-step curve is), ``gaussian``, ``laplace``, ``atomic``, ``bounded_range``, ``concentrated``,
``discrete_gaussian``, ``replaced``, ``three_gaussians``, ``largest`` (curves), ``subsample`` (amplification), ``steps``
(plan nodes to curves), ``discretise``, ``grid``, ``saddle``, ``transform``, ``compose``, ``nested``, ``two_uses``,
``inverse``, ``contour`` (with ``mixture``, ``gaussian_pair``, ``closed``, ``common_part``, ``terms``), ``problem``,
``engine``.
"""

from __future__ import annotations

from affidavit.accountant.pld.curve import Direction, OneStep
from affidavit.accountant.pld.engine import delta_bracket, epsilon_bracket
from affidavit.accountant.pld.steps import flatten, one_step

__all__ = ["Direction", "OneStep", "delta_bracket", "epsilon_bracket", "flatten", "one_step"]
