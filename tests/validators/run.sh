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

. $here/asking.sh

$here/html.sh || failed=1

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
$here/dialects.sh "$torch" "$samples" "$seed" || failed=1
$here/tuning.sh "$torch" || failed=1

# pyenv's shim is no Python 3.12 where another version is chosen: take the version itself.
python312=$(ls -d "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.12*/bin/python3.12 2> /dev/null | tail -n 1)
maxtext=$($here/venv.sh maxtext "${python312:-python3.12}" maxtext==0.2.5 'jax[cpu]==0.12.0.1' flax pydantic omegaconf pyyaml absl-py \
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
