"""From the compact results of a comparison to its table, its sentences and its page; no torch."""
