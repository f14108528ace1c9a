#!/usr/bin/env bash
# The paper's mathematics track on ms-swift (docs/swift.md): DAPO-Math-17k, Qwen3-1.7B, one node of 8 GPUs with 80 GB; the
# values of configs/full/math_1.7b/geoalign.yaml, vLLM on the same GPUs. Once before, in an environment of its own:
#
#   pip install -e '.[swift,cli]' 'math-verify>=0.8,<0.10' 'vllm==0.23.*' 'deepspeed>=0.18.6' \
#     'transformers>=5.12'
#   python recipes/dapo_math.py swift data/dapo_swift
#
# The curator is that of swift_dapo_math.yaml: GeoAlign with the paper's settings. CURATOR=denoise, or any other name, trains the
# same with that curator at its defaults, and SECOND_VERIFIER names who checks a few responses for CURATOR=appeals
# (recipes/dapo_math_swift.py reads both). Further options of ms-swift follow as arguments. commands.md says where the log lies and
# how a run goes on.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CURATOR="${CURATOR:-}"
export NPROC_PER_NODE="${NPROC_PER_NODE:-8}"
settings=(
  --rlhf_type grpo
  --external_plugins recipes/dapo_math_swift.py
  --reward_funcs verified

  --model "${MODEL:-Qwen/Qwen3-1.7B}"
  --use_hf true
  --tuner_type full
  --torch_dtype bfloat16                   # also vLLM's; ZeRO-2 keeps master weights in float32
  --deepspeed zero2
  --enable_thinking false
  --dataset "${DATA:-data/dapo_swift}/train.jsonl"
  --dataset_shuffle false                  # "processes the training data sequentially"
  --train_dataloader_shuffle false
  --split_dataset_ratio 0
  --max_length 8192
  --seed 0

  --per_device_train_batch_size 4          # x 8 processes x 48 = 1536 rollouts, 96 prompts, one update on them
  --steps_per_generation 48
  --gradient_accumulation_steps 48
  --num_generations 16
  --max_completion_length 8192
  --temperature 1.0
  --num_train_epochs 1

  --loss_type dapo
  --beta 0.0
  --epsilon 0.2
  --scale_rewards group
  --learning_rate 2e-6
  --adam_beta2 0.999                       # as everywhere else; ms-swift's own is 0.95
  --lr_scheduler_type constant
  --warmup_steps 0
  --weight_decay 0.1
  --max_grad_norm 1.0
  --gradient_checkpointing true

  --use_vllm true
  --vllm_mode colocate
  --vllm_gpu_memory_utilization 0.35
  --sleep_level 1
  --vllm_max_model_len 16384

  --logging_steps 1
  --log_completions true
  --save_steps 20
  --report_to none
  --output_dir "runs/swift_dapo_math${CURATOR:+_$CURATOR}"
)
exec ${LAUNCH:-swift rlhf} "${settings[@]}" "$@"
