"""KSA: texts and answers written from keywords that were chosen privately.

``generator`` says what a run costs and runs it (``ksa``), ``answers`` the same for public queries
(``ksa-answers``), ``settings`` what a run file may say. ``topics`` writes the prompts, ``keywords`` counts words,
``choice`` draws among them, ``texts`` goes from private records to released text.
"""

from __future__ import annotations

if __name__ != "affidavit.generation.ksa":
    raise ImportError("import affidavit.generation.ksa, not the bare folder")
