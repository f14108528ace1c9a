"""The equations of the paper as pure functions of tensors, one idea a file.

groups        canonical order of the rows of a batch
pairs         the pair set and its displacements (Eqs. 2 and 3)
projector     the projector M and its probe, with the first layer on rollouts
distillation  training the projector (Eq. 4)
consensus     prototype, deviation, GDI (Eqs. 5 to 7)
density       the density criterion
shares        a share of a count, exactly
rectification what stands in the place of an anomalous rollout (Eq. 8)
advantages    group-relative advantages (Eq. 9)
generalisation accuracy and deviation on groups never trained on
planes        two-dimensional views of directions, for figures

and two of the baselines (the others stand above their curator's class, in its file):

sampling_weights    with which weight PF-PPO draws a rollout
semantic_entropy    Seed-GRPO's entropy, scale and clusters
"""
