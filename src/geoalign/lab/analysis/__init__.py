"""What the numbers of a finished run mean, defined once for terminal, report and comparison; numpy only."""
