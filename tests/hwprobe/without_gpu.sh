#!/usr/bin/env bash
# What can be said of the CUDA plugin without a GPU: it compiles, needs no libnccl, cuDNN has kernels for its attention
# graphs, and on a device whose times are known it finds these times and survives that device's faults. The toolkit comes from the Python package index; skips, and says so, where that cannot be reached.
#     tests/hwprobe/without_gpu.sh [PLAN]
set -eu
cd "$(dirname "$0")/../.."
plan=$(realpath "${1:-build/plan}")
python=$(tests/validators/venv.sh cuda python3 nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88 \
  nvidia-cuda-cccl==13.0.85 nvidia-cuda-runtime==13.0.96 nvidia-cublas==13.1.0.3 nvidia-nccl-cu13==2.28.9 \
  nvidia-cuda-nvrtc==13.0.88 nvidia-cudnn-cu13==9.19.0.56) ||
  { echo "skipped: the CUDA toolkit: the package index cannot be reached in time"; exit 0; }
packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/nvidia
work=$(mktemp -d) build=$PWD/build-cuda  # in the tree, where a compiler cache knows its sources again
trap 'rm -rf "$work" "$build"' EXIT

# The packages as one toolkit, with the names that a linker looks for.
mkdir -p "$work/toolkit/lib"
ln -s lib "$work/toolkit/lib64"
for part in include nvvm; do ln -s "$packages/cu13/$part" "$work/toolkit/$part"; done
cp -r "$packages/cu13/bin" "$work/toolkit/bin"  # nvcc finds the rest beside where it really lies
for file in "$packages"/cu13/lib/*; do
  name=$(basename "$file")
  ln -s "$file" "$work/toolkit/lib/$name"
  ln -sf "$file" "$work/toolkit/lib/${name%.so.*}.so"
done
chmod +x "$work"/toolkit/bin/* "$work"/toolkit/nvvm/bin/*
cmake -S . -B "$build" -G Ninja -DPLAN_CUDA=ON -DCUDAToolkit_ROOT="$work/toolkit" -DCMAKE_CUDA_ARCHITECTURES=90-real \
  -DCMAKE_CUDA_COMPILER="$work/toolkit/bin/nvcc" -DNCCL_INCLUDE_DIR="$packages/nccl/include" -DCUDNN_INCLUDE_DIR="$packages/cudnn/include" \
  -DPLAN_TEST_PLAN="$plan" > "$work/log" ||
  { tail -n 20 "$work/log"; exit 1; }
cmake --build "$build" --target plan_probe_cuda test_attention_graph test_probe_device > "$work/log" || { tail -n 40 "$work/log"; exit 1; }
cmake -DPLAN="$plan" -DPLUGIN="$(find "$build/lib" -name 'libplan_probe_cuda.so')" -P tests/hwprobe/needed.cmake
tests/hwprobe/vectorised.sh hwprobe/cuda/kernels.cu "$work/toolkit/bin/nvcc" -std=c++17 -arch=sm_90 -I. -I"$packages/nccl/include"
PLAN_TEST_CUDNN="$packages/cudnn/lib/libcudnn.so.9" LD_LIBRARY_PATH="$packages/cudnn/lib:$packages/cu13/lib" \
  "$build/tests/hwprobe/test_attention_graph" "$build/tests/hwprobe/libcuda.so.1"
"$build/tests/hwprobe/test_probe_device"
tests/hwprobe/run_all_answers.sh "$plan" "$build/tests/hwprobe"
echo "the CUDA plugin compiles, and needs neither libnccl nor libcudnn to start"
