"""`geoalign evaluate`: models, checkpoints or runs on benchmarks and dialogues, a folder with what came out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from rich.progress import Progress, TaskID

from geoalign.errors import ConfigError, MissingExtraError
from geoalign.lab.config.evaluate import EvaluateConfig
from geoalign.lab.config.requests import EvaluateRequest
from geoalign.lab.evaluate.models import find_models
from geoalign.lab.evaluation.responses import SavedResponse, check_response_file, write_responses
from geoalign.lab.evaluation.results import EvaluationScores, ModelScores, print_scores, result_json, scores_of
from geoalign.lab.evaluation.running import identity_of, run_model
from geoalign.lab.evaluation.scores import SetScores, score
from geoalign.lab.evaluation.sets import EvaluationSet, PromptedSet, load_sets, prompted
from geoalign.lab.generation.models import Described, EvaluatedModel, describe, device_and_dtype
from geoalign.lab.models.fastest_dtype import print_fastest_dtype
from geoalign.lab.models.process_setup import silence_logs
from geoalign.lab.rewards.base import RewardSource
from geoalign.lab.rewards.reward_model import RewardModelScorer
from geoalign.lab.rewards.verified import VerifiedReward
from geoalign.lab.store.evaluation import EvaluationFolder, Row
from geoalign.lab.store.files import locked
from geoalign.lab.store.run_folder import package_versions
from geoalign.lab.terminal import Console, say, stage_progress


def evaluate(config: EvaluateConfig, request: EvaluateRequest, *, console: Console | None = None) -> EvaluationScores:
    """Evaluates models on sets, and writes rows, numbers and figures into a folder.

    Called again with `resume` it makes the missing rows; they are those of an undisturbed evaluation.

    Raises:
        ConfigError: a model, set, device or reward model that is not there, a wrong setting, or a folder of another
            evaluation; the message names the first key that differs.
        InputError: a file or data set that is no such set, or no prompt that a model takes.
        RunFolderError: the folder holds other files, is broken or in use, or `resume` is missing.
        UnscoredError: the reward model scores too little; what came before is kept.
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
        drawn = _figures(scores, folder)
    print_scores(console, scores)
    if not config.reward.model.ready and any(evaluated.kind == "dialogue" for evaluated in sets):
        say(console, "Dialogues were not scored: --set reward.model.path (or url) names a reward model")
    for line in (drawn, f"Written to {folder.root}"):
        say(console, line)
    return scores


def _print_notes(console: Console, sets: Sequence[EvaluationSet]) -> None:
    for evaluated in sets:
        what = "problems" if evaluated.kind == "benchmark" else "prompts"
        often = "one response" if evaluated.samples == 1 else f"{evaluated.samples} responses"
        for line in (f"{evaluated.name}: {len(evaluated.problems)} {what}, {often} to each", *evaluated.notes):
            say(console, line)


def _prompted(model: Described, sets: Sequence[EvaluationSet], config: EvaluateConfig) -> list[PromptedSet]:
    limits = [limit for limit in (model.longest, config.vllm.get("max_model_len")) if isinstance(limit, int)]
    return [
        prompted(
            evaluated,
            model.tokenizer,
            model.model.template_options,
            longest=min(limits, default=None),
            max_prompt_tokens=config.max_prompt_tokens,
        )
        for evaluated in sets
    ]


def _scored(
    models: Sequence[Described],
    prompts: Sequence[Sequence[PromptedSet]],
    config: EvaluateConfig,
    folder: EvaluationFolder,
    console: Console,
    save_responses: Path | None,
) -> list[tuple[EvaluatedModel, list[SetScores]]]:
    """The scores of each model, whose rows are kept in memory no longer than that takes."""
    with ExitStack() as stack, stage_progress(console) as progress:
        # What scores a set is opened when first needed.
        source = cache(lambda kind: _verified(config, stack) if kind == "benchmark" else _reward_model(config, stack))
        scored = []
        for model, sets in zip(models, prompts, strict=True):
            name = model.model.name
            task = progress.add_task("evaluation", total=sum(len(item.slots()) for item in sets), values=name)
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


def _verified(config: EvaluateConfig, stack: ExitStack) -> RewardSource:
    return stack.enter_context(VerifiedReward(config.reward))


def _reward_model(config: EvaluateConfig, stack: ExitStack) -> RewardSource | None:
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


def _figures(scores: EvaluationScores, folder: EvaluationFolder) -> str:
    """Draws pass@k of every benchmark with several responses to a problem, and every curve over checkpoints."""
    try:
        from geoalign.lab.reports.benchmarks import Gallery, Line, checkpoint_panel, pass_at_k_panel
    except MissingExtraError as error:
        return f"No figures: {error}"
    panels, models = [], _last_ones(scores.models)
    for number, scored in enumerate(scores.models[0].sets):
        if len(scored.pass_at_k) > 1:
            lines = []
            for model in models:
                passed = model.sets[number].pass_at_k
                y, low, high = ([getattr(at, of) for at in passed.values()] for of in ("estimate", "low", "high"))
                lines.append(Line(model.model.name, list(passed), y, low, high))
            panels.append(pass_at_k_panel(scored.name, lines))
    rewards = {scored.name for scored in scores.models[0].sets if scored.kind == "dialogue"}
    for series, curves in scores.curves.items():
        for name, curve in curves.items():
            line = Line(name, curve.steps, curve.values, smooth=curve.smoothed)
            panels.append(checkpoint_panel(series, name, "mean reward" if name in rewards else "accuracy", line))
    if not panels:
        return "No figures: they need several samples or checkpoints"
    Gallery(folder.figures).section("figures", "", panels)
    return f"{len(panels)} figures in {folder.figures}"


def _last_ones(models: Sequence[ModelScores]) -> list[ModelScores]:
    """Of the checkpoints of one run the last; they would hide each other."""
    last = {scored.model.series: scored for scored in models}
    return [scored for scored in models if scored.model.series is None or last[scored.model.series] is scored]


def _saved(row: Row) -> SavedResponse:
    prompt = tuple(json.loads(row.prompt))
    return SavedResponse(row.set, row.id, row.sample, prompt, row.response, row.truncated)
