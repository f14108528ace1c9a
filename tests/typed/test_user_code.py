"""Public names have types that a user's own type checker accepts, and with which it finds mistakes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_code_of_a_user_is_accepted_by_mypy_strict():
    """As in a project of the user's own: without our settings, and what is inside of the package is not reported."""
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "user"), str(Path(__file__).with_name("user_code.py"))]
    done = subprocess.run(
        command,
        cwd=ROOT / "tests",
        env={**os.environ, "MYPYPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
