"""Whatever a response holds costs at most its time limit, and never the run."""

import time

import pytest

from geoalign.lab.config.rewards import RewardConfig
from geoalign.lab.rewards import VerifiedReward

pytest.importorskip("math_verify")

# The first is one call in C: no alarm and no exception would interrupt it.
HOSTILE = ["9^{9^{9^9}}", "\\sum_{i=1}^{10^{12}} i^i", "import os; os.system('exit 1')"]


def test_each_costs_its_limit_at_most_and_the_next_answer_is_read():
    with VerifiedReward(RewardConfig(timeout=1.0, workers=2)) as reward:
        reward.score(["\\boxed{\\sqrt{4}}", "\\boxed{\\sqrt{9}}"], ["2", "3"])  # starting is not measured
        start = time.perf_counter()
        responses = [f"\\boxed{{{answer}}}" for answer in HOSTILE] + ["\\boxed{\\sqrt{49}}"]
        found = reward.score(responses, ["7"] * len(responses))
        seconds = time.perf_counter() - start
        assert found == [0.0] * len(HOSTILE) + [1.0]
        # Two at a time, and a new process, seconds on a busy machine, after each that ran out of its limit.
        assert seconds < 10 * len(HOSTILE)
        assert reward.counters["timeouts"] > 0


@pytest.mark.parametrize(
    "response",
    [
        "\\boxed{" + "x" * 50_000 + "}",
        "\\boxed{" * 8000,
        "\\boxed{" * 5000 + "}" * 5000,
        "{" * 25_000 + "}" * 25_000,
        "\\boxed{" + "(" * 25_000 + ")" * 24_000 + "}",
        "\\" * 50_000,
        "\\boxed{" + "\\frac{1}{" * 5000 + "}" * 5000 + "}",
    ],
)
def test_outputs_of_50000_characters_are_read_at_once(response):
    with VerifiedReward(RewardConfig(timeout=5)) as reward:
        start = time.perf_counter()
        assert reward.score([response], ["7"]) == [0.0]
        assert time.perf_counter() - start < 2
        assert not any(worker._process for worker in reward._workers._workers)
