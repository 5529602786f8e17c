// What a recipe of torchtitan's main branch sets beside its layout: each that changes memory or time is honoured or
// named, and what the recipes of main have is not.
#include <doctest/doctest.h>

#include <string>

#include "small_files.hpp"

namespace plan {

using namespace launching;

namespace {

const std::string kRecipes =
    "from torchtitan.trainer import Trainer\nfrom torchtitan.models.llama3 import model_registry\n\n\n"
    "def base() -> Trainer.Config:\n"
    "    return Trainer.Config(model_spec=model_registry(\"8B\"), optimizer=default_adamw(lr=3e-4),\n"
    "        loss=ChunkedLossWrapper.Config(), training=TrainingConfig(max_context_length=8192,\n"
    "        num_tokens_per_microbatch_per_dp_rank=8192),\n"
    "        parallelism=ParallelismConfig(tensor_parallel_degree=2))\n\n\n"
    "def mine() -> Trainer.Config:\n    config = base()\n    # more\n    return config\n";

LaunchJob with(const std::string& line) {
  const Files files;
  const std::string path = files.folder.write("recipe.py", replaced(kRecipes, "# more", line));
  const Result<LaunchJob> job = read_launch_files({path + ":mine"}, on(32));
  REQUIRE_MESSAGE(job, (job ? "" : job.error().front().message));
  return *job;
}

}  // namespace

TEST_CASE("what a recipe of torchtitan's main branch sets is honoured or named") {
  const LaunchJob plain = with("pass");
  for (const std::string line :
       {"config.training.dtype = \"bfloat16\"",
        "config.training.enable_cpu_offload = True",
        "config.training.mixed_precision_param = \"float32\"",
        "config.parallelism.enable_fsdp_symm_mem = True",
        "config.parallelism.fsdp_reshard_after_forward = \"never\"",
        "config.compile.enable = False",
        "config.compile.enable_async_tensor_parallel = True",
        "config.debug.detect_anomaly = True",
        "config.debug.batch_invariant = True",
        "config.debug.deterministic = True",
        "config.comm.mode = \"local_tensor\"",
        "config.optimizer = default_adam8bit(lr=1e-3)",
        "config.optimizer = _dist_muon_optimizer()",
        "config.loss = CrossEntropyLoss.Config()",
        "config.activation_checkpoint = FullAC.Config()",
        "config.activation_checkpoint = MemoryBudgetAC.Config(memory_budget=0.5)",
        "config.model_spec = model_registry(\"8B\", attn_backend=\"varlen\")",
        "config.model_spec = model_registry(\"8B\", converters=[Float8LinearConverter.Config()])",
        "config.override_imports = [\"mine\"]",
        "config.quantize = Float8()",
        "config.parallelism.own_degree = 2"}) {
    CAPTURE(line);
    const LaunchJob job = with(line);
    CHECK((job.training != plain.training || job.fixed != plain.fixed || job.unused.size() > plain.unused.size()));
  }
  for (const std::string line :
       {"config.optimizer = default_adamw(lr=1e-3)", "config.loss = ChunkedLossWrapper.Config(num_chunks=8)",
        "config.metrics.log_freq = 5", "config.checkpoint.interval = 5", "config.training.dtype = \"float32\"",
        "config.model_spec = model_registry(\"8B\", attn_backend=\"flex\")", "config.debug.seed = 5"}) {
    CAPTURE(line);
    const LaunchJob job = with(line);
    CHECK(job.training == plain.training);
    CHECK(job.fixed == plain.fixed);
    CHECK(job.unused.size() == plain.unused.size());
  }
}

}  // namespace plan
