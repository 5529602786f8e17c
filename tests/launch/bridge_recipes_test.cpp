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

}  // namespace plan
