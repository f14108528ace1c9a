"""One curator's training: draws of its own, calls counted, and a file that another process goes on from."""

import math
import os
import threading
from dataclasses import replace

import pytest
import torch
from safetensors.torch import save_file

from geoalign import GRPO, Appeals, Chain, Denoise, Monitor, NoiseCorrected, PairCount
from geoalign.curators.baselines.reshaped_rewards import MajorityVote
from geoalign.curators.baselines.subsets import PODS
from geoalign.curators.checkpoint import load_state, save_state
from geoalign.curators.curator import Curator, identity
from geoalign.curators.geoalign import GeoAlign
from geoalign.curators.session import STATE_FILE, CurationSession
from geoalign.errors import ConfigError, InputError
from geoalign.types import Rollouts

SMALL = {"projector": {"layers": 1, "steps": 2}, "min_scores": 2}


def rollouts(seed: int = 0) -> Rollouts:
    draw = torch.Generator().manual_seed(seed)
    return Rollouts(
        rewards=torch.randn(32, generator=draw),
        groups=torch.arange(4).repeat_interleave(8),
        hidden=torch.randn(32, 8, generator=draw),
    )


def session(seed: int = 3) -> CurationSession:
    return CurationSession(GeoAlign(**SMALL), seed=seed)


class Silent(Curator):
    """Changes nothing."""

    config_class = type(PODS().config)

    def curate(self, rollouts, *, generator=None, details=False):
        return identity(rollouts)


def same(first, second) -> bool:
    return torch.equal(first.source, second.source) and torch.equal(
        first.scores.nan_to_num(-1), second.scores.nan_to_num(-1)
    )


def restored(path, into: CurationSession) -> CurationSession:
    into.load(path, setting="resume", otherwise="start anew")
    return into


def test_a_restored_session_goes_on_bit_for_bit(tmp_path):
    path = tmp_path / "deep" / STATE_FILE
    whole = session()
    whole.curate(rollouts(0))
    whole.calls += 1
    whole.save(path)
    other = restored(path, session(seed=99))
    assert other.calls == 1
    assert same(whole.curate(rollouts(1)), other.curate(rollouts(1)))
    assert not same(session(seed=4).curate(rollouts(1)), other.curate(rollouts(1)))


def test_what_it_refuses_to_load(tmp_path):
    path = tmp_path / STATE_FILE
    with pytest.raises(InputError, match=rf"resume: expected {STATE_FILE} in .*, got none; start anew"):
        restored(path, session())
    session().save(path)
    with pytest.raises(InputError, match=r"expected the state of PODS, got one of GeoAlign .*start anew"):
        restored(path, CurationSession(PODS(m=2), seed=0))
    state = load_state(path)
    for gone in ("curator", "generator", "calls"):
        save_state(path, {name: value for name, value in state.items() if name != gone})
        with pytest.raises(InputError, match=rf"expected the state of a curator with .*{gone}.*, got one with"):
            restored(path, session())
    save_state(path, {**state, "curator": {"calls": 1}})
    with pytest.raises(ConfigError, match="missing"):
        restored(path, session())
    save_state(path, {**state, "note": 1})
    with pytest.raises(InputError, match=r"expected the state of a curator with .*, got one with .*, note in"):
        restored(path, session())


def test_other_settings_are_refused_by_name_also_of_curators_that_save_their_own_state(tmp_path):
    path = tmp_path / STATE_FILE

    class Own(PODS):
        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            assert state == {}

    for saved, now, words in (
        ({"type": "denoise", "geometry": "none"}, {"type": "denoise", "window": 3}, r"denoise\.window: .*10, now 3"),
        (Monitor(Denoise()), Monitor(Denoise(window=3)), r"monitor\.curator\.window: saved with 10, now 3"),
        (Chain(["grpo", "pods"]), Chain(["grpo", PODS(m=4)]), r"chain\.members\.1\.m: saved with None, now 4"),
        (Own(m=2), Own(m=3), r"pods\.m: saved with 2, now 3"),
    ):
        CurationSession(saved, seed=0).save(path)
        restored(path, CurationSession(saved, seed=0))
        with pytest.raises(
            ConfigError, match=rf"^resume: the curator in .* has other settings: .*{words}.*start anew$"
        ):
            restored(path, CurationSession(now, seed=0))


@pytest.mark.parametrize("curating", ["in a thread", "in the main thread"])
def test_what_another_thread_draws_during_a_curation_does_not_come_again(curating):
    within, drawn = threading.Event(), threading.Event()

    class Waiting(Silent):
        def curate(self, rollouts, *, generator=None, details=False):
            within.set()
            assert drawn.wait(timeout=60)
            return identity(rollouts)

    def curate():
        CurationSession(Waiting(m=2), seed=0).curate(rollouts())

    def draw():
        assert within.wait(timeout=60)
        found.append(torch.rand(2))
        drawn.set()

    torch.manual_seed(0)
    alone = [torch.rand(2), torch.rand(2)]
    torch.manual_seed(0)
    found = []
    beside, here = (curate, draw) if curating == "in a thread" else (draw, curate)
    thread = threading.Thread(target=beside)
    thread.start()
    here()
    thread.join()
    found.append(torch.rand(2))
    assert torch.equal(torch.stack(found), torch.stack(alone))


def test_a_curation_of_another_batch_is_refused():
    class Short(Silent):
        def curate(self, rollouts, *, generator=None, details=False):
            return identity(rollouts.take(torch.arange(5)))

    with pytest.raises(InputError, match=r"Curation.scores: expected 32 rows, got 5"):
        CurationSession(Short(m=2), seed=0).curate(rollouts())


def test_fields_that_nobody_brings():
    class Needy(PODS):
        requires = ("hidden", "response_keys", "answers", "true_rewards")

    assert CurationSession(Needy(m=2), seed=0).missing_fields(["answers"]) == ["true_rewards"]


@pytest.mark.parametrize("gold", [True, False])
def test_gold_answers_in_the_place_of_the_responses_own_are_said(gold, caplog):
    given = [str(row // 8 if gold else row % 3) for row in range(32)]
    CurationSession(MajorityVote(), seed=0).curate(replace(rollouts(), answers=given))
    assert ("gold answers?" in caplog.text) == gold


FEW = "GeoAlign could not act on the first batch: nothing is flagged: "


@pytest.mark.parametrize(
    ("wrap", "needed", "said"),
    [
        (lambda curator: curator, 64, FEW + "32 rollouts < min_scores = 64: give at least 64 rollouts a batch"),
        # Three of the four groups have equal rewards: eight rows have a score.
        (
            lambda curator: curator,
            16,
            FEW + "8 of 32 rollouts have a score, fewer than min_scores = 16: give",
        ),
        (lambda curator: Chain([GRPO(), PairCount(), curator]), 40, "32 rollouts < min_scores = 40"),
        (Monitor, 64, "32 rollouts < min_scores = 64"),
        (lambda curator: curator, 8, None),
    ],
)
def test_a_first_batch_too_small_to_be_curated_is_said_once(wrap, needed, said, caplog):
    rewards = torch.arange(32.0)
    if needed < 32:
        # Groups of eight: the first has eight different rewards, in the others all are equal.
        rewards[8:] = 0
    given = replace(rollouts(), hidden=torch.randn(32, 4), rewards=rewards, answers=["a"] * 32)
    held = CurationSession(wrap(GeoAlign(min_scores=needed, projector=None)), seed=0)
    for _ in range(2):
        held.curate(given)
    assert [said in message for message in caplog.messages if "could not act" in message] == [True] * (said is not None)


def drawn(*shape: int) -> torch.Tensor:
    """The same normal numbers in every call, whatever was drawn before."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def verdicts() -> Rollouts:
    """Two prompts of four responses, without answers, no two alike."""
    rewards = torch.tensor([1.0, 0, 1, 0, 0, 0, 1, 0])
    groups = torch.arange(2).repeat_interleave(4)
    return Rollouts(rewards=rewards, groups=groups, response_keys=torch.arange(8), hidden=drawn(8, 4))


@pytest.mark.parametrize(
    ("curator", "changes", "said"),
    [
        (Denoise(geometry="none"), {}, "there are no answers to compare, which leaves identical responses"),
        ("denoise", {}, "hidden states, once they predict the rewards of new prompts: set Rollouts(..., answers=...)"),
        ("denoise", {"answers": [None] * 8}, "no reward is changed: no response has an answer"),
        ("noise_corrected", {}, "there are no answers to compare"),
        (Monitor(Chain([Denoise(geometry="none")])), {}, "there are no answers to compare"),
        (Appeals(Denoise()), {"second_rewards": lambda rows: [None] * len(rows)}, "answered none of 8 questions"),
        ("labelled_probe", {"trusted": torch.zeros(8).bool()}, "nothing is learnt: there is no trusted row"),
        # It says that it reads none; it has some; it has acted; the scores of a reward model have none.
        (Denoise(geometry="none", answers="none"), {}, None),
        ("denoise", {"answers": list("abcdabcd")}, None),
        (NoiseCorrected(false_positive_rate=0.1, false_negative_rate=0.1), {}, None),
        ("denoise", {"rewards": drawn(8)}, None),
    ],
)
def test_what_hinders_a_curator_in_the_first_batch_with_rewards_is_said_once(curator, changes, said, caplog):
    held = CurationSession(curator, seed=0)
    given = replace(verdicts(), **changes)
    unscored = replace(given, rewards=torch.full((8,), math.nan))
    held.curate(unscored)
    assert not caplog.messages
    for _ in range(2):
        held.curate(given)
    assert [said in message for message in caplog.messages] == [True] * (said is not None), caplog.messages


def test_round_trip(tmp_path):
    shared = torch.arange(6.0).view(2, 3)
    state = {
        "calls": 3,
        "rate": 0.1,
        "infinite": math.inf,
        "on": True,
        "name": "Grüße, 世界 \u2028",
        "nothing": None,
        "empty": {},
        "tensors": {"a/b": shared, "view": shared.t(), "none": torch.zeros(0, 4), "half": torch.ones(2).bfloat16()},
        "list": [1, "two", None, {"deep": [torch.tensor(True), torch.tensor(5)]}],
        "generator": torch.Generator().manual_seed(7).get_state(),
    }
    save_state(tmp_path / "state.safetensors", state)
    back = load_state(tmp_path / "state.safetensors")
    assert list(back) == list(state)
    for key in ("calls", "rate", "infinite", "on", "name", "nothing", "empty"):
        assert back[key] == state[key]
        assert type(back[key]) is type(state[key])
    for name, value in state["tensors"].items():
        assert torch.equal(back["tensors"][name], value)
        assert back["tensors"][name].dtype == value.dtype
    assert back["list"][:3] == [1, "two", None]
    assert back["list"][3]["deep"][0].dtype == torch.bool
    assert back["list"][3]["deep"][1].shape == ()
    torch.Generator().set_state(back["generator"])


@pytest.mark.parametrize("name", ["w" * length for length in range(1, 9)])
def test_loaded_tensors_lie_where_torch_puts_its_own(tmp_path, name):
    """At an address of the file's choosing, sums over a tensor differ in the last bit from the run that saved it."""
    save_state(tmp_path / "s", {name: torch.ones(1), "after": torch.ones(100)})
    assert all(tensor.data_ptr() % 64 == 0 for tensor in load_state(tmp_path / "s").values())


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"a": {1: 2}}, r"state\['a'\]: expected str keys"),
        ({"a": [0, object()]}, r"state\['a'\]\[1\]: expected a tensor.*got object"),
        ({"__tensor__": 1}, "other than '__tensor__'"),
        ({"f": {1, 2}}, "got set"),
    ],
)
def test_what_cannot_be_saved_is_named(tmp_path, state, words):
    with pytest.raises(InputError, match=words):
        save_state(tmp_path / "state", state)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    save_state(tmp_path / "state", {"calls": 1})

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save_state(tmp_path / "state", {"calls": 2})
    assert load_state(tmp_path / "state") == {"calls": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_unreadable_files_are_named(tmp_path):
    save_state(tmp_path / "whole", {"w": torch.zeros(100)})
    (tmp_path / "half").write_bytes((tmp_path / "whole").read_bytes()[:-50])
    for name in ("missing", "half"):
        with pytest.raises(InputError, match=f"expected a whole safetensors file.*{name}"):
            load_state(tmp_path / name)
    save_file({"w": torch.zeros(2)}, tmp_path / "foreign")
    with pytest.raises(InputError, match="expected the state of a curator"):
        load_state(tmp_path / "foreign")


def test_equal_answers_of_a_prompt_are_one_answer_to_every_curator():
    watched: list[Rollouts] = []

    class Watching(MajorityVote):
        def curate(self, rollouts, *, generator=None, details=False):
            watched.append(rollouts)
            return identity(rollouts)

    answers = ["0.5", "1/2", "1/2", "x=0.5", "5 cm", "5", None, "7."]
    batch = Rollouts(rewards=torch.arange(8.0), groups=torch.arange(8) // 4, answers=answers)
    CurationSession(Watching(), seed=0).curate(batch)
    assert watched[0].answers == [r"\frac{1}{2}"] * 4 + ["5", "5", None, "7"]


class Flagging(Silent):
    """Flags the first two rows of every batch, and logs nothing."""

    def curate(self, rollouts, *, generator=None, details=False):
        anomalous = torch.arange(len(rollouts)) < 2
        return replace(identity(rollouts), anomalous=anomalous, scores=anomalous.float())


def test_the_flagged_rows_are_counted_once_for_every_curator_that_scores_rows():
    assert CurationSession(Flagging(), seed=0).curate(rollouts()).metrics["anomalous"] == 2
    chained = Chain([Flagging(), Denoise(geometry="none")])
    curation = CurationSession(chained, seed=0).curate(rollouts())
    assert curation.metrics["anomalous"] == curation.anomalous.sum()
    assert "anomalous" not in CurationSession(GRPO(), seed=0).curate(rollouts()).metrics
