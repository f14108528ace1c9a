"""The passes of a GRPO step through the policy, by the trainer's own functions, each on its own; vLLM's generation."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from torch import Tensor
from trl import GRPOConfig

from benchmarks.overhead.curating import Cost, Options, architecture_of, make_policy, measure
from geoalign.adapters.grpo_trainer.states import HiddenLocation, RowTokens, TrlPass, own_hidden
from geoalign.adapters.trl import GeoAlignGRPOTrainer
from geoalign.hidden.extract import eval_mode
from geoalign.lab.models.language_model import make_tokenizer
from geoalign.settings.hidden import LAST


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

    architecture = architecture_of(options)
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
            drawn = {"n": options.size, "temperature": 1.0, "max_tokens": tokens, "ignore_eos": True}
            engine.generate(some, SamplingParams(**drawn, detokenize=False), use_tqdm=False)

        run(prompts[:1], 1)
        started = time.perf_counter()
        run(prompts, options.response)
        return time.perf_counter() - started


LOCATION = HiddenLocation("predicting", LAST)


class PolicyStep:
    """A trainer around a policy, and a batch of random tokens to pass through it.

    Weights are fp32, passes on a GPU run in bf16 under autocast, as `configs/full` has it.
    """

    def __init__(self, options: Options, folder: Path) -> None:
        self.options = options
        self.device = torch.device(options.device)
        policy = make_policy(options)
        self.trainer = _trainer(policy, options, folder)
        if options.checkpointing:
            policy.gradient_checkpointing_enable({"use_reentrant": False})
        draw = torch.Generator().manual_seed(options.seed)
        # The last ids are the padding and the end; a rollout has neither.
        shape = (options.passed, options.tokens)
        self.ids = torch.randint(policy.config.vocab_size - 2, shape, generator=draw)
        self.advantages = torch.randn(options.passed, generator=draw)
        self.prompts = self.ids[:, : options.prompt].tolist()
        self.responses = self.ids[:, options.prompt :].tolist()

    def hidden_pass(self) -> Tensor:
        """The states of the batch by a pass of their own (`hidden_source: own_pass`)."""
        return own_hidden(self.trainer, RowTokens(self.prompts, self.responses), LOCATION)

    def logprob_pass(self, *, tapped: bool) -> Tensor | None:
        """TRL's pass for the old log-probabilities, plain or with GeoAlign's hook (`hidden_source: logprob_pass`)."""
        ids = self.ids.to(self.device)

        def run() -> Any:
            # In eval mode nothing is kept for a backward pass, as in TRL's own flow; Qwen3 has no dropout.
            with torch.no_grad(), eval_mode(self.trainer.model), self.trainer.accelerator.autocast():
                return self.trainer._get_per_token_logps_and_entropies(
                    self.trainer.model,
                    ids,
                    torch.ones_like(ids),
                    self.options.response,
                    batch_size=self.options.micro_batch,
                )

        if not tapped:
            run()
            return None
        listening = TrlPass(LOCATION)
        rows = RowTokens(self.prompts, self.responses)
        listening.listen(run, self.trainer.model, ids, self.options.response, rows)
        return listening.hidden

    def difference(self) -> float:
        """How far the states of the two ways lie apart: the largest distance of a row, as a share of its length."""
        own, tapped = self.hidden_pass().float(), self.logprob_pass(tapped=True)
        assert tapped is not None
        return ((own - tapped.float()).norm(dim=1) / own.norm(dim=1)).max().item()

    def update(self) -> None:
        """TRL's loss forward and backward, micro-batch by micro-batch; the gradients stay for `optimize`."""
        trainer, options = self.trainer, self.options
        tokens = torch.tensor(options.passed * options.response, device=self.device)
        trainer.model.train()
        for start in range(0, options.passed, options.micro_batch):
            rows = slice(start, start + options.micro_batch)
            ids = self.ids[rows].to(self.device)
            batch = {
                "prompt_ids": ids[:, : options.prompt],
                "prompt_mask": torch.ones_like(ids[:, : options.prompt]),
                "completion_ids": ids[:, options.prompt :],
                "completion_mask": torch.ones_like(ids[:, options.prompt :]),
                "advantages": self.advantages[rows].to(self.device),
                "num_items_in_batch": tokens,
            }
            with trainer.accelerator.autocast():
                loss = trainer.compute_loss(trainer.model, batch)
            trainer.accelerator.backward(loss)

    def optimize(self) -> None:
        """Clips the gradients and steps the optimizer; they stay, so that it can be done again."""
        self.trainer.accelerator.clip_grad_norm_(self.trainer.model.parameters(), 1.0)
        self.trainer.optimizer.step()


def policy_costs(step: PolicyStep) -> Iterator[dict[str, Cost]]:
    """Own hidden pass, log-probability pass and what the tap adds, update, optimizer, of a whole batch, one by one."""
    options = step.options
    kept: dict[str, Any] = {"repeats": options.repeats, "warmups": options.warmups, "device": step.device}
    scale = options.rollouts / options.passed
    yield {"hidden pass": measure(_ignoring_number(step.hidden_pass), **kept).scaled(scale)}
    # Turn about, so that a machine that gets slower or faster meets both alike.
    passes: dict[bool, list[Cost]] = {False: [], True: []}
    for number in range(options.repeats):
        for tapped in (False, True):
            once = {**kept, "repeats": 1, "warmups": options.warmups if number == 0 else 0}
            passes[tapped].append(measure(_ignoring_number(partial(step.logprob_pass, tapped=tapped)), **once))
    plain, with_tap = _joined(passes[False]), _joined(passes[True])
    added = tuple(after - before for before, after in zip(plain.seconds, with_tap.seconds, strict=True))
    tap = Cost(added, with_tap.megabytes - plain.megabytes)
    yield {"log-probability pass": plain.scaled(scale), "tap": tap.scaled(scale)}
    yield {"update": measure(_ignoring_number(step.update), **kept).scaled(scale)}
    yield {"optimizer": measure(_ignoring_number(step.optimize), **kept)}


def _ignoring_number(call: Callable[[], object]) -> Callable[[int], object]:
    return lambda _: call()


def _joined(costs: list[Cost]) -> Cost:
    return Cost(tuple(cost.median for cost in costs), max(cost.megabytes for cost in costs))


def _trainer(policy: Any, options: Options, folder: Path) -> Any:
    cuda = torch.device(options.device).type == "cuda"
    micro_batches = options.rollouts // options.micro_batch
    arguments = GRPOConfig(
        output_dir=str(folder),
        use_cpu=not cuda,
        bf16=cuda,
        per_device_train_batch_size=options.micro_batch,
        steps_per_generation=micro_batches,
        gradient_accumulation_steps=micro_batches,
        num_generations=options.size,
        max_completion_length=options.response,
        gradient_checkpointing=False,  # switched on by hand: outside of training the trainer does not
        beta=0.0,
        loss_type="dapo",
        learning_rate=1e-6,
        weight_decay=0.1,
        max_steps=1,
        seed=options.seed,
        report_to="none",
        save_strategy="no",
        disable_tqdm=True,
    )
    trainer: Any = GeoAlignGRPOTrainer(
        policy,
        _no_reward,
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": "-"}] * options.groups),
        processing_class=make_tokenizer(None, max_length=options.tokens),
    )
    trainer.current_gradient_accumulation_steps = micro_batches
    trainer.create_optimizer()
    return trainer


def _no_reward(completions: list[Any], **columns: Any) -> list[float]:
    return [0.0] * len(completions)
