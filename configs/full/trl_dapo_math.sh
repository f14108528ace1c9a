#!/usr/bin/env bash
# The paper's mathematics track by TRL's own trainer in a script of your own (docs/trl.md): DAPO-Math-17k, Qwen3-1.7B, one
# node of 8 GPUs with 80 GB; the values of configs/full/math_1.7b/geoalign.yaml, vLLM on the same GPUs. Once before:
#
#   pip install -e '.[trl]' 'vllm>=0.22,<=0.31'
#   python recipes/dapo_math.py trl data/dapo_trl
#
# The curator is GeoAlign with the paper's settings. CURATOR=denoise, or any other name, trains the same with that curator at its
# defaults. Further options of TRL and of the curator follow as arguments, such as --second_verifier NAME with CURATOR=appeals.
# commands.md says where the log lies and how a run goes on.
set -euo pipefail
cd "$(dirname "$0")/../.."
CURATOR="${CURATOR:-}"
if [ -z "$CURATOR" ]; then
  curator=(                                # the paper's: no cap, no minimum of scores, all groups in every step
    --curator geoalign
    --alpha 0.05
    --max_fraction none
    --min_scores 2
    --projector '{"target_accuracy":0.95,"groups_per_step":null}'
    --hidden_position predicting
  )
else
  curator=(--curator "$CURATOR" --hidden_position mean)
fi
settings=(
  "${curator[@]}"
  --log_metrics all                        # of the curator; headline: five

  --model_name_or_path "${MODEL:-Qwen/Qwen3-1.7B}"
  --dtype float32                          # of the master weights; bf16 under autocast
  --chat_template_kwargs '{"enable_thinking":false}'
  --dataset_name "${DATA:-data/dapo_trl}"
  --reward_funcs recipes.dapo_math.verified
  --shuffle_dataset false                  # "processes the training data sequentially"
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
  --lr_scheduler_type constant
  --warmup_steps 0
  --weight_decay 0.1
  --max_grad_norm 1.0
  --bf16 true
  --gradient_checkpointing true

  --use_vllm true
  --vllm_mode colocate
  --vllm_gpu_memory_utilization 0.35
  --vllm_enable_sleep_mode true
  --vllm_max_model_length 16384

  --logging_steps 1
  --log_completions true                   # all in completions/ below the output; two of each step on the terminal
  --num_completions_to_print 2
  --save_steps 20
  --report_to none                         # wandb, trackio, tensorboard
  --output_dir "runs/trl_dapo_math${CURATOR:+_$CURATOR}"
)
launch=(${LAUNCH:-accelerate launch --config_file configs/full/launch/data_parallel.yaml})
exec "${launch[@]}" recipes/trl_grpo.py "${settings[@]}" "$@"
