"""Files of records that people have, read into rows; which columns hold what; records that a run can use.

    encoding.py   bytes to text: byte order mark, UTF-8, else a guess that is said
    delimited.py  CSV, TSV and their kin: the dialect is the one that gives every row as many cells
    jsonfile.py   JSON Lines, or a JSON array of records
    parquet.py    Parquet, by the optional package ``pyarrow``
    reading.py    which of these a file is
    table.py      ``Table``: rows and, where they are certain, column names
    columns.py    which column is the text, the label, the id
    curation.py   rows to records, and what is to be said about them

What is said about a file (``Curated.said``, every error) holds numbers of lines and columns, counts, and column
names that the operator gave or that stand in ``columns.KNOWN_NAMES``: never a cell, nor a first row that may be one.
"""

from __future__ import annotations

if __name__ != "affidavit.tables":
    raise ImportError("import affidavit.tables, not the bare folder")
