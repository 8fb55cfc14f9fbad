"""Generators: they state a plan, and run only with a permit for it.

``registry.generator(kind)`` finds one by its run-file name. The language-model back ends are in
``models``; private records are read by ``dataset``; what a run leaves behind is written by ``outputs``.
"""

if __name__ != "affidavit.generation":
    raise ImportError("import affidavit.generation, not the bare folder: a second copy would be a second registry")
