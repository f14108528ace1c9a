"""The command line: `geoalign`, or `python -m geoalign`."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line and exits; where the packages of the commands are missing, one line names them."""
    try:
        from geoalign.cli import main as run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("rich", "ruamel", "typer"):
            raise
        sys.exit(f"Error: the commands need {error.name}, which is not installed: pip install 'geoalign[cli]'")
    run()


if __name__ == "__main__":
    main()
