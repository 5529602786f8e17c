// GPUs that launchers name: every preset by each of its names, parts of a GPU, models and labels that no preset has.
#include <doctest/doctest.h>

#include "cli/launch/launch.hpp"
#include "presets/store.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

std::string script(const std::string& directives) {
  return "#!/bin/bash\n#SBATCH --nodes=2\n" + directives +
         "\ntorchrun --nnodes 2 --nproc_per_node 4 pretrain_gpt.py --num-layers 8 --hidden-size 1024 "
         "--num-attention-heads 16 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
         "--global-batch-size 16 --eval-interval 10 --vocab-size 32000 --bf16\n";
}

std::string gpu_read(const std::string& directives) { return job_of("run.sh", script(directives)).gpu; }

}  // namespace

TEST_CASE("a GPU is known by each of its names, wherever Slurm has a place for it") {
  StoreOptions store;
  store.files = false;
  int names = 0;
  for (const PresetEntry& entry : list_presets(PresetKind::Gpu, store)) {
    std::vector<std::string> words = entry.aliases;
    words.push_back(entry.name);
    for (const std::string& word : words) {
      CAPTURE(word);
      CHECK(gpu_read("#SBATCH --gres=gpu:" + word + ":4") == entry.name);
      CHECK(gpu_read("#SBATCH --gpus-per-node=" + word + ":4") == entry.name);
      CHECK(gpu_read("#SBATCH --gpus=" + word + ":8") == entry.name);
      CHECK(gpu_read("#SBATCH -C \"" + word + "&ib\"") == entry.name);
      ++names;
    }
  }
  CHECK(names > 60);
  CHECK(gpu_read("#SBATCH --gres=gpu:nvidia_h100_80gb_hbm3:4") == "h100-sxm");
  CHECK(gpu_read("#SBATCH --gres=gpu:nvidia_a100-sxm4-80gb:4") == "a100-sxm-80gb");
  CHECK(gpu_read("#SBATCH --gres=gpu:tesla_t4:4") == "t4");
  CHECK(gpu_read("#SBATCH --constraint=a100|h100") == "");
  // Sites shorten the memory, and add words of their own.
  CHECK(gpu_read("#SBATCH --constraint=a100_80g") == "a100-sxm-80gb");
  CHECK(gpu_read("#SBATCH -C \"v100-32g&ib\"") == "v100-sxm2-32gb");
  CHECK(gpu_read("#SBATCH -C h100_ib") == "h100-sxm");
  CHECK(gpu_read("#SBATCH -C intel&avx512") == "");
  CHECK(gpu_read("#SBATCH --partition=h200") == "h200-sxm");
  CHECK(gpu_read("#SBATCH -p a100-long\n#SBATCH --gres=gpu:4") == "a100-sxm-80gb");
  CHECK(gpu_read("#SBATCH -p h100\n#SBATCH --gres=gpu:a100:4") == "a100-sxm-80gb");
  CHECK(gpu_read("#SBATCH -p batch") == "");
  CHECK(job_of("run.sh", script("#SBATCH -C a100_20")).hardware.find("a100_20") != std::string::npos);
}

TEST_CASE("a part of a GPU and a model without a preset must be named, a label of the cluster's own is told") {
  for (const char* word :
       {"nvidia_h100_80gb_hbm3_3g.40gb", "a100_1g.5gb", "h200_2g.35gb", "quadro_rtx_8000", "p100", "gtx_1080_ti"}) {
    CAPTURE(word);
    const LaunchJob job = job_of("run.sh", script(std::string("#SBATCH --gres=gpu:") + word + ":4"));
    CHECK(job.gpu.empty());
    CHECK(job.hardware.find(word) != std::string::npos);
  }
  const LaunchJob label = job_of("run.sh", script("#SBATCH --gres=gpu:hgx:4"));
  CHECK(label.hardware.empty());
  CHECK(names(label.unused, "`hgx`"));
  CHECK(job_of("run.sh", script("#SBATCH --gres=gpu:4")).unused.empty());
}

}  // namespace plan
