"""Generates, scores and saves what an evaluation still lacks, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.evaluation.sets import Prompt, PromptedSet
from geoalign.lab.generation.draws import seed_of
from geoalign.lab.generation.engines import Engine, Generated, open_engine
from geoalign.lab.generation.models import Described
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.rewards.limit import check_scored, reasons, reasons_since
from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.evaluation import EvaluationFolder, Part, Row, messages_json, read_part, write_part

Slots = Sequence[tuple[Prompt, int]]
Sources = Callable[[PromptedSet], RewardSource | None]


def run_model(
    model: Described,
    sets: Sequence[PromptedSet],
    sources: Sources,
    config: EvaluateConfig,
    folder: EvaluationFolder,
    *,
    progress: Callable[[PromptedSet, int], None] = lambda one, done: None,
) -> dict[str, Part]:
    """All rows of a model by set, with the counts of all parts; parts that are there are read, the others made.

    What stands in a part depends on the settings and its place alone, not on what was made before. The model is loaded
    only if something is missing.

    Args:
        sources: what scores a set; None for one that is not scored.
        progress: told a set, and how many responses of it were added.

    Raises:
        ConfigError: the model cannot be loaded.
        RunFolderError: a part that is there holds something else.
        UnscoredError: too many responses of a part could not be scored; the parts before it are kept.
    """
    found: dict[str, Part] = {}
    with ExitStack() as stack:
        engine: Engine | None = None
        for one in sets:
            source, parts, slots = sources(one), [], one.slots()
            for number, start in enumerate(range(0, len(slots), config.batch)):
                batch = slots[start : start + config.batch]
                path = folder.part(model.model.name, one.set.name, number)
                if path.is_file():
                    parts.append(read_part(path, [_place(model, one, slot) for slot in batch]))
                else:
                    if engine is None:
                        engine = stack.enter_context(open_engine(model.model, model.tokenizer, config))
                    part = make_part(engine, model, one, batch, source, config)
                    write_part(path, part)
                    parts.append(part)
                progress(one, len(batch))
            found[one.set.name] = joined(parts)
    return found


def make_part(
    engine: Engine,
    model: Described,
    one: PromptedSet,
    batch: Slots,
    source: RewardSource | None,
    config: EvaluateConfig,
) -> Part:
    """Generates and scores the responses of one part.

    Raises:
        UnscoredError: too many of them could not be scored.
    """
    seeds = [seed_of(config.seed, one.set.name, prompt.problem.id, sample) for prompt, sample in batch]
    generated = engine.generate([prompt.tokens for prompt, _ in batch], seeds, one.set.max_new_tokens)
    texts = [whole_text(response.text) for response in generated]
    counts = {"not_text": sum(text != response.text for text, response in zip(texts, generated, strict=True))}
    rewards: list[float | None] = [None] * len(batch)
    if source is not None:
        before = reasons(source)
        scores = source.score(
            texts,
            [prompt.problem.answer for prompt, _ in batch],
            prompts=[list(prompt.problem.prompt) for prompt, _ in batch],
        )
        since = reasons_since(source, before)
        check_scored(scores, config.reward.max_unscored, why=since, what=f"a batch of {one.set.name}")
        counts |= since
        rewards = list(scores)
    rows = [
        _row(model, one, slot, text, response, reward)
        for slot, text, response, reward in zip(batch, texts, generated, rewards, strict=True)
    ]
    return Part(tuple(rows), counts)


def joined(parts: Sequence[Part]) -> Part:
    """Several parts as one: their rows in order, their counts added up."""
    counts: dict[str, int] = {}
    for part in parts:
        for name, count in part.counts.items():
            counts[name] = counts.get(name, 0) + count
    return Part(tuple(row for part in parts for row in part.rows), counts)


def _place(model: Described, one: PromptedSet, slot: tuple[Prompt, int]) -> tuple[str, str, str, int]:
    prompt, sample = slot
    return (model.model.name, one.set.name, whole_text(prompt.problem.id), sample)


def _row(
    model: Described,
    one: PromptedSet,
    slot: tuple[Prompt, int],
    text: str,
    response: Generated,
    reward: float | None,
) -> Row:
    prompt, _ = slot
    name, in_set, problem, sample = _place(model, one, slot)
    return Row(
        model=name,
        set=in_set,
        id=problem,
        sample=sample,
        prompt=messages_json(prompt.problem.prompt),
        response=text,
        answer=whole_text(prompt.problem.answer),
        reward=reward,
        correct=reward is not None and reward > 0.5 if one.set.kind == "benchmark" else None,
        tokens=response.tokens,
        prompt_tokens=len(prompt.tokens),
        truncated=response.truncated,
    )
