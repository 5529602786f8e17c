#!/usr/bin/env bash
# Asks the frameworks' own parsers and validators about the files that `plan emit` writes: plans drawn by chance, and
# the best plans of well-known models. Skips, and says so, what the package index cannot give.
#     tests/validators/run.sh [SAMPLES [SEED]]
set -u
cd "$(dirname "$0")/../.." || exit 2
samples=${1:-40} seed=${2:-1}
here=tests/validators work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

emit() {  # FORMAT FRAMEWORK: chance's plans, and the best of a few models
  build/tests/frameworks/emit_samples "$1" "$samples" "$seed" "$work/$1" || exit 2
  local row model gpus depth folder n=0
  for row in 8b:8:32 8b:64:32 70b:64:80 70b:512:80 405b:512:126; do
    IFS=: read -r model gpus depth <<< "$row"
    folder=$work/$1-best/$((n++))
    build/plan emit "$1" --model "$model" --gpus "$gpus" -o "$folder" > /dev/null 2> "$work/error" || {
      grep -q 'no layout fits' "$work/error" || { cat "$work/error"; failed=1; }
      rm -rf "$folder"
      continue
    }
    build/plan --model "$model" --gpus "$gpus" --framework "$2" --json > "$work/plan.json" &&
      python3 $here/from_plan.py "$work/plan.json" "$depth" "$folder/expect.json" || failed=1
  done
  mkdir -p "$work/$1-best"
}

ask() {  # PYTHON DRIVER FORMAT: every file accepted, and a changed plan noticed
  timeout 400 "$1" "$here/$2" "$work/$3" "$work/$3-best" > "$work/log" 2> "$work/err" ||
    { cat "$work/log"; tail -n 5 "$work/err"; failed=1; return; }
  tail -n 1 "$work/log"
  rm -rf "$work/changed" && mkdir "$work/changed" && cp -r "$work/$3/0000" "$work/changed/"
  sed -i -E 's/"gpus": ([0-9]+)/"gpus": 3\1/; s/"(micro_batch|global_batch)": ([0-9]+)/"\1": 3\2/' "$work/changed/0000/expect.json"
  if timeout 200 "$1" "$here/$2" "$work/changed" > /dev/null 2>&1; then
    echo "$2 does not notice a changed plan"
    failed=1
  fi
}

torch=$($here/venv.sh torch python3 torch==2.11.0 torchtitan==0.2.2 deepspeed==0.19.8 accelerate==1.15.0 \
  transformers==5.23.0 numpy megatron-core==0.16.1 einops) || torch=
if [ -n "$torch" ]; then
  emit torchtitan torchtitan && ask "$torch" torchtitan_022.py torchtitan
  ask "$torch" torchrun_args.py torchtitan
  emit deepspeed deepspeed && ask "$torch" deepspeed_config.py deepspeed
  emit accelerate accelerate && ask "$torch" accelerate_config.py accelerate
else
  echo "skipped: torchtitan, DeepSpeed, accelerate, torchrun: the package index cannot be reached in time"
fi

$here/megatron.sh "$torch" "$samples" "$seed" || failed=1

maxtext=$($here/venv.sh maxtext python3.12 maxtext==0.2.5 'jax[cpu]==0.12.0.1' flax pydantic omegaconf pyyaml absl-py \
  optax orbax-checkpoint packaging pathwaysutils jinja2) || maxtext=
if [ -n "$maxtext" ]; then
  emit maxtext maxtext && ask "$maxtext" maxtext_config.py maxtext
else
  echo "skipped: MaxText: it needs Python 3.12 and the package index"
fi

# torchtitan's main branch is in no package index: TORCHTITAN_MAIN names a checkout, TORCHTITAN_PYTHON a python for it.
if [ -n "${TORCHTITAN_MAIN:-}" ]; then
  emit torchtitan-main torchtitan
  PYTHONPATH=$TORCHTITAN_MAIN ask "${TORCHTITAN_PYTHON:-python3}" torchtitan_main.py torchtitan-main
else
  echo "skipped: torchtitan main: TORCHTITAN_MAIN names no checkout"
fi
exit $failed
