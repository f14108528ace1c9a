"""Every curator behind one verb, a file each. `geoalign.curators.registry` knows them by name."""
