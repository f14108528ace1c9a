import math

from geoalign.lab.data.settings import DialogueConfig
from geoalign.lab.data.task import PreferencePair
from geoalign.lab.data.tasks import make_task
from geoalign.lab.train.pair_accuracy import hold_out_prompts, pair_accuracy


class Lengths:
    """A reward source that likes long responses, and cannot score an empty one."""

    binary = False

    def score(self, responses, answers, *, prompts=None):
        assert len(responses) == len(answers) == len(prompts)
        return [float(len(response)) if response else math.nan for response in responses]


def pairs(*texts):
    prompt = ({"role": "user", "content": "hi"},)
    return [PreferencePair(prompt, chosen, rejected) for chosen, rejected in texts]


def flattering(response):
    return response.startswith("wow")


def test_accuracy_by_hand():
    given = pairs(
        ("aaa", "a"),  # right
        ("a", "aaa"),  # wrong
        ("aa", "bb"),  # tied
        ("wow!", "a"),  # right, the shortcut is chosen
        ("aaaaaa", "wow!"),  # right, the shortcut is rejected
        ("a", "wow!"),  # wrong, the shortcut is rejected
        ("", "a"),  # cannot be scored
    )
    found = pair_accuracy(Lengths(), given, flattering)
    assert found == {
        "accuracy": 3.5 / 6,
        "count": 6,
        "with_shortcut": 1.0,
        "with_shortcut_count": 1,
        "against_shortcut": 0.5,
        "against_shortcut_count": 2,
        "unscored": 1,
    }


def test_a_task_without_a_shortcut_has_no_such_pairs():
    found = pair_accuracy(Lengths(), pairs(("aaa", "a")), None)
    assert (found["accuracy"], found["with_shortcut"], found["against_shortcut"]) == (1.0, None, None)
    assert pair_accuracy(Lengths(), [], None)["accuracy"] is None


def test_all_pairs_of_a_prompt_are_on_one_side():
    given = make_task(DialogueConfig(preference_pairs=2000), seed=0).preference_pairs
    train, held_out = hold_out_prompts(given, 0.1, most=1024, seed=0)
    assert sorted(map(repr, [*train, *held_out])) == sorted(map(repr, given))
    prompts_of_train = {pair.prompt[0]["content"] for pair in train}
    prompts_held_out = {pair.prompt[0]["content"] for pair in held_out}
    assert not prompts_of_train & prompts_held_out
    assert 200 <= len(held_out) < 230
    assert hold_out_prompts(given, 0.1, most=1024, seed=0) == (train, held_out)
    assert hold_out_prompts(given, 0.1, most=1024, seed=1) != (train, held_out)
    assert 50 <= len(hold_out_prompts(given, 0.1, most=50, seed=0)[1]) < 80
