// Names of the linears that get adapters, in the words of each tool.
#include "cli/launch/job/lora_targets.hpp"

#include <doctest/doctest.h>

#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

struct Row {
  std::vector<std::string> words;
  bool attention, ffn, told;
};

const std::vector<Row> kRows = {
    {{"q_proj", "k_proj", "v_proj", "o_proj"}, true, false, false},
    {{"q_proj", "v_proj"}, true, false, true},
    {{"q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj"}, true, true, false},
    {{"(q_proj|k_proj|v_proj|output_proj)"}, true, false, false},
    {{"linear_qkv", "linear_proj", "linear_fc1", "linear_fc2"}, true, true, false},
    {{"linear_qkv", "linear_proj"}, true, false, false},
    {{"query_key_value"}, true, false, true},
    {{"Wqkv", "out_proj"}, true, false, false},
    {{"gate_up_proj", "down_proj"}, false, true, false},
    {{"gate_up_proj"}, false, true, true},
    {{"q_proj", "k_proj", "v_proj", "o_proj", "lm_head"}, true, false, true},
    {{"dense", "x_proj"}, true, true, true},
};

std::string listed(const std::vector<std::string>& words, const char* between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

}  // namespace

TEST_CASE("names say which part of a block gets adapters; what they do not fit is told") {
  for (const Row& row : kRows) {
    CAPTURE(listed(row.words, " "));
    const std::optional<LoraTargets> targets = lora_targets(row.words);
    REQUIRE(targets);
    CHECK(targets->attention == row.attention);
    CHECK(targets->ffn == row.ffn);
    CHECK(targets->counted_as.empty() != row.told);
  }
  for (const char* all : {"all", "all-linear", "all_linear", "auto"})
    CHECK_FALSE(lora_targets(std::vector<std::string>{all}));
}

TEST_CASE("a pattern names the linears that it spells, behind the path to them") {
  const std::vector<Row> patterns = {
      {{"model.language_model.layers.[\\d]+.(mlp|cross_attn|self_attn).(up|down|gate|q|k|v|o)_proj"},
       true,
       true,
       false},
      {{"^(?!.*visual).*(up|down|gate)_proj$"}, false, true, false},
      {{".*\\.self_attn\\.(q|v)_proj"}, true, false, true},
      {{"self_attn.q_proj", "self_attn.v_proj"}, true, false, true},
      {{"linear_(qkv|proj|fc(1|2))"}, true, true, false},
      {{"self_attn.*"}, true, false, false},
      {{".*self_attn.(q|k|v|o)_proj|.*mlp.(gate|up|down)_proj"}, true, true, false},
      {{"self_attn.q_proj mlp.down_proj"}, true, true, true},
      {{"(q|k|v|o)_(proj|linear)"}, true, false, true},
      {{"['q_proj', 'k_proj', 'v_proj', 'o_proj']"}, true, false, false},
  };
  for (const Row& row : patterns) {
    CAPTURE(row.words.front());
    const std::optional<LoraTargets> targets = lora_targets(row.words);
    REQUIRE(targets);
    CHECK(targets->attention == row.attention);
    CHECK(targets->ffn == row.ffn);
    CHECK(targets->counted_as.empty() != row.told);
  }
}

TEST_CASE("linears of a tower beside the language model are none of its own, and adapters on them are told") {
  for (const char* tower : {"visual", "model.visual", "vision_tower", "audio_tower", "vision_model.encoder", "aligner",
                            "multi_modal_projector", "visual.merger"})
    for (const std::string& pattern :
         {fmt::format("^(model.language_model|{}).*\\.(q_proj|k_proj|v_proj|o_proj|linear_fc1|linear_fc2)$", tower),
          fmt::format("model.language_model.layers.*.(q|k|v|o)_proj,{}.blocks.0.mlp.fc1", tower),
          fmt::format("['q_proj', 'k_proj', 'v_proj', 'o_proj', '{}.blocks.0.mlp.linear_fc1']", tower)}) {
      CAPTURE(pattern);
      const std::optional<LoraTargets> targets = lora_targets(std::vector<std::string>{pattern});
      REQUIRE(targets);
      CHECK(targets->attention);
      CHECK(targets->ffn == (pattern.find("(q_proj|") != std::string::npos));
      CHECK(targets->counted_as.find("beside the language model") != std::string::npos);
    }
}

TEST_CASE("and so in every tool's own key") {
  for (const Row& row : kRows) {
    const std::string commas = listed(row.words, ","), blanks = listed(row.words, " ");
    CAPTURE(commas);
    const std::vector<std::pair<std::string, std::string>> files = {
        {"axolotl.yaml",
         "base_model: meta-llama/Llama-3.1-8B\nadapter: lora\nlora_r: 8\nsequence_len: 4096\n"
         "micro_batch_size: 2\nbf16: true\nlora_target_modules:\n  - " +
             listed(row.words, "\n  - ") + "\n"},
        {"factory.yaml",
         "model_name_or_path: meta-llama/Meta-Llama-3-8B\nstage: sft\nfinetuning_type: lora\n"
         "lora_rank: 8\ncutoff_len: 2048\nper_device_train_batch_size: 1\nbf16: true\nlora_target: " +
             commas + "\n"},
        {"swift.sh",
         "#!/bin/bash\nswift sft --model Qwen/Qwen2.5-7B-Instruct --train_type lora --dataset x "
         "--torch_dtype bfloat16 --max_length 2048 --per_device_train_batch_size 1 --target_modules " +
             (row.words.front().starts_with('(') ? "'" + blanks + "'" : blanks) + "\n"},
        {"verl.sh",
         "#!/bin/bash\npython3 -m verl.trainer.main_ppo data.max_prompt_length=512 "
         "data.max_response_length=512 actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct "
         "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1 actor_rollout_ref.model.lora_rank=8 "
         "trainer.nnodes=1 trainer.n_gpus_per_node=8 'actor_rollout_ref.model.target_modules=[" +
             commas + "]'\n"},
        {"speed.sh",
         "#!/bin/bash\ntorchrun --nproc_per_node 8 --nnodes 1 posttrain_gpt.py --lora-r 8 --num-layers 4 "
         "--hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 "
         "--micro-batch-size 1 --global-batch-size 8 --bf16 --vocab-size 1024 --train-iters 10 "
         "--lora-alpha 16 --lora-target-modules " +
             (row.words.front().starts_with('(') ? "'" + blanks + "'" : blanks) + "\n"},
    };
    for (const auto& named : files) {
      const std::string file = named.first, text = named.second;
      CAPTURE(file);
      const LaunchJob job = job_of(file, text, on(8));
      REQUIRE(job.training->task == Task::Lora);
      CHECK(job.training->lora.attention == row.attention);
      CHECK(job.training->lora.ffn == row.ffn);
      const bool told = names(job.unused, "counted on all of them") || names(job.unused, "are not counted") ||
                        names(job.unused, "counted as all linears");
      CHECK(told == row.told);
    }
  }
}

}  // namespace plan
