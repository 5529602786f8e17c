#!/usr/bin/env bash
# megatron.sh PYTHON [SAMPLES [SEED]]: asks megatron-core, slurmctld and shellcheck about what `plan emit megatron-lm`
# writes: plans drawn by chance, and the best plan of 405B. PYTHON has megatron-core; empty: that part is skipped.
set -u
cd "$(dirname "$0")/../.." || exit 2
python=$1 samples=${2:-40} seed=${3:-1}
here=tests/validators work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
build/tests/frameworks/emit_samples megatron-lm "$samples" "$seed" "$work/chance" || exit 2
build/plan emit megatron-lm --model 405b --gpus 16384 -o "$work/best" > /dev/null || failed=1
for launcher in torchrun k8s skypilot hostfile; do
  build/plan emit megatron-lm --model 70b --gpus 256 --launcher "$launcher" -o "$work/$launcher" > /dev/null || failed=1
done
for format in megatron-bridge verl ms-swift; do
  build/plan emit "$format" --model 70b --gpus 256 --layout cp-kind=ring,zero1 -o "$work/$format" > /dev/null || failed=1
done

if [ -n "$python" ]; then
  timeout 400 "$python" $here/megatron_core.py "$work/chance" > "$work/log" 2> "$work/err" ||
    { cat "$work/log"; tail -n 5 "$work/err"; failed=1; }
  tail -n 1 "$work/log"
  mkdir "$work/changed" && cp -r "$work/chance/0000" "$work/changed/"
  sed -i -E 's/"gpus": ([0-9]+)/"gpus": 3\1/' "$work/changed/0000/expect.json"
  if timeout 200 "$python" $here/megatron_core.py "$work/changed" > /dev/null 2>&1; then
    echo "megatron_core.py does not notice a changed plan"
    failed=1
  fi
else
  echo "skipped: megatron-core: the package index cannot be reached"
fi

if command -v shellcheck > /dev/null; then
  find "$work" -name '*.sbatch' -o -name '*.sh' | sort | xargs shellcheck && echo "shellcheck: every script is clean" || failed=1
else
  echo "skipped: shellcheck is not installed"
fi
timeout 200 $here/slurm.sh "$work"/best/*.sbatch "$work"/chance/*/*.sbatch
[ $? -ne 1 ] || failed=1
exit $failed
