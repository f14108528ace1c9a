"""Runs a notebook from its first cell to its last, and writes what its cells printed and drew into it.

    python tools/notebooks.py docs/notebooks/audit.ipynb
    python tools/notebooks.py docs/notebooks/training.ipynb --set UPDATES=4

No Jupyter is needed. The cells run in this process, in the folder of the notebook. Two things that Jupyter adds to
Python are known here: a line that begins with `!`, and the value at the end of a cell. Nothing is written if a cell
fails.
"""

from __future__ import annotations

import argparse
import ast
import base64
import io
import json
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

# The cell whose variables `--set` replaces has this tag, as with papermill.
PARAMETERS = "parameters"

# How a figure looks does not depend on who runs the notebook.
_FIGURE: dict[str, Any] = {"format": "png", "dpi": 100, "bbox_inches": "tight", "metadata": {"Software": None}}
_COMMAND = re.compile(r"^!(.*)$", re.MULTILINE)
_RUN_COMMAND = "_run_command"


class CellError(Exception):
    """A cell failed; the message has its source and the traceback."""


class SettingError(Exception):
    """A setting names no variable of the parameters."""


class NotebookRun:
    """The cells of one notebook, run one after the other in one namespace.

    Args:
        settings: values for variables of the cell with the tag `parameters`, set after it has run.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._namespace: dict[str, Any] = {"__name__": "__main__", _RUN_COMMAND: _run_command}
        self._printed = io.StringIO()
        self._warned = io.StringIO()

    def run(self, cells: Sequence[dict[str, Any]]) -> None:
        """Runs the code cells, and replaces the outputs of each.

        Raises:
            CellError: a cell failed.
            SettingError: a setting is no variable of the parameters.
        """
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        if self._settings and not any(map(_has_parameters, code)):
            raise SettingError(f"no cell has the tag {PARAMETERS!r}")
        with redirect_stdout(self._printed), redirect_stderr(self._warned):
            for cell in code:
                cell["execution_count"] = None
                cell["outputs"] = self._outputs("".join(cell["source"]))
                if _has_parameters(cell):
                    self._replace_parameters()

    def _replace_parameters(self) -> None:
        unknown = sorted(set(self._settings) - set(self._namespace))
        if unknown:
            raise SettingError(f"no parameters of the notebook: {', '.join(unknown)}")
        self._namespace.update(self._settings)

    def _outputs(self, source: str) -> list[dict[str, Any]]:
        value = self._value(source)
        outputs: list[dict[str, Any]] = []
        for name, stream in (("stderr", self._warned), ("stdout", self._printed)):
            text = _taken(stream)
            if text:
                outputs.append({"name": name, "output_type": "stream", "text": text.splitlines(keepends=True)})
        if value is not None:
            data = _shown(value)
            outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
        for data in _figures():
            outputs.append({"data": data, "metadata": {}, "output_type": "display_data"})
        return outputs

    def _value(self, source: str) -> Any:
        """Runs a cell; returns the value of the expression at its end, or None."""
        try:
            statements = ast.parse(_COMMAND.sub(_python_of_command, source)).body
            final = None
            if statements and isinstance(statements[-1], ast.Expr):
                final = statements[-1].value
                statements = statements[:-1]
            exec(compile(ast.Module(statements, type_ignores=[]), "<cell>", "exec"), self._namespace)
            if final is None:
                return None
            return eval(compile(ast.Expression(final), "<cell>", "eval"), self._namespace)
        except Exception as error:
            raise CellError(f"{source}\n\n{_taken(self._printed)}{traceback.format_exc()}") from error


def execute(path: Path, settings: Mapping[str, Any]) -> None:
    """Runs the notebook in its own folder, and writes it again with its outputs."""
    path = path.resolve()
    notebook = json.loads(path.read_text(encoding="utf-8"))
    os.chdir(path.parent)
    NotebookRun(settings).run(notebook["cells"])
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _has_parameters(cell: Mapping[str, Any]) -> bool:
    return PARAMETERS in cell["metadata"].get("tags", [])


def _python_of_command(line: re.Match[str]) -> str:
    """`!command {NAME}` as Python: Jupyter fills in variables in braces too."""
    return f"{_RUN_COMMAND}(f{line[1]!r})"


def _run_command(command: str) -> None:
    """Runs a command of the shell, and prints what it prints."""
    finished = subprocess.run(command, shell=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(finished.stdout, end="")
    if finished.returncode:
        raise RuntimeError(f"exit status {finished.returncode}: {command}")


def _shown(value: Any) -> dict[str, list[str]]:
    """How Jupyter shows a value: as text, and as HTML where it has any."""
    data = {"text/plain": repr(value).splitlines(keepends=True)}
    if hasattr(value, "_repr_html_"):
        data["text/html"] = value._repr_html_().splitlines(keepends=True)
    return data


def _figures() -> list[dict[str, Any]]:
    """The open figures of matplotlib as PNG; closes them."""
    if "matplotlib.pyplot" not in sys.modules:
        return []
    from matplotlib import pyplot

    pictures = []
    for number in pyplot.get_fignums():
        written = io.BytesIO()
        pyplot.figure(number).savefig(written, **_FIGURE)
        pictures.append({"image/png": base64.b64encode(written.getvalue()).decode(), "text/plain": ["<Figure>"]})
    pyplot.close("all")
    return pictures


def _taken(stream: io.StringIO) -> str:
    """What was written since the last call."""
    text = stream.getvalue()
    stream.seek(0)
    stream.truncate()
    return text


def _setting(text: str) -> tuple[str, Any]:
    name, _, value = text.partition("=")
    return name, ast.literal_eval(value)


def main() -> None:
    """Reads the command line and runs one notebook."""
    parser = argparse.ArgumentParser(description="Run a notebook, and write its outputs into it.")
    parser.add_argument("notebook", type=Path)
    wanted = "another value for a variable of the cell with the tag `parameters`; may be repeated"
    parser.add_argument("--set", metavar="NAME=VALUE", type=_setting, action="append", default=[], help=wanted)
    arguments = parser.parse_args()
    # Commands such as geoalign are those of this Python, figures need no screen, and sums come out in one order.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    os.environ["MPLBACKEND"] = "agg"
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        execute(arguments.notebook, dict(arguments.set))
    except CellError as error:
        sys.exit(f"{arguments.notebook}: a cell failed:\n\n{error}")
    except SettingError as error:
        sys.exit(f"{arguments.notebook}: --set: {error}")


if __name__ == "__main__":
    main()
