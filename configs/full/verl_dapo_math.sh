#!/usr/bin/env bash
# The paper's mathematics track on verl (docs/verl.md): DAPO-Math-17k, Qwen3-1.7B, one node of 8 GPUs with 80 GB; the values
# of configs/full/math_1.7b/geoalign.yaml as verl's settings. Once before, in an environment of its own:
#
#   pip install -e '.[verl,cli]' 'verl[vllm]==0.9.1' 'math-verify>=0.8,<0.10' && pip install --no-build-isolation flash-attn==2.8.3
#   python recipes/dapo_math.py verl data/dapo_verl
#
# The curator is GeoAlign with the paper's settings. CURATOR=denoise, or any other name, trains the same with that curator at its
# defaults. Qwen3-4B: MODEL=Qwen/Qwen3-4B, data.train_batch_size=48 actor_rollout_ref.actor.ppo_mini_batch_size=48 and a name of
# its own (verl resumes what has the same): trainer.experiment_name=dapo_math_4b. Further settings of verl and +geoalign follow
# as arguments, such as +geoalign.second_verifier=NAME with CURATOR=appeals; what is set here already takes ++. commands.md
# says where the log lies and how a run goes on.
set -euo pipefail
cd "$(dirname "$0")/../.."
export VERL_ENGINE_VENDOR=geoalign
CURATOR="${CURATOR:-}"
if [ -z "$CURATOR" ]; then
  curator=(                                # the paper's: no cap, no minimum of scores, all groups in every step
    +geoalign.curator.type=geoalign
    +geoalign.curator.alpha=0.05
    +geoalign.curator.max_fraction=null
    +geoalign.curator.min_scores=2
    +geoalign.curator.projector.target_accuracy=0.95
    +geoalign.curator.projector.groups_per_step=null
    +geoalign.hidden_position=predicting
  )
else
  curator=(
    +geoalign.curator.type="$CURATOR"
    +geoalign.rollout_fields.answers=answer   # what recipes/dapo_math.py returns beside the score
    +geoalign.hidden_position=mean
  )
fi
settings=(
  trainer.v1.trainer_mode=geoalign_sync
  "${curator[@]}"
  +geoalign.seed=0
  +geoalign.log_metrics=all                # of the curator; headline: five

  data.train_files="${DATA:-$PWD/data/dapo_verl}/train.parquet"   # the prompts have the paper's system message
  data.val_files="${DATA:-$PWD/data/dapo_verl}/val.parquet"
  +data.apply_chat_template_kwargs.enable_thinking=False
  data.train_batch_size=96                 # prompts; x 16 = 1536 rollouts, one update on them
  data.max_prompt_length=8192              # the paper's 16384 is read as the total
  data.max_response_length=8192
  data.filter_overlong_prompts=True        # a longer prompt would end the run
  data.shuffle=False                       # "processes the training data sequentially"

  actor_rollout_ref.model.path="${MODEL:-Qwen/Qwen3-1.7B}"
  actor_rollout_ref.actor.strategy=fsdp2
  actor_rollout_ref.actor.ppo_mini_batch_size=96
  actor_rollout_ref.actor.use_dynamic_bsz=True
  actor_rollout_ref.actor.ppo_max_token_len_per_gpu=32768
  actor_rollout_ref.actor.loss_agg_mode=token-mean
  actor_rollout_ref.actor.clip_ratio=0.2
  actor_rollout_ref.actor.use_kl_loss=False
  actor_rollout_ref.actor.grad_clip=1.0
  actor_rollout_ref.actor.optim.lr=2e-6
  actor_rollout_ref.actor.optim.weight_decay=0.1
  actor_rollout_ref.actor.optim.lr_warmup_steps=0
  actor_rollout_ref.rollout.name=vllm
  actor_rollout_ref.rollout.tensor_model_parallel_size=1
  actor_rollout_ref.rollout.n=16
  actor_rollout_ref.rollout.temperature=1.0
  actor_rollout_ref.rollout.val_kwargs.do_sample=True        # as configs/full evaluates; val.parquet repeats problems
  actor_rollout_ref.rollout.val_kwargs.temperature=1.0
  actor_rollout_ref.rollout.log_prob_use_dynamic_bsz=True
  actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu=32768

  algorithm.adv_estimator=grpo
  algorithm.norm_adv_by_std_in_grpo=True
  algorithm.use_kl_in_reward=False
  reward.custom_reward_function.path="$PWD/recipes/dapo_math.py"   # verl's own for DAPO looks for "Answer:"
  reward.custom_reward_function.name=compute_score

  trainer.total_epochs=1
  trainer.n_gpus_per_node=8
  trainer.save_freq=20
  trainer.test_freq=10
  'trainer.logger=[console,tensorboard]'   # verl's default is W&B too, which wants a login
  'trainer.rollout_data_dir=${trainer.default_local_dir}/rollouts'
  trainer.project_name=geoalign
  trainer.experiment_name="dapo_math_1.7b${CURATOR:+_$CURATOR}"
)
exec "${PYTHON:-python3}" -m verl.trainer.main_ppo "${settings[@]}" "$@"
