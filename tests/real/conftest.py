import importlib.util
from pathlib import Path

import pytest

RECIPE = Path(__file__).parents[2] / "recipes" / "smollm2.py"


@pytest.fixture(scope="session")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = importlib.util.spec_from_file_location("smollm2", RECIPE)
    assert spec is not None
    assert spec.loader is not None
    recipe = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(recipe)
    folder: Path = recipe.bring(tmp_path_factory.mktemp("model") / "smollm2")
    return folder
