"""Evaluations: models on benchmarks and dialogues; sets, responses, answers, scores and results, resumable."""
