#!/usr/bin/env bash
# The paper's dialogue track on verl (docs/verl.md): HH-RLHF after SFT, Qwen3-4B-Base, one node of 8 GPUs with 80 GB; the
# values of configs/full/hh_4b/geoalign.yaml as verl's settings. MODEL is the model after SFT, TRAIN and VAL are parquet files
# of prompts in verl's format, REWARD a Python file whose compute_score asks a reward model. Further settings of verl and
# +geoalign follow as arguments.
set -euo pipefail
export VERL_ENGINE_VENDOR=geoalign
settings=(
  trainer.v1.trainer_mode=geoalign_sync
  +geoalign.curator.type=geoalign          # the paper's: no cap, no minimum of scores, all groups in every step
  +geoalign.curator.alpha=0.12
  +geoalign.curator.max_fraction=null
  +geoalign.curator.min_scores=2
  +geoalign.curator.projector.target_accuracy=0.85
  +geoalign.curator.projector.groups_per_step=null
  +geoalign.hidden_position=predicting
  +geoalign.seed=0
  +geoalign.log_metrics=all                # of the curator; headline: five

  data.train_files="${TRAIN:?a parquet file in verl\'s format}"
  data.val_files="${VAL:?a parquet file in verl\'s format}"
  data.train_batch_size=96                 # prompts; x 8 = 768 rollouts, one update on them
  data.max_prompt_length=1024
  data.max_response_length=1024
  data.shuffle=False                       # "processes the training data sequentially"
  data.filter_overlong_prompts=True
  +data.apply_chat_template_kwargs.enable_thinking=False     # as in the SFT

  actor_rollout_ref.model.path="${MODEL:?the model after SFT}"
  actor_rollout_ref.actor.strategy=fsdp2
  actor_rollout_ref.actor.ppo_mini_batch_size=96
  actor_rollout_ref.actor.use_dynamic_bsz=True
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=16384
  actor_rollout_ref.actor.loss_agg_mode=token-mean
  actor_rollout_ref.actor.clip_ratio=0.2
  actor_rollout_ref.actor.use_kl_loss=False
  actor_rollout_ref.actor.grad_clip=1.0
  actor_rollout_ref.actor.optim.lr=1e-5
  actor_rollout_ref.actor.optim.weight_decay=0.1
  actor_rollout_ref.actor.optim.lr_warmup_steps=0
  actor_rollout_ref.rollout.name=vllm
  actor_rollout_ref.rollout.tensor_model_parallel_size=1
  actor_rollout_ref.rollout.n=8
  actor_rollout_ref.rollout.temperature=1.0
  actor_rollout_ref.rollout.val_kwargs.do_sample=True        # as configs/full evaluates
  actor_rollout_ref.rollout.val_kwargs.temperature=1.0
  actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True
  actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=16384

  algorithm.adv_estimator=grpo
  algorithm.norm_adv_by_std_in_grpo=True
  algorithm.use_kl_in_reward=False
  reward.custom_reward_function.path="${REWARD:?a Python file with compute_score}"

  trainer.total_epochs=2
  trainer.n_gpus_per_node=8
  trainer.save_freq=20
  trainer.test_freq=8
  'trainer.logger=[console,tensorboard]'   # verl's default is W&B too, which wants a login
  'trainer.rollout_data_dir=${trainer.default_local_dir}/rollouts'
  trainer.project_name=geoalign
  trainer.experiment_name=hh_rlhf_4b
)
exec "${PYTHON:-python3}" -m verl.trainer.main_ppo "${settings[@]}" "$@"
