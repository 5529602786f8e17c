// Files that their frameworks accept, read to the layouts that their names say; files with mistakes in them.
#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <string>

#include "cli/launch/formats.hpp"
#include "cli/launch/launch.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/settings/settings.hpp"

using namespace plan;

namespace {

LaunchJob example(const std::string& name) {
  const Result<LaunchJob> job = read_launch_files({std::string(PLAN_SOURCE_DIR) + "/tests/published/launch/" + name});
  if (!job) FAIL(job.error().front().message);
  return *job;
}

std::string origin(const LaunchJob& job, std::string_view key) {
  for (const Input& input : job.inputs)
    if (input.key == key) return input.where.substr(input.where.rfind('/') + 1);
  return "";
}

Result<LaunchJob> read(std::string_view format, const std::string& path, const std::string& text) {
  const LaunchSource source{path, text};
  for (const LaunchFormat& row : launch_formats())
    if (row.name == format) {
      CHECK(row.recognise(source));
      return row.read(std::span(&source, 1), {});
    }
  FAIL("no such format");
  return LaunchJob{};
}

/// The notes with the code, of both kinds, or nothing.
std::string note(const Result<LaunchJob>& job, std::string_view code) {
  REQUIRE(job);
  std::string found;
  for (const std::vector<Note>* notes : {&job->notes, &job->unused})
    for (const Note& one : *notes)
      if (one.code == code) found += (found.empty() ? "" : "\n") + one.text;
  return found;
}

}  // namespace

TEST_CASE("torchtitan's 405B example is tp 8, pp 8, dp 8 in two chunks a rank") {
  const LaunchJob job = example("torchtitan_v022_405b_512.toml");
  CHECK(job.gpus == 512);
  CHECK(job.fixed.tp == 8);
  CHECK(job.fixed.pp == 8);
  CHECK(job.fixed.dp == 8);
  CHECK(job.fixed.vp == 2);  // 128 layers, ends counted, in stages of 8
  CHECK(job.fixed.zero == 2);
  CHECK(job.fixed.micro_batch == 1);
  CHECK(job.fixed.schedule == Schedule::Interleaved);
  CHECK(job.fixed.recompute == Recompute{.kind = RecomputeKind::Full});
  REQUIRE(job.fixed.chunk_layers);
  CHECK(job.fixed.chunk_layers->front() == 7);
  CHECK(job.fixed.chunk_layers->back() == 7);
  CHECK((*job.fixed.chunk_layers)[1] == 8);
  CHECK(job.training->precision == Precision::Fp8Tensorwise);
  CHECK(job.training->global_batch == 256);
  CHECK(job.model->name == "llama3-405b");
  CHECK(origin(job, "tp") == "torchtitan_v022_405b_512.toml:30");
  CHECK(note(job, "unknown_converter").find("quantize.linear.float8") != std::string::npos);
}

TEST_CASE("torchtitan's 405B recipe says the same") {
  const LaunchJob job = example("plan_llama31_405b_512.py");
  CHECK(job.gpus == 512);
  CHECK(job.fixed.tp == 8);
  CHECK(job.fixed.pp == 8);
  CHECK(job.fixed.dp == 8);
  CHECK(job.fixed.vp == 2);
  CHECK(job.fixed.micro_batch == 1);
  CHECK(job.training->global_batch == 256);
  CHECK(job.training->seq == 8192);
  CHECK(job.model->name == "llama3-405b");
  CHECK(origin(job, "tp") == "plan_llama31_405b_512.py:14");
  CHECK(job.notes.empty());
}

TEST_CASE("DeepSpeed's example counts AutoTP's ranks into its batch") {
  const LaunchJob job = example("deepspeed_z3_tp4_64gpu.json");
  CHECK(job.gpus == 64);
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.dp == 16);
  CHECK(job.fixed.zero == 3);
  CHECK(job.training->global_batch == 256);
  CHECK(note(job, "batch_counts_tp").find("256 sequences") != std::string::npos);
}

TEST_CASE("accelerate's example replicates over 2, shards over 8 and splits by 4") {
  const LaunchJob job = example("accelerate_fsdp2_64gpu.yaml");
  CHECK(job.gpus == 64);
  CHECK(job.fixed.tp == 4);
  CHECK(job.fixed.dp == 16);
  CHECK(job.fixed.shard == 8);
  CHECK(job.fixed.zero == 3);
  CHECK(job.fixed.recompute == Recompute{.kind = RecomputeKind::Full});
  CHECK(job.training->precision == Precision::Bf16);
  CHECK(job.notes.empty());
}

TEST_CASE("accelerate's file for DeepSpeed is read with DeepSpeed's own") {
  const std::vector<LaunchSource> sources = {
      {"a.yaml",
       "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\nnum_processes: 16\n"
       "deepspeed_config:\n  deepspeed_config_file: ds.json\n"},
      {"ds.json",
       "{\"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": \"auto\",\n"
       " \"bf16\": {\"enabled\": \"auto\"}, \"zero_optimization\": {\"stage\": 2}}"},
      {"run_clm.json",
       "{\"per_device_train_batch_size\": 2, \"gradient_accumulation_steps\": 4, \"bf16\": true,\n"
       " \"block_size\": 4096, \"gradient_checkpointing\": true, \"deepspeed\": \"ds.json\"}"}};
  for (const LaunchFormat& row : launch_formats()) {
    if (row.name != "deepspeed") continue;
    for (const LaunchSource& source : sources) CHECK(row.recognise(source));
    const Result<LaunchJob> job = row.read(sources, {});
    REQUIRE(job);
    CHECK(job->gpus == 16);
    CHECK(job->fixed.dp == 16);
    CHECK(job->fixed.zero == 2);
    CHECK(job->fixed.micro_batch == 2);
    CHECK(job->fixed.recompute == Recompute{.kind = RecomputeKind::Full});
    CHECK(job->training->global_batch == 128);
    CHECK(job->training->precision == Precision::Bf16);
    CHECK(job->notes.empty());
  }
}

TEST_CASE("a misspelt section of DeepSpeed's file is told, with what it does") {
  const Result<LaunchJob> job =
      read("deepspeed", "ds.json",
           "{\"train_micro_batch_size_per_gpu\": 2,\n \"zero_optimisation\": {\"stage\": 3},\n"
           " \"activation_checkpointing\": {\"partition_activation\": true}}");
  CHECK(
      note(job, "unknown_key") ==
      "ds.json:2: `zero_optimisation` is unknown to DeepSpeed, which passes over it in silence; the nearest name is "
      "`zero_optimization`\n"
      "ds.json:3: `partition_activation` is unknown to DeepSpeed, which passes over it in silence; the nearest name is "
      "`partition_activations`");
  CHECK(job->fixed.zero == 0);
  CHECK(job->fixed.micro_batch == 2);
}

TEST_CASE("a misspelt key inside accelerate's file is told: it stays FSDP's first version") {
  const Result<LaunchJob> job = read("accelerate", "a.yaml",
                                     "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 8\n"
                                     "fsdp_config:\n  fsdp_verzion: 2\n  fsdp_reshard_after_forward: true\n");
  CHECK(note(job, "unknown_key") ==
        "a.yaml:5: `fsdp_config.fsdp_verzion` is unknown to accelerate, which passes over it in silence; the nearest "
        "name is `fsdp_config.fsdp_version`");
  CHECK(!note(job, "fsdp_version_1").empty());
}

TEST_CASE("an unknown key of torchtitan or MaxText stops them, and is told") {
  const Result<LaunchJob> toml = read("torchtitan", "t.toml",
                                      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
                                      "tensor_paralel_degree = 8\ndata_parallel_shard_degree = 4\n");
  CHECK(note(toml, "unknown_key") ==
        "t.toml:5: `parallelism.tensor_paralel_degree` is unknown to torchtitan 0.2.2, which stops there; the nearest "
        "name is `parallelism.tensor_parallel_degree`");
  const Result<LaunchJob> maxtext =
      read("maxtext", "m.yml", "base_config: base.yml\nmodel_name: llama3.1-8b\nici_tensr_parallelism: 8\n");
  CHECK(note(maxtext, "unknown_key") ==
        "m.yml:3: `ici_tensr_parallelism` is unknown to MaxText, which stops there; the nearest name is "
        "`ici_tensor_parallelism`");
}

TEST_CASE("MaxText's policies that offload are counted by what they leave on the GPU, and told") {
  for (const char* policy : {"minimal_offloaded", "qkv_proj_offloaded"}) {
    const Result<LaunchJob> job =
        read("maxtext", "m.yml",
             std::string("base_config: base.yml\nmodel_name: llama3.1-8b\nremat_policy: ") + policy + "\n");
    CHECK(note(job, "offload_not_modelled").find("m.yml:3: `" + std::string(policy) + "`") == 0);
    CHECK(job->fixed.recompute == Recompute{.kind = RecomputeKind::Full});
  }
}

TEST_CASE("a malformed file is one error with line and column") {
  const auto place = [](std::string_view format, const std::string& path, const std::string& text) {
    const Result<LaunchJob> job = read(format, path, text);
    REQUIRE(!job);
    CHECK(job.error().size() == 1);
    CHECK(job.error().front().place.file == path);
    CHECK(job.error().front().place.column > 0);
    return job.error().front().place.line;
  };
  CHECK(place("torchtitan", "t.toml", "[model]\nflavor = \"8B\n") == 2);
  CHECK(place("torchtitan", "t.toml", "[model]\nflavor = \"8B\"\n[training]\nseq_len = \"long\"\n") == 4);
  CHECK(place("deepspeed", "d.json", "{\"train_batch_size\": 8,\n \"zero_optimization\": {\"stage\": }\n") >= 2);
  CHECK(place("deepspeed", "d.json", "{\"train_batch_size\": 8, \"train_batch_size\": 9}") == 1);
  CHECK(place("accelerate", "a.yaml", "compute_environment: X\ndistributed_type: [FSDP\n") >= 2);
  CHECK(place("accelerate", "a.yaml", "distributed_type: FSDP\nnum_processes: many\n") == 2);
  CHECK(place("maxtext", "m.yml", "base_config: base.yml\nici_fsdp_parallelism: eight\n") == 2);
  CHECK(place("torchtitan-main", "r.py", "import torchtitan\ndef f():\n  config.parallelism.x = [1,\n") == 3);
}

TEST_CASE("what a file does not state is its framework's default, and said to be") {
  const Result<LaunchJob> job = read("torchtitan", "t.toml",
                                     "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[parallelism]\n"
                                     "data_parallel_shard_degree = 8\n");
  REQUIRE(job);
  CHECK(job->training->seq == 2048);
  CHECK(job->fixed.micro_batch == 8);
  CHECK(job->fixed.recompute->kind == RecomputeKind::Full);  // every second layer
  CHECK(job->fixed.recompute->layers == 16);
  const auto from = [&](std::string_view key) {
    const auto found =
        std::find_if(job->inputs.begin(), job->inputs.end(), [&](const Input& i) { return i.key == key; });
    REQUIRE(found != job->inputs.end());
    return found->origin;
  };
  CHECK(from("dp") == Origin::File);
  CHECK(from("seq") == Origin::Default);
  CHECK(from("tp") == Origin::Default);
}

TEST_CASE("JSON may hold tabs and comments, as DeepSpeed's parser takes them") {
  const Result<Settings> settings =
      settings_of_json({"d.json", "{\n\t\"a\": 1, // one\n\t\"b\": {\"c\": \"x//y\\t\"},\n}"});
  REQUIRE(settings);
  Settings found = *settings;
  CHECK(found.integer("a") == 1);
  CHECK(found.text("b.c") == "x//y\t");
  CHECK(found.where("b.c") == "d.json:3");
}

TEST_CASE("the month of the container that a launcher starts is its release, but not one in a comment") {
  const auto release = [](const char* text) {
    const LaunchSource source{"run.sh", text};
    return launcher_facts(std::span(&source, 1)).release;
  };
  CHECK(release("#!/bin/bash\n#SBATCH --container-image=nvcr.io#nvidia/nemo:25.11\nsrun python x.py\n") == "25.11");
  CHECK(release(
            "#!/bin/bash\n# was nvcr.io/nvidia/nemo:25.02\nsrun --container-image nvcr.io/nvidia/nemo:26.04.01 x\n") ==
        "26.04.01");
  CHECK(release("kind: TrainJob\nimage: nvcr.io/nvidia/nemo:26.08\n") == "26.08");
  for (const char* none : {"#!/bin/bash\nsrun --container-image nvcr.io/nvidia/pytorch:25.04-py3 x\n",
                           "#!/bin/bash\n# nvcr.io/nvidia/nemo:25.02\n", "image: nvcr.io/nvidia/nemo:dev\n"})
    CHECK(release(none).empty());
}
