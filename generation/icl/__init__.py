"""In-context learning with the result: what synthetic demonstrations are worth to whoever gets them.

``tasks`` says what is asked and how it is scored, ``examples`` reads files, ``prompting`` chooses
demonstrations and writes prompts, ``answering`` asks a model, ``evaluation`` repeats it over seeds.
Nothing here touches private records unless the caller passes them as demonstrations.
"""

from __future__ import annotations

if __name__ != "affidavit.generation.icl":
    raise ImportError("import affidavit.generation.icl, not the bare folder")
