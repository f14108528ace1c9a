"""Labelled rollouts: joined with a batch, taken away from its curation, told from others."""

import pytest
import torch

from geoalign.curators.baselines.reshaped_advantages import GRPO
from geoalign.curators.chain import Chain
from geoalign.curators.denoise import Denoise
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.labelled_rollouts import LabelledRollouts, with_labelled, without_labelled
from geoalign.curators.session import CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.types import Curation, Rollouts


def batch(**changes):
    values = {
        "rewards": torch.tensor([1.0, 0.0, torch.nan, 1.0]),
        "groups": torch.tensor([7, 7, 3, 3]),
        "hidden": torch.arange(8.0).reshape(4, 2),
        "answers": ["a", None, "b", "b"],
        "logprobs": torch.zeros(4),
        "ids": ["0", "1", "2", "3"],
    }
    return Rollouts(**{**values, **changes})


def labelled_rows(**changes):
    values = {
        "rewards": torch.tensor([0.0, 1.0, 0.5], dtype=torch.float64),
        "groups": torch.tensor([0, 0, 1]),
        "hidden": -torch.ones(3, 2),
        "answers": ["a", "c", None],
        "true_rewards": torch.tensor([0.0, 1.0, 0.5]),
        "ids": ["labelled:0", "labelled:1", "labelled:2"],
    }
    return Rollouts(**{**values, **changes})


def labelled(**changes):
    values = {"prompts": ["p", "p"], "responses": ["x", "y"], "rewards": [0.0, 1.0], "groups": ["g", "g"]}
    return LabelledRollouts(**{**values, **changes})


def test_labelled_rollouts_stand_behind_the_batch_in_groups_of_their_own():
    joined = with_labelled(batch(), labelled_rows())
    # The batch's groups are 7 and 3: the labelled rollouts' 0 and 1 become 8 and 9.
    assert joined.groups.tolist() == [7, 7, 3, 3, 8, 8, 9]
    assert joined.rewards.nan_to_num(-1).tolist() == [1, 0, -1, 1, 0, 1, 0.5]
    assert joined.rewards.dtype == torch.float32
    assert joined.hidden.tolist() == batch().hidden.tolist() + [[-1.0, -1.0]] * 3
    assert joined.answers == ["a", None, "b", "b", "a", "c", None]
    assert joined.trusted.tolist() == [False] * 4 + [True] * 3
    assert joined.donor_ok.tolist() == [True] * 4 + [False] * 3
    # One of the two knows nothing of these.
    assert joined.logprobs is None
    assert joined.true_rewards is None


def test_labelled_rollouts_exclude_each_other_beside_a_prompt_whose_answers_do_not():
    joined = with_labelled(batch(shared_answers=torch.tensor([True, True, False, False])), labelled_rows())
    assert joined.shared_answers.tolist() == [True, True] + [False] * 5


def test_labelled_rollouts_whose_answers_do_not_exclude_each_other_stay_so_beside_a_prompt_whose_answers_do():
    joined = with_labelled(batch(), labelled_rows(shared_answers=torch.tensor([True, True, False])))
    assert joined.shared_answers.tolist() == [False] * 4 + [True, True, False]


def test_labelled_rollouts_beside_an_empty_batch_stand_alone():
    nothing = Rollouts(rewards=torch.zeros(0), groups=torch.zeros(0).long())
    joined = with_labelled(nothing, labelled_rows())
    assert joined.groups.tolist() == [0, 0, 1]
    assert joined.trusted.tolist() == [True] * 3


def curation_of(source, scores=7, **changes):
    source = torch.tensor(source)
    values = {
        "rewards": source.float(),
        "weights": 10.0 + source,
        "scores": torch.arange(float(scores)),
        "anomalous": torch.tensor([True, False, False, True, False, True, True])[:scores],
        "metrics": {"other": 3.0},
    }
    return Curation(source=source, **{**values, **changes})


def test_the_batch_alone_comes_back():
    """Of seven rows the first four are the batch's: 2 of the 4 anomalous ones."""
    cut = without_labelled(curation_of([1, 1, 2, 3, 4, 5, 5], advantages=torch.arange(7.0)), 4)
    assert cut.source.tolist() == [1, 1, 2, 3]
    assert cut.rewards.tolist() == [1, 1, 2, 3]
    assert cut.weights.tolist() == [11, 11, 12, 13]
    assert cut.advantages.tolist() == [0, 1, 2, 3]
    assert cut.scores.tolist() == [0, 1, 2, 3]
    assert cut.anomalous.tolist() == [True, False, False, True]
    assert cut.metrics == {"other": 3.0, "labelled_rollouts": 3.0}


def test_of_a_subset_the_rows_of_the_batch_stay_in_its_order():
    # Group after group, as subsets come: all four of the batch, and one labelled rollout. Row i is at position i.
    cut = without_labelled(curation_of([2, 3, 5, 0, 1]), 4)
    assert cut.source.tolist() == [0, 1, 2, 3]
    cut = without_labelled(curation_of([6, 3, 0]), 4)
    assert cut.source.tolist() == [0, 3]
    assert cut.weights.tolist() == [10, 13]


def test_a_labelled_rollout_in_the_batch_is_refused():
    with pytest.raises(InputError, match=r"expected rows of the batch, got labelled rollout 1 at 2"):
        without_labelled(curation_of([0, 1, 5, 3, 4, 5, 6]), 4)


class Watching(GRPO):
    """Plain GRPO that remembers its batch and reads trusted rows."""

    optional = ("trusted",)

    def curate(self, rollouts, *, generator=None, details=False):
        self.seen, self.details = rollouts, details
        return super().curate(rollouts, generator=generator, details=details)


def test_a_session_shows_labelled_rollouts_to_the_curator_alone():
    session = CurationSession(Watching(), seed=0, labelled=labelled())
    true = torch.tensor([0.0, 1.0, torch.nan, 1.0])
    given = batch(true_rewards=true)
    curation = session.curate(given, details=True, labelled=labelled_rows())
    assert len(session.curator.seen) == 7
    assert not session.curator.details
    assert curation.source.tolist() == [0, 1, 2, 3]
    assert curation.metrics["labelled_rollouts"] == 3
    # Agreement with the true rewards is that of the batch: as without labelled rollouts.
    alone = CurationSession(GRPO(), seed=0).curate(given)
    assert curation.metrics["advantage_cosine"] == alone.metrics["advantage_cosine"]


def test_a_session_goes_on_with_its_own_labelled_rollouts_alone(tmp_path):
    path = tmp_path / "state.safetensors"
    CurationSession(Denoise(), seed=0, labelled=labelled()).save(path)
    words = {"setting": "resume", "otherwise": "start anew"}
    CurationSession(Denoise(), seed=0, labelled=labelled()).load(path, **words)
    for others in (None, labelled(rewards=[1.0, 0.0]), labelled(responses=["x", "z"])):
        with pytest.raises(InputError, match=r"labelled_rollouts: expected those of .* got others .*; start anew"):
            CurationSession(Denoise(), seed=0, labelled=others).load(path, **words)
    CurationSession(Denoise(), seed=0).save(path)
    with pytest.raises(InputError, match=r"sha256 none"):
        CurationSession(Denoise(), seed=0, labelled=labelled()).load(path, **words)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"responses": ["x"]}, r"responses: expected 2 rows as rewards, got 1"),
        ({"answers": ["x"]}, r"answers: expected 2 rows as rewards, got 1"),
        ({"prompts": ["p", [{"role": "user", "content": "p"}]]}, r"prompts: expected texts or lists .*, got both"),
        ({"rewards": [0.0, float("nan")]}, r"rewards: expected finite numbers, got nan in row 1"),
        ({"groups": ["g", "h"]}, r"expected a group with two different rewards, got none among 2"),
        ({"rewards": [1.0, 1.0]}, r"expected a group with two different rewards, got none among 1"),
    ],
)
def test_bad_labelled_rollouts(changes, message):
    with pytest.raises(InputError, match=message):
        labelled(**changes)


def test_curators_that_make_no_use_of_labelled_rollouts():
    with pytest.raises(
        ConfigError, match=r"labelled_rollouts: expected a curator that reads trusted rewards.* got GeoAlign"
    ):
        CurationSession(GeoAlign(), seed=0, labelled=labelled())

    class Late(Watching):
        requires = ("advantages",)

    with pytest.raises(ConfigError, match=r"got Late, which reads advantages"):
        CurationSession(Late(), seed=0, labelled=labelled())
    assert "trusted" in Chain([GRPO(), Denoise()]).reads
