"""Training stages on TRL: the warm start, GRPO with a curator, and what a run needs to be repeatable and resumable."""
