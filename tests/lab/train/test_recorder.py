import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import torch
from safetensors import safe_open

from geoalign.adapters.trl import CuratedStep
from geoalign.lab.store.run_folder import RunFolder
from geoalign.lab.train.recorder import Recorder, placement, rollout_columns
from geoalign.types import Curation, CurationDetails, DensityDetails, PairDetails, Rollouts


def details(*, density: bool) -> CurationDetails:
    one = torch.tensor([0.5])
    pairs = PairDetails(
        winner=torch.tensor([1]),
        loser=torch.tensor([0]),
        margin=one,
        deviation=one,
        raw_cosine=one,
        projected_cosine=one,
    )
    curve = DensityDetails(grid=one, density=one, peak=0.5, mode=0.5, alpha=0.05, threshold=math.nan)
    plane = torch.tensor([[0.1, 0.2]])
    return CurationDetails(
        pairs=pairs,
        density=curve if density else None,
        plane_pairs=torch.tensor([0]),
        raw_plane=plane,
        projected_plane=plane,
    )


def curated(**changes: object) -> CuratedStep:
    rollouts = Rollouts(
        rewards=torch.tensor([0.0, 1.0, math.nan, 1.0]),
        groups=torch.tensor([7, 7, 3, 7]),
        true_rewards=torch.tensor([0.0, 1.0, math.nan, 0.0]),
    )
    curation = Curation(
        source=torch.tensor([0, 1, 2, 1]),
        rewards=torch.tensor([0.0, 1.0, math.nan, 1.0]),
        weights=torch.tensor([1.0, 1.0, 0.0, 1.0]),
        scores=torch.tensor([0.5, 0.25, math.nan, 2.0]),
        anomalous=torch.tensor([False, False, False, True]),
        **changes,  # type: ignore[arg-type]
    )
    return CuratedStep(
        step=12,
        generation=6,
        rollouts=rollouts,
        curation=curation,
        prompts=["p", "p", "q", "p"],
        responses=["a", "b\x00\u2028", "\ud800", "\U0001f600" * 1000],
        lengths=torch.tensor([1, 2, 3, 4]),
    )


def test_the_table_of_a_step() -> None:
    table = rollout_columns(curated())
    assert table["step"] == [12] * 4
    assert table["row"] == [0, 1, 2, 3]
    assert table["group"] == [7, 7, 3, 7]
    assert table["sample"] == [0, 1, 0, 2]
    assert table["reward"] == [0.0, 1.0, None, 1.0]
    assert table["true_reward"] == [0.0, 1.0, None, 0.0]
    assert table["corrupted"] == [False, False, False, True]
    assert table["score"] == [0.5, 0.25, None, 2.0]
    assert table["anomalous"] == [False, False, False, True]
    assert table["source"] == [0, 1, 2, 1]
    assert table["weight"] == [1.0, 1.0, 0.0, 1.0]
    assert table["tokens"] == [1, 2, 3, 4]
    assert table["response"][1] == "b\x00\u2028"
    assert table["response"][2] == "?"  # a lone surrogate is no text that a file could hold


def test_a_shorter_curation_names_the_rows_it_keeps() -> None:
    curation = Curation(
        source=torch.tensor([3, 1, 1]),
        rewards=torch.ones(3),
        weights=torch.tensor([0.5, 1.0, 2.0]),
        scores=torch.zeros(4),
        anomalous=torch.zeros(4, dtype=torch.bool),
    )
    assert placement(curation, 4) == ([-1, 1, -1, 3], [0.0, 3.0, 0.0, 0.5])


def test_files_of_a_step(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    recorder = Recorder(folder)
    recorder(curated())
    assert not folder.details.exists()
    recorder(curated(details=details(density=True)))
    table = pq.read_table(tmp_path / "rollouts" / "step-000012.parquet")
    assert table.num_rows == 4
    with safe_open(tmp_path / "details" / "step-000012.safetensors", framework="pt") as file:
        assert file.get_tensor("pairs.winner").tolist() == [1]
        assert file.get_tensor("raw_plane").shape == (1, 2)
        density = json.loads(file.metadata()["density"])
    assert density == {"peak": 0.5, "mode": 0.5, "alpha": 0.05, "threshold": None}
    assert not list(tmp_path.rglob("*.tmp"))
