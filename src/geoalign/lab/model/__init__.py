"""Small language models that can be had without a hub: wheels of the Python package index hold them."""
