"""Talking to HTTP servers that may be slow, overloaded or hostile: deadlines, retries, limits; needs httpx2."""
