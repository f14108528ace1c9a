"""Every file format, written and read in one place; no torch."""
