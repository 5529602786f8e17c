// What Megatron-LM's arguments compute again in the backward pass. Tested by tests/launch/files_test.cpp and
// parser_mistakes_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/launch/megatron/builder.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "formulas/names.hpp"
#include "planner/problem/axes.hpp"

namespace plan::megatron {
namespace {

/// Of so many layers those that the largest chunk of the pipeline has: more than all are all.
int most_of_chunk(const LaunchJob& job, std::int64_t layers) {
  if (!job.model) return static_cast<int>(layers);
  const std::vector<int> chunks = job.fixed.chunk_layers.value_or(std::vector<int>{});
  const int count = std::max(1, job.fixed.pp.value_or(1) * job.fixed.vp.value_or(1));
  const int even = (job.model->depth() + count - 1) / count;
  const int most = chunks.empty() ? even : *std::max_element(chunks.begin(), chunks.end());
  return static_cast<int>(std::clamp<std::int64_t>(layers, 0, std::max(1, most)));
}

}  // namespace

void recompute(Builder& builder) {
  const MegatronArgs& args = builder.args;
  Recompute out;
  std::string granularity = args.text("recompute-granularity");
  if ((args.has("recompute-activations") || args.has("moe-layer-recompute")) && granularity.empty())
    granularity = "selective";
  if (granularity == "full") {
    const int layers = most_of_chunk(builder.job, args.integer("recompute-num-layers", 1));
    const std::string method = args.text("recompute-method");
    const bool known = method == "block" || method == "uniform" || method == "null" || method == "None";
    if ((args.fork || args.foreign) && !method.empty() && !known)  // Megatron-LM's own parser is asked elsewhere
      builder.wrong("recompute-method", fmt::format("takes block or uniform, not `{}`", method));
    const bool none = layers == 0 && args.text("recompute-method") == "block";  // a block of no layers
    out.kind = none ? RecomputeKind::None : RecomputeKind::Full;
    if (args.text("recompute-method") == "block")
      out.layers = layers;
    else
      out.uniform = layers > 1 ? layers : 0;
  } else if (granularity == "selective") {
    out.kind = RecomputeKind::Selective;
    const auto modules = args.given.find("recompute-modules");
    if (modules == args.given.end()) out.modules = kRecomputeCoreAttention;
    if (args.has("moe-layer-recompute")) out.modules = static_cast<std::uint16_t>(out.modules | kRecomputeMoe);
    if (modules != args.given.end())
      for (const std::string& word : modules->second.values) {
        if (const auto module = parse(kRecomputeModuleNames, word);
            module && !(*module & (kRecomputeOps | kRecomputeMlpActivation)))
          out.modules = static_cast<std::uint16_t>(out.modules | *module);
        else
          builder.job.unused.push_back({"recompute_not_modelled", fmt::format("{}: recomputing `{}` is not modelled",
                                                                              modules->second.where, word)});
      }
  } else if (!granularity.empty()) {
    builder.wrong("recompute-granularity", fmt::format("takes full or selective, not `{}`", granularity));
  }
  builder.job.fixed.recompute = out;
  if (!granularity.empty()) {
    const char* flag = args.has("recompute-granularity")   ? "recompute-granularity"
                       : args.has("recompute-activations") ? "recompute-activations"
                                                           : "moe-layer-recompute";
    state(builder.job, "recompute", recompute_text(out), args.where(flag));
  } else {
    assume(builder.job, "recompute", "none", "Megatron-LM");
  }
}

}  // namespace plan::megatron
