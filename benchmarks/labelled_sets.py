"""Public rollouts with a reward that nobody corrupted and people's labels, as rows for `benchmarks.wrong_rewards`.

python -m benchmarks.labelled_sets SET CLONE OUT.jsonl

CLONE is a clone of the set's repository; the commits that were read are in SETS. A row has `group`, `prompt`,
`response`, `reward` and `label`: what people say of the response, a number or whether it is right.
"""

from __future__ import annotations

import argparse
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geoalign.errors import InputError

Rows = Iterator[dict[str, Any]]


class _Plain(pickle.Unpickler):
    """Lists, dictionaries, texts and numbers only."""

    def find_class(self, module: str, name: str) -> Any:
        raise InputError(f"expected plain values, got {module}.{name}")


def unieval(path: Path) -> Rows:
    """UniEval's scores of dialogue responses and of sentences that say given data, and people's ratings."""
    for row in json.loads(path.read_text(encoding="utf-8")):
        prompt = row["source"] + row.get("context", "")
        label, reward = row["scores"]["overall"], row["predict_scores"]["overall"]
        yield {"group": prompt, "prompt": prompt, "response": row["system_output"], "reward": reward, "label": label}


def llmbar(path: Path) -> Rows:
    """Ratings by a language model of two responses to an instruction, of which people agree that one is better."""
    for file in sorted(path.glob("**/evaluators/ChatGPT/Rating/result.json")):
        for number, row in enumerate(json.loads(file.read_text(encoding="utf-8"))):
            for side in ("1", "2"):
                rated = row["results"][0][f"score_{side}"][0]
                yield {
                    "group": f"{file.parts[-5]} {number}",
                    "prompt": row["input"],
                    "response": row[f"output_{side}"],
                    "reward": float(rated) if str(rated).isdigit() else None,
                    "label": str(row["label"]) == side,
                }


def rewardmath(path: Path) -> Rows:
    """Scores of a reward model on ten solutions of a problem, of which the first is right; without their texts."""
    for row in json.loads(path.read_text(encoding="utf-8")):
        for at, (source, score) in enumerate(zip(row["solution_reference"], row["score"], strict=True)):
            text = row["problem"]
            yield {"group": text, "prompt": text, "response": source, "reward": score, "label": at == 0}


def summaries(reward: Callable[[str, str], float]) -> Callable[[Path], Rows]:
    """Summaries of news by 16 (SummEval) or 24 systems (REALSumm), rewarded by a metric; label: people's mean score."""

    def read(path: Path) -> Rows:
        with path.open("rb") as file:
            articles = _Plain(file).load()
        for name, article in articles.items():
            for given in article["sys_summs"].values():
                scores = given["scores"]
                people = [scores[of] for of in ("coherence", "consistency", "fluency", "relevance") if of in scores]
                yield {
                    "group": str(name),
                    "prompt": article["src"],
                    "response": given["sys_summ"],
                    "reward": reward(given["sys_summ"], article["ref_summ"]),
                    "label": sum(people) / len(people) if people else scores["litepyramid_recall"],
                }

    return read


def rouge(summary: str, reference: str) -> float:
    """ROUGE-1 F: the overlap of the words, as bags."""
    ours, theirs = Counter(summary.lower().split()), Counter(reference.lower().split())
    return 2 * (ours & theirs).total() / max(ours.total() + theirs.total(), 1)


def length(summary: str, reference: str) -> float:
    """Words of the summary."""
    return float(len(summary.split()))


@dataclass(frozen=True)
class Source:
    """Where a set lies: repository, commit, path."""

    repository: str
    commit: str
    path: str
    read: Callable[[Path], Rows]


_UNIEVAL = ("maszhongming/UniEval", "d33e7b6")
_BARTSCORE = ("neulab/BARTScore", "248f511")
SETS = {
    "topical_chat": Source(*_UNIEVAL, "reproduce/unieval_predict/dialogue/topical_chat_result.json", unieval),
    "sfres": Source(*_UNIEVAL, "reproduce/unieval_predict/data2text/sfres_result.json", unieval),
    "sfhot": Source(*_UNIEVAL, "reproduce/unieval_predict/data2text/sfhot_result.json", unieval),
    "llmbar": Source("princeton-nlp/LLMBar", "900616b", "Dataset/LLMBar", llmbar),
    "rewardmath": Source(
        "kimsh0507/RewardMATH_official", "cde06ab", "results/RewardMATH/grm_gemma_reward.json", rewardmath
    ),
    "summeval_rouge": Source(*_BARTSCORE, "SUM/SummEval/data.pkl", summaries(rouge)),
    "summeval_length": Source(*_BARTSCORE, "SUM/SummEval/data.pkl", summaries(length)),
    "realsumm_rouge": Source(*_BARTSCORE, "SUM/REALSumm/data.pkl", summaries(rouge)),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("clone", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args(arguments)
    source = SETS[options.set]
    rows = list(source.read(options.clone / source.path))
    scored = [row for row in rows if row["reward"] is not None]
    options.out.write_text("".join(json.dumps(row) + "\n" for row in scored), encoding="utf-8")
    groups = {row["group"] for row in scored}
    print(f"{len(scored)} rows, {len(groups)} groups; {len(rows) - len(scored)} without reward")


if __name__ == "__main__":
    main()
