"""`geoalign audit`: rollouts in files, curated without a trainer: scores, the verifier's error rates, a page."""
