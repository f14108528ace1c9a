"""What GeoAlign adds to a training step of a full-size model, on the machine at hand (`benchmarks/overhead`)."""
