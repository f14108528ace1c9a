"""Which rows a second verifier is asked about, and what a verdict is worth where no inner curator learns from it."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from geoalign import Appeals, Curator, Denoise, Rollouts
from geoalign.curators.candidates import Candidates
from geoalign.curators.care.chooser import Judgement, corrective_gap
from geoalign.curators.choosers import CHOOSERS, OpenAnswers, open_answers
from geoalign.curators.curator import identity
from geoalign.curators.verdict_values import VerdictValues
from geoalign.errors import ConfigError, InputError
from geoalign.method.advantages import group_advantages

# Two prompts of six rows: answers 3 x "7", 2 x "9", none; and 4 x "3", 1 x "4", 1 x "5".
ANSWERS = ["7", "7", "7", "9", "9", None, "3", "3", "3", "3", "4", "5"]
OBSERVED = [1.0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0]
# "9" and "5" are right.
TRUE = [0.0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1]


def batch(asked, **fields):
    """The batch; each call of its second verifier is noted in `asked`."""

    def second_rewards(rows):
        asked.append(list(rows))
        return [TRUE[row] for row in rows]

    return Rollouts(
        rewards=torch.tensor(OBSERVED),
        groups=torch.tensor([0] * 6 + [1] * 6),
        answers=ANSWERS,
        hidden=torch.randn(12, 4, generator=torch.Generator().manual_seed(0)),
        ids=[str(row) for row in range(12)],
        second_rewards=second_rewards,
        **fields,
    )


def test_majority_asks_about_the_most_frequent_answers_and_then_where_these_were_refuted():
    asked = []
    curation = Appeals(random_share=0.0, choose="majority", curator="grpo", budget=10).curate(batch(asked))
    # k (1 - k) is 1/4 for three rows of six and 2/9 for four. "7" and "3" are refuted, "9" is right; then "4" and "5".
    assert asked == [[0, 6], [3, 10], [11]]
    assert curation.metrics["appeals_asked"] == 5
    assert curation.rewards.tolist() == TRUE


def test_a_verdict_counts_for_equal_answers_and_one_right_answer_makes_the_others_wrong():
    curation = Appeals(random_share=0.0, choose="majority", curator="grpo", budget=3).curate(batch([]))
    # "7" and "3" are wrong, "9" is right; of the second prompt nothing more is known.
    assert curation.rewards.tolist() == [0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 1, 0]
    assert curation.weights.tolist() == [1] * 12


def test_a_prompt_is_done_when_its_right_answer_is_found():
    asked = []

    def second_rewards(rows):
        asked.append(list(rows))
        return [1.0 for _ in rows]

    rollouts = Rollouts(
        rewards=torch.tensor([0.0, 0, 0, 1, 1, 0]),
        groups=torch.zeros(6).long(),
        answers=["7", "7", "7", "9", "9", "4"],
        second_rewards=second_rewards,
    )
    curation = Appeals(random_share=0.0, choose="majority", curator="grpo", budget=6).curate(rollouts)
    assert asked == [[0]]
    # "7" is right, so "9" is wrong, whatever the verifier said.
    assert curation.rewards.tolist() == [1, 1, 1, 0, 0, 0]


# Answers to one prompt, of which "7" is right, and 0.1 for the format beside the verdict.
TOLD_ANSWERS = ["7", "7", "7", "8", "8", "9"]
BONUS = [0.0, 0.0, 0.0, 0.1, 0.1, 0.1]


def batch_with_a_bonus(asked, rewards=(0.0, 0.0, 0.0, 1.1, 1.1, 0.1)):
    """The verifier has refused "7" and accepted "8"; the second one gives the bonus, too."""

    def second_rewards(rows):
        asked.append(list(rows))
        return [(TOLD_ANSWERS[row] == "7") + BONUS[row] for row in rows]

    return Rollouts(
        rewards=torch.tensor(rewards),
        groups=torch.zeros(6).long(),
        answers=TOLD_ANSWERS,
        hidden=torch.randn(6, 4, generator=torch.Generator().manual_seed(0)),
        second_rewards=second_rewards,
    )


def test_a_right_answer_without_the_bonus_that_others_have_is_right():
    asked = []
    curator = Appeals(random_share=0.0, choose="majority", curator="grpo", budget=6)
    curation = curator.curate(batch_with_a_bonus(asked))
    # The verdict 1.0 on "7" is lower than the reward 1.1 of "8". Wrong answers get the low verdict, without a bonus.
    assert asked == [[0]]
    assert curation.rewards.tolist() == [1, 1, 1, 0, 0, 0]


def test_verdicts_without_the_bonus_of_the_rewards_are_right_as_well():
    rollouts = replace(
        batch_with_a_bonus([], rewards=(0.1, 1.1, 0.1, 0.1, 0.1, 0.1)),
        second_rewards=lambda rows: [float(TOLD_ANSWERS[row] == "7") for row in rows],
    )
    curation = Appeals(random_share=0.0, choose="care", curator="grpo", budget=6).curate(rollouts)
    assert curation.rewards.tolist() == [1, 1, 1, 0, 0, 0]
    assert curation.metrics["appeals_asked"] == 1


def test_a_solved_prompt_is_left_alone_whatever_bonus_others_have():
    asked = []
    rollouts = replace(batch_with_a_bonus(asked), trusted=torch.arange(6) == 0)
    rollouts = replace(rollouts, rewards=torch.tensor([1.0, 0.0, 0.0, 1.1, 1.1, 0.1]))
    Appeals(curator=Scoring([0.0] * 6), choose="error", enough=0.01, budget=6, random_share=0.0).curate(rollouts)
    assert asked == []


def test_a_response_with_a_bonus_or_a_penalty_may_be_refused():
    asked = []
    rollouts = batch_with_a_bonus(asked, rewards=(1.0, 0.0, 0.0, 1.1, -0.1, 0.1))
    Appeals(random_share=0.0, choose="negatives", curator="grpo", budget=6).curate(rollouts)
    assert sorted(asked[0]) == [1, 2, 4, 5]


def test_verdicts_below_every_reward_leave_refused_rows_to_ask_about():
    # All rows are formatted: a refused one has 0.1, and a verdict on it 0.
    rollouts = replace(
        batch_with_a_bonus([], rewards=(1.1, 0.1, 0.1, 0.1, 0.1, 0.1)), second_rewards=lambda rows: [0.0] * len(rows)
    )
    curator = Appeals(random_share=0.5, choose="negatives", curator="grpo", budget=5)
    curation = curator.curate(rollouts, generator=torch.Generator().manual_seed(0))
    assert curation.metrics["checks"] == 3
    assert curation.metrics["appeals_asked"] == 5


@pytest.mark.parametrize(
    ("trusted", "last"), [((True, True, True, False), 1.0), ((True, False, True, False), 0.0)], ids=["most", "tie"]
)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 1, 0, 3]])
def test_of_trusted_rows_that_contradict_each_other_most_decide_and_a_tie_tells_nothing(trusted, last, order):
    """All rows have one answer. The trusted ones keep their rewards, and the last one gets what most of them say."""
    rewards = (1.0, 1.0, 0.0, 0.0)
    rollouts = Rollouts(
        rewards=torch.tensor(rewards)[order],
        groups=torch.zeros(4).long(),
        answers=["7"] * 4,
        trusted=torch.tensor(trusted)[order],
        second_rewards=lambda rows: [None] * len(rows),
    )
    curation = Appeals(random_share=0.0, choose="random", curator="grpo", budget=2).curate(rollouts)
    expected = (*rewards[:3], last)
    assert curation.rewards.tolist() == [expected[row] for row in order]


@pytest.mark.parametrize("choose", CHOOSERS)
def test_an_answer_whose_rows_all_have_verdicts_that_contradict_each_other_is_left_alone(choose):
    """Trusted rows say both of the most frequent answer: that it is right, and that it is wrong."""
    asked = []

    def second_rewards(rows):
        asked.extend(rows)
        return [1.0] * len(rows)

    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0, 1, 0, 1, 0]),
        groups=torch.zeros(6).long(),
        answers=["7", "7", "7", "7", "9", "5"],
        trusted=torch.tensor([True] * 4 + [False] * 2),
        hidden=torch.randn(6, 4, generator=torch.Generator().manual_seed(0)),
        second_rewards=second_rewards,
    )
    Appeals(random_share=0.0, choose=choose, budget=1, curator=Denoise(geometry="none")).curate(rollouts)
    assert set(asked) <= {4, 5}
    assert len(asked) == 1


def test_negatives_are_refused_responses_alone():
    asked = []
    Appeals(random_share=0.0, choose="negatives", curator="grpo", budget=12).curate(batch(asked))
    assert sorted(asked[0]) == [row for row in range(12) if OBSERVED[row] == 0]


def test_random_rows_follow_the_seed_and_not_the_order_of_the_rows():
    def names(order, seed):
        asked = []
        rollouts = batch(asked).take(torch.tensor(order))
        curator = Appeals(random_share=0.0, choose="random", curator="grpo", budget=4)
        curator.curate(rollouts, generator=torch.Generator().manual_seed(seed))
        return asked[0]

    assert names(range(12), 1) == names(range(11, -1, -1), 1)
    assert names(range(12), 1) != names(range(12), 2)


@pytest.mark.parametrize("refuted", [set(), {0}, {0, 1}])
def test_the_remaining_error_is_the_expected_squared_distance_of_the_advantages_from_their_mean(refuted):
    counts = [3, 2, 1]
    right = [0.5, 0.2, 0.1]
    size = 8
    answers = OpenAnswers(
        names=[(0, "a"), (0, "b"), (0, "c")],
        chance_right=right,
        root_odds=[math.sqrt(count / (size - count)) for count in counts],
        rows=size,
    )

    # The truths that are left, none of the three among them, with GRPO's advantages under each.
    starts = [0, *itertools.accumulate(counts)]
    truths = [(1 - sum(right), torch.zeros(size))]
    for place in range(3):
        if place not in refuted:
            rewards = torch.zeros(size)
            rewards[starts[place] : starts[place + 1]] = 1
            truths.append((right[place], rewards))
    in_all = sum(chance for chance, _ in truths)
    advantages = [group_advantages(rewards, torch.zeros(size).long(), eps=1e-9) for _, rewards in truths]
    chances = [chance / in_all for chance, _ in truths]
    mean = sum(chance * each for chance, each in zip(chances, advantages, strict=True))
    distances = [float((each - mean).square().sum()) for each in advantages]
    expected = sum(chance * distance for chance, distance in zip(chances, distances, strict=True))
    assert answers.error(refuted) == pytest.approx(in_all * expected, rel=1e-5)


def test_an_answer_that_all_rows_give_is_not_worth_a_check():
    assert OpenAnswers(names=[(0, "a")], chance_right=[0.5], root_odds=[0.0], rows=4).checks() == []


def test_rows_without_a_reward_do_not_count():
    """GRPO's advantages leave them out, so "a" and "b" are answers of two rows and not of four."""

    def open_of(rewards):
        candidates = Candidates(
            rollouts=Rollouts(rewards=torch.tensor(rewards), groups=torch.zeros(len(rewards)).long()),
            in_order=[0, 1],
            rows=[0, 1],
            answers=[(0, "a"), *[(0, "b")] * (len(rewards) - 1)],
            answered=[True] * len(rewards),
            in_vain=set(),
            rewards=torch.tensor(rewards),
            trusted=torch.zeros(len(rewards)).bool(),
            scores=torch.zeros(len(rewards)),
            log_odds=True,
            verdict_values=VerdictValues(0.0, 1.0),
            says_truths=False,
        )
        return open_answers(candidates, middle=0.5)

    assert open_of([1.0, 0.0, math.nan, math.nan]) == open_of([1.0, 0.0])


@pytest.mark.parametrize(("shared", "rows", "rewards"), [(False, [[0]], [1, 1, 0]), (True, [[0], [2]], [1, 1, 1])])
def test_a_right_answer_makes_others_wrong_unless_several_may_be_right(shared, rows, rewards):
    asked = []

    def accepts_all(rows):
        asked.append(list(rows))
        return [1.0] * len(rows)

    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 0.0, 1.0]),
        groups=torch.zeros(3).long(),
        answers=["a", "a", "b"],
        shared_answers=torch.tensor([False, False, shared]),
        second_rewards=accepts_all,
    )
    curation = Appeals(random_share=0.0, choose="majority", curator="grpo", budget=2).curate(rollouts)
    assert asked == rows
    assert curation.rewards.tolist() == rewards


def test_answers_of_which_several_may_be_right_are_weighed_one_by_one():
    rewards = torch.tensor([1.0, 1.0, 1.0, 0.0])
    candidates = Candidates(
        rollouts=Rollouts(rewards=rewards, groups=torch.zeros(4).long()),
        in_order=[0, 1, 2, 3],
        rows=[0, 1, 2, 3],
        answers=[(0, "a"), (0, "a"), (0, "b"), (0, "c")],
        answered=[True] * 4,
        in_vain=set(),
        rewards=rewards,
        trusted=torch.zeros(4).bool(),
        scores=torch.zeros(4),
        log_odds=True,
        verdict_values=VerdictValues(0.0, 1.0),
        says_truths=False,
    )
    (together,) = open_answers(candidates, middle=0.5)
    # Each is right with probability 1/2; at most one of three is, so that the sum is cut to 1.
    assert together.chance_right == [1 / 3] * 3
    alone = open_answers(replace(candidates, shared_groups=frozenset({0})), middle=0.5)
    assert [answers.names for answers in alone] == [[(0, "a")], [(0, "b")], [(0, "c")]]
    assert [answers.chance_right for answers in alone] == [[0.5]] * 3


def test_a_right_response_makes_no_other_wrong_where_none_gives_an_answer():
    rollouts = Rollouts(
        rewards=torch.tensor([1.0, 1.0, 0.0]),
        groups=torch.zeros(3).long(),
        response_keys=torch.arange(3),
        trusted=torch.tensor([True, False, False]),
        second_rewards=lambda rows: [None] * len(rows),
    )
    curation = Appeals(random_share=0.0, choose="random", curator="grpo", budget=1).curate(rollouts)
    assert curation.rewards.tolist() == [1, 1, 0]


def test_an_answer_that_was_asked_about_in_vain_is_not_asked_about_again():
    asked = []

    def silent(rows):
        asked.append(list(rows))
        return [None] * len(rows)

    # Four rows of the second prompt answer "3": only one of them is asked about.
    rollouts = replace(batch([]), second_rewards=silent)
    Appeals(random_share=0.0, choose="majority", curator="grpo", budget=5).curate(rollouts)
    assert asked == [[0, 6], [3, 10], [11]]


def test_care_learns_the_same_whatever_the_order_of_the_rows():
    def learnt(order):
        curator = Appeals(random_share=0.0, choose="care", curator="grpo", budget=12)
        # Of the second prompt "3" and "4" are equally frequent, "3" is known to be wrong and "4" to be right.
        trusted = torch.tensor([row in (6, 10) for row in range(12)])
        answers = [*ANSWERS[:6], "3", "3", None, None, "4", "4"]
        rollouts = replace(batch([]), trusted=trusted, answers=answers)
        curator.curate(rollouts.take(torch.tensor(order)), generator=torch.Generator().manual_seed(0))
        return [(int(past["vote_right"]), int(past["right_count"])) for past in probes_of(curator)["past"]]

    assert learnt(range(12)) == learnt(range(11, -1, -1))


def probes_of(curator):
    return curator.state_dict()["chooser"]["probes"]


def test_care_refuses_states_of_another_width():
    curator = Appeals(random_share=0.0, choose="care", curator="grpo", budget=3)
    curator.curate(batch([]))
    with pytest.raises(InputError, match=r"Care: expected hidden states of width 4, as before; got 5"):
        curator.curate(replace(batch([]), hidden=torch.zeros(12, 5)))


def test_care_judges_each_batch_anew_if_the_last_was_only_heard():
    curator = Appeals(random_share=0.0, choose="care", curator="grpo", budget=6)
    curator.hear(batch([]))
    asked = []
    # The same prompts under other numbers.
    curator.hear(replace(batch(asked), groups=torch.tensor([5] * 6 + [6] * 6)))
    assert sorted(row for call in asked for row in call) == [0, 3, 6, 10, 11]


def test_of_prompts_whose_vote_is_trusted_the_largest_gap_comes_first():
    judgement = Judgement(
        groups=[0, 1, 2, 3],
        gap=torch.tensor([1.0, 2.0, 0.5, 0.25]),
        trusts_vote=torch.tensor([True, True, True, False]),
    )
    assert judgement.places_by_priority() == [3, 1, 0, 2]


def test_the_corrective_gap_is_the_change_of_the_advantages():
    # Of four rows two have the vote, two another answer that is right: advantages 1, 1, -1, -1 become the opposite.
    assert corrective_gap(4, 2, 2) == pytest.approx(4)
    # None is right: all advantages go.
    assert corrective_gap(4, 2, 0) == pytest.approx(2)
    # All agree, and are wrong or right: there is no advantage either way.
    assert corrective_gap(4, 4, 0) == 0


def test_care_labels_a_whole_prompt_before_the_next_and_trains_on_labels_alone():
    asked = []
    curation = Appeals(random_share=0.0, choose="care", curator="grpo", budget=3).curate(batch(asked))
    rows = [row for call in asked for row in call]
    # Either "7", "9", and the next prompt's vote; or "3", "4", "5".
    assert rows in ([0, 3, 6], [6, 10, 11])
    labelled = list(range(6)) if rows[0] == 0 else list(range(6, 12))
    assert curation.rewards[labelled].tolist() == [TRUE[row] for row in labelled]
    # The verifier's other verdicts are ignored: prompts without a label have no weight.
    assert [row for row in range(12) if curation.weights[row] > 0] == labelled


@pytest.mark.parametrize("choose", [name for name, make in CHOOSERS.items() if not make().needs_scores])
def test_a_chooser_that_is_never_asked_leaves_the_verdicts_of_drawn_rows(choose):
    curation = Appeals(random_share=1.0, choose=choose, curator="grpo", budget=12).curate(batch([]))
    assert curation.rewards.tolist() == TRUE


def test_a_chooser_without_scores_works_in_front_of_denoise():
    asked = []
    curation = Appeals(random_share=0.0, choose="majority", curator=Denoise(), budget=2).curate(batch(asked))
    assert asked == [[0, 6]]
    assert curation.rewards[0] == 0


class Scoring(Curator):
    """Keeps every reward, and scores the rows with log-odds that are given."""

    config_class = type(None)
    optional = ("answers", "trusted")
    log_odds = True

    def __init__(self, scores):
        super().__init__()
        self.given = torch.tensor(scores)

    def curate(self, rollouts, *, generator=None, details=False):
        return replace(identity(rollouts), scores=self.given)


# The first prompt is all but certain, the second is not known at all.
SURE_AND_OPEN = [-9.0] * 6 + [0.0] * 6


def asked_by_error(budget, **settings):
    asked = []
    appeals = Appeals(curator=Scoring(SURE_AND_OPEN), choose="error", budget=budget, random_share=0.0, **settings)
    appeals.curate(batch(asked))
    return [row for call in asked for row in call]


def test_checks_go_where_the_advantages_are_uncertain():
    # Of the second prompt "3" decides most, then "4". With both refuted "5" is right, for no other answer is left.
    assert asked_by_error(2) == [6, 10]


def test_checks_end_where_little_is_left_to_find_out():
    assert asked_by_error(12, enough=0.1) == [6, 10]
    assert asked_by_error(12, enough=0.9) == []
    with pytest.raises(ConfigError, match=r"^appeals.enough: expected choose: error, which it is for, got majority$"):
        Appeals(random_share=0.0, choose="majority", curator="grpo", enough=0.1)


@pytest.mark.parametrize("rounding", [-2e-7, 2e-7])
def test_checks_that_decide_equally_much_up_to_rounding_stay_in_the_order_of_their_rows(rounding):
    asked = []
    # Both prompts have the same answers and the same scores, but for the last bits.
    scores = [0.5, 0.5, 0.5, 0.5 + rounding, 0.5 + rounding, 0.5 + rounding]
    rollouts = replace(
        batch_with_a_bonus(asked, rewards=(0.0, 0.0, 1.0, 0.0, 0.0, 1.0)),
        groups=torch.tensor([0, 0, 0, 1, 1, 1]),
        answers=["7", "7", "8", "7", "7", "8"],
    )
    Appeals(curator=Scoring(scores), choose="error", budget=1, random_share=0.0).curate(rollouts)
    Appeals(curator=Scoring(scores), choose="informative", budget=1, random_share=0.0).curate(rollouts)
    assert asked == [[0], [0]]


def test_checks_end_in_a_batch_of_equal_rewards_once_the_verdicts_are_known():
    asked = []
    curator = Appeals(curator=Scoring(SURE_AND_OPEN), choose="error", enough=0.9, budget=12, random_share=0.0)
    curator.curate(batch(asked))
    curator.curate(replace(batch(asked), rewards=torch.zeros(12)))
    # Nothing in the first batch; of the second one row of the twelve.
    assert asked == [[6]]
