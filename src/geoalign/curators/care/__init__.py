"""CARE (arXiv 2605.25864): which prompts to ask a second verifier about, by two probes of their responses."""
