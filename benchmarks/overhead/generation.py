"""vLLM's generation of the rollouts of a step, where vLLM and a GPU are at hand."""

from __future__ import annotations

import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import torch

from benchmarks.overhead.architectures import architecture_named
from benchmarks.overhead.options import Options
from benchmarks.overhead.timing import Cost


def why_not_measured(options: Options) -> str | None:
    """Why generation is left out; None if it can be measured."""
    if not (options.policy and options.generation):
        return "not asked for"
    if torch.device(options.device).type != "cuda":
        return "it needs a GPU"
    if find_spec("vllm") is None:
        return "vLLM is not installed"
    return None


def generation_cost(options: Options) -> Cost:
    """Seconds of generating all rollouts once, by random weights, each as long as it may get.

    In a process of its own, so that vLLM's memory is free afterwards. All prompts at once, as a step does: the rate
    depends on how many are generated together, so no share of the batch is measured. Memory is vLLM's to reserve, and
    not measured.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return Cost((pool.submit(generate, options).result(),))


def generate(options: Options) -> float:
    """As `generation_cost`, in this process, after a short generation that warms it up."""
    from vllm import LLM, SamplingParams

    architecture = architecture_named(options.architecture)
    with tempfile.TemporaryDirectory() as folder:
        architecture.config(tokens=options.tokens).save_pretrained(folder)
        engine: Any = LLM(
            model=folder,
            load_format="dummy",  # random weights
            skip_tokenizer_init=True,
            dtype="bfloat16",
            max_model_len=options.tokens,
            seed=options.seed,
        )
        draw = torch.Generator().manual_seed(options.seed)
        ids = torch.randint(architecture.vocab_size - 2, (options.groups, options.prompt), generator=draw)
        prompts = [{"prompt_token_ids": row} for row in ids.tolist()]

        def run(some: list[dict[str, list[int]]], tokens: int) -> None:
            params = SamplingParams(
                n=options.size, temperature=1.0, max_tokens=tokens, ignore_eos=True, detokenize=False
            )
            engine.generate(some, params, use_tqdm=False)

        run(prompts[:1], 1)
        started = time.perf_counter()
        run(prompts, options.response)
        return time.perf_counter() - started
