#!/usr/bin/env bash
# venv.sh NAME PYTHON PACKAGE...: a cached Python environment with the frameworks to ask; prints its python.
# Nothing of it lies in the tree. Exit status 3: the package index cannot be reached, has no such
# package, or takes too long.
set -eu
name=$1 python=$2
shift 2
home=${XDG_CACHE_HOME:-$HOME/.cache}/plan-validators
command -v "$python" > /dev/null && "$python" -c '' 2> /dev/null || { echo "no $python" >&2; exit 3; }
folder=$home/$name-$(printf '%s\n' "$python" "$@" | sha256sum | cut -c1-12)
if [ ! -e "$folder/complete" ]; then
  rm -rf "$folder"
  mkdir -p "$home"
  "$python" -m venv "$folder" >&2 || exit 3
  # PyTorch's own index has builds without CUDA; where it cannot be reached, the package index's will do.
  if printf '%s\n' "$@" | grep -q '^torch='; then
    timeout "${VALIDATORS_INSTALL_SECONDS:-300}" "$folder/bin/pip" install -q --no-compile --timeout 15 --retries 0 --index-url https://download.pytorch.org/whl/cpu \
      "$(printf '%s\n' "$@" | grep '^torch=')" >&2 2> /dev/null || true
  fi
  timeout "${VALIDATORS_INSTALL_SECONDS:-480}" "$folder/bin/pip" install -q --no-compile --retries 1 "$@" >&2 || exit 3
  touch "$folder/complete"
fi
echo "$folder/bin/python"
