"""Run by torchrun: `killed_process.py SETTINGS.yaml FOLDER RANK PATH`, a run whose process RANK dies at PATH."""

import os
import sys
from pathlib import Path

import yaml
from kill_points import train_and_die

if __name__ == "__main__":
    settings, root, rank, kill_at = sys.argv[1:]
    mine = kill_at if os.environ["RANK"] == rank else None
    train_and_die(yaml.safe_load(Path(settings).read_text()), root, mine, os.devnull)
