"""What can stand against a release: a tree, a version, a tag or a package that is not what it should be."""

import io
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tools.installed import here
from tools.release import (
    RefusedError,
    require_clean_tree,
    require_files_of_the_commit,
    require_free_tag,
    require_licences,
    statements,
    version_of,
)

ROOT = Path(__file__).parents[2]


def stated(folder, *, package="0.2.0", changelog="0.2.0 (2026-12-01)", cited="0.2.0", cited_day="2026-12-01"):
    """A folder with the files that name a release."""
    files = {
        "src/geoalign/__init__.py": f'__version__ = "{package}"\n',
        "CHANGELOG.md": f"# Changelog\n\n## {changelog}\n\n- A line.\n\n## 0.1.0 (2026-11-28)\n",
        "CITATION.cff": f"cff-version: 1.2.0\nversion: {cited}\ndate-released: {cited_day}\n",
    }
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder


def git(root, *arguments):
    names = ["-c", "user.name=Somebody", "-c", "user.email=somebody@localhost"]
    done = subprocess.run(["git", *names, *arguments], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit of one file."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.py").write_text("a = 1\n", encoding="utf-8")
    git(tmp_path, "add", "a.py")
    git(tmp_path, "commit", "--quiet", "--message", "One")
    return tmp_path


def test_package_changelog_and_citation_name_one_release():
    """Between two releases the changelog is ahead: its newest section is then not released, and has no day yet."""
    said = statements(ROOT)
    changelog = said["CHANGELOG.md"]
    assert changelog.day == "unreleased" or version_of(ROOT) == changelog.version
    assert said["src/geoalign/__init__.py"].version == said["CITATION.cff"].version


def test_the_version_is_the_one_that_all_files_name(tmp_path):
    assert version_of(stated(tmp_path)) == "0.2.0"


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"package": "0.1.0"}, "src/geoalign/__init__.py has version 0.1.0"),
        ({"cited": "0.1.0"}, "CITATION.cff has version 0.1.0"),
        ({"cited_day": "2026-11-28"}, "CITATION.cff has the day 2026-11-28"),
        ({"changelog": "0.2.0 (unreleased)"}, "'unreleased' stands"),
    ],
)
def test_files_that_contradict_each_other_are_refused(tmp_path, wrong, named):
    with pytest.raises(RefusedError, match=named):
        version_of(stated(tmp_path, **wrong))


def test_a_tree_that_is_not_its_commit_is_refused(repository):
    require_clean_tree(repository)
    (repository / "b.py").write_text("b = 1\n", encoding="utf-8")
    with pytest.raises(RefusedError, match=r"commit or remove b\.py first"):
        require_clean_tree(repository)


def test_a_version_is_released_from_one_commit_only(repository):
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "tag", "v0.2.0")
    git(repository, "commit", "--quiet", "--allow-empty", "--message", "Two")
    require_free_tag(repository, "0.2.0", first)
    require_free_tag(repository, "0.3.0", git(repository, "rev-parse", "HEAD"))
    with pytest.raises(RefusedError, match=r"raise the version, since v0\.2\.0"):
        require_free_tag(repository, "0.2.0", git(repository, "rev-parse", "HEAD"))


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (("a.py",), r"let geoalign-0\.2\.0\.tar\.gz hold docs/b\.md, which the commit holds"),
        (("a.py", "docs/b.md", "scratch.py"), r"leave scratch\.py out of geoalign-0\.2\.0\.tar\.gz"),
    ],
    ids=["one lacks", "one is added"],
)
def test_a_source_package_that_is_not_the_commit_is_refused(tmp_path, packed, message):
    source = tmp_path / "source"
    (source / "docs").mkdir(parents=True)
    (source / "a.py").write_text("a = 1\n", encoding="utf-8")
    (source / "docs" / "b.md").write_text("# B\n", encoding="utf-8")
    require_files_of_the_commit(source_package(tmp_path, "a.py", "docs/b.md"), source)
    with pytest.raises(RefusedError, match=message):
        require_files_of_the_commit(source_package(tmp_path, *packed), source)


def source_package(folder, *names):
    file = folder / "geoalign-0.2.0.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        for name in (*names, "PKG-INFO"):
            archive.addfile(tarfile.TarInfo(f"geoalign-0.2.0/{name}"), io.BytesIO())
    return file


@pytest.mark.parametrize("text", [None, "Another licence"], ids=["it lacks", "it is another"])
def test_a_wheel_without_the_licence_is_refused(tmp_path, text):
    (tmp_path / "LICENSE").write_text("The licence", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text('[project]\nlicense-files = ["LICENSE"]\n', encoding="utf-8")
    require_licences(wheel(tmp_path, "The licence"), tmp_path)
    with pytest.raises(RefusedError, match=r"let geoalign-0\.2\.0.* bring LICENSE"):
        require_licences(wheel(tmp_path, text), tmp_path)


def wheel(folder, licence):
    file = folder / "geoalign-0.2.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("geoalign-0.2.0.dist-info/METADATA", "Name: geoalign\nLicense-File: LICENSE\n")
        if licence is not None:
            archive.writestr("geoalign-0.2.0.dist-info/licenses/LICENSE", licence)
    return file


def test_what_the_image_copies_is_there_and_let_in():
    """The Dockerfile's sources, of which .dockerignore lets in nothing else."""
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    copied = {name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]}
    ignore = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert copied == {line.removeprefix("!") for line in ignore if line.startswith("!")}
    assert not [name for name in copied if not (ROOT / name).exists()]


def test_pythons_are_found_by_name_and_by_path(tmp_path, monkeypatch, capsys):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mine").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert here(["bin/mine", "no-such-python"]) == [str(tmp_path / "bin" / "mine")]
    assert "no-such-python is not on this machine" in capsys.readouterr().out
