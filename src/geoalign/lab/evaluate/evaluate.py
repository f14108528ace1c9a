"""`geoalign evaluate`: models, checkpoints or runs on benchmarks and dialogues, a folder with the results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress, TaskID

from geoalign.answers.reward_source import RewardSource, check_scored, reasons, reasons_since
from geoalign.answers.verified import VerifiedReward
from geoalign.console.terminal import Console, say, say_paragraph, stage_progress
from geoalign.dumps.response_files import SavedResponse, check_response_file, write_responses
from geoalign.errors import ConfigError
from geoalign.files.columns import whole_text
from geoalign.files.durable import locked
from geoalign.lab.evaluate.command import EvaluateRequest
from geoalign.lab.evaluate.evaluated_models import Described, EvaluatedModel, describe, device_and_dtype, open_engine
from geoalign.lab.evaluate.find_models import find_models, free_name
from geoalign.lab.evaluate.folder import EvaluationFolder, Part, Recorded, Row, messages_json, read_part, write_part
from geoalign.lab.evaluate.results import EvaluationScores, print_scores, result_json, scores_of
from geoalign.lab.evaluate.scores import SetScores, score
from geoalign.lab.evaluate.sets import EvaluationSet, PromptedSet, load_sets, prompted
from geoalign.lab.evaluate.settings import EvaluateConfig
from geoalign.lab.models.answering import Answer, Sample, Sampling, answer
from geoalign.lab.models.engines import Engine
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
    config = _with_recorded_dtype(config, recorded)
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
    described = as_recorded([describe(model) for model in models], {} if recorded is None else recorded.models)
    prompts = [_prompted(model, sets, config) for model in described]
    identity = identity_of(described, sets, config)
    with locked(folder.root):
        whole = folder.begin(identity, asked=_numbers(described, prompts), resume=request.resume)
        scores = scores_of(_scored(described, prompts, config, folder, console, request.save_responses))
        folder.write_result(result_settings(identity, sets, config), package_versions(), result_json(scores))
    print_scores(console, scores)
    for line in _other_rows(identity, whole):
        say_paragraph(console, line)
    if not config.reward.model.ready and any(evaluated.kind == "dialogue" for evaluated in sets):
        say_paragraph(console, "Dialogues were not scored: --set reward.model.path (or url) names a reward model")
    say(console, f"Written to {folder.root}")
    return scores


def _with_recorded_dtype(config: EvaluateConfig, recorded: Recorded | None) -> EvaluateConfig:
    """The settings with the folder's type of weights in place of `auto`: it follows the CPU, and another machine
    could have another one."""
    if recorded is None or config.dtype != "auto" or recorded.settings.get("engine") != config.engine:
        return config
    return replace(config, dtype=recorded.settings["dtype"])


def _numbers(models: Sequence[Described], prompts: Sequence[Sequence[PromptedSet]]) -> dict[str, dict[str, int]]:
    """How many responses each model is asked for, set by set."""
    return {
        model.model.name: {prompted_set.set.name: len(prompted_set.requests()) for prompted_set in sets}
        for model, sets in zip(models, prompts, strict=True)
    }


def _other_rows(asked_for: Recorded, whole: Recorded) -> list[str]:
    """Lines on models and sets whose rows lie in the folder, but which this command did not name."""
    lines = []
    for what, mine, every in (("model", asked_for.models, whole.models), ("set", asked_for.sets, whole.sets)):
        others = [name for name in every if name not in mine]
        if others:
            lines.append(
                f"Not in these results: {what} {listed(others)}, of an earlier command. Its rows are kept; name it "
                "again to have it here."
            )
    return lines


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
        return stack.enter_context(VerifiedReward(timeout=config.reward.timeout, workers=config.reward.workers))
    model = config.reward.model
    if model.url is not None:
        from geoalign.lab.rewards.served_model import ServedRewardModel  # openai only where there is a server

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

Sources = Callable[[PromptedSet], RewardSource | None]


def run_model(
    model: Described,
    sets: Sequence[PromptedSet],
    sources: Sources,
    config: EvaluateConfig,
    folder: EvaluationFolder,
    progress: Callable[[PromptedSet, int], None],
) -> dict[str, Part]:
    """The rows of a model that were asked for, by set; rows that are there are read, the others are made.

    What a response draws depends on the seed, its set, problem and number alone. The model is loaded only if a row is
    missing.
    """
    parts_by_set: dict[str, Part] = {}
    with ExitStack() as stack:
        engine: Engine | None = None
        for prompted_set in sets:
            name = prompted_set.set.name
            source = sources(prompted_set)
            requests = prompted_set.requests()
            parts = [read_part(path) for path in folder.parts(model.model.name, name)]
            there = {row_key(row) for part in parts for row in part.rows}
            missing = [request for request in requests if request_key(request) not in there]
            progress(prompted_set, len(requests) - len(missing))
            for start in range(0, len(missing), config.batch):
                batch = missing[start : start + config.batch]
                if engine is None:
                    engine = stack.enter_context(open_engine(model.model, model.tokenizer, config))
                part = make_part(engine, model, prompted_set, batch, source, config)
                write_part(folder.next_part(model.model.name, name), part)
                parts.append(part)
                progress(prompted_set, len(batch))
            parts_by_set[name] = asked_rows(parts, requests)
    return parts_by_set


# The id of a problem, and the number of a response to it.
RowKey = tuple[str, int]


def row_key(row: Row) -> RowKey:
    return row.id, row.sample


def request_key(request: Sample) -> RowKey:
    prompt, sample = request
    return whole_text(prompt.problem.id), sample


def asked_rows(parts: Sequence[Part], requests: Sequence[Sample]) -> Part:
    """The rows of these requests, in their order, out of parts that may hold further ones.

    Reasons are counted by part, not by row: the counts are those of the parts of which every row was asked for.
    """
    keys = [request_key(request) for request in requests]
    wanted = set(keys)
    rows: dict[RowKey, Row] = {}
    counts: Counter[str] = Counter()
    for part in parts:
        rows.update({row_key(row): row for row in part.rows})
        if all(row_key(row) in wanted for row in part.rows):
            counts.update(part.counts)
    return Part(tuple(rows[key] for key in keys), dict(counts))


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
            f"{prompted_set.set.max_new_tokens} tokens: go on with --resume and a smaller one, such as "
            f"--set batch_size={max(1, len(batch) // 2)}; the responses that are there are kept ({error})"
        ) from error
    counts = {"not_text": sum(scored.response != scored.generated.text for scored in answers)}
    if source is not None:
        since = reasons_since(source, before)
        rewards = [scored.reward for scored in answers if scored.reward is not None]
        check_scored(rewards, config.reward.max_unscored, why=since, what=f"a batch of {prompted_set.set.name}")
        counts |= since
    return Part(tuple(_row(model, prompted_set, scored) for scored in answers), counts)


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


def identity_of(models: Sequence[Described], sets: Sequence[EvaluationSet], config: EvaluateConfig) -> Recorded:
    """What the rows of an evaluation depend on: where files lie, how many responses are asked for and how many are
    generated at a time is left out."""
    device, dtype = device_and_dtype(config)
    settings = {
        "temperature": config.temperature,
        "seed": config.seed,
        "engine": config.engine,
        "dtype": dtype,
        "device_type": None if device is None else device.partition(":")[0],
        "vllm": {name: value for name, value in config.vllm.items() if name not in _RESOURCES_OF_VLLM},
    }
    return Recorded(
        settings=settings,
        models={model.model.name: _model_identity(model) for model in models},
        sets={evaluated.name: _set_identity(evaluated, config) for evaluated in sets},
    )


def _model_identity(model: Described) -> dict[str, Any]:
    return {
        "fingerprint": model.fingerprint,
        "chat_template_kwargs": dict(model.model.template_options),
        "trust_remote_code": model.model.trust_remote_code,
    }


def _set_identity(evaluated: EvaluationSet, config: EvaluateConfig) -> dict[str, Any]:
    """What the rows of one set depend on; settings that are of no effect on sets of its kind are left out."""
    shared = {"kind": evaluated.kind, "max_new_tokens": evaluated.max_new_tokens, "digest": evaluated.digest()}
    if evaluated.kind == "benchmark":
        return {"system_prompt": config.system_prompt, **shared, "reward": {"timeout": config.reward.timeout}}
    # Retries, and the device that scores, change no reward.
    of_model = ("path", "revision", "url", "api", "dtype", "max_length")
    scored_by = {name: getattr(config.reward.model, name) for name in of_model}
    return {**shared, "reward": {"model": scored_by}}


def result_settings(identity: Recorded, sets: Sequence[EvaluationSet], config: EvaluateConfig) -> dict[str, Any]:
    """The settings as the results hold them: what the rows depend on, and how many of them were asked for."""
    sets_by_name = {
        evaluated.name: {
            **identity.sets[evaluated.name],
            "problems": len(evaluated.problems),
            "samples": evaluated.samples,
        }
        for evaluated in sets
    }
    return {
        **identity.settings,
        "batch_size": config.batch,
        "max_prompt_tokens": config.max_prompt_tokens,
        "models": dict(identity.models),
        "sets": sets_by_name,
    }


def as_recorded(models: Sequence[Described], recorded: Mapping[str, Mapping[str, Any]]) -> list[Described]:
    """The models under the names that they have in the folder, whatever order this command names them in.

    A model is known by its fingerprint. One that is new takes a free name where its own belongs to another model of
    this command; where it belongs to a model that this command does not name, it keeps the name, and is refused: most
    likely its weights have changed.
    """
    own = [model.model.name for model in models]
    names: dict[int, str] = {}
    for number, model in enumerate(models):
        same = [
            name
            for name, entry in recorded.items()
            if entry["fingerprint"] == model.fingerprint and name not in names.values()
        ]
        if own[number] in same:
            names[number] = own[number]
        elif same:
            names[number] = same[0]
    for number, name in enumerate(own):
        if number in names:
            continue
        taken = list(names.values())
        if name in taken:
            taken += recorded
        # The same folder on some file systems.
        taken += [other for other in recorded if other != name and other.casefold() == name.casefold()]
        names[number] = free_name(name, taken)
    return [replace(model, model=replace(model.model, name=names[number])) for number, model in enumerate(models)]
