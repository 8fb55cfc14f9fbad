"""Placeholder docstring."""

if __name__ != "affidavit.generation":
    raise ImportError("import affidavit.generation, not the bare folder: a second copy would be a second registry")
