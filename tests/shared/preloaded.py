"""What `forked` has loaded before it forks: all that a training imports, out of the garbage collector's way."""

import gc

import geoalign.lab.compare.worker
import geoalign.lab.train.policy
import geoalign.lab.train.train  # noqa: F401

gc.collect()
gc.freeze()
