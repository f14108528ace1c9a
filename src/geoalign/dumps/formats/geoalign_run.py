"""The rollouts that a run of `geoalign train` keeps."""

from __future__ import annotations

from geoalign.dumps.formats.format import Format

GEOALIGN = Format(
    name="geoalign",
    title="rollouts of a GeoAlign run",
    columns=("step", "row", "group", "sample", "prompt", "response", "anomalous", "source", "weight"),
    fields={
        "prompt": ("prompt",),
        "response": ("response",),
        "reward": ("reward",),
        "true_reward": ("true_reward",),
        "group": ("group",),
        "id": ("row",),
        "step": ("step",),
        "tokens": ("tokens",),
    },
    tables_only=True,
)
