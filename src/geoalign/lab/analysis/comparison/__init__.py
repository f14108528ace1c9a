"""A comparison's results as one table: scores, paired differences, verdicts."""
