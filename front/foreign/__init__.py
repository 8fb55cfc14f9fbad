"""Somebody else's generator: what it draws, whether that repeats, and what one record moves besides.

Nothing of such a generator is certified, and nothing is signed for it: there is a claim, and what speaks against it.
docs/foreign.md goes through four published ones. The glue is a function of the records, with the draws that the plan
knows named by where they happen; what they ran with is read from the running frame::

    from affidavit import foreign

    @foreign.draws(foreign.draw("plan.of", "normal", inside="generate", sensitivity="2**0.5 / shots"))
    def run(records):
        return their_package.generate([record.text for record in records])

    naming     which record a value in their code is
    draw       a draw of the plan, named by where it happens and read from the frame
    kinds      the calls of random generators that are watched, and what kind of draw each is
    sources    numpy's and Python's generators, replaced while a watch is on
    torch      torch's
    alignment  what such a call gives where two neighbours are compared: the same for what they share
    watch      everything that was drawn in one run; its trace
    report     what repeats and what is seeded
    pairs      which neighbours to try
    examine    run it, twice, and on neighbours
    load       module:function
    toy        models that answer at once, in place of those that need a download
"""

from __future__ import annotations

if __name__ != "affidavit.foreign":
    raise ImportError("import affidavit.foreign, not the bare folder")

from affidavit.foreign.draw import Draw, draw, draws
from affidavit.foreign.examine import neighbours, repeat, trace
from affidavit.foreign.pairs import pairs
from affidavit.foreign.report import watch_report
from affidavit.foreign.toy import ToyOpenAI, tiny_llama, toy_logprobs
from affidavit.foreign.watch import Watch, claim

__all__ = [
    "Draw",
    "ToyOpenAI",
    "Watch",
    "claim",
    "draw",
    "draws",
    "neighbours",
    "pairs",
    "repeat",
    "tiny_llama",
    "toy_logprobs",
    "trace",
    "watch_report",
]
