"""A run on disk: its folder, resuming it, its rollouts, and what is read back of it."""
