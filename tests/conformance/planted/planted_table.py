"""All planted bugs, and the page that says which audit catches which: ``python planted_table.py`` writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import planted_answers
import planted_batched
import planted_mechanisms
import planted_sampled
from planted_audits import AUDITS, Plant, audited

PLANTS: tuple[Plant, ...] = (
    *planted_batched.PLANTS,
    *planted_sampled.PLANTS,
    *planted_answers.PLANTS,
    *planted_mechanisms.PLANTS,
)
PAGE = Path(__file__).resolve().parents[3] / "docs" / "planted-bugs.md"

HEAD = """# Planted bugs

What the audits say of a generator with a bug. In each row one function of a generator of this package is replaced by
one that is wrong as the row says; all audits then run on it, on the toy model and the settings of the conformance
tests, under the plan as it was signed. A name is what the audit reports; **bold** is the audit whose business the bug
is. On the same settings without a bug no audit finds anything. This page is made by
`python tests/conformance/planted/planted_table.py`, and tests hold it to what the audits find.

- **permit**: the run is refused, by the permit or by the mechanism that draws.
- [**Trace check**](trace.md), [**neighbour test**](faults.md), [**sensitivity check**](sensitivity.md),
  [**one-step audit**](audits.md).

"""


@cache
def found(plant: Plant) -> Mapping[str, str]:
    """What every audit says of a bug."""
    return audited(plant.case, plant.plant, signed=plant.signed)


def row(plant: Plant) -> str:
    """What the page says of a bug."""
    seen = found(plant)
    cells = [f"**{seen[name]}**" if name == plant.caught_by else seen.get(name, "") for name in AUDITS]
    return f"| `{plant.name}`: {plant.what} | " + " | ".join(cells) + " |"


def page(row: Callable[[Plant], str] = row) -> str:
    """The whole page."""
    kinds = {
        "prism": "PRISM",
        "invisible-ink": "InvisibleInk",
        "private-prediction": "Private prediction",
        "few-shot": "Few-shot",
        "adadpsyn": "AdaDPSyn",
        "ksa": "KSA",
        "ksa-answers": "KSA answers",
        "sga": "SGA",
    }
    parts = [HEAD + f"{len(PLANTS)} bugs:\n"]
    for kind, title in kinds.items():
        rows = [row(plant) for plant in PLANTS if plant.case.kind == kind]
        head = f"| bug | {' | '.join(AUDITS)} |\n|---|{'---|' * len(AUDITS)}"
        parts.append(f"## {title}\n\n{head}\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
