#!/usr/bin/env bash
# The paper's experiments, a function each (docs/reproduce.md): bash recipes/reproduce.sh main_maths
# Every command resumes, so a function may be called again.
set -euo pipefail
cd "$(dirname "$0")/.."
train="accelerate launch --config_file configs/full/launch/data_parallel.yaml -m geoalign train"
train_zero2="accelerate launch --config_file configs/full/launch/zero2.yaml -m geoalign train"
dialogues="--dialogue helpful=Anthropic/hh-rlhf/helpful-base@test --dialogue harmless=Anthropic/hh-rlhf/harmless-base@test"
methods="grpo pf_ppo_br pf_ppo_bw par pods seed_grpo"
judge="--model qwen-max --base-url https://dashscope-intl.aliyuncs.com/compatible-mode/v1"
aime_amc="--benchmark aime24=HuggingFaceH4/aime_2024@train --benchmark aime25=math-ai/aime25@test --benchmark amc23=math-ai/amc23@test"
answers="--set engine=vllm --set chat_template_kwargs.enable_thinking=false --resume"

check() {
  make smoke
  for setting in math_1.7b math_4b hh_1.7b hh_4b; do
    geoalign train configs/full/$setting/geoalign.yaml --dry-run
    geoalign train configs/full/$setting/geoalign.yaml --smoke --output runs/smoke/$setting
  done
  for size in 1.7b 4b; do
    python -m benchmarks.overhead --architecture qwen3-$size --rows 384 --json overhead_$size.json
  done
}

main_maths() {
  for method in $methods geoalign; do
    $train configs/full/math_1.7b/$method.yaml --resume
    $train_zero2 configs/full/math_4b/$method.yaml --resume
  done
  python recipes/final.py runs/math_1.7b/* runs/math_4b/*
}

main_dialogue() {
  for method in $methods geoalign; do
    $train configs/full/hh_1.7b/$method.yaml --resume
    $train_zero2 configs/full/hh_4b/$method.yaml --resume
  done
}

judging() {
  for size in 1.7b 4b; do
    geoalign evaluate runs/hh_$size/geoalign/checkpoints/warm_start --output runs/answers/hh_$size/sft $dialogues \
      --save-responses runs/answers/hh_$size.sft.jsonl.gz $answers
    for method in $methods geoalign; do
      geoalign evaluate runs/hh_$size/$method --output runs/answers/hh_$size/$method $dialogues \
        --save-responses runs/answers/hh_$size.$method.jsonl.gz --set engine=vllm --resume
      geoalign judge runs/answers/hh_$size.$method.jsonl.gz runs/answers/hh_$size.sft.jsonl.gz \
        --output runs/judge/hh_$size/scores_$method $judge
    done
    for method in $methods; do
      geoalign judge runs/answers/hh_$size.geoalign.jsonl.gz runs/answers/hh_$size.$method.jsonl.gz \
        --output runs/judge/hh_$size/geoalign_$method $judge
    done
  done
}

injected_errors() {
  for method in $methods; do
    $train configs/full/math_1.7b/flip_05.yaml --set curator.type=$method --output runs/math_1.7b_flip_05/$method --resume
  done
  $train configs/full/math_1.7b/flip_05.yaml --output runs/math_1.7b_flip_05/geoalign --resume
  for rate in 05 10; do
    for method in grpo pf_ppo_br pf_ppo_bw par pods; do
      $train configs/full/hh_1.7b/extremes_$rate.yaml --set curator.type=$method --output runs/hh_1.7b_extremes_$rate/$method --resume
    done
    $train configs/full/hh_1.7b/extremes_$rate.yaml --set curator.type=seed_grpo --set curator.clusters=hidden \
      --output runs/hh_1.7b_extremes_$rate/seed_grpo --resume
    $train configs/full/hh_1.7b/extremes_$rate.yaml --output runs/hh_1.7b_extremes_$rate/geoalign --resume
  done
  python recipes/final.py runs/math_1.7b_flip_05/* runs/hh_1.7b_extremes_05/* runs/hh_1.7b_extremes_10/*
}

strategies() {
  for setting in math_1.7b hh_1.7b; do
    for change in strategy=amplify strategy=zero_weight strategy=drop aggregation=mean; do
      $train configs/full/$setting/geoalign.yaml --set curator.$change --output runs/${setting}_changed/$change --resume
    done
    $train configs/full/$setting/geoalign.yaml --set curator.strategy=amplify --set curator.aggregation=mean \
      --output runs/${setting}_changed/amplify_mean --resume
  done
  $train configs/full/math_1.7b/flip_05.yaml --set curator.aggregation=mean --output runs/math_1.7b_flip_05/geoalign_mean --resume
  python recipes/final.py runs/math_1.7b_changed/* runs/hh_1.7b_changed/*
}

alphas() {
  for alpha in 0.01 0.03 0.07 0.10; do
    $train configs/full/math_1.7b/geoalign.yaml --set curator.alpha=$alpha --output runs/math_1.7b_alpha/$alpha --resume
  done
  for alpha in 0.05 0.07 0.10 0.15; do
    $train configs/full/hh_1.7b/geoalign.yaml --set curator.alpha=$alpha --output runs/hh_1.7b_alpha/$alpha --resume
  done
  python recipes/final.py runs/math_1.7b_alpha/* runs/hh_1.7b_alpha/*
}

depths() {
  for layers in 2 4 5; do
    for setting in math_1.7b hh_1.7b; do
      $train configs/full/$setting/geoalign.yaml --set curator.projector.layers=$layers --output runs/${setting}_layers/$layers --resume
    done
    for setting in math_4b hh_4b; do
      $train_zero2 configs/full/$setting/geoalign.yaml --set curator.projector.layers=$layers --output runs/${setting}_layers/$layers --resume
    done
  done
  python recipes/updates.py runs/math_1.7b_layers/* runs/math_4b_layers/* runs/hh_1.7b_layers/* runs/hh_4b_layers/*
}

seeds() {
  for seed in 0 1 2; do
    for method in grpo geoalign; do
      for setting in math_1.7b hh_1.7b; do
        $train configs/full/$setting/$method.yaml --set seed=$seed --set grpo.max_steps=100 --set evaluation.pass_samples=null \
          --output runs/${setting}_seeds/${method}_$seed --resume
      done
    done
  done
}

# Both are zero with one update on a generation: so two, each on half of it.
kl_and_clipping() {
  for seed in 0 1 2; do
    for method in grpo geoalign; do
      $train configs/full/math_1.7b/$method.yaml --set seed=$seed --set grpo.gradient_accumulation_steps=24 \
        --set evaluation.every=20 --output runs/math_1.7b_two_updates/${method}_$seed --resume
      $train configs/full/hh_1.7b/$method.yaml --set seed=$seed --set grpo.gradient_accumulation_steps=6 \
        --set evaluation.every=16 --output runs/hh_1.7b_two_updates/${method}_$seed --resume
    done
  done
  python recipes/updates.py runs/math_1.7b_two_updates/* runs/hh_1.7b_two_updates/*
}

pass_at_k() {
  geoalign evaluate runs/math_1.7b/grpo runs/math_1.7b/geoalign --output runs/answers/math_1.7b_pass --pass-at-k $aime_amc \
    --set engine=vllm --resume
  geoalign evaluate Qwen/Qwen3-1.7B --output runs/answers/math_1.7b_raw_pass --pass-at-k $aime_amc $answers
}

"$@"
