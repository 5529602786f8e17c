// Words of the tools around Megatron-LM: a switch is yes or no, overrides lie over files and take back what they state,
// two keys of one number agree, and what lies over a recipe is honoured or named.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

bool refuses(const Result<LaunchJob>& job, const std::string& code, std::string_view key) {
  return !job && std::any_of(job.error().begin(), job.error().end(), [&](const Error& error) {
    return error.code == code && error.message.find(key) != std::string::npos;
  });
}

const std::string kOverrides =
    "model:\n  num_layers: 32\n  hidden_size: 4096\n  ffn_hidden_size: 14336\n  num_attention_heads: 32\n"
    "  num_query_groups: 8\n  vocab_size: 128256\n  seq_length: 8192\n  normalization: RMSNorm\n"
    "  gated_linear_unit: true\n  add_bias_linear: false\n  position_embedding_type: rope\n"
    "  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 2\n"
    "  virtual_pipeline_model_parallel_size: 4\ndataset:\n  seq_length: 8192\ntrain:\n  micro_batch_size: 1\n"
    "  global_batch_size: 64\n";

LaunchJob bridge(const std::string& line) { return job_of("o.yaml", kOverrides + line + "\n", on(16)); }

/// A recipe of NeMo 2's with more words behind it.
std::string nemo(const std::string& words) {
  return "#!/bin/bash\nnemo llm pretrain --factory llama3_8b trainer.num_nodes=2 trainer.devices=8 "
         "trainer.strategy.tensor_model_parallel_size=2 data.micro_batch_size=1 data.global_batch_size=64 "
         "data.seq_length=8192 " +
         words + "\n";
}

}  // namespace

TEST_CASE("a switch of any dialect that is neither yes nor no is refused") {
  for (const Dialect* dialect :
       {&bridge_dialect(), &verl_dialect(), &nemo_rl_dialect(), &swift_dialect(), &llama_factory_dialect()}) {
    CAPTURE(dialect->format);
    for (const DialectKey& row : dialect->keys) {
      if (row.key.empty() || (row.kind != KeyKind::Switch && row.kind != KeyKind::On && row.kind != KeyKind::Off))
        continue;
      CAPTURE(row.key);
      const std::string key(row.key);
      for (const std::string word : {"maybe", "2", "$VAR", "auto"})
        CHECK(refuses(dialect_job(*dialect, {{key, {{word}, "f:1"}}}, {}), "wrong_value", row.key));
      for (const std::string word : {"true", "False", "1", "0", "on", "off"})
        CHECK_FALSE(refuses(dialect_job(*dialect, {{key, {{word}, "f:1"}}}, {}), "wrong_value", row.key));
    }
  }
}

TEST_CASE("a key of any dialect is one word, and of the kind that Megatron-LM's flag is") {
  for (const Dialect* dialect : {&bridge_dialect(), &verl_dialect(), &nemo_rl_dialect(), &swift_dialect(),
                                 &llama_factory_dialect(), &mca_dialect()}) {
    CAPTURE(dialect->format);
    for (const DialectKey& row : dialect->keys) {
      CAPTURE(row.flag);
      const MegatronFlag* flag = find_megatron_flag(row.flag);
      REQUIRE(flag != nullptr);
      CHECK(row.key.find_first_of(" *-") == std::string::npos);
      if (row.key.empty() || row.key.ends_with(".moe_enable_deepep") || row.key == "moe_enable_deepep") continue;
      const bool yes_or_no = row.kind == KeyKind::Switch || row.kind == KeyKind::On || row.kind == KeyKind::Off;
      CHECK(yes_or_no == (flag->values == 0));
      if (row.kind == KeyKind::List) CHECK(flag->values == MegatronFlag::kMany);
      // Behind a flag that turns something off stands the key that says it is on, and the other way round.
      const bool says_no = row.flag.starts_with("no-") || row.flag.starts_with("disable-") ||
                           row.flag.starts_with("untie-") || row.flag == "grad-reduce-in-bf16";
      CHECK((row.kind == KeyKind::Off) == says_no);
    }
  }
}

TEST_CASE("rows write out to a key a flag") {
  constexpr DialectRow kRows[] = {{"model.*", "num-experts add-qkv-bias recompute-modules"},
                                  {"optim.rate", "lr"},
                                  {"*", "swiglu", KeyKind::Value, "x"}};
  const std::vector<DialectKey> keys = keys_of_rows(kRows);
  REQUIRE(keys.size() == 5);
  CHECK(keys[0].key == "model.num_moe_experts");
  CHECK(keys[0].kind == KeyKind::Value);
  CHECK(keys[1].key == "model.add_qkv_bias");
  CHECK(keys[1].kind == KeyKind::Switch);
  CHECK(keys[2].key == "model.recompute_modules");
  CHECK(keys[2].kind == KeyKind::List);
  CHECK(keys[3].flag == "lr");
  CHECK(keys[3].key == "optim.rate");
  CHECK(keys[4].key == "gated_linear_unit");
  CHECK(keys[4].kind == KeyKind::Value);
  CHECK(keys[4].otherwise == "x");
}

TEST_CASE("words of a command lie over the files beside it, in either order, and null takes back what they state") {
  const Files files;
  const std::string yaml = files.folder.write("o.yaml", kOverrides);
  const auto read = [&](const std::string& words, bool first) {
    const std::string script =
        files.folder.write("run.sh", "torchrun --nproc-per-node 8 run_recipe.py --recipe vanilla_gpt " + words + "\n");
    const Result<LaunchJob> job = read_launch_files(
        first ? std::vector<std::string>{script, yaml} : std::vector<std::string>{yaml, script}, on(16));
    REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
    return *job;
  };
  for (const bool first : {true, false}) {
    CAPTURE(first);
    CHECK(read("model.tensor_model_parallel_size=4", first).fixed.tp == 4);
    CHECK(read("train.global_batch_size=64", first).fixed.tp == 2);
    CHECK(read("train.global_batch_size=64", first).fixed.vp == 4);
    CHECK(read("model.virtual_pipeline_model_parallel_size=null", first).fixed.vp == 1);
    CHECK(read("~model.virtual_pipeline_model_parallel_size", first).fixed.vp == 1);
  }
}

TEST_CASE("flags of Megatron-Bridge's scripts lie over the recipe, and KEY=VALUE over them") {
  const auto with = [](const std::string& program, const std::string& words) {
    return job_of("run.sh", "torchrun --nnodes 2 --nproc-per-node 8 " + program + " " + words + "\n", on(16));
  };
  const std::string recipe = "run_recipe.py", own = "--recipe llama3_8b_pretrain_config train.micro_batch_size=1 ";
  CHECK(with(recipe, own + "-tp 4 -gb 256 -sl 4096").fixed.tp == 4);
  CHECK(with(recipe, own + "-tp=4 -gb 256 -sl 4096").fixed.tp == 4);
  CHECK(with(recipe, own + "-tp 4 -gb 256 -sl 4096").training->global_batch == 256);
  CHECK(with(recipe, own + "-tp 4 -gb 256 -sl 4096").training->seq == 4096);
  CHECK(with(recipe, own + "--tensor_model_parallel_size 4 -cp 2").fixed.cp == 2);
  CHECK(with(recipe, own + "-tp 2 -pp 2 -vp 4").fixed.vp == 4);
  CHECK(with(recipe, own + "-tp 4 model.tensor_model_parallel_size=2").fixed.tp == 2);
  CHECK(names(with(recipe, own + "-tp 4 --deterministic").unused, "deterministic"));
  CHECK(names(with(recipe, own + "-tp 4 --own_parallelism 4").unused, "--own_parallelism"));
  const std::string script = "run_script.py", model = "--model_recipe_name llama3_8b --num_gpus 16 --gpu h100 ";
  CHECK(with(script, model + "--compute_dtype bf16 -tp 4 train.global_batch_size=128").fixed.tp == 4);
  CHECK(with(script, model + "-tp 4 --compute_dtype bf16 train.global_batch_size=128").training->global_batch == 128);
  CHECK(with(script, model + "-tp 4 -gb 64 model.tensor_model_parallel_size=2 model.sequence_parallel=true").fixed.tp ==
        2);
}

TEST_CASE("two keys of one number agree or are refused") {
  CHECK(bridge("").training->seq == 8192);
  const Files files;
  CHECK(refuses(files.read("o.yaml", replaced(kOverrides, "seq_length: 8192", "seq_length: 4096"), on(16)),
                "two_values", "model.seq_length"));
  CHECK(refuses(files.read("n.sh", nemo("model.config.seq_length=4096"), on(16)), "two_values", "seq_length"));
}

TEST_CASE("fields of Megatron-Bridge's number format are the format") {
  const auto format = [](const std::string& text) { return bridge("mixed_precision: " + text).training->precision; };
  CHECK(format("bf16_mixed") == Precision::Bf16);
  CHECK(format("{bf16: true, fp8: hybrid, fp8_recipe: tensorwise}") == Precision::Fp8Tensorwise);
  CHECK(format("{bf16: true, fp8: e4m3, fp8_recipe: mxfp8}") == Precision::Mxfp8);
  CHECK(format("{bf16: true, fp4: e2m1, fp4_recipe: nvfp4}") == Precision::Nvfp4);
  CHECK(format("{bf16: true, fp8_recipe: mxfp8}") == Precision::Bf16);
  CHECK(format("{fp16: true}") == Precision::Fp16);
  CHECK(format("{fp32: true}") == Precision::Fp32);
  CHECK(format("{bf16: false}") == Precision::Fp32);
  CHECK(format("{_target_: megatron.bridge.training.mixed_precision.bf16_with_mxfp8_mixed}") == Precision::Mxfp8);
  CHECK(format("{_target_: megatron.bridge.training.mixed_precision.MixedPrecisionConfig, bf16: true}") ==
        Precision::Bf16);
  CHECK(bridge("mixed_precision: {bf16: true, grad_reduce_in_fp32: false}").training->grad_bytes == 2);
  CHECK(names(bridge("mixed_precision: {bf16: true, params_dtype: torch.float32}").unused, "params_dtype"));
}

TEST_CASE("an optimizer that a file states is no default") {
  const auto stated = [](const LaunchJob& job) {
    return std::any_of(job.inputs.begin(), job.inputs.end(),
                       [](const Input& one) { return one.key == "optimizer" && one.origin != Origin::Default; });
  };
  for (const std::string word : {"adam", "sgd", "muon", "dist_muon"}) {
    CAPTURE(word);
    CHECK(stated(bridge("optimizer:\n  optimizer: " + word)));
    CHECK(stated(job_of("run.sh", nemo("optim.config.optimizer=" + word), on(16))));
    CHECK(stated(job_of("run.sh",
                        "#!/bin/bash\nmegatron sft --model Qwen/Qwen3-8B --tensor_model_parallel_size 2 "
                        "--micro_batch_size 1 --global_batch_size 16 --max_length 4096 --optimizer " +
                            word + "\n",
                        on(8))));
  }
  CHECK_FALSE(stated(bridge("")));
}

TEST_CASE("products of experts that a file does not group are told") {
  const std::string sparse =
      replaced(kOverrides, "dataset:", "  num_moe_experts: 8\n  moe_grouped_gemm: false\ndataset:");
  CHECK(names(job_of("o.yaml", sparse, on(16)).unused, "moe_grouped_gemm"));
  CHECK(job_of("o.yaml", replaced(sparse, "gemm: false", "gemm: true"), on(16)).unused.empty());
}

TEST_CASE("overrides of a NeMo 2 recipe are honoured or named") {
  const LaunchJob plain = job_of("run.sh", nemo(""), on(16));
  for (const std::string word :
       {"optim.config.optimizer=muon", "optim.config.optimizer=sgd", "optim.config.exp_avg_dtype=torch.bfloat16",
        "optim.config.use_distributed_optimizer=false", "trainer.strategy.fsdp=megatron",
        "trainer.strategy.fsdp=pytorch", "trainer.strategy.fsdp=own", "peft=dora", "peft=lora",
        "trainer.plugins.fp8=hybrid", "trainer.accumulate_grad_batches=4", "model.config.hidden_size=2048",
        "model.config.num_layers=16", "model.config.num_attention_heads=16", "model.config.ffn_hidden_size=1024",
        "data.packed_sequence_specs.packed_sequence_size=4096", "trainer.strategy.ddp=pytorch"}) {
    CAPTURE(word);
    const LaunchJob job = job_of("run.sh", nemo(word), on(16));
    const std::string key = word.substr(0, word.find('='));
    const bool named = names(job.unused, key.substr(key.rfind('.') == std::string::npos ? 0 : key.rfind('.') + 1));
    CHECK((job.training != plain.training || job.fixed != plain.fixed || named));
  }
  for (const std::string word : {"model.config.num_layers=32", "model.config.hidden_size=4096",
                                 "trainer.strategy.fsdp=null", "trainer.accumulate_grad_batches=1"}) {
    CAPTURE(word);
    CHECK(job_of("run.sh", nemo(word), on(16)).unused.size() == plain.unused.size());
  }
}

}  // namespace plan
