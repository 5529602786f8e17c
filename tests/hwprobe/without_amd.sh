#!/usr/bin/env bash
# What can be said of the plugin for AMD's GPUs without one: it compiles for them from the CUDA plugin's sources, loads no
# hipBLASLt and no RCCL by itself, and on a device whose times are known it finds these times and survives that device's
# faults. The compiler, HIP and the device libraries are Debian's; skips, and says so, where they cannot be installed.
#     tests/hwprobe/without_amd.sh [PLAN]
set -eu
cd "$(dirname "$0")/../.."
plan=$(realpath "${1:-build/plan}")
needed="clang-15 clang-tools-15 lld-15 libamdhip64-dev rocm-device-libs"
# shellcheck disable=SC2086  # several words
dpkg -s $needed > /dev/null 2>&1 ||
  $(command -v sudo) apt-get install -y --no-install-recommends $needed > /dev/null 2>&1 ||
  { echo "skipped: $needed: Debian's packages cannot be installed here"; exit 77; }
work=$(mktemp -d) build=$PWD/build-hip  # in the tree, where a compiler cache knows its sources again
trap 'rm -rf "$work" "$build"' EXIT
cmake -S . -B "$build" -G Ninja -DPLAN_CUDA=OFF -DPLAN_HIP=ON -DPLAN_TEST_PLAN="$plan" > "$work/log" ||
  { tail -n 20 "$work/log"; exit 1; }
cmake --build "$build" --target plan_probe_hip test_probe_device_hip > "$work/log" || { tail -n 40 "$work/log"; exit 1; }
plugin=$build/lib/plan/libplan_probe_hip.so
if objdump -p "$plugin" | grep -E 'NEEDED.*(hipblaslt|rccl)'; then
  echo "the plugin needs what it is to load by itself"
  exit 1
fi
"$build/tests/hwprobe/test_probe_device_hip"
echo "the plugin for AMD's GPUs compiles, and needs neither librccl nor libhipblaslt to start"
