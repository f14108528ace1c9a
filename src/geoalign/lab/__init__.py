"""The commands, and what they are made of: nothing in the library imports it."""
