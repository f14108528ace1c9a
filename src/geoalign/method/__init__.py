"""The equations of the paper as pure functions of tensors, one idea a file.

groups           canonical order of the rows of a batch
pairs            the pair set and its displacements (Eqs. 2 and 3)
projector        the projector M and its probe, with the first layer on rollouts
distillation     training the projector (Eq. 4)
consensus        prototype, deviation, GDI (Eqs. 5 to 7), and what a training leaves behind
scoring          every pair's cosine to its prototype; accuracy on groups never trained on
density          the density criterion
rectification    what stands in the place of an anomalous rollout (Eq. 8)
advantages       group-relative advantages (Eq. 9)
ties             which rewards differ by rounding only
arithmetic       products and sums whose bits no setting of the process changes
bounds           what verdicts alone prove of a verifier's error rates
"""
