#!/usr/bin/env bash
# run.sh SECONDS [TARGET...]: builds the fuzz targets with clang, gives each SECONDS, and fails at a crash, a sanitizer's
# report, or an input that takes two GiB or 25 seconds, which are a quarter of a second of the program as it is shipped.
# What it finds, and what it has learnt, is in FUZZ_WORK, build-fuzz/work by default. FUZZ_PROGRAM: one that is built
# already. FUZZ_JOBS: targets at a time.
set -eu
cd "$(dirname "$0")/../.."
export FUZZ_SECONDS=${1:?run.sh SECONDS [TARGET...]}
shift
build=$PWD/build-fuzz
export FUZZ_WORK=${FUZZ_WORK:-$build/work}
if [ -z "${FUZZ_PROGRAM:-}" ]; then
  export FUZZ_PROGRAM=$build/tests/fuzz/plan_fuzz
  cmake -S . -B "$build" -G Ninja -DPLAN_FUZZ=ON -DPLAN_CUDA=OFF -DCMAKE_CXX_COMPILER=clang++ \
    -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g1" > /dev/null
  cmake --build "$build" --target plan_fuzz > /dev/null
fi
inputs=$("$FUZZ_PROGRAM" || true)
mapfile -t all < <(cut -f1 <<< "$inputs" | sort -u)
[ $# -gt 0 ] || set -- "${all[@]}"

for target in "$@"; do
  work=$FUZZ_WORK/$target
  mkdir -p "$work/corpus" "$work/seeds" "$work/found"
  awk -F'\t' -v t="$target" '$1 == t {print $2}' <<< "$inputs" | while read -r file; do
    [ "$(stat -c %s "$file")" -gt 65536 ] || cp "$file" "$work/seeds/"
  done
  # Words of the seeds are what a reader looks for: bytes alone seldom make one.
  cat "$work"/seeds/* | grep -aoE '[A-Za-z_"#-][A-Za-z0-9_."=-]{2,30}' | sort | uniq -c | sort -rn | head -400 |
    awk '{gsub(/["\\]/, "\\\\&", $2); print "\"" $2 "\""}' > "$work/words"
done

one() {  # one TARGET
  local work=$FUZZ_WORK/$1 status=0
  PLAN_FUZZ_TARGET=$1 "$FUZZ_PROGRAM" -max_total_time="$FUZZ_SECONDS" -timeout=25 -rss_limit_mb=2048 -max_len=16384 \
    -dict="$work/words" -artifact_prefix="$work/found/" -print_final_stats=1 "$work/corpus" "$work/seeds" \
    > "$work/log" 2>&1 || status=1
  [ $status -eq 0 ] || tail -30 "$work/log"
  echo "== $1: $(grep -a executed_units "$work/log" | grep -oE '[0-9]+$') inputs$([ $status -eq 0 ] || echo ", FAILED")"
  return $status
}
export -f one
printf '%s\n' "$@" | xargs -P "${FUZZ_JOBS:-1}" -I{} bash -c 'one {}'
