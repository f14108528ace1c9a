"""The notebooks of the docs run as they stand, and show what they show when they are run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = ROOT / "docs" / "notebooks"
EXAMPLE = ROOT / "recipes" / "rollouts"
TOOL = ROOT / "tools" / "notebooks.py"

all_notebooks = pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)


def run_tool(path, *options):
    return subprocess.run([sys.executable, str(TOOL), str(path), *options], capture_output=True, text=True, timeout=600)


def run_copy(name, folder, *settings):
    """The notebook after a run in a folder that has what it reads of the repository."""
    copy = folder / "docs" / "notebooks" / f"{name}.ipynb"
    copy.parent.mkdir(parents=True)
    shutil.copy(NOTEBOOKS / copy.name, copy)
    shutil.copytree(EXAMPLE, folder / EXAMPLE.relative_to(ROOT))
    finished = run_tool(copy, *(word for setting in settings for word in ("--set", setting)))
    assert finished.returncode == 0, finished.stderr
    return read(copy)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def outputs(notebook):
    return [output for cell in notebook["cells"] for output in cell.get("outputs", [])]


def texts(notebook):
    """What the cells print and show, without pictures."""
    shown = []
    for output in outputs(notebook):
        data = output.get("data", {})
        shown.append([output.get("text"), data.get("text/plain"), data.get("text/html"), "image/png" in data])
    return shown


def final_accuracies(notebook):
    printed = "".join("".join(output.get("text", [])) for output in outputs(notebook))
    return {name: float(last) for name, last in re.findall(r"^(\S.*?) +\d\.\d\d -> (\d\.\d\d)$", printed, re.MULTILINE)}


def warned(notebook):
    return [output for output in outputs(notebook) if output.get("name") == "stderr"]


@pytest.mark.pages
def test_the_audit_shows_what_it_shows_when_it_is_run(tmp_path):
    notebook = run_copy("audit", tmp_path)
    assert texts(notebook) == texts(read(NOTEBOOKS / "audit.ipynb")), "make notebooks writes the outputs again"


@pytest.mark.pages
def test_the_training_runs(tmp_path):
    notebook = run_copy("training", tmp_path, "UPDATES=4", "WARM_UP=20")
    assert set(final_accuracies(notebook)) == {"GRPO", "denoise", "GRPO with true rewards"}
    assert not warned(notebook)


@pytest.mark.slow
def test_denoise_ends_between_grpo_and_the_ceiling(tmp_path):
    accuracy = final_accuracies(run_copy("training", tmp_path))
    assert accuracy["GRPO"] + 0.05 < accuracy["denoise"] < accuracy["GRPO with true rewards"] + 0.02


def test_the_committed_training_ends_as_its_text_says():
    accuracy = final_accuracies(read(NOTEBOOKS / "training.ipynb"))
    assert accuracy["GRPO"] < accuracy["denoise"] < accuracy["GRPO with true rewards"]


@all_notebooks
def test_a_notebook_is_small(path):
    assert path.stat().st_size < 150_000


@all_notebooks
def test_a_notebook_names_no_folder_of_the_machine_that_ran_it(path):
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"/(?:home|root|tmp|work|usr|opt|Users)/", text)
    assert str(ROOT) not in text


@all_notebooks
def test_a_notebook_shows_no_warning(path):
    assert not warned(read(path))


@all_notebooks
def test_a_notebook_keeps_nothing_of_its_execution_but_outputs(path):
    notebook = read(path)
    assert set(notebook["metadata"]) <= {"kernelspec", "language_info"}
    for cell in notebook["cells"]:
        assert cell.get("execution_count") is None
        assert set(cell["metadata"]) <= {"tags"}


def made_notebook(folder, *sources):
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "id": str(number),
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for number, source in enumerate(sources)
    ]
    cells[0]["metadata"] = {"tags": ["parameters"]}
    path = folder / "made.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
    return path


def test_settings_replace_parameters(tmp_path):
    path = made_notebook(tmp_path, ["SIZE = 1\n", "NAME = 'a'"], ["print(SIZE, NAME)"])
    assert run_tool(path, "--set", "SIZE=2").returncode == 0
    assert outputs(read(path)) == [{"name": "stdout", "output_type": "stream", "text": ["2 a\n"]}]


def test_a_setting_that_is_no_parameter_is_refused(tmp_path):
    path = made_notebook(tmp_path, ["SIZE = 1"], ["OTHER = 1"])
    before = path.read_bytes()
    finished = run_tool(path, "--set", "OTHER=2")
    assert finished.returncode == 1
    assert "OTHER" in finished.stderr
    assert path.read_bytes() == before


def test_commands_know_variables_and_their_output_is_shown(tmp_path):
    path = made_notebook(tmp_path, ["NAME = 'here'"], ["!echo {NAME}\n", "print('then')"])
    assert run_tool(path).returncode == 0
    assert "".join(outputs(read(path))[0]["text"]) == f"here{os.linesep}then\n"


@pytest.mark.parametrize("source", ["1 / 0", "!exit 3"])
def test_a_cell_that_fails_is_named_and_nothing_is_written(tmp_path, source):
    path = made_notebook(tmp_path, ["SIZE = 1"], [source])
    before = path.read_bytes()
    finished = run_tool(path)
    assert finished.returncode == 1
    assert source in finished.stderr
    assert path.read_bytes() == before
