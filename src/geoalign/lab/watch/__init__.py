"""A running training or comparison seen from another terminal: reads the folder's files as they grow; no torch."""
