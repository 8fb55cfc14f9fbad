"""The public data sets of the examples: where they are from, and how a downloaded original becomes JSONL.

catalogue     what is known of each set: origin, licence, size, digests (``catalogue.toml``)
originals     which of the given files is which original, and is it the version that is known?
choosing      which records of an original are taken, and for which file
making        originals in, JSONL out; nothing is overwritten
checking      is a folder what was made?
page          the catalogue as a table of the guide

One module a data set turns its format into records: ``agnews``, ``aeslc``, ``dbpedia``, ``decodingtrust``,
``dialogsum``, ``medical``, ``mit_movies``, ``trec``, ``wikimovies``. Nothing here uses a network, and no message
holds a text of a record.
"""

from __future__ import annotations

from affidavit.datasets.catalogue import DataSet, catalogue, data_set
from affidavit.datasets.checking import Checked, check
from affidavit.datasets.making import Written, make

__all__ = ["Checked", "DataSet", "Written", "catalogue", "check", "data_set", "make"]
