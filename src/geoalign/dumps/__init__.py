"""Dumps of rollouts in every format that is read, and the labels that people give them."""
