#!/usr/bin/env bash
# tests/gpu/run_all.sh itself, on the device that answers: every check that needs no PyTorch passes there; after one that
# fails the rest is done; what was not measured is said in its words, and figures stand beside published ones.
#     tests/hwprobe/run_all_answers.sh PLAN FOLDER   FOLDER: where the stand-ins of tests/hwprobe were built
set -eu
cd "$(dirname "$0")/../.."
plan=$(realpath "$1") built=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/lib" "$work/build"
printf '#!/bin/sh\necho "NVIDIA H100 80GB HBM3"\n' > "$work/bin/nvidia-smi"
printf '#!/bin/sh\nexit 0\n' > "$work/bin/cmake"  # all is built
chmod +x "$work"/bin/*
ln -s "$plan" "$work/build/plan"
ln -s "$built/libnvml_double.so" "$work/lib/libnvidia-ml.so.1"
ln -s "$built/libanswering_nccl.so" "$work/lib/libnccl.so.2"
ln -s "$built/libanswering_cublaslt.so" "$work/lib/libcublasLt.so.13"
[ ! -f "$built/libanswering_cudnn.so" ] || ln -s "$built/libanswering_cudnn.so" "$work/lib/libcudnn.so.9"

run_all() {  # run_all ANSWERS: what it prints, in $work/log
  PATH="$work/bin:$PATH" LD_LIBRARY_PATH="$work/lib:$built" PLAN_PROBE_PLUGIN="$built/libplan_probe_answering.so" \
    NVML_DOUBLE=hgx CUDA_VISIBLE_DEVICES=0 DEVICE_ANSWERS="$1" PLAN_GPU_PROFILES="$work/profiles" \
    timeout 900 tests/gpu/run_all.sh "$work/build" > "$work/log" 2>&1
}
missing=0
says() {
  grep -qE -- "$1" "$work/log" || { echo "run_all.sh does not say: $1"; missing=1; }
}

run_all "" || { cat "$work/log"; exit 1; }
says '^ok       one GPU, 20 seconds$'
says '^ok       probe within its budget$'
says '^ok       plans with what was measured$'
says '^ok       two ranks on one GPU$'
says 'nothing but what time did not allow'
says '^[0-9]+ passed, 0 failed, [0-9]+ skipped'
[ -s "$work"/profiles/*.yaml ] || { echo "run_all.sh keeps no profile"; missing=1; }
if python3 -c 'import yaml' 2> /dev/null; then says 'beside what others published of H100-SXM'; fi
if run_all "no_blas=1"; then  # without a BLAS nothing is planned with measured GEMMs, and the rest is done
  echo "run_all.sh passes without a BLAS"
  missing=1
fi
says '^FAILED   plans with what was measured$'
says '^ok       one rank of NCCL$'
says 'cuBLASLt does not start'
says '^memory copy '
[ $missing -eq 0 ] || { cat "$work/log"; exit 1; }
echo "run_all.sh does what it says on the device that answers"
