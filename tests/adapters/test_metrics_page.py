"""docs/metrics.md is complete and names nothing that is not there."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from geoalign.adapters.decision import ALARMS, decide, metrics_to_log
from geoalign.curators.registry import BUILT_IN, CURATORS
from geoalign.curators.session import CurationSession
from geoalign.testing.synthetic import synthetic_rollouts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([a-z]+(?:_[a-z0-9]+)*)`", PAGE))
# An interval's ends and a drift are explained once.
DERIVED = re.compile(r"(_drift)?(_low|_high)?$")


def judged_batch(seed):
    """Verdicts of a judge that errs at random, with every field that a curator may read."""
    rollouts = synthetic_rollouts(8, 8, 8, seed=seed).rollouts
    size = len(rollouts)
    generator = torch.Generator().manual_seed(seed)
    correct = torch.rand(size, generator=generator) < 0.5
    flipped = torch.rand(size, generator=generator) < 0.2
    wrong_answers = torch.randint(1, 4, (size,), generator=generator)
    answers = [str(int(answer)) for answer in torch.where(correct, 0, wrong_answers)]
    return replace(
        rollouts,
        rewards=(correct ^ flipped).float(),
        answers=answers,
        lengths=torch.full((size,), 5),
        logprobs=-torch.rand(size, generator=generator),
        reference_rewards=torch.rand(size, 3, generator=generator),
        true_rewards=correct.float(),
        advantages=torch.randn(size, generator=generator),
        trusted=torch.rand(size, generator=generator) < 0.2,
        second_rewards=lambda rows: [float(correct[row]) for row in rows],
        response_keys=torch.arange(size),
        prompt_keys=rollouts.groups,
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_page_names_every_metric_of_a_curator(name):
    session = CurationSession(name, seed=0)
    decisions = [decide(session, judged_batch(seed)) for seed in range(2)]
    names = {DERIVED.sub("", metric) for decision in decisions for metric in decision.metrics}
    assert names <= NAMED
    shown = {metric.removeprefix("geoalign/") for metric in metrics_to_log(decisions[-1].metrics, session.curator)}
    assert {metric for metric in shown if metric not in ALARMS} <= NAMED


def test_the_page_names_every_alarm():
    assert ALARMS <= NAMED


def test_every_metric_of_the_tables_is_in_the_source():
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src" / "geoalign").rglob("*.py"))
    first_cells = re.findall(r"^\| (`[^|]*`) \|", PAGE, re.MULTILINE)
    names = {name for cell in first_cells for name in re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", cell)}
    assert len(names) > 40
    metrics = names - set(BUILT_IN)
    unknown = {name for name in metrics if not re.search(rf"\b{DERIVED.sub('', name)}\b", source)}
    # The cosines of two stages share one function.
    assert unknown <= {f"{stage}_cosine_{what}" for stage in ("raw", "projected") for what in ("mean", "share_080")}


def test_each_curator_names_the_metrics_that_the_page_says():
    table = PAGE[PAGE.index("| curator | its own |") : PAGE.index("Where a curator names fewer than two")]
    said = dict(re.findall(r"^\| `(\w+)` \| (`.*`) \|$", table, re.MULTILINE))
    found = {name: tuple(re.findall(r"`(\w+)`", cell)) for name, cell in said.items()}
    assert found == {name: CURATORS[name].headline for name in BUILT_IN if CURATORS[name].headline}
