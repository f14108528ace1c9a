"""`geoalign evaluate`: models, checkpoints or runs on benchmarks and dialogues, a folder with the results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress, TaskID

from geoalign.errors import ConfigError
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.config.requests import EvaluateRequest
from geoalign.lab.evaluation.answers import Answer, Sample, Sampling, answer
from geoalign.lab.evaluation.find_models import find_models
from geoalign.lab.evaluation.responses import SavedResponse, check_response_file, write_responses
from geoalign.lab.evaluation.results import EvaluationScores, print_scores, result_json, scores_of
from geoalign.lab.evaluation.scores import SetScores, score
from geoalign.lab.evaluation.sets import EvaluationSet, PromptedSet, load_sets, prompted
from geoalign.lab.generation.engines import Engine
from geoalign.lab.generation.evaluated_models import Described, EvaluatedModel, describe, device_and_dtype, open_engine
from geoalign.lab.models.fastest_dtype import print_fastest_dtype
from geoalign.lab.models.process_setup import silence_logs
from geoalign.lab.rewards.base import RewardSource, check_scored, reasons, reasons_since
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.rewards.verified import VerifiedReward
from geoalign.lab.store.columns import whole_text
from geoalign.lab.store.evaluation import EvaluationFolder, Part, Row, messages_json, read_part, write_part
from geoalign.lab.store.files import locked
from geoalign.lab.store.run_folder import package_versions
from geoalign.lab.terminal import Console, say, stage_progress


def evaluate(config: EvaluateConfig, request: EvaluateRequest, *, console: Console | None = None) -> EvaluationScores:
    """Evaluates models on sets, and writes rows and numbers into a folder.

    Called again with `resume` it makes the missing rows; they are those of an undisturbed evaluation.
    """
    console = console or Console()
    silence_logs()
    models = find_models(request.models, config, checkpoints=request.checkpoints)
    if request.save_responses is not None:
        check_response_file(request.save_responses)
        if len(models) > 1:
            raise ConfigError(
                f"--save-responses: expected one model, got {len(models)}: a file holds the responses of one"
            )
    sets = load_sets(request.benchmarks, request.dialogues, config)
    _print_notes(console, sets)
    device, _ = device_and_dtype(config)
    if device is not None and config.dtype == "auto":
        print_fastest_dtype(console, device)
    described = [describe(model) for model in models]
    prompts = [_prompted(model, sets, config) for model in described]
    folder = EvaluationFolder(request.output)
    identity = identity_of(described, sets, config)
    with locked(folder.root):
        folder.begin(identity, resume=request.resume)
        scores = scores_of(_scored(described, prompts, config, folder, console, request.save_responses))
        folder.write_result(identity, package_versions(), result_json(scores))
    print_scores(console, scores)
    if not config.reward.model.ready and any(evaluated.kind == "dialogue" for evaluated in sets):
        say(console, "Dialogues were not scored: --set reward.model.path (or url) names a reward model")
    say(console, f"Written to {folder.root}")
    return scores


def _print_notes(console: Console, sets: Sequence[EvaluationSet]) -> None:
    for evaluated in sets:
        what = "problems" if evaluated.kind == "benchmark" else "prompts"
        often = "one response" if evaluated.samples == 1 else f"{evaluated.samples} responses"
        for line in (f"{evaluated.name}: {len(evaluated.problems)} {what}, {often} to each", *evaluated.notes):
            say(console, line)


def _prompted(model: Described, sets: Sequence[EvaluationSet], config: EvaluateConfig) -> list[PromptedSet]:
    limits = [limit for limit in (model.longest, config.vllm.get("max_model_len")) if isinstance(limit, int)]
    options, longest, most = model.model.template_options, min(limits, default=None), config.max_prompt_tokens
    return [prompted(each, model.tokenizer, options, longest=longest, max_prompt_tokens=most) for each in sets]


def _scored(
    models: Sequence[Described],
    prompts: Sequence[Sequence[PromptedSet]],
    config: EvaluateConfig,
    folder: EvaluationFolder,
    console: Console,
    save_responses: Path | None,
) -> list[tuple[EvaluatedModel, list[SetScores]]]:
    with ExitStack() as stack, stage_progress(console) as progress:
        # What scores a set is opened when first needed.
        source = cache(partial(_source, config, stack))
        scored = []
        for model, sets in zip(models, prompts, strict=True):
            name = model.model.name
            task = progress.add_task("evaluation", total=sum(len(item.requests()) for item in sets), values=name)
            parts = run_model(
                model,
                sets,
                lambda item: source(item.set.kind),
                config,
                folder,
                progress=partial(_advance, progress, task, name),
            )
            scored.append((model.model, [score(item, parts[item.set.name]) for item in sets]))
            if save_responses is not None:
                write_responses(save_responses, [_saved(row) for part in parts.values() for row in part.rows])
        return scored


def _advance(progress: Progress, task: TaskID, model: str, prompted_set: PromptedSet, done: int) -> None:
    progress.update(task, advance=done, values=f"{model}, {prompted_set.set.name}")


def _source(config: EvaluateConfig, stack: ExitStack, kind: str) -> RewardSource | None:
    if kind == "benchmark":
        return stack.enter_context(VerifiedReward(config.reward))
    model = config.reward.model
    if model.url is not None:
        from geoalign.lab.rewards.served_model import ServedRewardModel  # httpx2 only where there is a server

        served = stack.enter_context(ServedRewardModel(model))
        served.check()
        return served
    if model.path is not None:
        device = model.device or device_and_dtype(config)[0] or "cpu"
        return stack.enter_context(RewardModelScorer.load(model.path, replace(model, device=device)))
    return None


def _saved(row: Row) -> SavedResponse:
    prompt = tuple(json.loads(row.prompt))
    return SavedResponse(row.set, row.id, row.sample, prompt, row.response, row.truncated)


# --- what is still lacking --------------------------------------------------------------------------------------------

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

    What stands in a part depends on the settings and its number alone; the model is loaded only if one is missing.
    """
    parts_by_set: dict[str, Part] = {}
    with ExitStack() as stack:
        engine: Engine | None = None
        for prompted_set in sets:
            source, parts, requests = sources(prompted_set), [], prompted_set.requests()
            for number, start in enumerate(range(0, len(requests), config.batch)):
                batch = requests[start : start + config.batch]
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
    batch: Sequence[Sample],
    source: RewardSource | None,
    config: EvaluateConfig,
) -> Part:
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
