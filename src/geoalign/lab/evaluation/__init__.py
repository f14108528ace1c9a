"""How well a model answers: problems, an engine, answers, scores; response files for the judge."""
