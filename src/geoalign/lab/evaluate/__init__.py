"""Models on benchmarks and dialogues: responses drawn, scored and kept, resumable, and what they come to."""
