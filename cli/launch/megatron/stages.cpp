// The pipeline that Megatron-LM's arguments describe: chunks a rank, layers at the ends, layouts as text, layers that
// do nothing. Tested by tests/launch/megatron_layout_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/megatron/builder.hpp"
#include "cli/launch/megatron/hybrid.hpp"
#include "cli/settings/settings.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/partition.hpp"
#include "formulas/text.hpp"
#include "planner/answer/layout_text.hpp"

namespace plan::megatron {
namespace {

/// Chunks per rank: stated, or from the layers of a chunk.
int virtual_stages(Builder& builder, int pp, int depth) {
  const MegatronArgs& args = builder.args;
  if (args.has("num-virtual-stages-per-pipeline-rank"))
    return builder.count("num-virtual-stages-per-pipeline-rank", "vp", 1);
  const char* flag = "num-layers-per-virtual-pipeline-stage";
  if (!args.has(flag)) return 1;
  const int each = builder.count(flag, "layers_per_chunk", 1);
  if (depth % pp == 0 && depth / pp % each == 0) return depth / pp / each;
  builder.wrong(flag, fmt::format("{} does not divide the {} layers of a stage", each, depth / std::max(1, pp)));
  return 1;
}

/// `--pipeline-model-parallel-layout`; empty after a mistake.
std::vector<int> listed_chunks(Builder& builder, int pp, int depth, int mtp) {
  const char* flag = "pipeline-model-parallel-layout";
  const MegatronArgs& args = builder.args;
  Result<PipelineLayout> read = read_pipeline_layout(args.text(flag), depth, mtp, pp);
  if (!read) {
    read.error().front().message = args.where(flag) + ": " + read.error().front().message;
    keep_errors(builder.errors, read);
    return {};
  }
  const int last = static_cast<int>(read->chunks.size()) - 1;
  if (read->mtp >= 0 && read->mtp < last)
    builder.job.notes.push_back(
        {"mtp_stage", fmt::format("{}: the MTP layers of stage {} are counted on the last stage", args.where(flag),
                                  read->mtp % pp)});
  state(builder.job, "layers", stage_layers_text(read->chunks), args.where(flag));
  return read->chunks;
}

/// The chunks between the `|` of a hybrid model's pattern; empty after a mistake.
std::vector<int> patterned_chunks(Builder& builder, const HybridPattern& pattern, int pp, int depth) {
  const char* flag = hybrid_flag(builder.args);
  const std::size_t segments = pattern.segments.size();
  int layers = 0;
  for (const int segment : pattern.segments) layers += segment;
  if (pp < 1 || segments % static_cast<std::size_t>(pp) != 0)
    builder.wrong(flag, fmt::format("cuts the layers into {} segments, no multiple of pp {}", segments, pp));
  else if (layers != depth)
    builder.wrong(flag, fmt::format("cuts {} layers, and the model has {}", layers, depth));
  else
    return pattern.segments;
  return {};
}

/// First and last stage as stated, the others with equal shares.
std::vector<int> chunks_between_ends(Builder& builder, int pp, int vp, int depth) {
  const char *first_flag = "decoder-first-pipeline-num-layers", *last_flag = "decoder-last-pipeline-num-layers";
  const bool first = builder.args.has(first_flag), last = builder.args.has(last_flag);
  const int front = first ? builder.count(first_flag, "first_stage_layers", 1) : 0;
  const int back = last ? builder.count(last_flag, "last_stage_layers", 1) : 0;
  const int middle = pp - (first ? 1 : 0) - (last ? 1 : 0), left = depth - front - back;
  const bool fits = left >= 0 && (middle > 0 ? left % middle == 0 && left / middle % vp == 0 : left == 0) &&
                    front % vp == 0 && back % vp == 0;
  if (!fits) {
    builder.wrong(first ? first_flag : last_flag,
                  fmt::format("leaves {} layers for {} stages in the middle", left, middle));
    return {};
  }
  std::vector<int> chunks;
  for (int chunk = 0; chunk < pp * vp; ++chunk) {
    const int stage = chunk % pp;
    const int layers = first && stage == 0 ? front : last && stage == pp - 1 ? back : middle > 0 ? left / middle : 0;
    chunks.push_back(layers / vp);
  }
  return chunks;
}

/// Takes the layers that do nothing out of the chunks: they were counted among those that were dealt out.
void leave_out_idle(Builder& builder, std::vector<int>& chunks) {
  for (const int layer : builder.args.idle_layers) {
    int at = 0, before = 0;
    while (at + 1 < static_cast<int>(chunks.size()) && before + chunks[static_cast<std::size_t>(at)] <= layer)
      before += chunks[static_cast<std::size_t>(at++)];
    if (at < static_cast<int>(chunks.size())) --builder.dealt[at];
  }
  for (const auto& [at, fewer] : builder.dealt)
    if (at < static_cast<int>(chunks.size())) chunks[static_cast<std::size_t>(at)] += fewer;
}

/// MindSpeed's `--num-layer-list 15,15,16,15`: the layers of each stage; empty after a mistake.
std::vector<int> listed_stages(Builder& builder, int pp, int vp, int depth) {
  const char* flag = "num-layer-list";
  const std::int64_t all = depth + static_cast<std::int64_t>(builder.args.idle_layers.size());
  const std::string text = builder.args.text(flag);
  std::vector<int> stages;
  std::int64_t sum = 0;
  for (const std::string_view word : split(text, ",")) {
    const std::int64_t layers = to_integer(trim(word)).value_or(-1);
    if (layers < 0 || layers > all) {
      builder.wrong(flag, fmt::format("takes the layers of each stage, with commas between, not `{}`", text));
      return {};
    }
    stages.push_back(static_cast<int>(layers));
    sum += layers;
  }
  if (vp > 1)
    builder.wrong(flag, "and virtual stages exclude each other");
  else if (static_cast<int>(stages.size()) != pp)
    builder.wrong(flag, fmt::format("lists {} stages, and pp is {}", stages.size(), pp));
  else if (sum != all)
    builder.wrong(flag, fmt::format("deals out {} layers, and the model has {}", sum, all));
  else
    leave_out_idle(builder, stages);
  return builder.errors.empty() ? stages : std::vector<int>{};
}

/// Equal chunks, embedding and loss counted as layers where the flags say so.
std::vector<int> divided_chunks(Builder& builder, int pp, int vp, int depth) {
  const bool embedding = builder.args.has("account-for-embedding-in-pipeline-split"),
             loss = builder.args.has("account-for-loss-in-pipeline-split");
  const std::vector<int>& idle = builder.args.idle_layers;
  std::vector<int> chunks = equal_chunks(depth + static_cast<int>(idle.size()), pp * vp, embedding, loss);
  leave_out_idle(builder, chunks);
  if (chunks.empty())
    builder.errors.push_back({"uneven_stages",
                              fmt::format("{}: {} layers{} do not divide into {} chunks (pp {} x vp {})",
                                          builder.args.where("pipeline-model-parallel-size"), depth,
                                          embedding || loss ? ", embedding and loss counted," : "", pp * vp, pp, vp),
                              {},
                              {"state the stages with `--pipeline-model-parallel-layout`"}});
  return chunks;
}

}  // namespace

void stages(Builder& builder) {
  const MegatronArgs& args = builder.args;
  LaunchJob& job = builder.job;
  const int pp = builder.count("pipeline-model-parallel-size", "pp", 1), depth = job.model ? job.model->depth() : 0;
  int vp = virtual_stages(builder, pp, depth);
  std::vector<int> chunks;
  if (job.model && pp <= 1 << 16 && vp <= 1 << 12) {
    const std::optional<HybridPattern> pattern = hybrid_pattern(args);
    if (pattern && pattern->segments.size() > 1) {
      chunks = patterned_chunks(builder, *pattern, pp, depth);
      if (!chunks.empty()) vp = static_cast<int>(chunks.size()) / pp;
      state(job, "layers", stage_layers_text(chunks), args.where(hybrid_flag(args)));
    } else if (args.has("pipeline-model-parallel-layout")) {
      chunks = listed_chunks(builder, pp, depth, job.model->mtp.depth);
      if (!chunks.empty()) vp = static_cast<int>(chunks.size()) / pp;
    } else if (args.has("decoder-first-pipeline-num-layers") || args.has("decoder-last-pipeline-num-layers")) {
      chunks = chunks_between_ends(builder, pp, vp, depth);
    } else if (pp > 1 && args.has("num-layer-list")) {
      chunks = listed_stages(builder, pp, vp, depth);
      if (!chunks.empty()) state(job, "layers", stage_layers_text(chunks), args.where("num-layer-list"));
    } else {
      chunks = divided_chunks(builder, pp, vp, depth);
    }
  }
  job.fixed.pp = pp, job.fixed.vp = vp;
  job.fixed.schedule = vp > 1 ? Schedule::Interleaved : Schedule::OneFOneB;
  if (vp > 1)  // what Megatron takes by default
    job.fixed.group = builder.count("microbatch-group-size-per-virtual-pipeline-stage", "group", pp);
  if (pp > 1 && !chunks.empty()) job.fixed.chunk_layers = std::move(chunks);
}

}  // namespace plan::megatron
