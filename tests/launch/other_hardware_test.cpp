// Files for accelerators that are no GPUs, and files of another kind than a training's: pipelines of tests.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "samples.hpp"

namespace plan {

using namespace launching;

namespace {

constexpr const char* kSignsOfOthers[] = {
    "export ASCEND_RT_VISIBLE_DEVICES=0,1",
    "export HCCL_CONNECT_TIMEOUT=1200",
    "NPUS_PER_NODE=16",
    "export ZE_AFFINITY_MASK=0,1",
    "export ZE_FLAT_DEVICE_HIERARCHY=FLAT",
    "export HABANA_VISIBLE_DEVICES=0",
    "export NEURON_RT_NUM_CORES=32",
    "export NEURON_CC_FLAGS=--model-type=transformer",
    "export PJRT_DEVICE=TPU",
    "export MLU_VISIBLE_DEVICES=0",
    "export MUSA_VISIBLE_DEVICES=0,1,2,3",
    "device=npu",
    "device=\"xpu\"",
    "device=hpu",
};

bool is_script(const std::string& name) { return name.ends_with(".sh") || name.ends_with(".slurm"); }

}  // namespace

TEST_CASE("a file for other hardware than GPUs says so, in every dialect, and a comment does not") {
  int scripts = 0, settings = 0;
  for (const Sample& sample : kSamples) {
    const std::string name = sample.name, text = sample.text;
    CAPTURE(name);
    const Files files;
    const LaunchContext context = sample.gpus > 0 ? on(sample.gpus) : LaunchContext{};
    const Result<LaunchJob> plain = files.read(name, text, context);
    if (!plain || !plain->hardware.empty()) continue;
    if (is_script(name)) {
      ++scripts;
      for (const char* sign : kSignsOfOthers) {
        CAPTURE(std::string(sign));
        const std::size_t first = text.find('\n') + 1;
        const Result<LaunchJob> other =
            files.read(name, text.substr(0, first) + sign + "\n" + text.substr(first), context);
        REQUIRE(other);
        CHECK_FALSE(other->hardware.empty());
        const Result<LaunchJob> remark =
            files.read(name, text.substr(0, first) + "  # " + sign + "\n" + text.substr(first), context);
        REQUIRE(remark);
        CHECK(remark->hardware.empty());
      }
      for (const char* device : {"npu", "xpu", "hpu"}) {
        const Result<LaunchJob> named = files.read(fmt::format("run_{}_8b.sh", device), text, context);
        REQUIRE(named);
        CHECK_FALSE(named->hardware.empty());
      }
      const Result<LaunchJob> word = files.read("run_input_8b.sh", text, context);  // `npu` within a word
      REQUIRE(word);
      CHECK(word->hardware.empty());
    } else if (name.ends_with(".yaml") && text.find('{') == std::string::npos) {
      ++settings;
      const Result<LaunchJob> other = files.read(name, text + "device: npu\n", context);
      if (other) CHECK_FALSE(other->hardware.empty());
      const Result<LaunchJob> cuda = files.read(name, text + "device: cuda\n", context);
      if (cuda) CHECK(cuda->hardware.empty());
    }
  }
  CHECK(scripts > 0);
  CHECK(settings > 0);
}

TEST_CASE("a pipeline of tests is no training, whatever its steps start") {
  const Files files;
  constexpr const char* kSteps[] = {
      "torchrun --nproc_per_node=8 --nnodes 1 checks/run_all.py",
      "torchrun --nproc_per_node=8 pretrain_gpt.py --num-layers 8 --hidden-size 1024 --micro-batch-size 1",
      "python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path=Qwen/Qwen2.5-0.5B trainer.n_gpus_per_node=8",
      "accelerate launch --num_processes 8 train.py --model_name_or_path gpt2 --per_device_train_batch_size 1",
      "deepspeed --num_gpus 8 train.py --deepspeed ds.json",
  };
  for (const char* step : kSteps) {
    const std::pair<const char*, std::string> pipelines[] = {
        {"ci.yml", fmt::format("name: ci\non: [push]\njobs:\n  gpu:\n    runs-on: [L20x8]\n    steps:\n"
                               "      - uses: actions/checkout@v4\n      - run: |\n          {}\n",
                               step)},
        {".gitlab-ci.yml", fmt::format("stages: [test]\ntest:\n  stage: test\n  script:\n    - {}\n", step)},
        {"config.yml", fmt::format("version: 2.1\njobs:\n  test:\n    steps:\n      - run: {}\nworkflows:\n  all:\n"
                                   "    jobs: [test]\n",
                                   step)},
        {"pipeline.yml", fmt::format("steps:\n  - label: gpu\n    command: {}\n", step)},
        {"azure.yml", fmt::format("trigger: [main]\nsteps:\n  - script: {}\n", step)},
    };
    for (const auto& pipeline : pipelines)
      for (const LaunchContext& context : {LaunchContext{}, on(8)}) {
        const std::string text = pipeline.second;
        CAPTURE(text);
        const Result<LaunchJob> job = files.read(pipeline.first, text, context);
        REQUIRE_FALSE(job);
        CHECK(job.error().front().code == "unknown_format");
        CHECK(job.error().front().message.find("which plan does not read") != std::string::npos);
      }
  }
}

}  // namespace plan
