#!/usr/bin/env bash
# Wall time of `plan check` on a budget of 50 jobs, whole process, on one core: the best and the median of 11 runs.
# usage: tests/bench/check_50.sh [PLAN]
set -eu
plan=$(realpath "${1:-build/plan}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
{
  echo 'budget: 1'
  echo 'limits: {memory.peak: at most 72 GiB, mfu: at least 20 %}'
  echo 'jobs:'
  models=(8b 70b 405b gpt3-175b mixtral-8x7b)
  layouts=(tp2,pp1,zero1 tp8,pp4,vp5,zero1,recompute=full-2 tp8,pp16,vp8,recompute=layernorm+mlp tp8,pp16,vp6 tp2,pp4,ep8)
  gpus=(64 512 16384 1024 256)
  for i in $(seq 0 49); do
    k=$((i % 5))
    echo "  - {name: job$i, model: ${models[k]}, gpus: ${gpus[k]} x h100-sxm, layout: \"${layouts[k]},mb$((1 + i / 5 % 2))\"}"
  done
} > budget.yaml
times=()
for _ in $(seq 11); do
  start=$(date +%s%N)
  taskset -c 0 "$plan" check --budget budget.yaml --json > out.json || [ $? -eq 1 ]
  times+=($((($(date +%s%N) - start) / 1000)))
done
readarray -t sorted < <(printf '%s\n' "${times[@]}" | sort -n)
grep -E '"(failed|passed)"' out.json | tr -d ' \n'
printf '\n50 jobs: best %d.%03d ms, median %d.%03d ms\n' $((sorted[0] / 1000)) $((sorted[0] % 1000)) $((sorted[5] / 1000)) $((sorted[5] % 1000))
