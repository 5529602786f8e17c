#!/usr/bin/env bash
# tuning.sh PYTHON: asks the tools that fine-tune about what `plan emit` writes for them: released axolotl's schema, and
# what `tune validate` does in released torchtune. PYTHON has torch, transformers and pydantic; empty: skipped.
set -u
cd "$(dirname "$0")/../.." || exit 2
python=$1
here=tests/validators work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
. $here/asking.sh

# FORMAT: a folder for each job below that the tool takes, with the plan that it was written from.
written() {
  local format=$1 model gpus depth task layout number=0 folder
  while read -r model gpus depth task layout; do
    folder=$work/$format/$(printf %04d $number)
    local job=(--model "$model" --gpus "$gpus" --task "$task" --seq 4096 --global-batch 256 --layout "$layout")
    build/plan emit "$format" "${job[@]}" -o "$folder" > /dev/null 2> "$work/error"
    if [ ! -e "$folder" ]; then
      grep -q "^error: $format " "$work/error" || { cat "$work/error"; failed=1; }
      continue
    fi
    build/plan estimate "${job[@]}" --framework accelerate --json > "$work/plan.json"
    python3 $here/from_plan.py "$work/plan.json" "$depth" "$folder/expect.json" || failed=1
    number=$((number + 1))
  done << 'END'
llama3-8b 16 32 finetune tp1,cp1,mb2,zero3,recompute=full
llama3-8b 16 32 finetune tp1,cp1,mb1,zero2,recompute=none
llama3-8b 16 32 finetune tp2,cp1,mb2,zero3,recompute=full,sp=off
llama3-8b 16 32 finetune tp1,cp1,mb2,zero3,shard8,recompute=full
llama3-8b 16 32 lora tp1,cp1,mb4,zero3,recompute=full
llama3-8b 16 32 qlora tp1,cp1,mb4,zero3,recompute=full
llama3-8b 16 32 pretrain tp1,cp1,mb1,zero3,recompute=full
llama3.2-1b 16 16 pretrain tp1,cp1,mb1,zero0,recompute=full
llama3-8b 16 32 finetune tp1,cp4,cp-kind=all-gather,mb1,zero3,recompute=full
llama3-8b 16 32 lora tp1,cp4,cp-kind=all-gather,mb1,zero3,recompute=full
llama3-70b 64 80 lora tp1,cp1,mb1,zero3,recompute=full
llama3-70b 64 80 finetune tp8,cp1,mb1,zero3,recompute=full,sp=off
llama3.2-3b 8 28 lora tp1,cp1,mb2,zero2,recompute=none
qwen3-32b 32 64 qlora tp1,cp1,mb1,zero3,recompute=full
mistral-7b 8 32 finetune tp1,cp1,mb1,zero3,recompute=full
END
  mkdir -p "$work/$format-best"
}

# FORMAT DRIVER PACKAGE...: the packages without what they depend on; the last is of the tool itself
released() {
  local format=$1 driver=$2 path='' package folder
  shift 2
  for package in "$@"; do
    folder=$($here/unpacked.sh "$python" "$package") || { echo "skipped: $format: the package index has no $package"; return; }
    path=$folder${path:+:$path}
  done
  written "$format"
  PYTHONPATH=$path HF_HUB_OFFLINE=1 ask "$python" "$driver" "$format"
}

if [ -n "$python" ]; then
  released axolotl axolotl_config.py axolotl==0.13.1
  released torchtune torchtune_config.py omegaconf==2.3.0 antlr4-python3-runtime==4.9.3 torchtune==0.6.1
else
  echo "skipped: axolotl, torchtune: the package index cannot be reached"
fi
exit $failed
