"""The PLD engine: two-sided privacy loss accounting.

``steps.one_step`` turns a plan node into a curve in each direction, ``steps.flatten`` a plan into curves with counts,
``engine.epsilon_bracket`` and ``engine.delta_bracket`` compose them between an upper and a lower side. One noun a file:
``curve`` (what a one-step curve is), ``gaussian``, ``laplace``, ``atomic``, ``bounded_range``, ``concentrated``,
``discrete_gaussian``, ``replaced``, ``three_gaussians``, ``largest`` (curves), ``subsample`` (amplification), ``steps``
(plan nodes to curves), ``discretise``, ``grid``, ``saddle``, ``transform``, ``compose``, ``nested``, ``two_uses``,
``inverse``, ``contour`` (with ``mixture``, ``gaussian_pair``, ``closed``, ``common_part``, ``terms``), ``problem``,
``engine``.
"""
