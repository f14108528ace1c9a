"""The package's structure: imports point one way, and settings and reports stay free of torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "geoalign"

# A part may import the parts of lower layers, and of its own layer only itself.
LAYERS = [
    {"errors", "shown", "masking", "terminal"},
    {"strict_json"},
    {"config", "failures", "pretrained", "records"},
    {"types", "statistics", "http_client"},
    {"analysis"},
    {"method"},
    {"curators"},
    {"hidden", "rewards"},
    {"tasks", "serving"},
    {"adapters"},
    {"training"},
    {"evaluation"},
    {"reports"},
    {"experiments", "benchmarks", "offline"},
    {"watching"},
    {"cli"},
]
LAYER_OF = {part: number for number, parts in enumerate(LAYERS) for part in parts}
# Reports read run folders: they know no more than this.
REPORTS_MAY_IMPORT = {
    "analysis",
    "config",
    "errors",
    "masking",
    "records",
    "shown",
    "statistics",
    "strict_json",
    "reports",
}
# What may load torch only when it is used.
LIGHT = [
    "geoalign",
    "geoalign.config",
    "geoalign.config.run",
    "geoalign.reports",
    "geoalign.statistics",
    "geoalign.analysis.detection",
    "geoalign.cli",
    "geoalign.watching.command",
]


def part_of(module: str) -> str | None:
    """ "geoalign.method.pairs" -> "method"; None for other packages and for the root itself."""
    names = module.split(".")
    return names[1] if names[0] == "geoalign" and len(names) > 1 else None


def imports_of(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found.add(node.module or "")
            if node.module == "geoalign":
                found |= {f"geoalign.{alias.name}" for alias in node.names}
    return found


FILES = sorted(file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts != ("__init__.py",))


def test_every_part_has_a_layer():
    parts = {file.relative_to(SOURCE).parts[0].removesuffix(".py") for file in FILES}
    assert parts == set(LAYER_OF)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_imports_point_one_way(file):
    mine = file.relative_to(SOURCE).parts[0].removesuffix(".py")
    for module in imports_of(file):
        other = part_of(module)
        if other is None or other == mine or other not in LAYER_OF:
            continue
        assert LAYER_OF[other] < LAYER_OF[mine], f"{file.relative_to(ROOT)} imports {module}"
        if mine == "reports":
            assert other in REPORTS_MAY_IMPORT, f"{file.relative_to(ROOT)} imports {module}"


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_load_no_torch(module):
    code = f"import sys, {module}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_public_names():
    code = "import geoalign; print([getattr(geoalign, name) for name in geoalign.__all__])"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    import geoalign

    assert set(dir(geoalign)) == set(geoalign.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Geoalign'"):
        _ = geoalign.Geoalign
