import torch
from benchmarks.stages import stages_timed

from geoalign.curators import geoalign as curator_module
from geoalign.curators.geoalign import GeoAlign
from geoalign.testing.synthetic import synthetic_rollouts


def test_stages_add_up_and_leave_no_trace():
    rollouts = synthetic_rollouts(8, 4, 32, seed=0).rollouts
    plain = curator_module.rectify, GeoAlign._score
    curator = GeoAlign()
    with stages_timed(torch.device("cpu")) as found:
        curation = curator.curate(rollouts, generator=torch.Generator().manual_seed(0))
    assert (curator_module.rectify, GeoAlign._score) == plain
    assert set(found) == {"pairs", "training", "scoring", "density", "decision", "rest"}
    assert all(value > 0 for value in found.values())
    # The call itself knows how long it took; the stages and the rest are the block around it.
    assert sum(found.values()) >= curation.metrics["seconds"]
    same = GeoAlign().curate(rollouts, generator=torch.Generator().manual_seed(0))
    assert torch.equal(same.source, curation.source)
