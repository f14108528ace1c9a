"""Loading models, the type in which they compute, and the processes of a run."""
