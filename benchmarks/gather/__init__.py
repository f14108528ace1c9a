"""States on their way to the process that curates, simulated on one machine (`benchmarks/gather`)."""
