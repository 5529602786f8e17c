#!/usr/bin/env bash
# sanitize.sh [readers|device|fuzz|tests|thread]...: builds with clang's sanitizers in build-sanitize, runs there, and
# fails at the first report of any process. Memory, leaks and undefined behaviour: `readers`, over what reads files and
# every kept input; `device`, over the probe with the plugin's own code on the device that answers; `fuzz`, over ten
# seconds of made-up input a reader; `tests`, over every test. `thread`: races, over the tests and commands that have
# threads.
set -u
cd "$(dirname "$0")/../.." || exit 2
[ $# -gt 0 ] || set -- tests fuzz thread
root=$PWD/build-sanitize
reports=$(mktemp -d)
trap 'rm -rf "$reports"' EXIT

# A process that a test starts may end as the test expects in spite of a report, so each report is a file.
common="log_path=$reports/report:halt_on_error=1:exitcode=86:print_stacktrace=1"
export ASAN_OPTIONS="$common:detect_leaks=1:detect_odr_violation=2:check_initialization_order=1:strict_string_checks=1"
export UBSAN_OPTIONS=$common TSAN_OPTIONS=$common

build() {  # build FOLDER OPTIONS TARGET...: quick to compile
  local log=$root/$1.log
  mkdir -p "$root"
  cmake -S . -B "$root/$1" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DPLAN_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug \
    -DCMAKE_CXX_FLAGS_DEBUG="${SANITIZE_FLAGS:--O0 -g0}" $2 > "$log" 2>&1 &&
    cmake --build "$root/$1" --target "${@:3}" >> "$log" 2>&1 && return
  grep -E 'rror|FAILED' "$log"
  return 1
}

readers() {  # with what libFuzzer needs, so that one build is enough
  local programs=(presets hwprobe acceptance fuzz_corpus)
  build address "-DPLAN_FUZZ=ON -DPLAN_HOT=-O1" plan_fuzz "${programs[@]/#/test_}" &&
    (IFS='|' && PLAN_TEST_SCALE=${PLAN_TEST_SCALE:-0.1} ctest --test-dir "$root/address" --parallel "$(nproc)" --output-on-failure -R "^(${programs[*]})$")
}

# The sources are the same for both makers, and those for AMD need nothing that Debian does not have. Eight ranks and
# whole profiles take ten minutes: `tests` has them.
device() {
  local options="-DPLAN_FUZZ=ON -DPLAN_HOT=-O1"
  build address "$options" plan || return
  grep -q test_probe_device_hip "$root/address/build.ninja" ||
    { echo "skipped: the plugin's own code needs HIP to be compiled: see hwprobe/hip/find.cmake"; return 0; }
  build address "$options" test_probe_device_hip &&
    "$root/address/tests/hwprobe/test_probe_device_hip" -tce='every figure of several*,two nodes*,a fabric*,half the*'
}

tests() {  # a tenth of the random problems: each takes some twenty times as long
  build address "-DPLAN_FUZZ=ON -DPLAN_HOT=-O1" all && PLAN_TEST_SCALE=${PLAN_TEST_SCALE:-0.1} ctest --test-dir "$root/address" --parallel "$(nproc)" --output-on-failure
}

fuzz() {
  build address "-DPLAN_FUZZ=ON -DPLAN_HOT=-O1" plan_fuzz &&
    FUZZ_PROGRAM=$root/address/tests/fuzz/plan_fuzz FUZZ_JOBS=$(nproc) tests/fuzz/run.sh "${FUZZ_SECONDS:-10}"
}

thread() {
  build thread "-DPLAN_SANITIZE=thread -DPLAN_HOT=-O1" plan test_planner test_hwprobe test_probe_ranks || return
  local bin=$root/thread
  "$bin/tests/planner/test_planner" -tc='search finds*,threads do not*,searches under*' &&
    "$bin/tests/hwprobe/test_hwprobe" && "$bin/tests/hwprobe/test_probe_ranks" &&
    "$bin/plan" --threads 8 --model 405b --gpus 16384 > /dev/null &&
    "$bin/plan" --threads 8 --model deepseek-v3 --gpus 2048 --pareto > /dev/null &&
    "$bin/plan" sweep --threads 8 --model 8b --gpus 8..256 --memory 0.5x..2x > /dev/null
}

failed=
for kind in "$@"; do
  start=$SECONDS
  $kind || failed="$failed $kind"
  for report in "$reports"/report*; do
    [ -e "$report" ] || continue
    failed="$failed $kind"
    head -60 "$report"
    rm "$report"
  done
  echo "$kind: $((SECONDS - start)) s"
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
