"""Files that survive a crash: JSON, tables, and the rollouts of a step as arrays; no torch."""
