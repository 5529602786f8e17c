// What Megatron-Bridge's recipes decide of experts and stages, where the flags over them leave it open.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>
#include <vector>

#include "small_files.hpp"

namespace plan {

using namespace launching;

TEST_CASE("recipes of experts split and exchange as Megatron-Bridge has them") {
  const auto script = [](const std::string& flags) {
    return "#!/bin/bash\npython scripts/performance/run_script.py --model_family_name deepseek --model_recipe_name "
           "deepseek_v3 --gpu gb300 --num_gpus 256 --gpus_per_node 4 --compute_dtype fp8_mx --seq_length 4096 "
           "--global_batch_size 2048 --micro_batch_size 1 --expert_model_parallel_size 8 " +
           flags + "\n";
  };
  const auto chunks = [](int count, int each, int last) {
    std::vector<int> out(static_cast<std::size_t>(count), each);
    out.back() = last;
    return out;
  };
  struct Split {
    int pp, vp, each, last;
  };
  // recipes/deepseek/deepseek_v3.py, set_deepseek_v3_pipeline_model_parallel_layout
  for (const Split& split :
       {Split{4, 1, 16, 13}, {8, 1, 8, 5}, {4, 2, 8, 5}, {16, 1, 4, 1}, {8, 2, 4, 1}, {4, 4, 4, 1}}) {
    const std::string flags = fmt::format("--pipeline_model_parallel_size {} --virtual_pipeline_model_parallel_size {}",
                                          split.pp, split.vp == 1 ? "None" : std::to_string(split.vp));
    CAPTURE(flags);
    const LaunchJob job = job_of("p.sh", script(flags));
    CHECK(job.fixed.vp == split.vp);
    CHECK(job.fixed.chunk_layers == chunks(split.pp * split.vp, split.each, split.last));
    CHECK(names(job.unused, "61 layers are split"));
    CHECK_FALSE(job.training->stack.dedup_dispatch);
    for (const char* backend : {"hybridep", "HybridEP"})
      CHECK(job_of("p.sh", script(flags + " --moe_flex_dispatcher_backend " + backend)).training->stack.dedup_dispatch);
    const std::string deep = flags + " --moe_flex_dispatcher_backend deepep";
    CHECK_FALSE(job_of("p.sh", script(deep)).training->stack.dedup_dispatch);
    CHECK(job_of("p.sh", replaced(script(deep), "gb300", "b200")).training->stack.dedup_dispatch);
  }
  const std::string layout =
      "--pipeline_model_parallel_size 2 --pipeline_model_parallel_layout 'Et*4|(t*4|)*14tmL' "
      "--virtual_pipeline_model_parallel_size ";
  const LaunchJob listed = job_of("p.sh", script(layout + "8"));
  CHECK(listed.fixed.vp == 8);
  CHECK(listed.fixed.chunk_layers == chunks(16, 4, 1));
  CHECK(error_of("p.sh", script(layout + "4")) == "conflicting_keys");
  const LaunchJob overlaps =
      job_of("p.sh", replaced(script("--pipeline_model_parallel_size 8 --virtual_pipeline_model_parallel_size 4 "
                                     "--moe_a2a_overlap True"),
                              "deepseek_v3", "qwen3_235b_a22b"));
  CHECK(overlaps.training->stack.ep_overlap);
}

TEST_CASE("only recipes that fill their chunks split layers that do not come out even") {
  const auto script = [](const std::string& recipe, const std::string& flags) {
    return fmt::format(
        "#!/bin/bash\npython scripts/performance/run_script.py --model_recipe_name {} --gpu h100 --num_gpus 96 "
        "--gpus_per_node 8 --compute_dtype bf16 --seq_length 4096 --global_batch_size 96 --micro_batch_size 1 {}\n",
        recipe, flags);
  };
  const Files files;
  CHECK_FALSE(files.read("p.sh", script("llama3_70b", "--pipeline_model_parallel_size 12")));
  CHECK(files.read("p.sh", script("llama3_70b", "--pipeline_model_parallel_size 4")));
  CHECK(files.read("p.sh", script("deepseek_v3", "--pipeline_model_parallel_size 4 --expert_model_parallel_size 8")));
}

TEST_CASE("an exchange of experts that the scripts do not know is refused by its flag") {
  const Files files;
  const std::string start =
      "#!/bin/bash\npython scripts/performance/run_script.py --model_recipe_name qwen3_30b_a3b --gpu h100 --num_gpus "
      "16 "
      "--gpus_per_node 8 --compute_dtype bf16 --seq_length 4096 --global_batch_size 64 --micro_batch_size 1 "
      "--expert_model_parallel_size 8 --moe_flex_dispatcher_backend ";
  for (const char* word : {"deepep", "DeepEP", "hybridep", "None"}) CHECK(files.read("p.sh", start + word + "\n"));
  for (const char* word : {"deep", "hybrid_ep", "alltoal", "$BACKEND"}) {
    CAPTURE(word);
    const Result<LaunchJob> job = files.read("p.sh", start + word + "\n");
    REQUIRE_FALSE(job);
    CHECK(job.error().front().message.find("deepep, hybridep") != std::string::npos);
  }
}

}  // namespace plan
