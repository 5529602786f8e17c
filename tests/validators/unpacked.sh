#!/usr/bin/env bash
# unpacked.sh PYTHON PACKAGE: a package without what it depends on, cached beside the environments of venv.sh; prints the
# folder for PYTHONPATH. Exit status 3: the package index cannot be reached or has no such package.
set -eu
folder=${XDG_CACHE_HOME:-$HOME/.cache}/plan-validators/$2-$("$1" -c 'import sys; print(sys.implementation.cache_tag)')
if [ ! -e "$folder/complete" ]; then
  rm -rf "$folder"
  timeout "${VALIDATORS_INSTALL_SECONDS:-300}" "$1" -m pip install -q --no-deps --no-compile --timeout 15 --retries 1 \
    --target "$folder" "$2" >&2 || exit 3
  touch "$folder/complete"
fi
echo "$folder"
