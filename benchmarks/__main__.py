"""Run every ``bench_*`` module of this folder in turn: ``python -m benchmarks [NAME ...]``."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path


def main() -> None:
    """All of them, or those named (``decoding`` for ``bench_decoding``)."""
    found = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    names = [name for name in found if name.startswith("bench_")]
    wanted = [f"bench_{name}" for name in sys.argv[1:]] or names
    unknown = sorted(set(wanted) - set(names))
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(names)}")
    sys.argv = sys.argv[:1]
    for name in wanted:
        print(f"== {name}", flush=True)
        importlib.import_module(f"benchmarks.{name}").main()
        print(flush=True)


if __name__ == "__main__":
    main()
