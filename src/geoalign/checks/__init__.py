"""What a few checked rows, drawn at random, say about a verifier's error rates; without torch."""
