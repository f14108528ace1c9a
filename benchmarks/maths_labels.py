"""Labels as a person might give them: rollouts of the sums in words, with the exact answer's verdict as true reward.

Run: python -m benchmarks.maths_labels RUN/rollouts/step-000000.parquet > labels.jsonl
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet

from benchmarks.dialogue_labels import main
from geoalign.lab.data.arithmetic import SYSTEM_PROMPT


def labelled(rollouts: Path, prompts: int) -> Iterator[dict[str, Any]]:
    """The rollouts of the first prompts with right and wrong answers of a generation that `geoalign train` wrote.

    The prompts are chat messages again: a run's files have them as decoded text.
    """
    rows = pyarrow.parquet.read_table(rollouts).to_pylist()
    mixed = [
        group for group in sorted({row["group"] for row in rows})
        if len({row["true_reward"] for row in rows if row["group"] == group}) == 2
    ]  # fmt: skip
    for row in rows:
        if row["group"] in mixed[:prompts]:
            asked = re.search(r"What is .*\?", row["prompt"])
            assert asked is not None
            messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": asked[0]}]
            kept = {name: row[name] for name in ("group", "prompt", "response", "reward", "true_reward")}
            yield {**kept, "prompt": messages}


if __name__ == "__main__":
    main(labelled, __doc__)
