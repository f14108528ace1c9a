import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

RECIPES = Path(__file__).parents[2] / "recipes"


def load(name):
    """The script of that name in recipes/ as a module, made anew."""
    spec = spec_from_file_location(f"recipe_{name}", RECIPES / f"{name}.py")
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
