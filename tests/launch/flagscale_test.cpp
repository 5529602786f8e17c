// FlagScale's heterogeneous mode: what its meshes say, and what is wrong with them. Figures follow from FlagScale's own
// rules: each mesh takes dp_0 * micro_batch / dp sequences at once.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cmath>

#include "planner/problem/axes.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kAround =
    "  use_distributed_optimizer: true\n  sequence_parallel: true\n  precision:\n    bf16: true\n"
    "model:\n  num_layers: 12\n  hidden_size: 1024\n  num_attention_heads: 16\n  seq_length: 2048\n"
    "  max_position_embeddings: 2048\n  micro_batch_size: 2\n  global_batch_size: 64\n  swiglu: true\n"
    "  ffn_hidden_size: 4096\n  untie_embeddings_and_output_weights: true\n"
    "data:\n  tokenizer:\n    vocab_size: 32000\n";

/// A file whose meshes, layers and device types are as given; the lines of `hetero:` begin with the fourth.
std::string file(const std::string& meshes, const std::string& layers, const std::string& devices, int stages,
                 const std::string& more = "") {
  return "system:\n  pipeline_model_parallel_size: " + std::to_string(stages) +
         "\n  hetero:\n    enable_hetero: True\n    hetero_pipeline_layer_split: " + layers +
         "\n    hetero_process_meshes: " + meshes + "\n    hetero_device_types: " + devices +
         "\n    standalone_embedding_stage: False\n    hetero_current_device_type: \"A800\"\n" + more + kAround;
}

const std::string kTwo = "[\"A800\", \"H100\"]";

}  // namespace

TEST_CASE("keys of FlagScale's that nothing reads are named, those of its launcher and its data are not") {
  const std::string usual = "system:\n  tensor_model_parallel_size: 1\n";
  const auto with = [&](const std::string& line) { return job_of("train.yaml", usual + line + kAround, on(8)); };
  CHECK(with("").unused.empty());
  for (const std::string key : {"brand_new_offload_ratio: 0.5", "moe_of_ours: 5", "data_parallel_own_degree: 2",
                                "num_query_groups: 4", "reset_attention_mask: true", "apply_rope_fusion: false"}) {
    CAPTURE(key);
    const std::string name = key.substr(0, key.find(':'));
    std::string flag = name;
    std::replace(flag.begin(), flag.end(), '_', '-');
    const std::vector<Note> told = with("  " + key + "\n").unused;
    CHECK((names(told, name) || names(told, flag) || names(told, "rope-fusion")));
  }
  for (const char* line :
       {"  no_shared_fs: true\n", "  logging:\n    log_interval: 5\n", "  checkpoint:\n    save_interval: 50\n",
        "  brand_new_offload_ratio: null\n", "  moe_of_ours: false\n"})
    CHECK(with(line).unused.empty());
}

TEST_CASE(
    "FlagScale's `multiple_of` rounds two thirds of four times hidden up, times the multiplier, where both are sizes") {
  const auto width = [](long long hidden, long long multiple, const char* multiplier) {
    const std::string text = fmt::format(
        "system:\n  tensor_model_parallel_size: 1\n  precision:\n    bf16: true\nmodel:\n  num_layers: 8\n"
        "  hidden_size: {}\n  num_attention_heads: 16\n  seq_length: 2048\n  max_position_embeddings: 2048\n"
        "  micro_batch_size: 1\n  global_batch_size: 64\n  multiple_of: {}\n  swiglu: true\n{}data:\n  tokenizer:\n"
        "    vocab_size: 32000\n",
        hidden, multiple, multiplier[0] == 0 ? "" : fmt::format("  hidden_dim_multiplier: {}\n", multiplier));
    const LaunchJob job = job_of("train.yaml", text, on(64));
    return job.model ? static_cast<long long>(job.model->kinds.at(0).dense.width) : -1;
  };
  const auto law = [](double hidden, double multiple, double multiplier) {
    return static_cast<long long>(std::ceil(std::floor(std::floor(8 * hidden / 3) * multiplier) / multiple) * multiple);
  };
  for (const long long hidden : {1024, 4096, 5120})
    for (const long long multiple : {1, 256, 1000, 1 << 20}) {
      CAPTURE(hidden);
      CAPTURE(multiple);
      CHECK(width(hidden, multiple, "") == law(static_cast<double>(hidden), static_cast<double>(multiple), 1));
      CHECK(width(hidden, multiple, "1.3") == law(static_cast<double>(hidden), static_cast<double>(multiple), 1.3));
    }
  CHECK(width(4096, (1 << 20) + 1, "") == width(4096, 0, ""));  // no multiple that anybody means
}

TEST_CASE("FlagScale's meshes: stages, degrees and micro-batches of each kind of GPU") {
  const LaunchJob job = job_of("train.yaml", file("[2, 1, 1, 2, 2,  4, 1, 1, 4, 1]", "[3, 4, 5]", kTwo, 3), {});
  CHECK(job.format == "megatron-lm");
  CHECK(job.gpus == 24);
  REQUIRE(job.meshes.size() == 2);
  CHECK(job.meshes[0].device == "A800");
  CHECK(job.meshes[0].gpus == 8);
  CHECK(job.meshes[1].gpus == 16);
  const Fixed &slow = job.meshes[0].fixed, &fast = job.meshes[1].fixed;
  CHECK(slow.tp == 2);
  CHECK(slow.dp == 2);
  CHECK(slow.pp == 2);
  CHECK(slow.micro_batch == 2);
  CHECK(slow.chunk_layers == std::vector<int>{3, 4});
  CHECK(fast.tp == 4);
  CHECK(fast.dp == 4);
  CHECK(fast.pp == 1);
  CHECK(fast.micro_batch == 1);
  CHECK(fast.chunk_layers == std::vector<int>{5});
  CHECK(fast.sequence_parallel == true);
  CHECK_FALSE(job.fixed.tp);
  CHECK_FALSE(job.fixed.micro_batch);
  CHECK(job.fixed.zero == 1);
  CHECK(job.fixed.schedule == Schedule::OneFOneB);
  CHECK(job.training->global_batch == 64);
  CHECK(job.meshes_where.ends_with("train.yaml:6"));
  // Before experts a mesh had four degrees; equal stages need no list.
  const std::string four =
      replaced(file("[2, 1, 2, 2,  1, 1, 4, 1]", "[1]", kTwo, 3), "    hetero_pipeline_layer_split: [1]\n", "");
  const LaunchJob old = job_of("train.yaml", four, {});
  REQUIRE(old.meshes.size() == 2);
  CHECK(old.meshes[0].fixed.chunk_layers == std::vector<int>{4, 4});
  CHECK(old.meshes[1].fixed.tp == 1);
  CHECK(old.meshes[1].fixed.sequence_parallel == false);
}

TEST_CASE("FlagScale's meshes that are all alike are one pipeline") {
  const LaunchJob job =
      job_of("train.yaml", file("[2, 1, 1, 2, 2,  2, 1, 1, 2, 1]", "[3, 4, 5]", "[\"h100-sxm\", \"h100-sxm\"]", 3), {});
  CHECK(job.meshes.empty());
  CHECK(job.gpus == 12);
  CHECK(job.gpu == "h100-sxm");
  CHECK(job.fixed.tp == 2);
  CHECK(job.fixed.dp == 2);
  CHECK(job.fixed.pp == 3);
  CHECK(job.fixed.chunk_layers == std::vector<int>{3, 4, 5});
  CHECK(job.fixed.micro_batch == 2);
  const LaunchJob other =
      job_of("train.yaml", file("[2, 1, 1, 2, 2,  2, 1, 1, 2, 1]", "[3, 4, 5]", "[\"MLU\", \"MLU\"]", 3), {});
  CHECK(other.hardware == "MLU");
}

TEST_CASE("FlagScale's meshes: what it would stop at is an error with its line") {
  const std::string good = "[2, 1, 1, 2, 2,  4, 1, 1, 4, 1]", layers = "[3, 4, 5]";
  const auto told = [](const std::string& text) {
    const Files files;
    const Result<LaunchJob> job = files.read("train.yaml", text);
    return job ? std::string("read") : job.error().front().message;
  };
  const auto has = [](const std::string& text, const char* part) {
    CAPTURE(text);
    return text.find(part) != std::string::npos;
  };
  CHECK(told(file(good, layers, kTwo, 3)) == "read");
  CHECK(has(told(file("[2, 1, 1, 2, 2,  4, 1, 1, 4]", layers, kTwo, 3)), ":6: `hetero_process_meshes`"));
  CHECK(has(told(file("[2, 1, 1, 2, 2,  4, 1, 1, 0, 1]", layers, kTwo, 3)), ":6: `hetero_process_meshes`: `0`"));
  CHECK(has(told(file("[2, 1, 1, 2, 2,  4, 2, 1, 4, 1]", layers, kTwo, 3)), "cp and ep are the same"));
  CHECK(has(told(file("[2, 1, 1, 2, 2,  4, 1, 1, 3, 1]", layers, kTwo, 3)), "dp 3 does not divide"));
  CHECK(has(told(file(good, "[3, 4, 6]", kTwo, 3)), ":5: `hetero_pipeline_layer_split`: places 13"));
  CHECK(has(told(file(good, "[7, 5]", kTwo, 3)), "2 numbers for 3 stages"));
  CHECK(has(told(file(good, layers, kTwo, 4)), ":2: `pipeline_model_parallel_size`: 4"));
  CHECK(has(told(file(good, layers, "[\"A800\"]", 3)), "device types"));
  CHECK(has(told(file(good, layers, kTwo, 3, "    expert_tensor_parallel_size_per_process_mesh: [1]\n")),
            "1 numbers for 2 meshes"));
  CHECK(has(told(file(good, layers, kTwo, 3, "  num_layers_per_virtual_pipeline_stage: 2\n")), "several chunks"));
  CHECK(has(told(replaced(file(good, layers, kTwo, 3), "stage: False", "stage: True")), "stage of its own"));
}

TEST_CASE("FlagScale's recomputation of single stages is told, not dropped") {
  const LaunchJob job = job_of(
      "train.yaml",
      file("[2, 1, 1, 2, 2,  4, 1, 1, 4, 1]", "[3, 4, 5]", kTwo, 3,
           "  recompute:\n    recompute_granularity: full\n    recompute_method: uniform\n    recompute_num_layers: 1\n"
           "    recompute_granularity_per_stage_micro_batch: [\"3, 16, 1\"]\n"),
      {});
  CHECK(names(job.unused, "recompute_granularity_per_stage_micro_batch"));
}

}  // namespace plan
