"""From the results in `evidence/` to what the pages say.

`python -m tools.evidence.tables` writes the tables of the pages, and checks every number in their prose.
`python -m tools.evidence.values` prints each checked number with its name.
`python -m tools.evidence.pictures` draws the figures.
"""
