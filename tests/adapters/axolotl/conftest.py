from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
# Nothing is reported, fetched or put on a device.
os.environ.update(AXOLOTL_DO_NOT_TRACK="1", HF_HUB_OFFLINE="1", ACCELERATE_USE_CPU="true", WANDB_MODE="disabled")
