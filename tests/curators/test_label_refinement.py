"""OLR: a prompt's majority answer becomes its label after several visits at which its share rose."""

import pytest
import torch

from geoalign import OLR, Rollouts
from geoalign.curators.baselines.label_refinement import rise


def visit(curator, *answers, key=7):
    """One visit of a prompt whose label calls every answer wrong; the rewards that it leaves with."""
    rollouts = Rollouts(
        rewards=torch.zeros(len(answers)),
        groups=torch.zeros(len(answers), dtype=torch.long),
        answers=list(answers),
        prompt_keys=torch.full((len(answers),), key),
    )
    return curator.curate(rollouts).rewards.tolist()


def test_a_rising_majority_that_lasts_becomes_the_label():
    curator = OLR(visits=3, slope=0.1)
    assert visit(curator, "5", "5", "6", "7") == [0, 0, 0, 0]
    assert visit(curator, "5", "5", "6", None) == [0, 0, 0, 0]
    # The shares are 1/2, 1/2 and 3/4: they rise by 1/8 a visit.
    assert visit(curator, "5", "5", "6", "5") == [1, 1, 0, 1]


def test_a_prompt_in_two_groups_of_a_batch_is_visited_once():
    curator = OLR(visits=2, slope=0.0)
    rollouts = Rollouts(
        rewards=torch.zeros(6),
        groups=torch.tensor([0, 0, 0, 1, 1, 1]),
        answers=["5", "5", "6", "6", "5", "7"],
        prompt_keys=torch.full((6,), 7),
    )
    assert curator.curate(rollouts).rewards.tolist() == [0] * 6
    curation = curator.curate(rollouts)
    # The second visit: three of the six rows give the majority answer "5".
    assert curation.rewards.tolist() == [1, 1, 0, 0, 1, 0]
    assert curation.metrics["refined_groups"] == 1
    assert curation.metrics["majority_share"] == 1 / 2


def test_a_majority_answer_that_is_spelt_otherwise_at_another_visit_is_the_same():
    """And in another group of the prompt, where the same answer has another most frequent spelling."""
    curator = OLR(visits=3, slope=0.0)
    visit(curator, "0.5", "0.5", "3", "4")
    visit(curator, r"\frac{1}{2}", r"\frac{1}{2}", "3", "4")
    assert visit(curator, "1/2", "0.5", "3", "4") == [1, 1, 0, 0]
    # Among "3", "3", 0.5 the answer 0.5 was the majority twice and 3 once.
    assert visit(curator, "3", "3", "0.5", "4") == [0, 0, 0, 0]


def test_another_prompt_has_its_own_history():
    curator = OLR(visits=3, slope=0.1)
    for answers in (["5", "5", "6", "7"], ["5", "5", "6", None]):
        visit(curator, *answers)
    assert visit(curator, "5", "5", "6", "5", key=8) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("earlier", "why"),
    [
        ([["5", "5", "5", "6"], ["5", "5", "6", "7"]], "shares 3/4, 1/2, 3/4 do not rise"),
        ([["6", "6", "5", "7"], ["6", "6", "5", "7"]], "another answer was the majority more often"),
        (
            [["6", "6", "5", "7"], ["5", "6", "5", "6"]],
            "two answers were the majority once each, and one visit had none",
        ),
    ],
)
def test_without_a_rise_or_a_lasting_majority_the_label_stays(earlier, why):
    curator = OLR(visits=3, slope=0.1)
    for answers in earlier:
        visit(curator, *answers)
    assert visit(curator, "5", "5", "6", "5") == [0, 0, 0, 0], why


def test_the_rise_is_that_of_a_least_squares_line():
    assert rise([0.2, 0.4, 0.6]) == pytest.approx(0.2)
    assert rise([0.0, 1.0, 0.0, 1.0]) == pytest.approx(0.2)
