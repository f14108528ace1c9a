"""What binary rewards say of the verifier that gave them, and of the gold answers that it compared with."""

from __future__ import annotations

from typing import Any

import pandas
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from geoalign.curators.denoise.rows import joined, noisy_rows
from geoalign.curators.error_rates import LEVEL, RATES, error_rates
from geoalign.method.groups import canonical_order
from geoalign.types import Rollouts, response_keys

# An answer is agreed on from so many rollouts, and so large a share of those of its prompt, on.
LEAST_COUNT, LEAST_SHARE = 3, 0.5
# Prompts that are listed.
LISTED = 1000


def agreed_answers(frame: pandas.DataFrame) -> pandas.DataFrame:
    """The most frequent answers that enough of a prompt's rollouts agree on, one row a group, of the rollouts of a
    step.

    `index` is the group's first rollout in the output, `share` is of its rollouts with a reward, `best` and
    `others_best` are the highest rewards of those that give the answer and of the others.
    """
    scored = frame[frame["reward"].notna()]
    given = scored[scored["final_answer"].notna()].groupby(["group", "final_answer"], sort=False)["reward"]
    found = given.agg(count="size", best="max").reset_index()
    # Of answers given equally often the first.
    found = found.loc[found.groupby("group", sort=False)["count"].idxmax()] if len(found) else found
    found["share"] = found["count"] / found["group"].map(scored.groupby("group").size())
    found = found[(found["count"] >= LEAST_COUNT) & (found["share"] >= LEAST_SHARE)].set_index("group")
    others = scored[scored["final_answer"] != scored["group"].map(found["final_answer"])]
    first = frame.reset_index(names="index").drop_duplicates("group").set_index("group").loc[found.index]
    made = {
        "step": first["step"], "group": found.index, "index": first["index"], "answer": found["final_answer"],
        "gold": first["answer"], "count": found["count"], "share": found["share"], "best": found["best"],
        "others_best": others.groupby("group")["reward"].max().reindex(found.index),
    }  # fmt: skip
    return pandas.DataFrame(made).reset_index(drop=True)


def verdict_counts(
    label: Int[Tensor, " n"], group: Int[Tensor, " n"], right: Bool[Tensor, " n"], counted: Bool[Tensor, " n"]
) -> tuple[int, int]:
    """Groups in which counted rows of one label (an answer or response, unique over groups) got two verdicts or more,
    and groups in which these were not all the same."""
    size = int(label.max()) + 1 if len(label) else 0
    yes = torch.bincount(label[counted & right], minlength=size)
    no = torch.bincount(label[counted & ~right], minlength=size)
    of_label = label.new_zeros(size)
    of_label[label] = group
    repeated, mixed = yes + no >= 2, (yes > 0) & (no > 0)
    return len(of_label[repeated].unique()), len(of_label[mixed].unique())


class VerdictAudit:
    """Collects the rollouts of one call of the command, step by step, while their rewards are binary."""

    def __init__(self) -> None:
        self._values: set[float] = set()
        self._batches: list[dict[str, Any]] = []
        self._agreed: list[pandas.DataFrame] = []

    def add(self, frame: pandas.DataFrame) -> None:
        """Takes the rollouts of a step: groups unique over steps, the index of the frame that of the output."""
        self._values |= set(frame["reward"].dropna().unique().tolist())
        if len(self._values) > 2:
            self._batches, self._agreed = [], []
            return
        # A dump may come without its texts.
        keys = response_keys(frame["response"]) if any(frame["response"]) else None
        rollouts = Rollouts(
            rewards=torch.tensor(frame["reward"].to_numpy()),
            groups=torch.tensor(frame["group"].to_numpy()),
            answers=frame["final_answer"].tolist(),
            response_keys=keys,
        )
        order = canonical_order(rollouts.rewards, rollouts.groups)
        self._batches.append(vars(noisy_rows(rollouts, order, answers=True)))
        self._agreed.append(agreed_answers(frame))

    def summary(self, *, redact: bool) -> dict[str, Any]:
        """`verifier` and `prompts` of `summary.json`; of rewards that say nothing of a verifier the reason."""
        if len(self._values) != 2:
            reason = "Rewards are not binary." if self._values else "No rollout has a reward."
            return {"verifier": {"reason": "All rewards are equal." if len(self._values) == 1 else reason}}
        rows, high = joined(self._batches, 1.0), max(self._values)
        right, answered = rows.rewards == high, rows.scored & rows.answered
        of_answers = verdict_counts(rows.answer, rows.group, right, answered)
        of_responses = verdict_counts(rows.response, rows.group, right, rows.scored)
        if not (answered.any() or of_responses[0]):
            return {"verifier": {"reason": "No rollout has an answer, and no response to a prompt was given twice."}}
        rates = error_rates(rows)
        return {
            "verifier": {
                "groups": int(rows.group.max()) + 1,
                "answered": int(answered.sum()),
                "groups_with_repeated_answers": of_answers[0],
                "groups_with_answers_judged_both_ways": of_answers[1],
                "groups_with_repeated_responses": of_responses[0],
                "groups_with_responses_judged_both_ways": of_responses[1],
                "rates": None if rates is None else {n: vars(rate) for n, rate in zip(RATES, rates, strict=True)},
                "interval": "influence of each group on the fit, Student's t",
                "level": LEVEL,
            },
            "prompts": self._prompts(high, redact=redact) if answered.any() else None,
        }

    def _prompts(self, high: float, *, redact: bool) -> dict[str, Any]:
        agreed = pandas.concat(self._agreed)
        refused = agreed[agreed["best"] < high].sort_values(
            ["share", "count", "group"], ascending=[False, False, True], kind="stable"
        )
        listed = refused[:LISTED].assign(other_rewarded=refused["others_best"] == high)
        listed = listed.drop(columns=["best", "others_best"]).astype(object)
        if redact:
            listed[["answer", "gold"]] = None
        counts = {"refused": len(refused), "least_count": LEAST_COUNT, "least_share": LEAST_SHARE}
        return {**counts, "listed": listed.to_dict("records")}
