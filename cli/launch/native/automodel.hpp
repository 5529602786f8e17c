#pragma once

#include <optional>
#include <string>

#include "cli/launch/job/job_builder.hpp"

/// Between the readers of NeMo Automodel's recipes: the mesh of a recipe, and how it is sharded, piped and rebuilt.
namespace plan::automodel {

inline constexpr std::string_view kPipeMicro = "distributed.pipeline.pp_microbatch_size";

struct Mesh {
  int tp = 1, cp = 1, pp = 1, ep = 1, replicate = 1;
  std::optional<int> dp{};
};

/// The strategy's name (fsdp2, megatron_fsdp, ddp), which older recipes give as the class that manages it.
[[nodiscard]] std::string strategy_of(Settings& settings);
/// The degrees of `distributed`; data ranks as stated, or as the GPUs leave them.
[[nodiscard]] Mesh read_mesh(JobBuilder& builder);
void read_sharding(JobBuilder& builder, const Mesh& d);
void read_pipeline(JobBuilder& builder, const Mesh& d);
void read_recompute(JobBuilder& builder);

}  // namespace plan::automodel
