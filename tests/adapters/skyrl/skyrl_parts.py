"""SkyRL's own trainer with its workers and engines, which need GPUs, stood in for."""

from unittest.mock import AsyncMock, MagicMock

import torch


class Prompts(list):
    def collate_fn(self, batch):
        return batch


def generated(request):
    """Rewards 1 1 0 0 of each prompt's four; response i of it has i + 1 tokens, and the last was cut off."""
    rows = [(int(row.instance_id), row.repetition_id) for row in request["trajectory_ids"]]
    return {
        "prompt_token_ids": [[prompt + 1] * (prompt + 1) for prompt, _ in rows],
        "response_ids": [[10 * prompt + row] * (row + 1) for prompt, row in rows],
        "rewards": [float(row < 2) for _, row in rows], "loss_masks": [[1] * (row + 1) for _, row in rows],
        "stop_reasons": ["length" if row == 3 else "stop" for _, row in rows], "rollout_metrics": {},
        "rollout_logprobs": [[-0.5] * (row + 1) for _, row in rows],
        "env_metrics": [{"answer": str(row % 3)} for _, row in rows],
    }  # fmt: skip


def trainer_of(folder, section=None, *, kind=None, asynchronous=False, prompts=2, generate=generated, **changes):
    """The trainer, of four prompts, and the batches that it hands to its workers."""
    from geoalign.adapters.skyrl import CuratedConfig, CuratedExp

    trainer = {
        "train_batch_size": prompts, "policy_mini_batch_size": prompts, "epochs": 1, "eval_interval": 0,
        "ckpt_path": folder, "ckpt_interval": 1, "recompute_old_logprobs_per_minibatch": False,
        "placement.colocate_all": False, "fully_async.enabled": asynchronous, "algorithm.use_kl_loss": False,
        "fully_async.num_parallel_generation_workers": prompts, "print_example_interval": 0,
        "algorithm.policy_loss_type": "rollout_is" if asynchronous else "regular",
    }  # fmt: skip
    others = {
        "data.dataloader.num_workers": 0, "generator.batched": False, "generator.n_samples_per_prompt": 4,
        "generator.inference_engine.enable_ray_prometheus_stats": False,
    }  # fmt: skip
    others |= {f"trainer.{name}": value for name, value in trainer.items()}
    cfg = CuratedConfig.from_cli_overrides({**others, **changes})
    cfg.geoalign = {"log_metrics": "all", **(section or {"curator": {"type": "grpo"}})}
    rows = Prompts(
        {
            "prompt": [{"role": "user", "content": f"prompt {row}"}],
            "env_class": "x",
            "env_extras": {"reward_spec": {"ground_truth": f"gold {row}"}},
            "uid": str(row),
        }
        for row in range(4)
    )
    tokenizer = MagicMock(pad_token_id=0)
    tokenizer.decode.side_effect = lambda tokens, **_: " ".join(map(str, tokens))
    made, staged = (kind or CuratedExp.__new__(CuratedExp).get_trainer)(
        cfg=cfg, tracker=MagicMock(), tokenizer=tokenizer, train_dataset=rows, eval_dataset=None,
        inference_engine_client=AsyncMock(), colocate_pg=None,
        generator=MagicMock(spec=["generate"], generate=AsyncMock(side_effect=generate)),
    ), []  # fmt: skip
    made._cleanup_old_checkpoints = lambda: None  # asks Ray for its nodes
    made.dispatch = workers = MagicMock(save_weights_for_sampler=AsyncMock())
    workers.get_lcm_dp_size.return_value, workers.optim_step.return_value = 1, None
    workers.forward_backward_from_staged.return_value.metrics = {}

    def forward(model, data):
        outputs = [{"logprobs": [-float(row)] * data.metadata["response_length"]} for row in range(len(data))]
        return MagicMock(loss_fn_outputs=outputs)

    def stage(model, data, bounds):
        staged.append({key: value.clone() if torch.is_tensor(value) else value for key, value in data.items()})
        return [None]

    workers.forward.side_effect, workers.stage_data.side_effect = forward, stage
    return made, staged
