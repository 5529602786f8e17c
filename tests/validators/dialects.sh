#!/usr/bin/env bash
# dialects.sh PYTHON [SAMPLES [SEED]]: asks the tools around Megatron-LM about what `plan emit` writes for them: released
# Megatron-Bridge, verl and ms-swift, each with its own configuration code and PYTHON's megatron-core. PYTHON empty:
# skipped. NeMo-RL (the index's 0.0.0 is empty) and LLaMA-Factory after 0.9.5, which takes Megatron-Bridge, are in no
# package: their keys were read in their sources, 7ea279abf and ff6d4d12e.
set -u
cd "$(dirname "$0")/../.." || exit 2
python=$1
export samples=${2:-40} seed=${3:-1}
here=tests/validators work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
. $here/asking.sh

released() {  # FORMAT DRIVER PACKAGE...: the packages without what they depend on; the last is of the tool itself
  local format=$1 driver=$2 path='' package folder
  shift 2
  for package in hydra-core==1.3.2 omegaconf==2.3.0 antlr4-python3-runtime==4.9.3 "$@"; do
    folder=$($here/unpacked.sh "$python" "$package") || { echo "skipped: $format: the package index has no $package"; return; }
    path=$folder${path:+:$path}
  done
  samples=$(((samples + 3) / 4)) emit "$format" megatron  # hydra composes a file in half a second
  PYTHONPATH=$path ask "$python" "$driver" "$format"
}

if [ -n "$python" ]; then
  released megatron-bridge bridge_config.py megatron-bridge==0.3.1
  released verl verl_config.py verl==0.9.1
  released ms-swift swift_arguments.py ms-swift==4.6.0
else
  echo "skipped: Megatron-Bridge, verl, ms-swift: the package index cannot be reached"
fi
exit $failed
