"""A reward model behind HTTP: `geoalign serve-reward`."""
