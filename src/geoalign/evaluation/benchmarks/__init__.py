"""Models on benchmarks and dialogues: several responses to each problem, avg@k, pass@k, curves over checkpoints."""
