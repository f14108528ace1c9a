"""Generates, scores and saves what an evaluation still lacks, a part at a time; what its rows depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import torch

from geoalign.errors import ConfigError
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.evaluation.answers import Answer, Sampling, Slot, answer
from geoalign.lab.evaluation.sets import EvaluationSet, PromptedSet
from geoalign.lab.generation.engines import Engine
from geoalign.lab.generation.models import Described, device_and_dtype, open_engine
from geoalign.lab.rewards.base import RewardSource, check_scored, reasons, reasons_since
from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.evaluation import EvaluationFolder, Part, Row, messages_json, read_part, write_part

# Settings that stand in `models` and `sets` as what they come to, or change no row.
_ELSEWHERE = ("samples", "pass_at_k", "problems", "max_new_tokens", "device", "chat_template_kwargs", "system_prompt")

Sources = Callable[[PromptedSet], RewardSource | None]


def run_model(
    model: Described,
    sets: Sequence[PromptedSet],
    sources: Sources,
    config: EvaluateConfig,
    folder: EvaluationFolder,
    progress: Callable[[PromptedSet, int], None],
) -> dict[str, Part]:
    """All rows of a model by set, with the counts of all parts; parts that are there are read, the others made.

    What stands in a part depends on the settings and its number alone, not on what was made before. The model is loaded
    only if something is missing.
    """
    parts_by_set: dict[str, Part] = {}
    with ExitStack() as stack:
        engine: Engine | None = None
        for prompted_set in sets:
            source, parts, slots = sources(prompted_set), [], prompted_set.slots()
            for number, start in enumerate(range(0, len(slots), config.batch)):
                batch = slots[start : start + config.batch]
                path = folder.part(model.model.name, prompted_set.set.name, number)
                if path.is_file():
                    parts.append(read_part(path))
                else:
                    if engine is None:
                        engine = stack.enter_context(open_engine(model.model, model.tokenizer, config))
                    part = make_part(engine, model, prompted_set, batch, source, config)
                    write_part(path, part)
                    parts.append(part)
                progress(prompted_set, len(batch))
            parts_by_set[prompted_set.set.name] = joined(parts)
    return parts_by_set


def make_part(
    engine: Engine,
    model: Described,
    prompted_set: PromptedSet,
    batch: Sequence[Slot],
    source: RewardSource | None,
    config: EvaluateConfig,
) -> Part:
    """Generates and scores the responses of one part."""
    before = {} if source is None else reasons(source)
    try:
        answers = answer(
            engine,
            batch,
            source,
            Sampling(config.seed, prompted_set.set.name, config.temperature, prompted_set.set.max_new_tokens),
        )
    except torch.OutOfMemoryError as error:
        raise ConfigError(
            f"batch_size: expected as many responses as fit into memory, got {len(batch)} of up to "
            f"{prompted_set.set.max_new_tokens} tokens: start with a smaller one in another --output ({error})"
        ) from error
    counts = {"not_text": sum(scored.response != scored.generated.text for scored in answers)}
    if source is not None:
        since = reasons_since(source, before)
        rewards = [scored.reward for scored in answers if scored.reward is not None]
        check_scored(rewards, config.reward.max_unscored, why=since, what=f"a batch of {prompted_set.set.name}")
        counts |= since
    return Part(tuple(_row(model, prompted_set, scored) for scored in answers), counts)


def joined(parts: Sequence[Part]) -> Part:
    """Several parts as one: their rows in order, their counts added up."""
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    return Part(tuple(row for part in parts for row in part.rows), dict(counts))


def _row(model: Described, prompted_set: PromptedSet, scored: Answer) -> Row:
    problem = scored.prompt.problem
    return Row(
        model=model.model.name,
        set=prompted_set.set.name,
        id=whole_text(problem.id),
        sample=scored.sample,
        prompt=messages_json(problem.prompt),
        response=scored.response,
        answer=whole_text(problem.answer),
        reward=scored.reward,
        correct=scored.correct if prompted_set.set.kind == "benchmark" else None,
        tokens=scored.generated.tokens,
        prompt_tokens=len(scored.prompt.tokens),
        truncated=scored.generated.truncated,
    )


def identity_of(models: Sequence[Described], sets: Sequence[EvaluationSet], config: EvaluateConfig) -> dict[str, Any]:
    """What the rows of an evaluation depend on, as `settings.json` holds it; where files lie is left out."""
    settings = asdict(config)
    device, dtype = device_and_dtype(config)
    kept = {name: value for name, value in settings.items() if name not in _ELSEWHERE}
    reward = dict(kept.pop("reward"))
    # Retries, and the device that scores, change no reward.
    scored_by = {name: reward["model"][name] for name in ("path", "revision", "url", "api", "dtype", "max_length")}
    sets_by_name = {
        each.name: {"problems": len(each.problems), "samples": each.samples, "digest": each.digest()} for each in sets
    }
    models_by_name = {
        each.model.name: {"fingerprint": each.fingerprint, "chat_template_kwargs": dict(each.model.template_options)}
        for each in models
    }
    return {
        **kept,
        "batch_size": config.batch,
        "dtype": dtype,
        "device_type": None if device is None else device.partition(":")[0],
        "reward": {"timeout": reward["timeout"], "model": scored_by},
        "models": models_by_name,
        "sets": sets_by_name,
    }
