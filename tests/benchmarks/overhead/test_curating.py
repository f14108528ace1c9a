"""Curation, timed batch after batch."""

import math

from benchmarks.overhead.curating import Options, curation_cost, denoise_cost

OPTIONS = Options(architecture="tiny", groups=12, size=4, repeats=2)


def test_settings_and_early_stop():
    full = curation_cost(OPTIONS, device="cpu", setting="paper", early_stop=False)
    # 12 groups x 6 pairs of continuous rewards; all 50 steps.
    assert (full.pairs, full.steps) == (72, 50)
    assert len(full.cost.seconds) == 2
    stopped = curation_cost(OPTIONS, device="cpu", setting="paper", early_stop=True)
    assert stopped.steps < 50


def test_denoise_is_timed_whole():
    found = denoise_cost(OPTIONS, device="cpu")
    assert (found.curator, found.stages, found.label) == ("denoise", {}, "cpu, denoise")
    assert len(found.cost.seconds) == 2
    assert math.isnan(found.pairs)
