"""affidavit."""
