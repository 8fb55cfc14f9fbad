"""Digits beyond those of float64, in one thread at a time.

The working precision of mpmath and of python-flint is one setting of the whole process: a thread that leaves such a
region would take the digits away from another that is still in one. Whoever needs them holds ``alone`` meanwhile.
"""

from __future__ import annotations

import threading

__all__ = ["alone"]

alone = threading.RLock()
