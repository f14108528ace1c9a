"""What a failure prints at the end: whose it is, and why."""

import io
from types import ModuleType

import pytest

from geoalign.lab.failures import report
from geoalign.lab.terminal import Console


def raised_in(module: str, source: str) -> Exception:
    """The error of a call into a module of that name."""
    made = ModuleType(module)
    exec(source, vars(made))
    with pytest.raises(Exception, match="EngineCore") as caught:
        made.generate()
    return caught.value


DIED = """
class EngineDeadError(Exception): ...
def core(): raise RuntimeError("CPU Generator does not use offset")
def generate():
    try: core()
    except RuntimeError as error: raise EngineDeadError("EngineCore encountered an issue") from error
"""


@pytest.mark.parametrize(
    ("module", "code", "last"),
    [
        (
            "vllm.v1.engine",
            2,
            "vLLM failed, not geoalign: EngineDeadError: EngineCore encountered an issue, because of RuntimeError: CPU "
            "Generator does not use offset (the lines of vLLM above say more)",
        ),
        (
            "vllms",
            1,
            "If no setting of yours explains it, this is a bug of geoalign: please report it with the lines above.",
        ),
    ],
)
def test_an_engine_that_died_is_named_with_its_cause(module: str, code: int, last: str) -> None:
    file = io.StringIO()
    assert report(raised_in(module, DIED), Console(file=file, width=1000)) == code
    lines = file.getvalue().splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == last
