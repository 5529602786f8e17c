// Files for accelerators that are no GPUs, and files of another kind than a training's: pipelines of tests.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "cli/launch/scripts/other_hardware.hpp"
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
    "source /usr/local/Ascend/ascend-toolkit/set_env.sh",
};

constexpr const char* kTrains =
    "train.py --model_name_or_path meta-llama/Meta-Llama-3-8B --per_device_train_batch_size 2 --max_seq_length 2048 "
    "--bf16 True --fsdp full_shard";

/// What a script is for whose second line is `line`, whose launcher is `start`, and which has `more` behind its flags.
std::string hardware_of(const std::string& line, const std::string& more = "",
                        const std::string& start = "torchrun --nnodes 1 --nproc_per_node 8") {
  return job_of("run.sh", fmt::format("#!/bin/bash\n{}\n{} {} {}\n", line, start, kTrains, more), on(8)).hardware;
}

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
      for (const char* other : {"run_npu_8b.sh", "run_xpu_8b.sh", "compare-tpu.sh", "run_npu_vs_gpu.sh"}) {
        const Result<LaunchJob> named = files.read(other, text, context);  // a name alone says nothing
        REQUIRE(named);
        CHECK(named->hardware.empty());
      }
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

TEST_CASE("a stray word for other hardware leaves a script for GPUs as it is") {
  for (const char* line :
       {"export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7\nunset HABANA_VISIBLE_DEVICES", "unset ZE_AFFINITY_MASK",
        "export HCCL_CONNECT_TIMEOUT=1200\nunset HCCL_CONNECT_TIMEOUT",
        "export RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES=1",
        "export RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES=1", "echo \"for TPUs use xla_spawn.py\"",
        "echo xla_spawn.py", "if [ \"$USE_NPU\" = \"1\" ]; then\n  export HCCL_CONNECT_TIMEOUT=3600\nfi",
        "export NEURON_RT_NUM_CORES=", "export PJRT_DEVICE=CUDA",
        "export ASCEND_RT_VISIBLE_DEVICES=0\nexport NCCL_DEBUG=INFO",
        "export HABANA_VISIBLE_DEVICES=0\nexport CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7"}) {
    CAPTURE(std::string(line));
    CHECK(hardware_of(line).empty());
  }
  for (const char* more : {"--dataset xla_spawn_docs", "--output_dir out/device=tpu-baseline", "--run_name npu",
                           "--device cuda", "--device cuda:0", "--output_dir /data/npu", "--use_habana False",
                           "  # on Ascend: export HCCL_CONNECT_TIMEOUT=3600", "  # --device npu"}) {
    CAPTURE(std::string(more));
    CHECK(hardware_of("", more).empty());
  }
}

TEST_CASE("a script for other hardware is named with the word that says so and its line") {
  struct Real {
    const char *line, *hardware, *word;
  };
  for (const Real& real :
       {Real{"export HABANA_VISIBLE_DEVICES=0,1", "Intel Gaudi", "run.sh:2: `HABANA_VISIBLE_DEVICES`)"},
        Real{"export PJRT_DEVICE=TPU", "TPUs", "run.sh:2: `PJRT_DEVICE`)"},
        Real{"\nexport NEURON_RT_NUM_CORES=32", "AWS Trainium", "run.sh:3: `NEURON_RT_NUM_CORES`)"},
        // Megatron-LM asks for the first of these on NPUs, too.
        Real{"export CUDA_DEVICE_MAX_CONNECTIONS=1\nexport HCCL_CONNECT_TIMEOUT=1200", "Ascend NPUs",
             "run.sh:3: `HCCL_CONNECT_TIMEOUT`)"},
        Real{"npu-smi info", "Ascend NPUs", "run.sh:2: `npu-smi`)"}}) {
    CAPTURE(std::string(real.line));
    const std::string hardware = hardware_of(real.line);
    CHECK(hardware.starts_with(real.hardware));
    CHECK(hardware.find(real.word) != std::string::npos);
  }
  const std::pair<const char*, const char*> flags[] = {{"--device npu", "Ascend NPUs"},
                                                       {"--device=xpu", "Intel GPUs"},
                                                       {"--device hpu:0", "Intel Gaudi"},
                                                       {"--use_habana", "Intel Gaudi"},
                                                       {"--device tpu", "TPUs"}};
  for (const auto& flag : flags) {
    const std::string hardware = hardware_of("", flag.first);
    CHECK(hardware.starts_with(flag.second));
    CHECK(hardware.find("run.sh:3: ") != std::string::npos);
  }
  CHECK(hardware_of("", "", "python3 gaudi_spawn.py --world_size 8").starts_with("Intel Gaudi"));
  CHECK(hardware_of("", "", "python3 examples/xla_spawn.py --num_cores 8").starts_with("TPUs"));
  CHECK(hardware_of("", "", "neuron_parallel_compile torchrun --nproc_per_node 8").starts_with("AWS Trainium"));
}

TEST_CASE("what to write for other hardware is its preset, where it has one") {
  CHECK(help_with_hardware("Intel Gaudi (run.sh:2: `HABANA_LOGS`)").find("`--gpu gaudi3`") != std::string::npos);
  CHECK(help_with_hardware("AWS Trainium").find("`--gpu trainium2`") != std::string::npos);
  CHECK(help_with_hardware("TPUs of a kind that no key names").find("`--gpu tpu-v5p`") != std::string::npos);
  for (const char* hardware : {"Ascend NPUs", "Intel GPUs", "Cambricon MLUs", "Moore Threads GPUs", "MLU"})
    CHECK(help_with_hardware(hardware).find("plan-preset(5)") != std::string::npos);
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

TEST_CASE("MindSpeed's parser is known by what a script does, not by what it remarks") {
  const auto script = [](const std::string& line) {
    return LaunchSource{.path = "run.sh",
                        .text = "#!/bin/bash\n" + line + "\ntorchrun pretrain_gpt.py --num-layers 2\n"};
  };
  for (const char* line :
       {"export HCCL_CONNECT_TIMEOUT=1200", "source /usr/local/Ascend/ascend-toolkit/set_env.sh", "NPUS_PER_NODE=8",
        "cd MindSpeed-LLM", "export CUDA_VISIBLE_DEVICES=0\nexport ASCEND_RT_VISIBLE_DEVICES=0"}) {
    CAPTURE(std::string(line));
    CHECK(for_ascend(script(line)));
  }
  CHECK_FALSE(for_ascend(script("# no MindSpeed, HCCL_ or ASCEND_ here, nor ascend-toolkit or msrun")));
}

}  // namespace plan
