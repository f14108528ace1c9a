"""The package's structure: the contracts in pyproject.toml hold, and settings and reports stay free of torch."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "geoalign"
# What may load torch only when it is used.
LIGHT = [
    "geoalign", "geoalign.settings", "geoalign.lab.train.settings", "geoalign.lab.compare.read_settings",
    "geoalign.audit.settings", "geoalign.audit.inputs", "geoalign.lab.evaluate.settings", "geoalign.lab.judge.settings",
    "geoalign.lab.runs.folder", "geoalign.report", "geoalign.statistics",
    "geoalign.lab.runs.detection", "geoalign.cli", "geoalign.status",
]  # fmt: skip


def test_the_contracts_hold():
    """The library knows nothing of the lab; rooms build on one another in one direction; readers import no torch."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "4 kept, 0 broken" in done.stdout


def test_every_room_is_in_the_contracts():
    contracts = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[tool.importlinter]")[1]
    for folder, prefix in ((SOURCE, "geoalign."), (SOURCE / "lab", "")):
        for entry in folder.iterdir():
            name = entry.stem
            if name.startswith("_") or entry.suffix not in ("", ".py"):
                continue
            assert f"{prefix}{name}" in contracts, entry


def test_no_public_class_name_stands_twice():
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")]
    names = [each.name for tree in trees for each in tree.body if isinstance(each, ast.ClassDef)]
    assert not {name for name in names if names.count(name) > 1 and not name.startswith("_")}


def test_light_modules_load_no_torch():
    """One process for all: what no module loads, none of them loads by itself."""
    checks = "".join(f"import {module}; heavy({module!r})\n" for module in LIGHT)
    code = f"""import sys
def heavy(module):
    if 'torch' in sys.modules or 'transformers' in sys.modules:
        sys.exit(module)
{checks}"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Commands, and packages of extras that each cannot do without.
LACKING = {
    "--help": "typer rich", "status .": "pyarrow", "report .": "pandas",
    "train --dry-run": "ruamel pandas transformers trl",
    "compare --dry-run": "trl", "evaluate m --benchmark x=rows.jsonl": "transformers",
    "audit rows.jsonl": "pyarrow jinja2", "audit rows.jsonl --model m": "datasets",
    "audit rows.jsonl --second-verifier math_verify": "math_verify",
    "judge said.jsonl said.jsonl --output out --base-url http://localhost:9 --model m": "openai",
}  # fmt: skip
EXTRAS = {"typer": "cli", "rich": "cli", "ruamel": "cli", "jinja2": "report", "matplotlib": "report", "openai": "judge"}


def test_a_command_names_the_package_that_it_lacks(tmp_path):
    """Each case is a fork of a process in which most packages are loaded already, and ends without tidying up."""
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1", "response": "2", "reward": 1}\n', encoding="utf-8")
    said = {"set": "a", "id": "1", "sample": 0, "prompt": [{"role": "user", "content": "1"}], "response": "2"}
    (tmp_path / "said.jsonl").write_text(json.dumps(said | {"truncated": False}), encoding="utf-8")
    cases = [(arguments.split(), missing) for arguments, packages in LACKING.items() for missing in packages.split()]
    code = f"""import os, sys, torch, pandas, pyarrow.parquet, matplotlib, openai, trl, datasets
for arguments, missing in {cases}:
    if not (child := os.fork()):
        [sys.modules.pop(name) for name in [*sys.modules] if name.partition(".")[0] == missing]
        sys.modules[missing], sys.argv = None, ["geoalign", *arguments]
        try:
            from geoalign.__main__ import main
            main()
        except SystemExit as stop:
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
            sys.stderr.flush()
            os._exit(stop.code if isinstance(stop.code, int) else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=sys.stderr)"""
    command = [sys.executable, "-W", "ignore", "-c", code]
    lines = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path).stderr.splitlines()
    for (arguments, missing), line, exit_code in zip(cases, lines[::2], lines[1::2], strict=True):
        named = re.escape(missing).replace("_", "[_-]") + rf"\b.*pip install 'geoalign\[{EXTRAS.get(missing, 'trl')}\]'"
        assert (re.search(named, line) is not None, exit_code in ("1", "2")) == (True, True), (arguments, line)


def test_the_library_needs_none_of_the_commands_packages():
    """What extras bring cannot even be imported here."""
    code = """import sys
extras = "pyarrow pandas matplotlib jinja2 transformers trl datasets openai typer rich ruamel"
for name in extras.split():
    sys.modules[name] = None
import torch
from geoalign import CURATORS, Denoise, GeoAlign, GRPO, PODS, PAR, Rollouts
rollouts = Rollouts(rewards=torch.tensor([0.0, 1.0]), groups=torch.tensor([0, 0]), hidden=torch.eye(2))
print(GeoAlign().curate(rollouts).source.tolist(), len([CURATORS[name] for name in CURATORS]))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[0, 1]")


def test_public_names():
    """Every curator among them, and those that a type checker reads are those that are there."""
    import geoalign

    listed = {
        alias.name
        for node in ast.walk(ast.parse(Path(geoalign.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname
    }
    # The package of the audit is a function, too.
    assert listed | {"__version__", "audit"} == set(dir(geoalign)) == set(geoalign.__all__)
    assert {kind.__name__ for kind in geoalign.CURATORS.values()} <= set(dir(geoalign))
    for name in dir(geoalign):
        assert getattr(geoalign, name).__class__
    with pytest.raises(AttributeError, match="no attribute 'Geoalign'"):
        _ = geoalign.Geoalign
