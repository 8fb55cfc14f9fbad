"""SGA: answers to public questions, guided by private clusters of an ensemble's answers.

``generator`` says what a run costs and runs it, ``settings`` what a run file may say. ``candidates`` finds the public
answers near a cluster, ``answers`` writes one to each query, ``augment`` makes more public examples.
"""

from __future__ import annotations

if __name__ != "affidavit.generation.sga":
    raise ImportError("import affidavit.generation.sga, not the bare folder")
