"""verl in processes of their own, on CPUs, and the trainings that the tests look at."""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CPU = Path(__file__).parent / "cpu"
# Of one process and all that it starts; a training takes about a minute on two idle cores.
SECONDS = 600


def environment():
    """The variables under which verl runs on a CPU with our plug-in."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(CPU), os.environ.get("PYTHONPATH")])),
        "PYTHONWARNINGS": "ignore",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "VERL_PLATFORM": "cpu",
        "VERL_USE_EXTERNAL_MODULES": "verl_cpu",
        "VERL_ENGINE_VENDOR": "geoalign",
        # At INFO verl 0.9.1 fails in a line of its own log (separate_async without hybrid_engine).
        "VERL_LOGGING_LEVEL": "WARNING",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",
        "RAY_prestart_worker_first_driver": "0",
        "RAY_num_prestart_python_workers": "0",
        # A busy machine is slow to start a worker; a raylet that does not come up is a failure.
        "RAY_raylet_start_wait_time_s": "40",
        "RAY_worker_register_timeout_seconds": "600",
    }


@functools.cache
def forks():
    """The socket of the process that verl's are forked from; it ends with this one."""
    path = Path(tempfile.mkdtemp(prefix="verl_forks_"), "socket")
    command = [sys.executable, CPU / "fork_python.py", "--serve"]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen(command, env={**environment(), "GEOALIGN_FORKS": str(path)}, **streams)
    atexit.register(server.communicate)
    assert server.stdout.readline() == b"ready\n"
    return str(path)


def start(script, *arguments, folder, **variables):
    """A script of `cpu/` that runs in `folder`."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", CPU / "fork_python.py", CPU / script, *map(str, arguments)],
        env={**environment(), "GEOALIGN_FORKS": forks(), **variables},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(script, *arguments, folder, check=True, **variables):
    return finish(start(script, *arguments, folder=folder, **variables), check=check)


def finish(process, *, check=True):
    name = process.args[4:]
    try:
        output, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, errors = process.communicate()
        pytest.fail(f"{name} took more than {SECONDS} s\n{output[-2000:]}\n{errors[-6000:]}")
    if check and process.returncode:
        pytest.fail(f"{name} ended with {process.returncode}\n{output[-2000:]}\n{errors[-6000:]}")
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


EVERY_METRIC = "+geoalign.log_metrics=all"
FLAGS = [
    "+geoalign.curator.type=geoalign",
    "+geoalign.curator.alpha=0.8",
    "+geoalign.curator.min_scores=8",
    EVERY_METRIC,
]


def chained(*members):
    """A chain in verl's own configuration: members as hydra writes them."""
    return [
        "trainer.v1.trainer_mode=geoalign_sync",
        EVERY_METRIC,
        "+geoalign.curator.type=chain",
        f"+geoalign.curator.members=[{','.join(members)}]",
    ]


# Rows are replaced first; then the rewards that stand there are denoised, behind a gate that hardly closes: the mean of
# a response's states tells its letters, and with them its reward.
SYNC = [
    *chained("{type:geoalign,alpha:0.8,min_scores:8}", "{type:denoise,level:0.01}"),
    "+geoalign.hidden_position=mean",
]
# A penalty on the divergence from the reference policy: verl makes its reference pass while the driver curates.
REFERENCE = [
    "actor_rollout_ref.actor.use_kl_loss=True",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=4",
    "actor_rollout_ref.ref.fsdp_config.use_torch_compile=False",
    "+actor_rollout_ref.ref.fsdp_config.mixed_precision.param_dtype=fp32",
]
CURATED = [*SYNC, *REFERENCE, "trainer.total_training_steps=5", "trainer.save_freq=2", "trainer.rollout_data_dir=dumps"]
RESUMED = [*SYNC, *REFERENCE, "trainer.total_training_steps=3", "trainer.val_before_train=True", "trainer.test_freq=1"]
# Ends by epochs: one, of two steps.
TWO_STEPS = ["data.train_max_samples=8", "trainer.total_epochs=1", "trainer.total_training_steps=3"]
OTHERS = {
    "plain": ["trainer.v1.trainer_mode=sync", *TWO_STEPS],
    "watched": [
        "trainer.v1.trainer_mode=geoalign_sync",
        EVERY_METRIC,
        "+geoalign.monitor=true",
        "+geoalign.curator={type:denoise,component:verdict,level:0.01,unidentified:modelled}",
        "+geoalign.rollout_fields.answers=answer",
        "trainer.rollout_data_dir=watched_dumps",
        *TWO_STEPS,
    ],
    "asked": [
        *REFERENCE,
        "trainer.v1.trainer_mode=geoalign_sync",
        EVERY_METRIC,
        # Without random rows the second verifier has one call a batch.
        "+geoalign.curator={type:appeals,budget:6,random_share:0,curator:{type:denoise,geometry:none,level:0.01}}",
        "+geoalign.second_verifier=reward:second",
        *TWO_STEPS,
    ],
    "colocated": [
        "trainer.v1.trainer_mode=geoalign_colocate_async",
        "+geoalign.hidden_position=answer_start",
        "+geoalign.hidden_layer=[0.5,1.0]",
        *FLAGS,
        *TWO_STEPS,
    ],
    # One trainer of two processes, one rollout worker beside it; two mini-batches of four prompts in each step.
    "separate": [
        "trainer.v1.trainer_mode=geoalign_separate_async",
        "trainer.v1.separate_async.parameter_sync_step=2",
        "data.train_batch_size=8",
        "actor_rollout_ref.hybrid_engine=False",
        "actor_rollout_ref.rollout.nnodes=1",
        "actor_rollout_ref.rollout.n_gpus_per_node=1",
        "actor_rollout_ref.rollout.tensor_model_parallel_size=1",
        "actor_rollout_ref.rollout.checkpoint_engine.backend=file",
        "actor_rollout_ref.rollout.checkpoint_engine.custom_backend_module=verl_cpu_weights",
        f"actor_rollout_ref.rollout.agent.agent_loop_config_path={CPU}/agent_loops.yaml",
        "actor_rollout_ref.rollout.agent.default_agent_loop=in_parts",
        EVERY_METRIC,
        "+geoalign.curator.type=pods",
        "+geoalign.curator.m=4",
        "trainer.total_training_steps=2",
    ],
}


def fit(folder, name, *settings, check=True, **variables):
    log = {"VERL_FILE_LOGGER_PATH": str(folder / f"{name}.jsonl")}
    process = run("fit_cpu.py", folder, name, *settings, folder=folder, check=check, **log, **variables)
    noted = folder / f"{name}.json"
    if not noted.exists():
        pytest.fail(f"{name} ended before its training began\n{process.stderr[-6000:]}")
    return process, json.loads(noted.read_text())


def logged(folder, name):
    lines = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    return {line["step"]: line["data"] for line in lines}


def resume(folder, curated):
    """The training that goes on from the last checkpoint of `curated`, a future, once that has ended."""
    curated.result()
    return fit(folder, "resumed", *RESUMED, f"trainer.default_local_dir={folder}/curated")
