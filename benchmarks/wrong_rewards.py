"""Curators on real rollouts whose rewards are really wrong: do they put right responses above wrong ones?

python -m benchmarks.wrong_rewards ROLLOUTS.jsonl [--model ID_OR_FOLDER --states FILE] [--json FILE]

A row has `prompt`, `response`, `reward` and `correct` (or `label`, people's score), or lists of responses with theirs;
`final_answer` and `passed` (outcomes of checks, a text of 0 and 1) where there are any; `benchmarks.labelled_sets`
makes such files. A reward from --threshold on is a verdict that the response is right. Which layer and position of a
model's states to read is chosen on one half of the prompts, by the labels there, and counts on the other, both ways.
--words and --encoder read the responses' words or a sentence encoder's vectors instead. The curators themselves see all
rewards and no label. wrong_rewards.md has what was found.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from benchmarks.curation import machine
from benchmarks.detection import session_of
from geoalign import CURATORS, Rollouts
from geoalign.dumps.files import dump_rows
from geoalign.dumps.row_names import row_name
from geoalign.errors import ConfigError, InputError
from geoalign.files.json_files import write_json
from geoalign.hidden.answer_tokens import answer_starts
from geoalign.hidden.extract import extract_states
from geoalign.method.advantages import group_advantages
from geoalign.method.groups import FOLDS, group_centred
from geoalign.noise.ridge import fold_predictions
from geoalign.pretrained.from_pretrained import from_pretrained
from geoalign.settings.hidden import HIDDEN_POSITIONS, layer_numbers
from geoalign.statistics import Interval, mean_interval, paired_difference
from geoalign.types import response_keys

# Where a value stands: of several names the first that a row has.
NAMES = {
    "prompt": ("prompt", "query", "question", "problem"),
    "response": ("response", "completion", "output", "responses"),
    "reward": ("pred_score", "reward", "rewards"),
    "label": ("correct", "score", "label"),
    "answer": ("final_answer", "pred"),
    "checks": ("passed",),
    "group": ("group", "group_id"),
}
# The upper two thirds of a model, in shares of its depth.
DEPTHS = (1 / 3, 1 / 2, 2 / 3, 4 / 5, 9 / 10, 1.0)
# Expected rewards: nothing is trained on them, so their bias cannot build up.
_EXPECTED = {"least_slope": 1.0}
# Label -> curator, settings, and whether it reads the states of all layers and positions side by side.
CURATOR_SETTINGS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "denoise": ("denoise", _EXPECTED, False),
    "denoise, all states": ("denoise", _EXPECTED, True),
    "denoise, permuted": ("denoise", {**_EXPECTED, "geometry": "permuted"}, False),
    "denoise, no geometry": ("denoise", {**_EXPECTED, "geometry": "none"}, False),
    "geoalign, paper's": ("geoalign", {}, False),
    "geoalign, cross-fitted": ("geoalign", {"scoring": "cross_fit"}, False),
}
_AT_DEFAULTS = (
    "nearest_centroid confident_learning score_agreement noise_corrected majority_vote rank_trim tie_detector"
)
for _name in f"{_AT_DEFAULTS} pair_count reward_distance oracle".split():
    CURATOR_SETTINGS[_name.replace("_", " ")] = (_name, {}, False)
# Label -> share of the prediction: what the states alone know, and the mean of that and the reward.
PREDICTIONS = {"prediction alone": 1.0, "reward and prediction": 0.5}
Views = Mapping[str, Tensor]
Judged = tuple[np.ndarray, int]  # [B] advantages, and how many rows were flagged


@dataclass(frozen=True, eq=False)
class Labelled:
    """B rollouts, group after group: texts, number of the prompt, reward, label; answer, checks (or None).

    The label is 1 where the response is right and 0 where it is wrong, or people's score of it.
    """

    prompts: list[str]
    responses: list[str]
    groups: np.ndarray
    rewards: np.ndarray
    labels: np.ndarray
    answers: list[str | None]
    checks: list[str | None]


def read_labelled(path: Path) -> Labelled:
    """Reads a dump.

    Raises:
        InputError: a row without a prompt, response, reward or label; the message has file, line and field.
    """
    rows: list[dict[str, Any]] = []
    for raw in dump_rows(path):
        if raw.value is None:
            raise InputError(f"{row_name(path, raw.line)}: {raw.problem}")
        row = {
            role: next((raw.value[name] for name in names if name in raw.value), None) for role, names in NAMES.items()
        }
        if missing := [role for role in ("prompt", "response", "reward", "label") if row[role] is None]:
            raise InputError(f"{row_name(path, raw.line)}: {missing[0]}: expected a value, got none")
        if isinstance(row["response"], list):
            count = len(row["response"])
            listed = [
                [value[at] if isinstance(value, list) else value for value in row.values()] for at in range(count)
            ]
            rows += [{**dict(zip(row, values, strict=True)), "group": raw.number} for values in listed]
        else:
            rows.append({**row, "group": row["prompt"] if row["group"] is None else row["group"]})
    numbers = {name: number for number, name in enumerate(dict.fromkeys(row["group"] for row in rows))}
    rows.sort(key=lambda row: numbers[row["group"]])  # stable: the order of the file inside groups
    return Labelled(
        prompts=[row["prompt"] for row in rows],
        responses=[row["response"] for row in rows],
        groups=np.array([numbers[row["group"]] for row in rows]),
        # Reward models with one head give lists of one number.
        rewards=np.array([row["reward"] for row in rows], dtype=np.float64).reshape(len(rows)),
        labels=np.array([row["label"] for row in rows], dtype=np.float64),
        answers=[None if row["answer"] in (None, "") else str(row["answer"]) for row in rows],
        checks=[row["checks"] for row in rows],
    )


def layer_states(
    name: str, dump: Labelled, file: Path | None, max_tokens: int, layers: Sequence[float]
) -> dict[str, Tensor]:
    """[B, d] by layer and position; from `file` where it is there, which is written otherwise."""
    if file is not None and file.exists():
        return load_file(file)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    options: dict[str, Any] = {"trust_remote_code": False, "setting": "trust_remote_code"}
    tokenizer = from_pretrained(AutoTokenizer, name, **options)
    model = from_pretrained(AutoModelForCausalLM, name, dtype=torch.float32, **options).eval()
    depth = model.config.get_text_config().num_hidden_layers
    wanted = sorted(layer_numbers([max(1, round(share * depth)) for share in layers], depth))
    end = [tokenizer.eos_token_id or 0]

    def ids(text: str) -> list[int]:
        return list(tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]) or end

    prompts = [ids(text)[-(max_tokens // 2) :] for text in dump.prompts]
    responses = [ids(text) for text in dump.responses]
    starts = answer_starts(tokenizer, responses)
    views: dict[str, Tensor] = {}
    for position in HIDDEN_POSITIONS if any(start >= 0 for start in starts) else HIDDEN_POSITIONS[:-1]:
        found = extract_states(
            model, prompts, responses, position=position, layer=wanted, answer_starts=starts, max_tokens=max_tokens
        ).states.view(len(prompts), len(wanted), -1)
        views |= {f"layer {layer}, {position}": found[:, at].contiguous() for at, layer in enumerate(wanted)}
    if file is not None:
        save_file(views, file)
    return views


def text_states(dump: Labelled, *, words: bool, encoder: Path | None) -> dict[str, Tensor]:
    """What the responses alone say: log counts of hashed words, [B, 512]; a sentence encoder's mean vector, [B, d]."""
    views: dict[str, Tensor] = {}
    if words:
        counts = torch.zeros(len(dump.responses), 512)
        for row, response in enumerate(dump.responses):
            for word in re.findall(r"\w+|[^\w\s]", response):
                counts[row, zlib.crc32(word.encode()) % 512] += 1
        views["words"] = counts.log1p()
    if encoder is not None:
        from transformers import AutoModel, AutoTokenizer

        options: dict[str, Any] = {"trust_remote_code": False, "setting": "trust_remote_code"}
        tokenizer = from_pretrained(AutoTokenizer, str(encoder), **options)
        model = from_pretrained(AutoModel, str(encoder), **options).eval()
        found = []
        for start in range(0, len(dump.responses), 32):
            batch = tokenizer(
                dump.responses[start : start + 32], padding=True, truncation=True, max_length=256, return_tensors="pt"
            )
            mask = batch["attention_mask"][..., None]
            with torch.no_grad():
                found.append((model(**batch).last_hidden_state * mask).sum(dim=1) / mask.sum(dim=1))
        views["sentence encoder"] = torch.nn.functional.normalize(torch.cat(found), dim=1)
    return views


def by_curator(
    label: str, dump: Labelled, rewards: np.ndarray, hidden: Tensor | None, states: int, batch_groups: int | None
) -> Judged:
    """The sum of the advantages over the output rows that hold a row: 0 where it was replaced or left out.

    All of the dump is one batch, or `batch_groups` prompts at a time are, in the order of the file.
    """
    name, settings, wide = CURATOR_SETTINGS[label]
    settings = {**settings, **({"states": states} if wide else {})}
    given = torch.from_numpy(rewards)
    session = session_of(name, settings, given)
    whole = Rollouts(
        rewards=given,
        groups=torch.from_numpy(dump.groups),
        hidden=hidden,
        true_rewards=torch.from_numpy(dump.labels),
        answers=dump.answers if any(dump.answers) else None,
        response_keys=response_keys(dump.responses),
    )
    whole.require(*session.curator.requires, by=name)
    advantages, flagged = np.zeros(len(rewards)), 0
    batch_of = np.zeros_like(dump.groups) if batch_groups is None else dump.groups // batch_groups
    for number in np.unique(batch_of):
        index = torch.from_numpy(np.flatnonzero(batch_of == number))
        batch = whole.take(index)
        curation = session.curate(batch)
        taken = curation.advantages
        if taken is None:
            taken = group_advantages(curation.rewards, batch.groups[curation.source])
        taken = (taken * curation.weights).nan_to_num(0.0).double()
        advantages[index] = torch.zeros(len(index), dtype=torch.float64).index_add_(0, curation.source, taken).numpy()
        flagged += int(curation.anomalous.sum())
    return advantages, flagged


def by_prediction(share: float, dump: Labelled, rewards: np.ndarray, hidden: Tensor) -> Judged:
    """share x prediction + (1 - share) x reward, both standardised inside groups: states without a noise model.

    The prediction is that of a ridge regression of the rewards on the states, of each fifth of the groups by the
    others.
    """
    group = torch.from_numpy(dump.groups)
    targets = group_advantages(torch.from_numpy(rewards), group)
    states = group_centred(hidden, group)
    predicted = fold_predictions(states, targets, targets != 0, group % FOLDS, 1.0)
    return (share * group_advantages(predicted.double(), group) + (1 - share) * targets).numpy(), 0


def scores_of(dump: Labelled, rewards: np.ndarray) -> dict[str, np.ndarray]:
    """The rewards as they came, and scores that count equal responses: no state, no learning."""
    found = {"observed reward": rewards}
    if all(dump.checks):
        alike = _alike(dump.groups, dump.checks)
        # CodeT (arXiv 2207.10397): responses of the group with equal outcomes, times checks passed.
        found["consensus of checks"] = alike * np.array([str(check).count("1") for check in dump.checks])
        found["equal outcomes"] = alike
    if any(dump.answers):
        answers = [str(row) if answer is None else f"={answer}" for row, answer in enumerate(dump.answers)]
        found["equal answers"] = _alike(dump.groups, answers)
    return found


def _alike(groups: np.ndarray, labels: Sequence[Any]) -> np.ndarray:
    """[B] rows of the group with the same label, the row itself included."""
    cells = [f"{group} {label}" for group, label in zip(groups, labels, strict=True)]
    _, cell, count = np.unique(cells, return_inverse=True, return_counts=True)
    return count[cell].astype(np.float64)


def group_orders(scores: np.ndarray, labels: np.ndarray, groups: np.ndarray) -> dict[int, float]:
    """How often the response with the higher label stands above the other to the same prompt, by group.

    P(score of a right one > score of a wrong one) where labels say right and wrong, ties of scores counting one half;
    chance is one half. What policy gradients learn from a group is which of its responses to prefer, and that is this.
    NaN scores are left out, and so are groups whose labels are then all equal.
    """
    orders = {}
    for group in np.unique(groups):
        rows = (groups == group) & ~np.isnan(scores)
        above = np.sign(scores[rows][:, None] - scores[rows])[labels[rows][:, None] > labels[rows]]
        if above.size:
            orders[int(group)] = float((above.mean() + 1) / 2)
    return orders


class Judge:
    """The order of right responses over wrong ones, on one view of the rewards."""

    def __init__(self, dump: Labelled, rewards: np.ndarray, view: str, record: dict[str, list[dict[str, Any]]]) -> None:
        self.dump, self.view, self.record = dump, view, record
        self.observed = group_orders(rewards, dump.labels, dump.groups)
        # Mixed groups in turn: both halves have as many of them. Others go with the half of their number.
        self.half = {group: turn % 2 for turn, group in enumerate(self.observed)}
        self.side = np.array([self.half.get(int(group), int(group) % 2) for group in dump.groups])

    def add(self, score: str, advantages: np.ndarray, flagged: int = 0, batches: str = "one", states: Any = ()) -> None:
        """The order, and the same minus the observed reward's, paired by group."""
        orders = group_orders(advantages, self.dump.labels, self.dump.groups)
        gain = paired_difference(orders, self.observed).interval
        row = {"view": self.view, "batches": batches, "score": score, "states": list(states), "flagged": flagged}
        order = mean_interval(np.array(list(orders.values())))
        self.record["rows"].append({**row, "order": order, "gain": gain, "halves": self._halves(advantages)})

    def choose(self, score: str, views: Views, judged: Callable[[Tensor], Judged], batches: str = "one") -> None:
        """Each half by the states that were best on the other."""
        runs = {name: judged(hidden) for name, hidden in views.items()}
        halves = {name: self._halves(advantages) for name, (advantages, _) in runs.items()}
        self.record["explored"].append({"view": self.view, "batches": batches, "score": score, "halves": halves})
        first, second = (max(runs, key=lambda name, other=other: halves[name][other]) for other in (1, 0))
        advantages = np.where(self.side == 0, runs[first][0], runs[second][0])
        self.add(score, advantages, (runs[first][1] + runs[second][1]) // 2, batches, (first, second))

    def _halves(self, advantages: np.ndarray) -> tuple[float, float]:
        orders = group_orders(advantages, self.dump.labels, self.dump.groups)
        first, second = ([order for group, order in orders.items() if self.half[group] == half] for half in (0, 1))
        return float(np.mean(first or [math.nan])), float(np.mean(second or [math.nan]))


def measure(
    dump: Labelled,
    views: Views,
    threshold: float,
    batch_groups: int | None = None,
    curators: Sequence[str] = tuple(CURATOR_SETTINGS),
) -> dict[str, list[dict[str, Any]]]:
    """Every score and curator, by the rewards as given and as verdicts: `rows`, `explored` (no choice), `skipped`."""
    record: dict[str, list[dict[str, Any]]] = {"rows": [], "explored": [], "skipped": []}
    seen = {"as given": dump.rewards, f"verdict: at least {threshold:g}": (dump.rewards >= threshold).astype(float)}
    if set(np.unique(dump.rewards)) <= {0.0, 1.0}:
        del seen["as given"]
    every = torch.cat(list(views.values()), dim=1) if views else None
    for view, rewards in seen.items():
        judge = Judge(dump, rewards, view, record)
        for score, values in scores_of(dump, rewards).items():
            judge.add(score, values)
        for score, share in PREDICTIONS.items() if views else ():
            judge.choose(score, views, lambda hidden, r=rewards, s=share: by_prediction(s, dump, r, hidden))
        for size in {None, batch_groups}:
            batches = "one" if size is None else f"{size} prompts"
            for label in curators:
                name, settings, wide = CURATOR_SETTINGS[label]

                def judged(
                    hidden: Tensor | None, label: str = label, r: np.ndarray = rewards, n: int | None = size
                ) -> Judged:
                    return by_curator(label, dump, r, hidden, len(views), n)

                try:
                    reads = "hidden" in CURATORS[name](**settings).requires
                    if name == "oracle" and (view == "as given" or not set(np.unique(dump.labels)) <= {0.0, 1.0}):
                        raise InputError("the labels are verdicts, not such rewards")
                    if reads and not views:
                        raise InputError("no hidden states")
                    if reads and not wide:
                        judge.choose(label, views, judged, batches)
                    else:
                        judge.add(label, *judged(every if wide else None), batches, ("all",) if wide else ())
                except InputError as error:
                    record["skipped"].append({"view": view, "score": label, "reason": str(error)})
    return record


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rollouts", type=Path)
    parser.add_argument("--model", help="that computes the states: folder or hub id")
    parser.add_argument("--states", type=Path, help="safetensors to keep them in, or to take them from")
    parser.add_argument("--words", action="store_true", help="also take the responses' words for states")
    parser.add_argument("--encoder", type=Path, help="also a sentence encoder's vectors: its folder")
    parser.add_argument("--max-tokens", type=int, default=1024, help="of longer texts the end is read")
    parser.add_argument("--layers", type=float, nargs="+", default=DEPTHS, help="in shares of the depth")
    parser.add_argument("--threshold", type=float, default=0.5, help="of verdicts; nan: the median reward")
    parser.add_argument("--batch-groups", type=int, help="also in batches of so many prompts")
    parser.add_argument("--curator", action="append", choices=CURATOR_SETTINGS, help="default: all")
    parser.add_argument("--json", type=Path, help="also write everything here")
    options = parser.parse_args(arguments)
    if options.states is not None and options.model is None and not options.states.exists():
        raise ConfigError("--states: expected a file, or --model to make it")
    dump = read_labelled(options.rollouts)
    views = text_states(dump, words=options.words, encoder=options.encoder)
    if options.model or options.states:
        views |= layer_states(options.model, dump, options.states, options.max_tokens, options.layers)
    threshold = float(np.median(dump.rewards)) if math.isnan(options.threshold) else options.threshold
    found = measure(dump, views, threshold, options.batch_groups, options.curator or tuple(CURATOR_SETTINGS))
    for row in sorted(found["rows"], key=lambda row: (row["view"], row["batches"], -row["order"].estimate)):
        order, gain = (f"{one.estimate:.3f} ({one.low:.3f} to {one.high:.3f})" for one in (row["order"], row["gain"]))
        print(f"| {row['view']} | {row['batches']} | {row['score']} | {order} | {gain} | {' / '.join(row['states'])} |")
    for row in found["skipped"]:
        print(f"Left out, rewards {row['view']}: {row['score']} ({row['reason']})")
    if options.json:
        plain = [
            {name: dataclasses.astuple(value) if isinstance(value, Interval) else value for name, value in row.items()}
            for row in found["rows"]
        ]
        write_json(options.json, {"machine": machine(), **found, "rows": plain})


if __name__ == "__main__":
    main()
