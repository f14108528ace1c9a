"""The command line: `geoalign train`, `compare`, `report`, `bench`. Heavy imports wait until a command needs them."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from geoalign import __version__
from geoalign.errors import ConfigError, GeoAlignError
from geoalign.lab.failures import report
from geoalign.lab.terminal import Console, harmless_messages, say
from geoalign.lab.text import one_line
from geoalign.settings.masking import masked

# Of whatever copy of click this typer has.
_WrongUse: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="geoalign",
    help="Geometric rollout curation for robust reinforcement learning of language models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        say(Console(), f"geoalign {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Geometric rollout curation for robust reinforcement learning of language models."""


@app.command("train")
def train_command(
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG.yaml]", help="Settings of the run.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="a.b=c", help="Override one setting; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Run folder; default: output.folder, or runs/<name>.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the run in the folder; start it where there is none.")
    ] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="The same run made small: tiny model, few rows, corrupted rewards, a CPU.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything but the weights, print the plan, train nothing.")
    ] = False,
) -> None:
    """Train one run: warm start, RL with a curator, evaluation, report.

    A folder with an unfinished run is never overwritten: add --resume to go on with it. On a finished one the report is
    rebuilt and the closing table printed. Examples:

      geoalign train configs/quickstart.yaml --output runs/quickstart

      geoalign train configs/quickstart.yaml --set curator.type=grpo --output runs/plain_grpo
    """
    from geoalign.lab.config.loading import load_run_config
    from geoalign.lab.store.run_folder import RunFolder

    from_folder = resume and config is None and not overrides and output is not None and RunFolder(output).started()
    loaded = None if from_folder else load_run_config(config, overrides or [])
    if dry_run:
        from geoalign.lab.train.dry_run import dry_run as plan

        if loaded is None:
            raise ConfigError(
                "--dry-run: expected settings, as a file or by --set, got only a started run to go on with"
            )
        given = overrides or []
        plan(loaded.config, Console(), locations=loaded.locations, config_file=config, overrides=given, output=output)
        return
    folder = output
    if folder is None and loaded is not None:
        name = config.stem if config else "default"
        folder = Path(loaded.config.output.folder or Path("runs") / (f"smoke_{name}" if smoke else name))
    assert folder is not None  # --resume without settings names its folder
    from geoalign.lab.train.smoke import check_exercised, smoke_config
    from geoalign.lab.train.train import train

    settings = loaded.config if loaded else None
    if smoke and settings is not None:
        settings = smoke_config(settings)
    try:
        train(settings, folder, resume=resume, locations=loaded.locations if loaded else None, console=Console())
        if smoke and settings is not None:
            check_exercised(settings, RunFolder(folder), Console())
    except KeyboardInterrupt:
        started = RunFolder(folder).started()
        command = _resume_command(config, [*(overrides or [])], folder) + (" --smoke" if smoke else "")
        raise _stopped(command if started else None) from None


@app.command("compare")
def compare_command(
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG.yaml]", help="Settings of the comparison.")] = None,
    curators: Annotated[
        str | None, typer.Option("--curators", metavar="A,B,...", help="Only these arms; or curators by name.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="0,1,...", help="Seeds, instead of those set.")
    ] = None,
    levels: Annotated[str | None, typer.Option("--levels", metavar="A,B,...", help="Only these levels.")] = None,
    overrides: Annotated[
        list[str] | None, typer.Option("--set", metavar="a.b=c", help="Override one setting; may be repeated.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="DIR", help="Folder; default: runs/compare, or runs/<name>.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, max=1024, help="Runs at a time; default: the machine's cores.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the comparison in the folder; start it where there is none.")
    ] = False,
) -> None:
    """Compare curators: arms x levels x seeds from one warm start, a table with confidence intervals, a report.

    Exit status 1 where a run failed: the others finish, the table says which failed and why, --resume tries it again.
    Examples:

      geoalign compare configs/compare_quickstart.yaml --output runs/compare

      geoalign compare --curators grpo,geoalign --seeds 0,1,2 --set run.grpo.max_steps=40
    """
    from geoalign.lab.compare.command import compare
    from geoalign.lab.config.compare_loading import load_compare_config, names_given, seeds_given
    from geoalign.lab.store.comparison import ComparisonFolder

    folder = output or Path("runs") / (config.stem if config else "compare")
    chosen = [given for given in (curators, seeds, levels, overrides, workers) if given is not None]
    path = ComparisonFolder(folder).config if resume and config is None and ComparisonFolder(folder).started() else None
    from_folder = path is not None and not chosen
    loaded = None
    if not from_folder:
        if workers is not None:
            overrides = [*(overrides or []), f"workers={workers}"]
        loaded = load_compare_config(
            path or config,
            overrides or [],
            arms=names_given("--curators", curators),
            levels=names_given("--levels", levels),
            seeds=seeds_given(seeds),
        )
    try:
        failed = compare(
            loaded.config if loaded else None,
            folder,
            resume=resume,
            locations=loaded.locations if loaded else None,
            console=Console(),
        )
    except KeyboardInterrupt:
        started = ComparisonFolder(folder).started()
        raise _stopped(f"geoalign compare --output {folder} --resume" if started else None) from None
    if failed:
        raise typer.Exit(1)


@app.command("serve-reward")
def serve_reward_command(
    model: Annotated[str, typer.Option("--model", metavar="ID_OR_PATH", help="Reward model: folder or hub id.")],
    host: Annotated[str, typer.Option("--host", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen at.")] = 8100,
    token_env: Annotated[
        str | None, typer.Option("--token-env", metavar="NAME", help="Environment variable with a token to ask for.")
    ] = None,
    allow_without_token: Annotated[
        bool, typer.Option("--allow-without-token", help="Let other machines in without a token.")
    ] = False,
    max_batch: Annotated[int, typer.Option("--max-batch", min=1, help="Most responses in one request.")] = 256,
    max_bytes: Annotated[int, typer.Option("--max-bytes", min=1024, help="Largest request.")] = 32 * 2**20,
    batch_size: Annotated[int, typer.Option("--batch-size", min=1, help="Responses the model takes at a time.")] = 64,
    max_length: Annotated[
        int | None, typer.Option("--max-length", min=1, help="Longest dialogue in tokens; default: what it can take.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="Default: an accelerator where there is one.")] = None,
    dtype: Annotated[str, typer.Option("--dtype", help="float32, bfloat16 or float16.")] = "float32",
    revision: Annotated[str | None, typer.Option("--revision", help="Branch, tag or commit on the hub.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that comes with the model.")
    ] = False,
) -> None:
    """Serve a reward model over HTTP, at this machine's own address unless told otherwise.

    A run uses it by reward.model.url. Example:

      geoalign serve-reward --model runs/dialogue/checkpoints/reward_model
    """
    from geoalign.lab.config.reward_model import RewardModelConfig
    from geoalign.lab.serve_reward.command import serve_reward

    settings = RewardModelConfig(
        path=model,
        revision=revision,
        trust_remote_code=trust_remote_code,
        batch_size=batch_size,
        max_length=max_length,
        device=device,
        dtype=dtype,  # type: ignore[arg-type]  # checked by the settings
    )
    serve_reward(
        settings,
        Console(),
        host=host,
        port=port,
        token_env=token_env,
        allow_without_token=allow_without_token,
        max_batch=max_batch,
        max_bytes=max_bytes,
    )


@app.command("curate")
def curate_command(
    rollouts: Annotated[
        list[str], typer.Argument(metavar="ROLLOUTS...", help="Dumps of rollouts, or folders of them; in step order.")
    ],
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="New folder for what was found.")],
    curator: Annotated[
        str | None, typer.Option("--curator", metavar="NAME", help="What scores the rollouts; default: geoalign.")
    ] = None,
    hidden: Annotated[
        list[Path] | None,
        typer.Option("--hidden", metavar="FILE|DIR", help="States by row: .safetensors, .npy, or a folder of them."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="ID_OR_PATH", help="Model that computes the hidden states.")
    ] = None,
    cache: Annotated[
        Path | None, typer.Option("--cache", metavar="DIR", help="Keep computed states there; default: in the output.")
    ] = None,
    file_format: Annotated[
        str | None, typer.Option("--format", metavar="NAME", help="geoalign, trl, trinity, verl, responses or plain.")
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="ROLE=NAME", help="Where the dumps keep a field; may be repeated."),
    ] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="a.b=c", help="A setting, such as curator.alpha=0.1; may be repeated."),
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that comes with the model.")
    ] = False,
    redact: Annotated[bool, typer.Option("--redact", help="Write no texts: no prompts, responses, answers.")] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Leave bad rows out and list them.")] = False,
    mixed_groups: Annotated[
        bool, typer.Option("--mixed-groups", help="Accept prompts with different numbers of rollouts.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier curation in DIR.")] = False,
) -> None:
    """Curate dumps of rollouts: score every one, say which rewards to mistrust and what would stand in their place.

    Reads JSONL, JSONL.gz and parquet of TRL, verl, Trinity-RFT, GeoAlign's runs and others; changes none. Examples:

      geoalign curate rollouts.jsonl --output runs/curated --model Qwen/Qwen3-1.7B

      geoalign curate dumps/ --output runs/curated --hidden states/ --set curator.scoring=cross_fit

      geoalign curate scores.jsonl --output runs/curated --curator pair_count --field reward=rm_score
    """
    from geoalign.lab.config.curate import load_curate_config

    code = ["trust_remote_code=true"] if trust_remote_code else []
    config = load_curate_config(curator, [*(overrides or []), *code])
    from geoalign.lab.curate.command import Request, curate
    from geoalign.lab.models.process_setup import silence_logs

    silence_logs()
    request = Request(
        rollouts=rollouts,
        hidden=hidden or (),
        model=model,
        cache=cache,
        format=file_format,
        fields=fields or (),
        redact=redact,
        skip_bad=skip_bad,
        mixed_groups=mixed_groups,
        overwrite=overwrite,
        command=[masked(argument) for argument in sys.argv[1:]],
    )
    try:
        curate(config, request, output, console=Console())
    except KeyboardInterrupt:
        raise _stopped(shlex.join(["geoalign", *sys.argv[1:]])) from None


@app.command("evaluate")
def evaluate_command(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL...", help="Model folders, hub ids, or run folders of `geoalign train`."),
    ],
    benchmarks: Annotated[
        list[str] | None,
        typer.Option("--benchmark", metavar="NAME=PLACE", help="A benchmark and its file or hub id; may be repeated."),
    ] = None,
    dialogues: Annotated[
        list[str] | None,
        typer.Option("--dialogue", metavar="NAME=PLACE", help="Dialogue prompts, for the judge; may be repeated."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Folder for this evaluation.")] = Path(
        "runs/evaluation"
    ),
    samples: Annotated[
        list[str] | None,
        typer.Option("--samples", metavar="N|NAME=N", help="Responses per problem; default: the benchmark's own."),
    ] = None,
    pass_at_k: Annotated[
        bool, typer.Option("--pass-at-k", help="As many responses as the paper's pass@k figure: 64, 64, 32.")
    ] = False,
    temperature: Annotated[float | None, typer.Option("--temperature", help="Of the sampling; default: 1.")] = None,
    greedy: Annotated[bool, typer.Option("--greedy", help="The likeliest token each time; one response.")] = False,
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", help="Longest response; default: 8192, dialogues 1024.")
    ] = None,
    checkpoints: Annotated[
        bool, typer.Option("--checkpoints", help="Of a run every kept checkpoint: last-five average and EMA.")
    ] = False,
    save_responses: Annotated[
        Path | None, typer.Option("--save-responses", metavar="FILE", help="Also write .jsonl[.gz] for the judge.")
    ] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run the Python code that comes with the models.")
    ] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="a.b=c", help="Another setting, such as engine=vllm; may be repeated."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the evaluation in the folder; start it where there is none.")
    ] = False,
) -> None:
    """Evaluate models: accuracy, avg@k and pass@k on benchmarks, responses to dialogues for the judge.

    Every response is kept; after a stop --resume makes the missing ones and comes to the same rows. Examples:

      geoalign evaluate runs/math --benchmark aime24=aime24.jsonl --benchmark math500=HuggingFaceH4/MATH-500@test

      geoalign evaluate Qwen/Qwen3-1.7B --benchmark aime24=aime24.jsonl --pass-at-k --set engine=vllm
    """
    from geoalign.lab.config.evaluate import load_evaluate_config, parse_samples

    if greedy and temperature is not None:
        raise ConfigError(f"--greedy: expected without --temperature, got --temperature {temperature}")
    given = {
        "samples": parse_samples(samples or []),
        "pass_at_k": pass_at_k or None,
        "temperature": 0.0 if greedy else temperature,
        "max_new_tokens": max_new_tokens,
        "trust_remote_code": trust_remote_code or None,
    }
    config = load_evaluate_config({name: value for name, value in given.items() if value is not None}, overrides or [])
    from geoalign.lab.evaluate.command import evaluate

    try:
        evaluate(
            models,
            benchmarks or [],
            dialogues or [],
            config,
            output,
            checkpoints=checkpoints,
            resume=resume,
            save_responses=save_responses,
            console=Console(),
        )
    except KeyboardInterrupt:
        again = [] if resume else ["--resume"]
        raise _stopped(shlex.join(["geoalign", *sys.argv[1:], *again])) from None


@app.command("judge")
def judge_command(
    a: Annotated[
        Path, typer.Argument(metavar="A", help="Responses, as `geoalign evaluate --save-responses` writes them.")
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="Responses to the same prompts.")],
    output: Annotated[Path, typer.Option("--output", metavar="DIR", help="Folder for this judging; gone on with.")],
    base_url: Annotated[
        str | None, typer.Option("--base-url", metavar="URL", help="OpenAI-compatible endpoint: https://host/v1.")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="The judge's name there.")] = None,
    local: Annotated[
        bool, typer.Option("--local", help="Judge by simple rules, without an endpoint: to try the command.")
    ] = False,
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="a=b", help="A setting of the judge, such as temperature=1; may be repeated."),
    ] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Leave out responses that only one file has.")
    ] = False,
) -> None:
    """Judge the responses of A against those of B, pair by pair in both orders: win, lose and tie rates, scores.

    Run again on the same folder it goes on; nothing is asked twice. The key comes from OPENAI_API_KEY, or from the
    variable that --set token_env=NAME names. Exit status 1 where the judge gave no answer for a pair. Examples:

      geoalign judge ours.jsonl base.jsonl --output runs/judge --base-url http://localhost:8000/v1 --model Qwen3-32B

      geoalign judge ours.jsonl base.jsonl --output runs/judge_local --local
    """
    from geoalign.lab.config.judge import load_judge_config
    from geoalign.lab.judge.command import judge

    config = load_judge_config(base_url, model, overrides or [], local=local)
    try:
        result = judge(a, b, config, output, allow_missing=allow_missing, console=Console())
    except KeyboardInterrupt:
        raise _stopped(shlex.join(["geoalign", *sys.argv[1:]])) from None
    if result.overall.failed:
        raise typer.Exit(1)


@app.command("report")
def report_command(
    runs: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Run folders, or folders of comparisons.")],
    compact: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a comparison's results there, as one small file to commit or send."),
    ] = None,
) -> None:
    """Rebuild the report and figures of run folders; of comparisons, also the table, from the results there are."""
    from geoalign.lab.reports import build_report
    from geoalign.lab.store.comparison import ComparisonFolder

    if compact is not None:
        from geoalign.lab.reports.comparison.compact import compact_comparison

        if len(runs) != 1:
            raise typer.BadParameter("--compact takes the folder of one comparison")
        Console().print(compact_comparison(runs[0], compact), highlight=False, soft_wrap=True)
        return
    for run in runs:
        folder = ComparisonFolder(run)
        if folder.started():
            from geoalign.lab.compare.table import conclude

            conclude(folder, Console())
        else:
            say(Console(), build_report(run, _left_out))


@app.command("watch")
def watch_command(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A run's folder, or a comparison's.")],
    once: Annotated[bool, typer.Option("--once", help="Show what there is now, and end.")] = False,
    follow: Annotated[bool, typer.Option("--follow", help="Stay when the run is finished.")] = False,
    interval: Annotated[float, typer.Option("--interval", min=0.1, max=3600, help="Seconds between looks.")] = 1.0,
) -> None:
    """Watch a running training or comparison from another terminal; it only reads, and ends with the run.

    Where the output is no terminal, it prints a line a step. Example:

      geoalign watch runs/quickstart
    """
    from contextlib import suppress

    from geoalign.lab.watch.command import watch

    with suppress(KeyboardInterrupt):  # the way to leave
        watch(folder, Console(), once=once, follow=follow, interval=interval)


@app.command("bench")
def bench_command(
    shapes: Annotated[
        list[str] | None, typer.Option("--shape", metavar="GROUPSxKxHIDDEN", help="A shape; may be repeated.")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=1000, help="Calls per figure; the median is shown.")] = 3,
    naive: Annotated[bool, typer.Option(help="Also time the naive form of the same mathematics.")] = True,
    quality: Annotated[bool, typer.Option(help="Also compare stepping over some groups with all groups.")] = True,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write the figures here.")
    ] = None,
    detection: Annotated[
        bool, typer.Option("--detection", help="Measure how well corrupted rewards are found instead.")
    ] = False,
    batches: Annotated[
        list[Path] | None,
        typer.Option("--batch", metavar="FILE", help="With --detection: a saved batch; may be repeated."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="With --detection: synthetic batches of each kind.")] = 5,
    corruption: Annotated[
        float, typer.Option(min=0, max=1, help="With --detection: share of the synthetic rewards that is corrupted.")
    ] = 0.1,
) -> None:
    """Measure time and memory of curation on this machine, by shape, against a naive form in the same run.

    With --detection: AUROC and average precision of every score and control for corrupted rewards, on synthetic states
    (128 and 2048 columns, isotropic and compressible, binary and continuous rewards) or on saved batches.
    """
    from geoalign.lab.bench.command import bench, bench_detection

    if detection:
        bench_detection(Console(), batches or (), seeds=seeds, corruption=corruption, json_file=json_file)
        return
    bench(Console(), shapes, repeats=repeats, naive=naive, quality=quality, device=device, json_file=json_file)


def _left_out(note: str) -> None:
    say(Console(stderr=True), f"Left out: {note}")


def _stopped(command: str | None) -> typer.Exit:
    """Says how to go on after Ctrl-C, and returns the exit that the shell expects of it."""
    hint = f"Go on with: {command}" if command else "Nothing was trained yet."
    console = Console(stderr=True)
    console.print()
    say(console, masked(f"Stopped. {hint}"))
    return typer.Exit(130)


def _resume_command(config: Path | None, overrides: list[str] | None, folder: Path) -> str:
    parts = ["geoalign", "train", *([str(config)] if config else [])]
    for override in overrides or []:
        parts += ["--set", override]
    return shlex.join([*parts, "--output", str(folder), "--resume"])


def main() -> None:
    """Runs the command line and exits: what goes wrong is one line of error, or of a bug the traceback.

    Exit codes: 2 where the user or the machine is at fault, 1 for a bug (or what a command says of it), 130 after
    Ctrl-C. Of several processes of one run the first speaks: they find the same errors.
    """
    with harmless_messages():
        code = _run(sys.argv[1:])
    _let_go_of_output()
    sys.exit(code)


def _run(arguments: list[str]) -> int:
    console = Console(stderr=True)
    try:
        # Not `app()`, which would swallow Ctrl-C, a closed standard input and broken pipes with a word or none.
        with typer.main.get_command(app).make_context("geoalign", list(arguments)) as context:
            context.command.invoke(context)
    except typer.Exit as stop:
        return int(stop.exit_code)
    except _WrongUse as error:
        return _wrong_use(error, console)
    except (KeyboardInterrupt, typer.Abort):
        say(console, f"Stopped: {_command(arguments)}")
        return 130
    except EOFError:
        say(console, f"Error: {_command(arguments)} asked for input, but the standard input is closed", "red")
        return 2
    except Exception as error:  # the boundary of the process
        if isinstance(error, GeoAlignError) and os.environ.get("RANK", "0") != "0":
            return 2
        return report(error, console)
    return 0


def _wrong_use(error: Any, console: Console) -> int:
    """Tells what is wrong with the options or arguments; of none at all shows the help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return int(error.exit_code)
    hint = f" (see {error.ctx.command_path} --help)" if getattr(error, "ctx", None) else ""
    report(ConfigError(f"{error.format_message().rstrip('.')}{hint}"), console)
    return int(error.exit_code)


def _command(arguments: list[str]) -> str:
    return one_line(masked(shlex.join(["geoalign", *arguments])), 400)


def _let_go_of_output() -> None:
    """Keeps Python from complaining at its end about output that nobody takes any more."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    main()
