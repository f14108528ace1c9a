"""Tries a wheel where nothing else is installed, so that what it needs must be what it says it needs.

    python -m tools.installed build/packages/geoalign-0.1.0-py3-none-any.whl python3.11 python3.12

Everything happens in a temporary folder. pip is asked as a user would ask it, for the newest versions that fit; its own
variable PIP_CONSTRAINT gives it pins.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "recipes" / "rollouts" / "substring_reward.jsonl"

LIBRARY = """
import geoalign
for name in geoalign.__all__:
    getattr(geoalign, name)
geoalign.check_curator(geoalign.Denoise)
"""

# What is run with each extra, by Python, in an empty folder. Engines with environments of their own are tried by
# `make test-engines`, and `all` is the sum of `trl`, `report` and `judge`.
TRIALS: Mapping[str, Sequence[str]] = {
    "cli": ["-m", "geoalign", "--version"],
    "report": ["-m", "geoalign", "audit", str(EXAMPLE), "--output", "audit"],
    "judge": ["-c", "import geoalign.endpoint.client, openai"],
    "trl": ["-c", "import geoalign.adapters.trl; geoalign.adapters.trl.GeoAlignGRPOTrainer"],
}
# The trial of `report` is an audit of the example, which writes this.
AUDIT_PAGE = Path("audit") / "report.html"


class FailedTrialError(Exception):
    """A wheel did not do what it promises; the message says where, and what was printed."""


def here(pythons: Sequence[str]) -> list[str]:
    """The paths of those commands that start a Python, in their order; the others are named on the terminal."""
    paths = []
    for python in pythons:
        path = found(python)
        if path is None:
            print(f"{python} is not on this machine: the wheel is not tried with it.")
        else:
            paths.append(path)
    return paths


def found(python: str) -> str | None:
    """The absolute path of a Python, given by name or path, since it is started in other folders.

    None where it starts none: pyenv has shims that do not.
    """
    path = shutil.which(python)
    if path is None:
        return None
    if subprocess.run([path, "--version"], capture_output=True, check=False).returncode != 0:
        return None
    return os.path.abspath(path)


def try_wheel(wheel: Path, python: str) -> None:
    """Installs the library alone, and then each extra above it, and runs what each is for.

    An extra is installed into an environment of its own that sees the library's packages and no other extra's: PyTorch
    is installed once, and a package that an extra forgot to name is missing.

    Raises:
        FailedTrialError: at the first installation or trial that fails.
    """
    with TemporaryDirectory(prefix="geoalign-wheel-") as name:
        folder = Path(name)
        library = _new_environment(python, folder / "library")
        _install(library, str(wheel))
        _run([library, "-c", LIBRARY], where=folder)
        _try_script_without_extras(library, where=folder)
        for extra, arguments in TRIALS.items():
            environment = _new_environment(python, folder / extra)
            _let_see(environment, library)
            _install(environment, f"{wheel}[{extra}]")
            work = folder / f"{extra}-work"
            work.mkdir()
            _run([environment, *arguments], where=work)
            print(f"{python}: geoalign[{extra}] runs", flush=True)
        if not (folder / "report-work" / AUDIT_PAGE).is_file():
            raise FailedTrialError(f"{python}: the audit of {EXAMPLE.name} wrote no {AUDIT_PAGE}")


def _new_environment(python: str, folder: Path) -> str:
    """Makes an empty virtual environment, and returns its Python."""
    _run([python, "-m", "venv", str(folder)], where=folder.parent)
    return str(folder / "bin" / "python")


def _let_see(environment: str, library: str) -> None:
    """Lets one environment import, and pip count as installed, what another one has."""
    there = _packages_folder(library)
    (_packages_folder(environment) / "library.pth").write_text(f"{there}\n", encoding="utf-8")


def _packages_folder(python: str) -> Path:
    return Path(_run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], where=ROOT).strip())


def _install(python: str, requirement: str) -> None:
    _run([python, "-m", "pip", "install", "--quiet", "--no-compile", requirement], where=ROOT)


def _try_script_without_extras(python: str, *, where: Path) -> None:
    """The command `geoalign` is there with the library alone, and names the extra that it needs."""
    script = Path(python).with_name("geoalign")
    done = subprocess.run([script], cwd=where, env=_environment(), capture_output=True, text=True, check=False)
    if "geoalign[cli]" not in done.stderr:
        raise FailedTrialError(f"{script} without extras: expected the hint at geoalign[cli], got {done.stderr!r}")


def _run(command: Sequence[str], *, where: Path) -> str:
    """What a command printed; FailedTrialError with the end of both streams where it fails."""
    done = subprocess.run(command, cwd=where, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        printed = done.stdout[-2000:] + done.stderr[-4000:]
        raise FailedTrialError(f"{' '.join(command)} failed with {done.returncode}:\n{printed}")
    return done.stdout


def _environment() -> dict[str, str]:
    """The variables of this process without PYTHONPATH, by which a checkout could stand in for the wheel."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    options = parser.parse_args()
    pythons = here(options.pythons)
    if not pythons:
        sys.exit("The wheel was not tried: no Python was found.")
    try:
        for python in pythons:
            try_wheel(options.wheel.resolve(), python)
    except FailedTrialError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
