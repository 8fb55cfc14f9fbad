"""A run in other people's forms, from its certificate and receipt alone: nothing private is read.

    release.py    what is exported: a verified certificate, its receipt, and what the curator says
    opendp.py     an entry of the OpenDP Differential Privacy Deployments Registry
    croissant.py  Croissant 1.1 metadata (MLCommons)
    card.py       a dataset card, as model hubs show it
    intoto.py     in-toto's standard predicates: SLSA provenance, a SCAI attribute report
    nist.py       what NIST SP 800-226 asks, with what the two files answer and what they leave open

What the files do not say is the curator's to say, and stands as "not stated" until then.
"""

from affidavit.exports.release import FORMS, Release, Stated, export

__all__ = ["FORMS", "Release", "Stated", "export"]
