"""Mechanisms: one file each, its cost and its sampler side by side.

``load()`` registers them all, leaf kinds included, and closes the registry: from then on no plan can
change its meaning. The front door calls it before it reads a plan; calling it again does nothing.
A mechanism from elsewhere registers itself (``base.register``, ``plan.register_leaf``) before that.
"""

if __name__ != "affidavit.mechanisms":
    raise ImportError("import affidavit.mechanisms, not the bare folder: a second copy would be a second registry")

__all__ = ["load"]

_MODULES = (
    "exponential",
    "bounded_range",
    "gaussian",
    "laplace",
    "discrete_gaussian",
    "noisy_max",
    "joint_exponential",
    "propose_test_release",
    "above_threshold",
    "projected_mean",
    "coverage",
    "good_radius",
)


def load() -> None:
    """Register every mechanism of this package (imports numpy) and freeze the registry."""
    from importlib import import_module

    from affidavit.accountant.plan import freeze_leaves
    from affidavit.mechanisms import base

    for name in _MODULES:
        base.register(import_module(f"affidavit.mechanisms.{name}").MECHANISM)
    base.freeze()
    freeze_leaves()
