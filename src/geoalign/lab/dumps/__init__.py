"""Dumps of rollouts in every format that goes round, and the labels that people give them."""
