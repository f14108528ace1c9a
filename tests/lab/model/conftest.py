"""The real model, brought once for all tests that need it, into a cache of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from geoalign.lab.config.requests import ModelRequest
from geoalign.lab.model.command import bring
from geoalign.lab.terminal import Console


@pytest.fixture(scope="session")
def cache_with_smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        bring(ModelRequest("smollm2-135m"), Console(quiet=True))
    return cache


@pytest.fixture(scope="module")
def smollm2(cache_with_smollm2: Path) -> Iterator[Path]:
    """The folder of the model, which its name stands for in the tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache_with_smollm2))
        yield bring(ModelRequest("smollm2-135m"), Console(quiet=True))
