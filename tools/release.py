"""What `make release` does: the packages and the site of one commit, built and checked, in dist/.

    python -m tools.release --pages .venv/bin/python --python python3.11 --python python3.12

Nothing is uploaded, tagged or committed. All work is done on a copy of the commit in a temporary folder, and dist/ is
replaced only when every check has passed:

    dist/geoalign-X.Y.Z.tar.gz                  the commit, file for file
    dist/geoalign-X.Y.Z-py3-none-any.whl        built from it
    dist/site/                                  the documentation of that commit
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from email import message_from_string
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.installed import FailedTrialError, found, here, try_wheel

ROOT = Path(__file__).parents[1]


class RefusedError(Exception):
    """There can be no release; the message is one sentence that says why and what to do."""


@dataclass(frozen=True)
class Stated:
    """What a file says about the release: the version, and the day where it has one."""

    version: str
    day: str | None = None


def release(*, ref: str, pythons: Sequence[str], pages: str, output: Path) -> None:
    """Builds, checks and puts into `output` what is to be uploaded.

    Args:
        ref: the commit, by any name that git knows.
        pythons: commands of the Pythons whose empty environments the wheel is tried in.
        pages: the Python that has MkDocs and what the pages import.
        output: the folder, which is replaced.

    Raises:
        RefusedError: if the tree, the version or its tag stand against it.
        FailedTrialError: if the wheel fails in an environment.
        subprocess.CalledProcessError: if a tool fails, which has then said why.
    """
    require_clean_tree(ROOT)
    commit = _git(ROOT, "rev-parse", "--verify", f"{ref}^{{commit}}").strip()
    with TemporaryDirectory(prefix="geoalign-release-") as name:
        source = Path(name) / "source"
        built = Path(name) / "dist"
        export(ROOT, commit, source)
        version = version_of(source)
        require_free_tag(ROOT, version, commit)

        _call([sys.executable, "-m", "build", "--outdir", str(built), str(source)])
        sdist = built / f"geoalign-{version}.tar.gz"
        wheel = built / f"geoalign-{version}-py3-none-any.whl"
        _call([sys.executable, "-m", "twine", "check", "--strict", str(sdist), str(wheel)])
        require_files_of_the_commit(sdist, source)
        require_licences(wheel, source)
        build_site(source, built / "site", pages)
        for python in pythons:
            try_wheel(wheel, python)

        shutil.rmtree(output, ignore_errors=True)
        shutil.copytree(built, output)
    print(f"{output} holds release {version} of commit {commit[:8]}; nothing was uploaded or tagged.")


def require_clean_tree(root: Path) -> None:
    """RefusedError where a file differs from the commit or is in none; files that git ignores do not count."""
    changes = _git(root, "status", "--porcelain").splitlines()
    if changes:
        first = changes[0][3:]
        others = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        raise RefusedError(f"commit or remove {first}{others} first, since a release is what a commit holds")


def export(root: Path, commit: str, folder: Path) -> None:
    """Writes the files of a commit into a new folder."""
    archive = folder.with_suffix(".tar")
    _git(root, "archive", "--output", str(archive), commit)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    archive.unlink()


def version_of(source: Path) -> str:
    """The version, which the package, the changelog and CITATION.cff must agree on, as the latter two on the day.

    Raises:
        RefusedError: where they do not, or where the newest section of the changelog has no day.
    """
    stated = statements(source)
    changelog = stated["CHANGELOG.md"]
    if not _is_day(changelog.day):
        today = datetime.date.today().isoformat()
        raise RefusedError(
            f"write the day of the release into the newest heading of CHANGELOG.md, as in "
            f"'## {changelog.version} ({today})', where '{changelog.day}' stands"
        )
    for file, said in stated.items():
        if said.version != changelog.version:
            raise RefusedError(f"{file} has version {said.version}, CHANGELOG.md {changelog.version}: make them one")
        if said.day not in (None, changelog.day):
            raise RefusedError(f"{file} has the day {said.day}, CHANGELOG.md {changelog.day}: make them one")
    return changelog.version


def statements(source: Path) -> Mapping[str, Stated]:
    """What each file says that names the release, by its path; pyproject.toml takes the version from the package."""
    package = source / "src" / "geoalign" / "__init__.py"
    (version,) = _found(r'^__version__ = "(\S+)"$', package)
    newest_version, newest_day = _found(r"^## (\S+) \((\S+)\)$", source / "CHANGELOG.md")
    (cited_version,) = _found(r"^version: (\S+)$", source / "CITATION.cff")
    (cited_day,) = _found(r"^date-released: (\S+)$", source / "CITATION.cff")
    return {
        "CHANGELOG.md": Stated(newest_version, newest_day),
        "CITATION.cff": Stated(cited_version, cited_day),
        "src/geoalign/__init__.py": Stated(version),
    }


def require_free_tag(root: Path, version: str, commit: str) -> None:
    """RefusedError where the version's tag names another commit: what was released under it stays as it was."""
    tag = f"v{version}"
    if not _git(root, "tag", "--list", tag).strip():
        return
    tagged = _git(root, "rev-parse", f"{tag}^{{commit}}").strip()
    if tagged != commit:
        raise RefusedError(f"raise the version, since {tag} already names commit {tagged[:8]} and not {commit[:8]}")


def require_files_of_the_commit(sdist: Path, source: Path) -> None:
    """RefusedError where the source package lacks a file of the commit, or has one more than its metadata."""
    with tarfile.open(sdist) as archive:
        packed = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    committed = {path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file()}
    missing = sorted(committed - packed)
    if missing:
        raise RefusedError(f"let {sdist.name} hold {missing[0]}, which the commit holds (pyproject.toml)")
    added = sorted(packed - {"PKG-INFO"} - committed)
    if added:
        raise RefusedError(f"leave {added[0]} out of {sdist.name}, since the commit does not hold it (pyproject.toml)")


def require_licences(wheel: Path, source: Path) -> None:
    """RefusedError where the wheel does not bring each licence file that pyproject.toml names, as the commit has it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        information = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = message_from_string(archive.read(information).decode("utf-8"))
        place = information.removesuffix("METADATA") + "licenses/"
        brought = {name.removeprefix(place): archive.read(name) for name in names if name.startswith(place)}
    project = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = metadata.get_all("License-File", [])
    for file in project["license-files"]:
        if file not in named or brought.get(file) != (source / file).read_bytes():
            raise RefusedError(f"let {wheel.name} bring {file} as the commit has it (license-files in pyproject.toml)")


def build_site(source: Path, folder: Path, python: str) -> None:
    """Builds the documentation from the commit's pages, code and tools alone; a warning is an error."""
    command = [python, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    # Before an editable installation of the checkout: the pages name what the commit's code has.
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    subprocess.run(command, cwd=source, env=environment, check=True)


def _is_day(text: str | None) -> bool:
    try:
        datetime.date.fromisoformat(text or "")
    except ValueError:
        return False
    return True


def _found(pattern: str, file: Path) -> tuple[str, ...]:
    """The groups of the first line that matches; RefusedError where none does."""
    match = re.search(pattern, file.read_text(encoding="utf-8"), re.MULTILINE)
    if match is None:
        raise RefusedError(f"write a line such as '{pattern}' into {file.name}, which has none")
    return match.groups()


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, stdout=subprocess.PIPE, text=True).stdout


def _call(command: Sequence[str]) -> None:
    subprocess.run(command, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ref", default="HEAD", help="The commit; HEAD by default.")
    parser.add_argument("--python", action="append", required=True, help="A Python to try the wheel with; repeatable.")
    parser.add_argument("--pages", default=sys.executable, help="The Python that has MkDocs.")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="The folder, which is replaced.")
    options = parser.parse_args()
    pythons = here(options.python)
    if not pythons:
        sys.exit("No release: install one of the Pythons that the wheel is to be tried with.")
    pages = found(options.pages)
    if pages is None:
        sys.exit(f"No release: {options.pages} starts no Python, which --pages is to name.")
    try:
        release(ref=options.ref, pythons=pythons, pages=pages, output=options.output)
    except (RefusedError, FailedTrialError) as error:
        sys.exit(f"No release: {error}.")
    except subprocess.CalledProcessError as error:
        sys.exit(f"No release: {' '.join(error.cmd)} failed.")


if __name__ == "__main__":
    main()
