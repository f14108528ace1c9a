"""`geoalign evaluate`: models, checkpoints or runs on benchmarks and dialogues, a folder with the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from rich.progress import Progress

from geoalign.answers.reward_source import RewardSource
from geoalign.answers.verified import VerifiedReward
from geoalign.console.terminal import Console, say, say_paragraph, stage_progress
from geoalign.dumps.response_files import SavedResponse, check_response_file, write_responses
from geoalign.errors import ConfigError
from geoalign.files.durable import locked
from geoalign.lab.data.task import EvaluationSet
from geoalign.lab.evaluate.command import EvaluateRequest
from geoalign.lab.evaluate.evaluated_models import DescribedModel, describe, device_and_dtype, find_models, open_engine
from geoalign.lab.evaluate.folder import EvaluationFolder, Recorded
from geoalign.lab.evaluate.results import print_scores, result_json
from geoalign.lab.evaluate.scores import EvaluationScores, ModelScores, average, evaluation_scores, score
from geoalign.lab.evaluate.sets import PromptedSet, load_sets, prompted_set
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.answering import ResponseRequest, Sampling, answer, check_rows_scored
from geoalign.lab.models.engines import Engine
from geoalign.lab.models.rows import ResponseRow
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.runs.resuming import package_versions
from geoalign.pretrained.fastest_dtype import print_fastest_dtype
from geoalign.pretrained.quiet import silence_logs
from geoalign.text import listed


def evaluate(config: EvaluateConfig, request: EvaluateRequest, *, console: Console | None = None) -> EvaluationScores:
    """Evaluates models on sets, and writes rows and numbers into a folder.

    Called again with `resume` it makes the rows that are missing: after a kill, for more samples or problems, for
    further sets and models, with any batch size. A response is the same whatever was generated before it or beside it.
    """
    console = console or Console()
    silence_logs()
    folder = EvaluationFolder(request.output)
    recorded = folder.recorded()
    if recorded is not None and config.dtype == "auto" and recorded.settings["engine"] == config.engine:
        # What `auto` means may differ from one machine to the next.
        config = replace(config, dtype=recorded.settings["dtype"])
    found = find_models(request.models, config, checkpoints=request.checkpoints)
    if request.save_responses is not None:
        check_response_file(request.save_responses)
        if len(found) > 1:
            raise ConfigError(
                f"--save-responses: expected one model, got {len(found)}: a file holds the responses of one"
            )
    sets, notes = load_sets(request.benchmarks, request.dialogues, config)
    for note in notes:
        say(console, note)
    device, _ = device_and_dtype(config)
    if device is not None and config.dtype == "auto":
        print_fastest_dtype(console, device)
    models = [describe(model) for model in found]
    prompts = {described.model.name: _prompted_sets(described, sets, config) for described in models}
    now = recorded_of(models, sets, prompts, config)

    with locked(folder.root):
        whole = folder.begin(now, sets, resume=request.resume)
        scores = _evaluate_models(models, prompts, config, request, folder, console)
        settings = {**now.settings, "models": now.models, "sets": now.sets}
        folder.write_result(settings, package_versions(), result_json(scores))

    print_scores(console, scores)
    others = [name for name in whole.models if name not in now.models]
    others += [name for name in whole.sets if name not in now.sets]
    if others:
        say_paragraph(
            console,
            f"Not in these results, but kept in the folder: the rows of {listed(others)}, which an earlier command "
            "named. Name them again to have them here.",
        )
    if not config.reward.model.ready and any(one.kind == "dialogue" for one in sets):
        say_paragraph(console, "Dialogues were not scored: --set reward.model.path (or url) names a reward model")
    say(console, f"Written to {folder.root}")
    return scores


def _prompted_sets(
    described: DescribedModel, sets: Sequence[EvaluationSet], config: EvaluateConfig
) -> list[PromptedSet]:
    """The sets as a model reads them, in as many tokens as it takes and vLLM is told to."""
    limits = [described.longest, config.vllm.get("max_model_len")]
    longest = min((limit for limit in limits if isinstance(limit, int)), default=None)
    return [
        prompted_set(
            evaluation_set,
            described.tokenizer,
            described.model.template_options,
            longest=longest,
        )
        for evaluation_set in sets
    ]


# --- generating what is missing ---------------------------------------------------------------------------------------


def _evaluate_models(
    models: Sequence[DescribedModel],
    prompts: dict[str, list[PromptedSet]],
    config: EvaluateConfig,
    request: EvaluateRequest,
    folder: EvaluationFolder,
    console: Console,
) -> EvaluationScores:
    """The scores of all models; rows that are missing are made on the way, `--save-responses` is written."""
    scored = []
    with ExitStack() as stack, stage_progress(console) as progress:
        # What scores a kind of set is opened when first needed.
        source_of_kind = cache(partial(_open_source, config, stack))
        for described in models:
            prompted_sets = prompts[described.model.name]
            rows_by_set = evaluate_model(described, prompted_sets, source_of_kind, config, folder, progress)
            sets = tuple(score(one, rows_by_set[one.set.name]) for one in prompted_sets)
            scored.append(ModelScores(described.model, sets, average(sets)))
            if request.save_responses is not None:
                rows = [row for of_set in rows_by_set.values() for row in of_set]
                write_responses(request.save_responses, map(_saved_response, rows))
    return evaluation_scores(scored)


def _open_source(config: EvaluateConfig, stack: ExitStack, kind: str) -> RewardSource | None:
    """What scores sets of a kind, closed by the stack; None for dialogues without a reward model."""
    if kind == "benchmark":
        return stack.enter_context(VerifiedReward(timeout=config.reward.timeout, workers=config.reward.workers))
    model = config.reward.model
    if model.url is not None:
        from geoalign.lab.rewards.served_model import ServedRewardModel  # only where there is a server

        served = stack.enter_context(ServedRewardModel(model))
        served.check()
        return served
    if model.path is not None:
        device = model.device or device_and_dtype(config)[0] or "cpu"
        return stack.enter_context(RewardModelScorer.load(model.path, replace(model, device=device)))
    return None


def _saved_response(row: ResponseRow) -> SavedResponse:
    return SavedResponse(
        set=row.set,
        id=row.id,
        sample=row.sample,
        prompt=tuple(json.loads(row.prompt)),
        response=row.response,
        truncated=row.truncated,
    )


def evaluate_model(
    described: DescribedModel,
    prompted_sets: Sequence[PromptedSet],
    source_of_kind: Callable[[str], RewardSource | None],
    config: EvaluateConfig,
    folder: EvaluationFolder,
    progress: Progress,
) -> dict[str, list[ResponseRow]]:
    """The rows of a model that were asked for, by set; rows that are there are read, the others are made and added.

    What a response draws depends on the seed, its set, problem and number alone. The model is loaded only if a row is
    missing.

    Args:
        source_of_kind: gives what scores the sets of a kind; None: nothing does.
    """
    model = described.model.name
    task = progress.add_task("evaluation", total=sum(len(one.requests) for one in prompted_sets), values=model)
    rows = {(row.set, row.id, row.sample): row for row in folder.rows_of(model)}
    rows_by_set: dict[str, list[ResponseRow]] = {}
    with ExitStack() as stack:
        engine: Engine | None = None
        for prompted_set in prompted_sets:
            name = prompted_set.set.name
            keys = [(name, request.problem.id, request.sample) for request in prompted_set.requests]
            missing = [request for request, key in zip(prompted_set.requests, keys, strict=True) if key not in rows]
            progress.update(task, advance=len(keys) - len(missing), values=f"{model}, {name}")
            for start in range(0, len(missing), config.batch):
                batch = missing[start : start + config.batch]
                if engine is None:
                    engine = stack.enter_context(open_engine(described, config))
                source = source_of_kind(prompted_set.set.kind)
                new = answer_batch(engine, model, prompted_set.set, batch, source, config)
                folder.add(new)
                rows |= {(row.set, row.id, row.sample): row for row in new}
                progress.update(task, advance=len(batch))
            rows_by_set[name] = [rows[key] for key in keys]
    return rows_by_set


def answer_batch(
    engine: Engine,
    model: str,
    evaluation_set: EvaluationSet,
    batch: Sequence[ResponseRequest],
    source: RewardSource | None,
    config: EvaluateConfig,
) -> list[ResponseRow]:
    """Generates and scores a batch of responses; UnscoredError where too many of them could not be scored."""
    try:
        rows = answer(
            engine,
            batch,
            source,
            model=model,
            evaluation_set=evaluation_set,
            sampling=Sampling(seed=config.seed, stream=evaluation_set.name, temperature=config.temperature),
        )
    except torch.OutOfMemoryError as error:
        raise ConfigError(
            f"batch_size: expected as many responses as fit into memory, got {len(batch)} of up to "
            f"{evaluation_set.max_new_tokens} tokens: go on with --resume and a smaller one, such as "
            f"--set batch_size={max(1, len(batch) // 2)}; the responses that are there are kept ({error})"
        ) from error
    check_rows_scored(rows, config.reward.max_unscored)
    return rows


# --- what the rows depend on ------------------------------------------------------------------------------------------

# Arguments of vLLM's LLM that say how much memory and how many devices it takes: like the batch size, they change no
# response but by rounding.
_RESOURCES_OF_VLLM = frozenset(
    {
        "block_size", "cpu_offload_gb", "data_parallel_size", "disable_custom_all_reduce", "disable_log_stats",
        "distributed_executor_backend", "enable_chunked_prefill", "enable_prefix_caching", "enforce_eager",
        "gpu_memory_utilization", "kv_cache_memory_bytes", "load_format", "max_model_len", "max_num_batched_tokens",
        "max_num_seqs", "max_parallel_loading_workers", "pipeline_parallel_size", "swap_space", "tensor_parallel_size",
    }
)  # fmt: skip


def recorded_of(
    models: Sequence[DescribedModel],
    sets: Sequence[EvaluationSet],
    prompts: dict[str, list[PromptedSet]],
    config: EvaluateConfig,
) -> Recorded:
    """What the rows of an evaluation depend on, and how many are asked for.

    Where files lie and how many responses are generated at a time is left out.
    """
    device, dtype = device_and_dtype(config)
    return Recorded(
        settings={
            "temperature": config.temperature,
            "seed": config.seed,
            "engine": config.engine,
            "dtype": dtype,
            "device_type": None if device is None else device.partition(":")[0],
            "vllm": {name: value for name, value in config.vllm.items() if name not in _RESOURCES_OF_VLLM},
        },
        models={
            described.model.name: {
                "fingerprint": described.fingerprint,
                "chat_template_kwargs": dict(described.model.template_options),
                "trust_remote_code": described.model.trust_remote_code,
            }
            for described in models
        },
        sets={one.name: _settings_of_set(one, config) for one in sets},
        asked={model: {one.set.name: len(one.requests) for one in of_model} for model, of_model in prompts.items()},
    )


def _settings_of_set(evaluation_set: EvaluationSet, config: EvaluateConfig) -> dict[str, Any]:
    """What the rows of a set depend on; settings that are of no effect on sets of its kind are left out."""
    shared = {"kind": evaluation_set.kind, "max_new_tokens": evaluation_set.max_new_tokens}
    if evaluation_set.kind == "benchmark":
        return {**shared, "system_prompt": config.system_prompt, "reward": {"timeout": config.reward.timeout}}
    # Retries, and the device that scores, change no reward.
    model = config.reward.model
    scored_by = {
        "path": model.path,
        "revision": model.revision,
        "url": model.url,
        "api": model.api,
        "dtype": model.dtype,
        "max_length": model.max_length,
    }
    return {**shared, "reward": {"model": scored_by}}
