import shutil

import pytest
from evaluating import run, run_folder

from geoalign.errors import ConfigError


def test_a_run_is_its_final_model_or_its_checkpoints(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    root = run_folder(tmp_path / "a run", tiny, [10, 20, 30], final=True)
    # A checkpoint that a kill cut short does not count.
    shutil.copytree(tiny, root / "checkpoints" / "rl" / "checkpoint-40")
    found, _ = run([root], [files[0]], [], tmp_path / "final")
    (scores,) = found.models
    model = scores.model
    assert (model.name, model.step, dict(model.template_options)) == ("a run", None, {"enable_thinking": False})
    found, said = run([root], [files[0]], [], tmp_path / "all", checkpoints=True)
    assert [(one.model.name, one.model.step) for one in found.models] == [
        ("a run-step-000010", 10),
        ("a run-step-000020", 20),
        ("a run-step-000030", 30),
    ]
    assert found.curves["a run"].sets["aime24"].steps == (10, 20, 30)
    assert "a run, aime24: 3 checkpoints from step 10 to 30" in " ".join(said.split())
    own, _ = run([root], [files[0]], [], tmp_path / "own", chat_template_kwargs={"enable_thinking": True})
    assert own.models[0].model.template_options == {"enable_thinking": True}


def test_a_final_model_that_is_no_checkpoint_ends_the_curve(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    root = run_folder(tmp_path / "run", tiny, [10], final=True, last=False)
    found, _ = run([root], [files[0]], [], tmp_path / "out", checkpoints=True)
    assert [(one.model.name, one.model.step) for one in found.models] == [("run-step-000010", 10), ("run-final", 11)]
    assert found.curves["run"].sets["aime24"].steps == (10, 11)


def test_a_model_in_the_folder_of_a_run_is_named_after_the_run(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    root = run_folder(tmp_path / "run", tiny, [10], final=True)
    folders = [root / "checkpoints" / "final", root / "checkpoints" / "rl" / "checkpoint-10"]
    found, _ = run(folders, [files[0]], [], tmp_path / "out")
    assert [one.model.name for one in found.models] == ["run", "run-step-000010"]
    assert [one.model.template_options for one in found.models] == [{"enable_thinking": False}] * 2


def test_models_have_names_of_their_own(tiny, files, tmp_path, scripted):
    scripted(lambda prompt, sample: "")
    one = run_folder(tmp_path / "a" / "run", tiny, [10, 20], final=False)
    two = run_folder(tmp_path / "b" / "run", tiny, [10, 20], final=False)
    with pytest.raises(ConfigError, match="2 models are called run-step-000010: give each a name of its own, as in NA"):
        run([one, two], [files[0]], [], tmp_path / "out", checkpoints=True)
    found, _ = run([f"first={one}", two], [files[0]], [], tmp_path / "out", checkpoints=True)
    assert [one.model.name for one in found.models] == [
        "first-step-000010",
        "first-step-000020",
        "run-step-000010",
        "run-step-000020",
    ]
    assert list(found.curves) == ["first", "run"]
    # A folder may have an equals sign in its name.
    shutil.copytree(tiny, tmp_path / "lr=1")
    found, _ = run([tmp_path / "lr=1", f"x={tiny}"], [files[0]], [], tmp_path / "equals")
    assert [one.model.name for one in found.models] == ["lr=1", "x"]


def test_models_that_are_none_are_refused(tiny, files, tmp_path):
    adapters = tmp_path / "adapters"
    adapters.mkdir()
    (adapters / "adapter_config.json").write_text("{}")
    unfinished = run_folder(tmp_path / "unfinished", tiny, [], final=False)
    for models, checkpoints, said in [
        ([], False, "MODEL: expected a folder"),
        ([tmp_path / "nowhere"], False, "no such folder"),
        (["nowhere"], False, "no such folder"),
        ([tmp_path], False, "got a folder that is neither"),
        ([adapters], False, "expected a whole model, got adapters"),
        ([unfinished], False, "evaluate what there is with --checkpoints"),
        ([unfinished], True, "got one without any yet"),
        ([tiny], True, "--checkpoints: expected a run folder"),
    ]:
        with pytest.raises(ConfigError, match=said):
            run(models, [files[0]], [], tmp_path / "out", checkpoints=checkpoints)
    with pytest.raises(ConfigError, match="revision: expected null for the folder"):
        run([tiny], [files[0]], [], tmp_path / "out", revision="main")
    shutil.copytree(tiny, tmp_path / "copy")
    with pytest.raises(ConfigError, match="--save-responses: expected one model, got 2"):
        run([tiny, tmp_path / "copy"], [files[0]], [], tmp_path / "out", save_responses=tmp_path / "r.jsonl")
    with pytest.raises(ConfigError, match=r"expected a name that ends in \.jsonl"):
        run([tiny], [files[0]], [], tmp_path / "out", save_responses=tmp_path / "r.txt")
    assert not (tmp_path / "out").exists()
