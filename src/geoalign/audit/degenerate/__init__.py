"""Verifiers that do not judge: all rewards are one value, missing, the same for a whole prompt, or of the length alone.

    findings.py         the symptoms of a file, or else of the environments that it names
    symptoms.py         a function for each symptom, on the columns of a part of the file
    chance.py           what could look as bad by chance

What could be so by chance is tested exactly: the rewards of a prompt, the prompts of a file, or (of one reward for a
whole prompt) the rewards of its wrong answers are thought to be shuffled. The share of all orders that look as bad must
be at most `chance.LEVEL`, after a correction for the number of places that were looked at. `benchmarks/degenerate.md`
has how often files without a fault are named.
"""
