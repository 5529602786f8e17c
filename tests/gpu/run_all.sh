#!/usr/bin/env bash
# Everything that needs a GPU, in one go, on a machine with at least one NVIDIA GPU, the CUDA toolkit, nccl.h and
# Python with PyTorch: tests/gpu/run_all.sh [build folder]. Prints one line a check and ends with their number.
# A check whose tool is missing is skipped in words and never counted as passed; after one that fails the rest is done.
# Begins with what a probe would meet, and one GPU and 20 seconds; ends with what was not measured, in its words, with
# what was beside the data sheet, and beside what others published of this GPU.
set -u
cd "$(dirname "$0")/../.." || exit 2
build=${1:-build-gpu}
out=$(mktemp -d)
passed=0 failed=0 skipped=0
report() { # report NAME STATUS
  case $2 in
    0) passed=$((passed + 1)); echo "ok       $1" ;;
    77) skipped=$((skipped + 1)); echo "skipped  $1: $(tail -1 "$out/log")" ;;
    *) failed=$((failed + 1)); echo "FAILED   $1"; tail -15 "$out/log" ;;
  esac
}
check() { local name=$1; shift; "$@" > "$out/log" 2>&1; report "$name" $?; }
skip() { echo "$1"; return 77; }
plan=$build/plan

with_torch() { python3 -c 'import torch; assert torch.cuda.is_available()' 2> /dev/null || { skip "no PyTorch with CUDA"; return; }; python3 "$@"; }

builds() { cmake -S . -B "$build" -G Ninja -DPLAN_CUDA=ON && cmake --build "$build" --target plan plan_probe_cuda; }
would_work() { "$plan" probe --check; }
first_look() { # one GPU, 20 seconds: what is wrong from the start shows here
  CUDA_VISIBLE_DEVICES=0 timeout 300 "$plan" probe -o "$out/first.yaml" --budget 20s > "$out/table"
}
not_measured() { # points left out for another reason than time
  awk '/^skipped:/ {on = 1; next} /^[a-z]/ {on = 0} on' "$1" | grep -v 'reason: budget'
}
probes() { # within its budget, start-up and joining aside
  local begin=$SECONDS
  "$plan" probe -o "$out/node.yaml" --model 8b --tp 1 --budget 120s > "$out/whole" && mv "$out/whole" "$out/table" && [ $((SECONDS - begin)) -le 180 ] && ! grep -q '^partial' "$out/node.yaml"
}
measures_attention() { grep -q 'pass: fwd' "$out/node.yaml" && grep -q 'pass: bwd' "$out/node.yaml"; }
resumes() { "$plan" probe --resume "$out/node.yaml" -o "$out/again.yaml" --budget 30s; }
repeats() { # a second look differs by noise alone in the big figures
  "$plan" probe -o "$out/second.yaml" --budget 45s && "$plan" probe "$out/second.yaml" --diff "$out/node.yaml"
}
plans() { "$plan" estimate --model 8b --gpus 8 --layout tp1,zero1 --profile "$out/node.yaml" | grep -q 'measured GEMM'; }
one_rank_nccl() { # a communicator of one: NCCL loads, meets itself and reduces
  PLAN_RANK=0 PLAN_WORLD=1 timeout 120 "$plan" probe -o "$out/nccl.yaml" --budget 20s --allow-busy && grep -q 'what: init' "$out/nccl.yaml"
}
two_ranks() { # two processes on one GPU: by two host names over sockets (plan-measuring(7) 4.5); times mean nothing
  local token=$RANDOM$RANDOM pids=
  for rank in 0 1; do
    NCCL_HOSTID=host$rank NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=lo NCCL_MAX_CTAS=1 PLAN_PROBE_TOKEN=$token \
      PLAN_RANK=$rank PLAN_WORLD=2 PLAN_LOCAL_RANK=0 PLAN_LOCAL_WORLD=2 PLAN_JOB=two \
      timeout 240 "$plan" probe -o "$out/two.yaml" --budget 20s --timeout 30s --allow-busy --rendezvous 127.0.0.1:28555 &
    pids="$pids $!"
  done
  local status=0
  for pid in $pids; do wait "$pid" || status=1; done
  [ $status -eq 0 ] && grep -q 'op: all_reduce' "$out/two.yaml" && grep -q 'synthetic_topology: yes' "$out/two.yaml" &&
    ! "$plan" estimate --model 8b --gpus 8 --layout tp1,zero1 --profile "$out/two.yaml"
}
keeps_profile() { # with its provenance, among the published files, for a commit
  local name
  name=$(nvidia-smi --query-gpu=name --format=csv,noheader | head -1 | tr 'A-Z ' 'a-z-')
  local folder=${PLAN_GPU_PROFILES:-tests/published/profiles}
  mkdir -p "$folder" && cp "$out/node.yaml" "$folder/$name.yaml" && grep -q 'date_utc' "$folder/$name.yaml"
}
sanitizer() {
  command -v compute-sanitizer > /dev/null || { skip "no compute-sanitizer"; return; }
  compute-sanitizer --tool "$1" --error-exitcode 9 "$plan" probe --budget 5s --timeout 120s --allow-busy
}

# PLAN_GPU_PROFILES: another folder for the profile that is kept.
nvidia-smi -L > /dev/null 2>&1 || { echo "no GPU here: nothing was checked"; exit 3; }
check "builds with PLAN_CUDA=ON" builds
check "a probe would work here" would_work
check "one GPU, 20 seconds" first_look
check "probe within its budget" probes
check "figures within 3 % of PyTorch" with_torch tests/gpu/independent.py "$out/node.yaml"
check "attention through cuDNN, forward and backward" measures_attention
check "resume" resumes
check "second probe against the first" repeats
check "plans with what was measured" plans
check "one rank of NCCL" one_rank_nccl
check "two ranks on one GPU" two_ranks
for tool in memcheck racecheck initcheck; do check "compute-sanitizer $tool" sanitizer $tool; done
check "planner against PyTorch at six settings" with_torch tests/gpu/train_step.py "$plan" "$out/node.yaml"
check "measured profile as a fixture" keeps_profile
cp "$out"/*.yaml "$build"/ 2> /dev/null
for profile in "$out/node.yaml" "$out/first.yaml"; do
  [ -f "$profile" ] || continue
  echo "not measured:"
  not_measured "$profile" || echo "  nothing but what time did not allow"
  break
done
[ ! -f "$out/table" ] || cat "$out/table"
for profile in "$out/node.yaml" "$out/first.yaml"; do
  [ -f "$profile" ] || continue
  python3 tests/gpu/against_published.py "$profile" || echo "beside published figures: not compared"
  break
done
echo "$passed passed, $failed failed, $skipped skipped; profiles are in $build"
[ "$failed" -eq 0 ]
