"""The pictures of a comparison: each a pure function from the table to a panel, or to the reason why there is none."""
