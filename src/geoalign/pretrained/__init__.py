"""Loading what transformers loads: code of a model only where it is allowed, its type, its fingerprint."""
