// NeMo Automodel's recipes: each key of the mesh, the batch and the model counts, or the file is refused.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <random>
#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kRecipe = R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler:
  global_batch_size: 64
  local_batch_size: 2
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained
  pretrained_model_name_or_path: meta-llama/Llama-3.1-8B
distributed:
  strategy: fsdp2
  dp_size: none
  tp_size: 1
  cp_size: 1
  sequence_parallel: false
dataset:
  _target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset
  seq_len: 4096
optimizer:
  _target_: torch.optim.AdamW
  lr: 1.0e-5
)";

std::string with(const std::string& section, const std::string& key) {
  return replaced(kRecipe, section + ":\n", section + ":\n  " + key + "\n");
}

std::string with_section(const std::string& text) { return kRecipe + text; }

}  // namespace

TEST_CASE("degrees and batches of a NeMo Automodel recipe count as stated, and others leave the data ranks") {
  std::mt19937 random(5);
  const auto power = [&](int most) { return 1 << std::uniform_int_distribution<int>(0, most)(random); };
  for (int round = 0; round < 40; ++round) {
    const int tp = power(2), cp = power(1), dp = power(3), local = power(2), steps = power(3);
    std::string text = replaced(kRecipe, "tp_size: 1", fmt::format("tp_size: {}", tp));
    text = replaced(text, "cp_size: 1", fmt::format("cp_size: {}", cp));
    text = replaced(text, "local_batch_size: 2", fmt::format("local_batch_size: {}", local));
    text = replaced(text, "global_batch_size: 64", fmt::format("global_batch_size: {}", local * dp * steps));
    const std::string stated = replaced(text, "dp_size: none", fmt::format("dp_size: {}", dp));
    CAPTURE(stated);
    for (const LaunchJob& job : {job_of("a.yaml", stated), job_of("a.yaml", text, on(tp * cp * dp))}) {
      CHECK(job.format == "nemo-automodel");
      CHECK(job.fixed.tp == tp);
      CHECK(job.fixed.cp == cp);
      CHECK(job.fixed.pp == 1);
      CHECK(job.fixed.micro_batch == local);
      CHECK(job.fixed.zero == (tp * cp * dp == 1 ? 0 : 3));
      REQUIRE(job.training);
      CHECK(job.training->global_batch == local * dp * steps);
      CHECK(job.training->seq == 4096);
      CHECK(job.training->master_bytes == 0);
      CHECK(job.training->moment1_bytes == 2);
      REQUIRE(job.model);
      CHECK(job.model->name == "llama3-8b");
    }
    CHECK(job_of("a.yaml", stated).gpus == tp * cp * dp);
  }
}

TEST_CASE("a NeMo Automodel recipe that its trainer would stop at is refused") {
  CHECK(error_of("a.yaml", replaced(kRecipe, "dp_size: none", "dp_size: 3")) == "does_not_divide");
  CHECK(error_of("a.yaml", replaced(kRecipe, "fsdp2", "fsdp3")) == "wrong_value");
  CHECK(error_of("a.yaml", replaced(kRecipe, "tp_size: 1", "tp_size: x")) == "wrong_value");
  CHECK(error_of("a.yaml", replaced(kRecipe, "  local_batch_size: 2\n", "")) == "missing_key");
  CHECK(error_of("a.yaml", replaced(kRecipe, "strategy: fsdp2", "_target_: my_package.OwnManager")) == "wrong_value");
  CHECK(error_of("a.yaml", with("distributed", "activation_checkpointing: sometimes")) == "wrong_value");
  const std::string pipe = "pp_size: 4\n  pipeline:\n    pp_schedule: 1f1b\n    pp_microbatch_size: 1";
  CHECK(error_of("a.yaml", with("distributed", pipe)) == "bad_pass");
}

TEST_CASE("pipelines of NeMo Automodel have the stages that their layers make") {
  const std::string text = replaced(kRecipe, "local_batch_size: 2", "local_batch_size: 8");
  const auto staged = [&](const std::string& schedule, const std::string& more) {
    return replaced(text, "distributed:\n",
                    "distributed:\n  pp_size: 4\n  pipeline:\n    pp_schedule: " + schedule +
                        "\n    pp_microbatch_size: 1\n" + more);
  };
  CHECK(job_of("a.yaml", staged("1f1b", ""), on(8)).fixed.vp == 1);
  CHECK(job_of("a.yaml", staged("interleaved1f1b", ""), on(8)).fixed.vp == 2);
  const LaunchJob four = job_of("a.yaml", staged("interleaved1f1b", "    layers_per_stage: 2\n"), on(8));
  CHECK(four.fixed.vp == 4);
  CHECK(four.fixed.micro_batch == 1);
  CHECK(four.fixed.zero == 2);
  CHECK(error_of("a.yaml", staged("interleaved1f1b", "    layers_per_stage: 3\n"), on(8)) == "wrong_value");
  CHECK(job_of("a.yaml",
               staged("interleaved1f1b", "    layers_per_stage: 3\n    round_virtual_stages_to_pp_multiple: down\n"),
               on(8))
            .fixed.vp == 2);
}

TEST_CASE("what NeMo Automodel trains, in which format and what it keeps") {
  const auto read = [](const std::string& text) { return job_of("a.yaml", text, on(8)); };
  CHECK(read(kRecipe).training->task == Task::FullFinetune);
  const std::string peft = "peft:\n  _target_: nemo_automodel.components._peft.lora.PeftConfig\n  dim: 16\n";
  const LaunchJob adapters = read(with_section(peft + "  target_modules: '*_proj'\n"));
  CHECK(adapters.training->task == Task::Lora);
  CHECK(adapters.training->lora.rank == 16);
  CHECK(adapters.training->lora.ffn);
  CHECK_FALSE(
      read(with_section(peft + "  target_modules: ['*q_proj', '*k_proj', '*v_proj', '*o_proj']\n")).training->lora.ffn);
  CHECK(read(with_section(peft + "quantization:\n  load_in_4bit: true\n")).training->task == Task::Qlora);
  CHECK(read(with("model", "torch_dtype: float32")).training->master_bytes == 4);
  CHECK(read(with_section("fp8:\n  enabled: true\n")).training->precision == Precision::Fp8Tensorwise);
  CHECK(read(with("distributed", "activation_checkpointing: true")).fixed.recompute->kind == RecomputeKind::Full);
  CHECK(read(with("distributed", "reshard_after_forward: false")).fixed.zero == 2);
  CHECK(read(with("distributed", "dp_replicate_size: 2")).fixed.shard == 4);
  CHECK(read(with("distributed", "ep_size: 4")).fixed.zero == 2);
  CHECK(read(replaced(kRecipe, "fsdp2", "ddp")).fixed.zero == 0);
  CHECK_FALSE(read(with("model", "config:\n    num_hidden_layers: 2")).model);
}

TEST_CASE("words of a command lie over the recipe that it names") {
  const Files files;
  files.folder.write("recipe.yaml", kRecipe);
  for (const char* command : {"automodel finetune llm -c recipe.yaml --nproc-per-node 8",
                              "torchrun --nproc_per_node 8 finetune.py --config recipe.yaml"}) {
    CAPTURE(std::string(command));
    const Result<LaunchJob> job = files.read(
        "run.sh",
        std::string("#!/bin/bash\n") + command + " --distributed.tp_size 2 --step_scheduler.local_batch_size=4\n",
        on(8));
    REQUIRE(job);
    CHECK(job->fixed.tp == 2);
    CHECK(job->fixed.micro_batch == 4);
  }
}

}  // namespace plan
