"""The trace check: what a generator says that it drew, held against the plan that it was certified for.

It needs no model and no data, and works on any generator that writes the documented lines
(``docs/trace.md``, ``schemas/trace.schema.json``).

    events       the format, and reading it
    check        every check of one trace, under one alpha
    counts       draws counted and in the declared order
    parameters   what each mechanism ran with, beside what was certified
    samples      fresh samples of the certified scheme
    noise        fresh noise, of the certified size, from a source that nobody can predict
    mersenne     recognising a Mersenne Twister and common seeds
    rows         every record's row is in the sum, and no other; disjoint parts are disjoint
    sources      whether samples can be known beforehand
    claims       what the run says afterwards that it cost
"""
