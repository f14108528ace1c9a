"""What a curator reads of verl's batch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from geoalign.adapters.decision import Decision, group_numbers, named_components, named_fields, needed_fields, refuse
from geoalign.adapters.second_verifier import SecondVerifier
from geoalign.adapters.settings import SECTION
from geoalign.adapters.verl.keys import HIDDEN_KEY, RESPONSE_KEY, REWARD_KEY
from geoalign.method.advantages import group_advantages
from geoalign.types import Rollouts, response_keys

# What verl keeps of the data set's row beside each rollout, and where the gold answer is in it.
DATASET_COLUMNS = ("raw_prompt", "reward_model", "data_source", "extra_info")
GOLD = ("reward_model.ground_truth",)


def sessions_of(keys: Sequence[str], rows: Sequence[int]) -> list[list[int]]:
    """These rows by session (keys `{uid}_{session}_{index}`), each in the order of its agent loop's outputs.

    verl gives all outputs the reward of the last, and makes their advantage of that row alone: so it is what a curator
    reads of a session, and what it decides holds for all.
    """
    sessions: dict[str, list[tuple[int, int]]] = {}
    for row in rows:
        session, _, index = keys[row].rpartition("_")
        expected = f"row {keys[row]!r}: expected a key {{uid}}_{{session}}_{{index}}, as verl 0.9 writes them"
        refuse({expected: "_" not in session or not index.isdigit()})
        sessions.setdefault(session, []).append((int(index), row))
    return [[row for _, row in sorted(outputs)] for outputs in sessions.values()]


def read_rollouts(
    batch: Any,
    rows: Sequence[int],
    needs: Sequence[str],
    *,
    rollout_fields: Mapping[str, str],
    components: Sequence[str] = (),
    longest_response: int,
    by_std: bool = True,
    second_verifier: SecondVerifier | None = None,
    tokenizer: Any = None,
) -> Rollouts:
    """These rows of a `QueueBatch` as a curator reads them: the reward is the sum over the tokens, the group verl's
    `uid`; a response of `longest_response` tokens is cut off, and no donor.

    What the pass for hidden states, or a tag, already says of a row (its reward, key and length) is read there; fields
    with a number for every token only where nothing does, and where the curator asks for what is made of them. A
    `second_verifier` reads rows with the `tokenizer` when it is asked about them, before any row is moved.
    """
    held, tagged = set(batch.fields), batch.lengths(rows)
    scores = REWARD_KEY if REWARD_KEY in held else "rm_scores"
    responses = RESPONSE_KEY if RESPONSE_KEY in held else "responses"
    keyed = bool({"hidden", "response_keys"} & set(needs))
    read = {"hidden": HIDDEN_KEY, "prompt_keys": "prompts", "logprobs": "old_log_probs"}
    names = ["uid", scores, *(field for need, field in read.items() if need in needs)]
    names += ["response_mask"] if tagged is None or "logprobs" in needs else []
    names += [responses] if keyed else []
    names += ["extra_fields"] if rollout_fields or components else []
    data = batch.read(rows, names)
    masks = data.get("response_mask", [])
    lengths = torch.tensor([len(mask) for mask in masks] if tagged is None else tagged)
    rewards = torch.stack([values.float().sum() for values in data[scores]])
    groups = group_numbers(data["uid"])
    makers = {
        "hidden": lambda: torch.stack([state.reshape(-1) for state in data[HIDDEN_KEY]]),
        "response_keys": lambda: (
            torch.cat([key.reshape(-1).cpu() for key in data[RESPONSE_KEY]])
            if responses == RESPONSE_KEY
            else response_keys(response.tolist() for response in data["responses"])
        ),
        "prompt_keys": lambda: response_keys(prompt.tolist() for prompt in data["prompts"]),
        "logprobs": lambda: _masked_means(data["old_log_probs"], masks),
        "advantages": lambda: group_advantages(rewards, groups, scale="std" if by_std else "none"),
    }

    def asked_rows(asked: Sequence[int]) -> list[dict[str, Any]]:
        return verifier_rows(batch, [rows[row] for row in asked], tokenizer)

    infos = [(extra or {}).get("reward_extra_info") for extra in data.get("extra_fields", ())]
    source = "the dict that the reward function returns"
    return Rollouts(
        rewards=rewards,
        groups=groups,
        lengths=lengths,
        donor_ok=lengths < longest_response,
        ids=[batch.keys[row] for row in rows],
        second_rewards=None if second_verifier is None else second_verifier.field(asked_rows),
        **needed_fields(makers, {*needs, *(["response_keys"] if keyed else [])}),
        **named_components(components, infos, rewards, source=f"numbers in {source}"),
        **named_fields(rollout_fields, infos, rewards, setting=f"{SECTION}.rollout_fields", source=source),
    )


def verifier_rows(batch: Any, rows: Sequence[int], tokenizer: Any) -> list[dict[str, Any]]:
    """These rows of a `QueueBatch` as a second verifier reads them: what the reward function returned of each, the
    columns of the data set, `prompt` as chat messages, and the text of the response."""
    columns = [name for name in DATASET_COLUMNS if name in batch.fields]
    data = batch.read(rows, [*columns, "responses", "extra_fields"])
    found = []
    for place in range(len(rows)):
        row: dict[str, Any] = dict((data["extra_fields"][place] or {}).get("reward_extra_info") or {})
        row |= {name: data[name][place] for name in columns}
        messages = row.pop("raw_prompt")
        row["prompt"] = [dict(message) for message in messages]
        row["response"] = tokenizer.decode(data["responses"][place].tolist(), skip_special_tokens=True)
        found.append(row)
    return found


def texts_of_answers(
    batch: Any, sessions: Sequence[Sequence[int]], rollout_fields: Mapping[str, str]
) -> list[str | None] | None:
    """What the response of each session answers, as the reward function returned it; None: nobody named the answers.

    Read after the curation, it is of the response that stands there.
    """
    if "answers" not in rollout_fields:
        return None
    extra = batch.read([session[-1] for session in sessions], ["extra_fields"])["extra_fields"]
    infos = [(fields or {}).get("reward_extra_info") or {} for fields in extra]
    answers = [info.get(rollout_fields["answers"]) for info in infos]
    return [None if answer is None else str(answer) for answer in answers]


def rows_for_dump(
    decision: Decision, keys: Sequence[Sequence[str]], answers: Sequence[str | None] | None = None
) -> dict[str, dict[str, Any]]:
    """What verl's dump is to show of each row, by the row's key, of which a session has several.

    Score and flag of the response that stands there, the row that it came from, and where they are given its answer.
    """
    scores = decision.curation.scores.tolist()
    flags = decision.curation.anomalous.tolist()
    judged: dict[str, dict[str, Any]] = {}
    for position, row in enumerate(decision.assignment.source.tolist()):
        columns = {
            "geoalign_score": None if math.isnan(scores[row]) else scores[row],
            "geoalign_anomalous": flags[row],
            "geoalign_source": keys[row][-1],
        }
        if answers is not None:
            columns["geoalign_answer"] = answers[position]
        judged |= dict.fromkeys(keys[position], columns)
    return judged


def _masked_means(values: list[Tensor], masks: list[Tensor]) -> Tensor:
    """[B] the mean of each row over the policy's own tokens; NaN where it has none."""
    means = []
    for value, mask in zip(values, masks, strict=True):
        own = value.float()[mask.bool()]
        means.append(own.mean() if len(own) else own.new_tensor(torch.nan))
    return torch.stack(means)
