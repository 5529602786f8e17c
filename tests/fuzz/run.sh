#!/usr/bin/env bash
# run.sh SECONDS [TARGET...]: builds the fuzz targets with clang, gives each SECONDS, and fails at a crash, a sanitizer's
# report, an input that takes ten seconds or two GiB. What it finds, and what it has learnt, is in build-fuzz/work.
set -eu
cd "$(dirname "$0")/../.."
seconds=${1:?run.sh SECONDS [TARGET...]}
shift
build=$PWD/build-fuzz
cmake -S . -B "$build" -G Ninja -DPLAN_FUZZ=ON -DPLAN_CUDA=OFF -DCMAKE_CXX_COMPILER=clang++ \
  -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" \
  ${CMAKE_ARGS:-} > /dev/null
cmake --build "$build" --target plan_fuzz > /dev/null
inputs=$("$build/tests/fuzz/plan_fuzz" || true)
[ $# -gt 0 ] || set -- $(cut -f1 <<< "$inputs" | sort -u)

failed=
for target in "$@"; do
  work=$build/work/$target
  mkdir -p "$work/corpus" "$work/seeds" "$work/found"
  awk -F'\t' -v t="$target" '$1 == t {print $2}' <<< "$inputs" | while read -r file; do
    [ "$(stat -c %s "$file")" -gt 65536 ] || cp "$file" "$work/seeds/"
  done
  # Words of the seeds are what a reader looks for: bytes alone seldom make one.
  cat "$work"/seeds/* | grep -aoE '[A-Za-z_"#-][A-Za-z0-9_."=-]{2,30}' | sort | uniq -c | sort -rn | head -400 |
    awk '{gsub(/["\\]/, "\\\\&", $2); print "\"" $2 "\""}' > "$work/words"
  echo "== $target, $seconds s"
  PLAN_FUZZ_TARGET=$target "$build/tests/fuzz/plan_fuzz" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=16384 -dict="$work/words" -artifact_prefix="$work/found/" -print_final_stats=1 \
    "$work/corpus" "$work/seeds" > "$work/log" 2>&1 || { failed="$failed $target"; tail -30 "$work/log"; }
  grep -aE 'number_of_executed_units|new_units_added' "$work/log" || true
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
