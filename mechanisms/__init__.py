"""Placeholder docstring."""

if __name__ != "affidavit.mechanisms":
    raise ImportError("import affidavit.mechanisms, not the bare folder: a second copy would be a second registry")
