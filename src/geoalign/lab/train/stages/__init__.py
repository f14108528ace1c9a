"""The stages of a training: each makes one artefact in the run's folder from the plan, or finds it there."""
