#!/usr/bin/env bash
# coverage.sh [LEAST]: which lines of formulas/ and planner/ the tests of them and of the commands run, file by file, by
# clang's own counters. Fails below LEAST per cent. What was not run is in build-coverage/uncovered.
set -eu
cd "$(dirname "$0")/../.."
least=${1:-0}
build=$PWD/build-coverage
tools=$(clang++ --version | sed -nE 's/.*version ([0-9]+).*/-\1/p' | head -1)  # Debian's llvm-cov has the version in its name
command -v "llvm-cov$tools" > /dev/null || tools=
cmake -S . -B "$build" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DPLAN_CUDA=OFF -DPLAN_PCH=OFF -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS_DEBUG="-O0 -fprofile-instr-generate -fcoverage-mapping" > /dev/null
programs=(formulas planner acceptance cli)
cmake --build "$build" --target "${programs[@]/#/test_}" > "$build.log" || { grep -E 'rror|FAILED' "$build.log"; exit 1; }

rm -rf "$build/raw"
objects=()
for program in "${programs[@]}"; do
  file=$build/tests/$program/test_$program
  objects+=("${objects[@]:+-object}" "$file")
  LLVM_PROFILE_FILE=$build/raw/$program-%p.profraw "$file" > /dev/null  # %p: commands that it starts write, too
done
"llvm-profdata$tools" merge -sparse "$build"/raw/*.profraw -o "$build/profile"
"llvm-cov$tools" show -instr-profile "$build/profile" "${objects[@]}" formulas planner |
  grep -E '^ *[0-9]+\| *0\||^/' > "$build/uncovered" || true
"llvm-cov$tools" export -summary-only -instr-profile "$build/profile" "${objects[@]}" formulas planner |
  python3 -c '
import json, sys
least = float(sys.argv[1])
data = json.load(sys.stdin)["data"][0]
total = {"formulas": [0, 0], "planner": [0, 0]}
for file in sorted(data["files"], key=lambda f: f["summary"]["lines"]["percent"]):
    lines, path = file["summary"]["lines"], "/".join(file["filename"].split("/")[-2:])
    print("%6.1f %%  %5d of %5d  %s" % (lines["percent"], lines["covered"], lines["count"], path))
    total[path.split("/")[0]][0] += lines["covered"]
    total[path.split("/")[0]][1] += lines["count"]
for folder, (covered, count) in total.items():
    print("%6.2f %%  %5d of %5d lines of %s" % (100 * covered / count, covered, count, folder))
sys.exit(any(100 * covered < least * count for covered, count in total.values()))' "$least"
