"""Measurements that anyone can run: time and memory of curation, and what its shortcuts cost in quality."""
