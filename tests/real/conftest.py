from pathlib import Path

import pytest
from recipe import load


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = load("smollm2").bring(tmp_path_factory.mktemp("model") / "smollm2")
    return folder
