"""The accountant: plans in, two-sided bounds and certificates out."""

if __name__ != "affidavit.accountant":
    raise ImportError("import affidavit.accountant, not the bare folder: a second copy would be a second registry")
