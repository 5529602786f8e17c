#!/usr/bin/env bash
# megatron.sh PYTHON [SAMPLES [SEED]]: asks megatron-core, Kubeflow's TrainJob, slurmctld and shellcheck about what `plan
# emit megatron-lm` writes: plans drawn by chance, and the best plans of 8B, 70B and 405B, on 16,384 GPUs too; a quarter
# as many for each earlier release. PYTHON has megatron-core; empty: that part is skipped. Megatron-LM's own parser is in
# no package: MEGATRON_LM names a checkout, or several of different releases, `0.16=/src/megatron-0.16
# 0.20=/src/megatron`, each asked about files written for it.
set -u
cd "$(dirname "$0")/../.." || exit 2
python=$1 samples=${2:-40} seed=${3:-1}
here=tests/validators work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
. $here/asking.sh

BEST=405b:16384:126 emit megatron-lm megatron
[ -d "$work/megatron-lm-best/405b-16384" ] || { echo "405b on 16384 GPUs: no files"; failed=1; }
for launcher in torchrun skypilot hostfile; do
  build/plan emit megatron-lm --model 70b --gpus 256 --launcher "$launcher" -o "$work/$launcher" > /dev/null || failed=1
done
for format in megatron-bridge verl ms-swift llama-factory; do
  build/plan emit "$format" --model 70b --gpus 256 --layout cp-kind=ring,zero1 -o "$work/$format" > /dev/null || failed=1
done

if [ -n "$python" ]; then
  ask "$python" megatron_core.py megatron-lm
else
  echo "skipped: megatron-core: the package index cannot be reached"
fi

for version in ${python:+0.12.3 0.13.1 0.14.0 0.15.3}; do  # $python has 0.16; the index carries no later one
  release=${version%.*}
  core=$($here/unpacked.sh "$python" megatron-core=="$version") || {
    echo "skipped: megatron-core $version: the package index cannot be reached"
    continue
  }
  samples=$(((samples + 3) / 4)) emit megatron-lm megatron slurm "$release"
  PYTHONPATH=$core ask "$python" megatron_core.py megatron-lm-slurm-"$release"
done

for checkout in ${MEGATRON_LM:-}; do  # PATH or RELEASE=PATH
  release=${checkout%%=*}
  [ "$release" != "$checkout" ] || release=0.20
  emit megatron-lm megatron slurm "$release"
  echo "Megatron-LM $release:"
  MEGATRON_LM=${checkout#*=} ask "${MEGATRON_PYTHON:-$python}" megatron_training.py megatron-lm-slurm-"$release"
done
[ -n "${MEGATRON_LM:-}" ] || echo "skipped: Megatron-LM's own parser and validator: MEGATRON_LM names no checkout"

kubeflow=$($here/venv.sh trainjob python3 kubeflow-trainer-api==2.3.0 pyyaml) || kubeflow=
if [ -n "$kubeflow" ]; then
  emit megatron-lm megatron k8s
  ask "$kubeflow" trainjob.py megatron-lm-k8s
else
  echo "skipped: the TrainJob's schema: the package index cannot be reached"
fi

scripts=$(find "$work" -name '*.sbatch' -o -name '*.sh' | sort) unread=0
for script in $scripts; do
  bash -n "$script" || unread=$((unread + 1))
done
echo "bash -n: $unread of $(wc -w <<< "$scripts") scripts do not parse"
[ "$unread" -eq 0 ] || failed=1
if command -v shellcheck > /dev/null; then
  xargs shellcheck <<< "$scripts" && echo "shellcheck: every script is clean" || failed=1
else
  echo "skipped: shellcheck is not installed"
fi
timeout 200 $here/slurm.sh "$work"/megatron-lm/*/*.sbatch "$work"/megatron-lm-best/*/*.sbatch
[ $? -ne 1 ] || failed=1
exit $failed
