"""Mechanisms: one file each, its cost and its sampler side by side.

``load()`` registers them all; the front door calls it once, and calling it again does nothing.
"""

if __name__ != "affidavit.mechanisms":
    raise ImportError("import affidavit.mechanisms, not the bare folder: a second copy would be a second registry")

__all__ = ["load"]


def load() -> None:
    """Register every mechanism of this package (imports numpy)."""
    from affidavit.mechanisms import base, exponential, gaussian

    for module in (exponential, gaussian):
        base.register(module.MECHANISM)
