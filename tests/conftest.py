import functools
import gc
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import jaxtyping
import pytest
import typer.main
import typer.testing

# The suite shares its cores, and sums come out in one order: read by torch where it is imported.
os.environ["OMP_NUM_THREADS"] = "1"

with suppress(ImportError):  # the environments of the engines have none
    from hypothesis import settings

    # A loaded machine fails no property.
    settings.register_profile("untimed", deadline=None)
    settings.load_profile("untimed")


@pytest.fixture
def unchecked_shapes():
    """Lets bad shapes reach our own border checks: the shape annotations are enforced while testing."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def shared_data() -> Path:
    """Real data sets, which are not part of the repository; GEOALIGN_SHARED_DATA names their folder."""
    place = os.environ.get("GEOALIGN_SHARED_DATA")
    folder = Path(place) if place else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data sets at {folder}; set GEOALIGN_SHARED_DATA to their folder")
    return folder


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """Tests interrupt processes; what a shell runs in the background ignores SIGINT, and hands that down."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True, scope="session")
def commands_are_built_once() -> Iterator[None]:
    """typer reads the options of all commands again at every call of one, and tests make more than a thousand calls."""
    build = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", build)
        patch.setattr(typer.testing, "_get_command", build)
        yield


@pytest.fixture(autouse=True, scope="module")
def modules_are_no_garbage() -> None:
    """Every training ends in a garbage collection, which takes half a second where it looks through all of torch."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def a_cpu_without_amx() -> Iterator[None]:
    """Models compute in float32 whatever this machine would choose: what tests expect does not depend on it."""
    from geoalign.pretrained import fastest_dtype

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fastest_dtype, "cpu_flags", frozenset)
        yield
