"""`results.jsonl` of an evaluation by verifiers, whose newer traces are episodes (`verifiers.py`).

After github.com/PrimeIntellect-ai/verifiers at a60a606: `state_to_output` in verifiers/legacy/utils/save_utils.py.
`example_id` numbers the examples of the data set, so that the rollouts of one example share it. Older files have `id`
in its place, which numbers rows there, and are read as `plain`.
"""

from __future__ import annotations

from geoalign.dumps.field_names import FINAL_ANSWERS, GOLD_ANSWERS
from geoalign.dumps.formats.format import Format

VERIFIERS_RESULTS = Format(
    name="verifiers_results",
    title="results of an evaluation by verifiers",
    columns=("example_id", "prompt", "completion", "reward"),
    fields={
        "prompt": ("prompt",),
        "response": ("completion",),
        "reward": ("reward",),
        "answer": (*GOLD_ANSWERS, "answer"),
        "final_answer": FINAL_ANSWERS,
        "group": ("example_id",),
        "tokens": ("token_usage.output_tokens",),
        "truncated": ("is_truncated",),
    },
)
