"""Placeholder docstring."""

if __name__ != "affidavit.audits":
    raise ImportError("import affidavit.audits, not the bare folder: a second copy would be a second registry")
