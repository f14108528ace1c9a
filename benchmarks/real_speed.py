"""Tokens a second of a pretrained model on this machine: sampling, hidden states and update, in float32 and bfloat16.

    python -m benchmarks.real_speed --model runs/models/smollm2-135m

Sampling is transformers' `generate` for K responses to each prompt, as it is and with one pass over each prompt
(`geoalign.lab.models.shared_prompts`); the update is forward and backward of low-rank adapters on all layers and on
the upper third. Processor seconds stand beside the clock's: on a busy machine only they can be compared. The two types
and the two ways take turns, so that a ratio is of one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from geoalign.hidden import backbone_of
from geoalign.lab.models.language_model import initial_model, with_adapters
from geoalign.lab.models.settings import LoraConfig, PretrainedModelConfig
from geoalign.lab.models.shared_prompts import generate_sharing_prompts
from geoalign.pretrained.quiet import silence_logs

Measured = tuple[float, float]  # seconds of the clock and of the processor


def measure(options: argparse.Namespace) -> dict[str, dict[str, Measured]]:
    """Type -> part -> the least seconds of `repeats` calls."""
    torch.set_num_threads(options.threads)
    parts: dict[str, dict[str, Measured]] = {}
    for dtype in options.dtypes:
        parts[dtype] = {}
        calls = _calls(options, dtype)
        for call in calls.values():
            call()
        for _ in range(options.repeats):
            for name, call in calls.items():
                parts[dtype][name] = min(parts[dtype].get(name, (float("inf"),) * 2), _timed(call))
    return parts


def _calls(options: argparse.Namespace, dtype: str) -> dict[str, Callable[[], Any]]:
    rows = options.prompts * options.samples
    torch.manual_seed(0)
    model = _model(options, dtype)
    vocabulary = model.config.vocab_size
    prompts = torch.randint(vocabulary, (options.prompts, options.prompt)).repeat_interleave(options.samples, 0)
    ids = torch.randint(vocabulary, (rows, options.prompt + options.response))
    length = {"min_new_tokens": options.response, "max_new_tokens": options.response}
    sampling = {"do_sample": True, "top_k": 0, "pad_token_id": 0, **length}
    given = {"input_ids": prompts, "attention_mask": torch.ones_like(prompts), **sampling}
    return {
        "sampling": _without_gradient(lambda: model.generate(**given)),
        "sampling, prompts shared": _without_gradient(lambda: generate_sharing_prompts(model.generate, model, **given)),
        "states": _without_gradient(lambda: backbone_of(model)(ids)),
        "update, all layers": _update(_adapted(options, dtype, 0), ids, options.response),
        "update, upper third": _update(_adapted(options, dtype, 2 / 3), ids, options.response),
    }


def _model(options: argparse.Namespace, dtype: str) -> Any:
    model, _ = initial_model(PretrainedModelConfig(path=options.model, dtype=dtype), alphabet=None, seed=0)
    return model.eval()


def _adapted(options: argparse.Namespace, dtype: str, above: float) -> Any:
    """The model with adapters on the linear layers above a share of the depth."""
    model = _model(options, dtype)
    depth = model.config.num_hidden_layers
    layers = "|".join(map(str, range(round(above * depth), depth)))
    return with_adapters(model, LoraConfig(target_modules=rf".*\.layers\.({layers})\..*_proj"), seed=0).train()


def _update(model: Any, ids: Tensor, response: int) -> Callable[[], None]:
    def call() -> None:
        logits = model(ids, logits_to_keep=response + 1).logits[:, :-1].float()
        taken = torch.log_softmax(logits, -1).gather(-1, ids[:, -response:, None])
        (-taken.mean()).backward()
        model.zero_grad()

    return call


def _without_gradient(call: Callable[[], Any]) -> Callable[[], Any]:
    return torch.inference_mode()(call)


def _timed(call: Callable[[], Any]) -> Measured:
    clock, processor = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="runs/models/smollm2-135m")
    numbers = {"prompts": 4, "samples": 8, "prompt": 40, "response": 16, "repeats": 2, "threads": 2}
    for name, usual in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=usual, metavar="N")
    parser.add_argument("--dtypes", nargs="+", choices=("float32", "bfloat16"), default=["float32", "bfloat16"])
    options = parser.parse_args()
    silence_logs()
    parts = measure(options)
    rows = options.prompts * options.samples
    print(f"{options.model}, {rows} rows of {options.prompt} + {options.response} tokens, {options.threads} threads")
    for dtype, measured in parts.items():
        for name, (clock, processor) in measured.items():
            tokens = rows * (options.response if name.startswith("sampling") else options.prompt + options.response)
            rates = f"{tokens / clock:7.0f} tokens/s, {tokens / processor:7.0f} a second of the processor"
            print(f"{dtype:9} {name:25} {rates}")


if __name__ == "__main__":
    main()
