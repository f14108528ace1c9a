"""Tasks and benchmarks: problems, dialogues, where they come from."""
