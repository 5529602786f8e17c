// What every layout must keep, whatever runs it (plan-formulas(7) G). Tested by tests/planner/rules_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "formulas/communication.hpp"
#include "formulas/layer_rows.hpp"
#include "formulas/names.hpp"
#include "formulas/partition.hpp"
#include "formulas/rank_grid.hpp"
#include "formulas/torus.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/rules/rule_tables.hpp"

namespace plan {
namespace {

using rule::all_kinds, rule::divides;

/// Megatron alone exchanges tokens for heads around a scan.
constexpr auto kNoScanExchange = static_cast<FrameworkMask>(kNamedFrameworks & ~framework_bit(Framework::Megatron));

bool heads_divide(const Problem& problem, std::int64_t ranks) {
  return all_kinds(problem, [&](const Layer& kind) {
    const auto heads = mixer_row(kind.mixer).heads(kind);
    return std::all_of(heads.begin(), heads.end(), [&](std::int64_t some) { return divides(ranks, some); });
  });
}

/// Can `size` ranks, `stride` apart, be laid on axes of the slice? Groups that leave it cross a network of switches.
bool lies_in_slice(const Cluster& cluster, int size, int stride) {
  if (cluster.tiers.empty() || !cluster.tiers.front().torus.any() || size <= 1) return true;
  const Torus& torus = cluster.tiers.front().torus;
  const int inside = Group{size, stride}.inside(torus.chips());
  return inside * stride >= torus.chips() || lies_on_axes(torus, inside, stride);
}

std::string slice_words(const Cluster& cluster) {
  if (cluster.tiers.empty()) return {};
  return slice_text(cluster.tiers.front().torus.shape());
}

bool kv_heads_fit(const Problem& problem, std::int64_t ranks) {
  return all_kinds(problem, [&](const Layer& kind) {
    const std::int64_t groups = mixer_row(kind.mixer).kv_heads(kind);
    return groups == 0 || divides(ranks, groups) || divides(groups, ranks);
  });
}

bool widths_divide(const Problem& problem, std::int64_t ranks) {
  return all_kinds(problem, [&](const Layer& kind) {
    if (kind.ffn == Ffn::Dense) return divides(ranks, kind.dense.width);
    return kind.ffn != Ffn::Moe || kind.moe.shared_width == 0 || divides(ranks, kind.moe.shared_width);
  });
}

bool expert_widths_divide(const Problem& problem, std::int64_t ranks) {
  return all_kinds(problem,
                   [&](const Layer& kind) { return kind.ffn != Ffn::Moe || divides(ranks, kind.moe.expert_width); });
}

/// The fullest stage holds at most 3/2 of the mean. Frameworks run 126 layers on 125 stages; nobody who pays for the
/// GPUs does, so a search leaves it to those who ask for that pp.
bool stages_even(std::int64_t layers, std::int64_t pp) { return 2 * ((layers + pp - 1) / pp) * pp <= 3 * layers; }

/// Kind of the first layer that would be alone on its head or its KV head under all-to-all.
bool ulysses_fits(const Problem& problem, std::int64_t tp, std::int64_t ulysses) {
  return all_kinds(problem, [&](const Layer& kind) {
    const MixerRow& mixer = mixer_row(kind.mixer);
    if (mixer.core != MixerCore::Attention) return true;
    const std::int64_t groups = mixer.kv_heads(kind);
    return divides(tp * ulysses, mixer.heads(kind)[0]) && (groups == 0 || divides(tp * ulysses, std::max(groups, tp)));
  });
}

bool scans(const Layer& kind) { return core_of(kind) == MixerCore::Scan; }

/// Every context rank can take whole heads of the layers that scan.
bool scans_spread(const Problem& problem, const Layout& layout) {
  return all_kinds(problem, [&](const Layer& kind) {
    return !scans(kind) || mixer_row(kind.mixer).spreads_scan(kind, layout.tp, layout.cp);
  });
}

/// A number that layers have, in words: "8", "1536 and 18432"; a layer of which `number` is 0 has none.
template <class Number>
std::string numbers_of(const Model& model, Number number) {
  std::set<std::int64_t> found;
  for (const Layer& kind : model.kinds)
    if (const std::int64_t one = number(kind); one > 0) found.insert(one);
  return fmt::format("{}", fmt::join(found, " and "));
}

std::string kv_heads_of(const Model& model) {
  return numbers_of(model, [](const Layer& kind) { return mixer_row(kind.mixer).kv_heads(kind); });
}

std::string widths_of(const Model& model) {
  return numbers_of(model, [](const Layer& kind) -> std::int64_t {
    return kind.ffn == Ffn::Dense ? kind.dense.width : kind.ffn == Ffn::Moe ? kind.moe.shared_width : 0;
  });
}

std::string expert_widths_of(const Model& model) {
  return numbers_of(model,
                    [](const Layer& kind) -> std::int64_t { return kind.ffn == Ffn::Moe ? kind.moe.expert_width : 0; });
}

std::int64_t grid(const Layout& l) { return static_cast<std::int64_t>(l.tp) * l.cp * l.pp * l.dp; }

/// Layers that `layers=` places, all chunks together.
std::int64_t placed_layers(const Layout& l) {
  return std::accumulate(l.chunk_layers.begin(), l.chunk_layers.end(), std::int64_t{0});
}

/// Every rank has a layer, the embedding or the head; whole chunks are empty at the two ends, where embedding and head
/// stand, and elsewhere only if the framework can say so.
bool chunks_hold_something(const Problem& p, const Layout& l) {
  const std::vector<int>& layers = l.chunk_layers;
  const int last = static_cast<int>(layers.size()) - 1;
  std::vector<bool> held(static_cast<std::size_t>(l.pp), false);
  const auto hold = [&](int chunk) {
    held[static_cast<std::size_t>(rank_of_chunk(chunk, l.pp, v_shaped(l.schedule)))] = true;
  };
  for (int chunk = 0; chunk <= last; ++chunk) {
    const bool empty = layers[static_cast<std::size_t>(chunk)] == 0, end = chunk == 0 || chunk == last;
    if (empty && !end && !framework_row(p.framework).empty_chunks) return false;
    if (!empty || end) hold(chunk);
  }
  return std::all_of(held.begin(), held.end(), [](bool any) { return any; });
}

/// "dualpipev takes at least 2 pp micro-batches, got pp 4, vp 2, 6 micro-batches": what schedule_allows() asks that
/// this pipeline has not.
std::string schedule_numbers(const Pipeline& pipe) {
  const auto demand = [&]() -> std::string_view {
    const Chunks chunks = schedule_row(pipe.schedule).chunks;
    if (!takes_chunks(pipe.schedule, pipe.vp))
      return chunks == Chunks::One ? "vp 1" : chunks == Chunks::Two ? "vp 2" : "vp 2 or more";
    if (chunks != Chunks::One && pipe.pp == 1) return "pp 2 or more";
    return schedule_row(pipe.schedule).takes;
  };
  return fmt::format("{} takes {}, got pp {}, vp {}, {} micro-batches{}", name(pipe.schedule), demand(), pipe.pp,
                     pipe.vp, pipe.micro_batches,
                     pipe.group > 0 ? fmt::format(" in groups of {}", pipe.group) : std::string{});
}

bool unsettled_start_so(const Problem&, const Layout& layout) {
  bool all = true;
  each_axis([&](const auto& axis) { all = all && (axis.is(kSettled) || layout.*axis.value == Layout{}.*axis.value); });
  return all;
}

constexpr Rule kRules[] = {
    {"gpus_divide", "tp * cp * pp * dp uses every GPU", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return grid(l) == static_cast<std::int64_t>(p.gpus); }, 0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("{} * {} * {} * {} is {}, and the job has {}", l.tp, l.cp, l.pp, l.dp, grid(l), p.gpus);
     }},
    {"batch_divides", "dp divides the global batch", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return divides(l.dp, p.training.global_batch); }, 0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("dp {} leaves {} of {} sequences over", l.dp, p.training.global_batch % l.dp,
                          p.training.global_batch);
     }},
    // Embedding and head may have ranks of their own where the split is stated: 70 layers on 72 ranks trained BLOOM.
    {"layers_fill_stages", "every pipeline rank has a layer", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return l.pp <= p.model.depth() + (p.fixed.chunk_layers ? 2 : 0); }, 0,
     [](const Problem& p, const Layout& l) { return fmt::format("pp {} for {} layers", l.pp, p.model.depth()); }},
    {"stages_uneven", "no third of the pipeline idles because layers do not divide, unless pp is fixed", Level::Grid,
     kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return p.fixed.pp || p.fixed.chunk_layers || stages_even(p.model.depth(), l.pp);
     }},
    {"replica_too_wide", "one copy of the model takes at most 4,096 GPUs, unless dp is fixed", Level::Grid,
     kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       // The widest published is 2,048 (Llama 3 405B at 131,072 tokens, arXiv:2407.21783 table 4).
       return p.fixed.dp || static_cast<std::int64_t>(l.tp) * l.cp * l.pp <= 4096;
     }},
    {"heads_divide", "tp divides the attention heads", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return heads_divide(p, l.tp); }, 0,
     [](const Problem& p, const Layout& l) { return fmt::format("tp {} for {} heads", l.tp, heads_of(p.model)); }},
    {"kv_heads_divide", "tp divides the KV heads or they divide tp", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return kv_heads_fit(p, l.tp); }, 0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("tp {} for KV heads {}", l.tp, kv_heads_of(p.model));
     }},
    {"ffn_divides", "tp divides the FFN width", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return widths_divide(p, l.tp); }, 0,
     [](const Problem& p, const Layout& l) { return fmt::format("tp {} for width {}", l.tp, widths_of(p.model)); }},
    {"tp_leaves_scale_up", "tp stays inside the NVLink domain", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return p.fixed.tp || l.tp <= p.cluster.scale_up_size(); }, 0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("tp {} in domains of {}", l.tp, p.cluster.scale_up_size());
     }},
    {"copies_divide", "the copies of --diloco divide dp", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return !p.training.local.any() || divides(p.training.local.copies, l.dp);
     }},
    {"torus_axes", "tp and cp fill axes of the torus or equal parts of them", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return lies_in_slice(p.cluster, l.tp, 1) && lies_in_slice(p.cluster, l.cp, l.tp);
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("tp {}, cp {} on {}", l.tp, l.cp, slice_words(p.cluster));
     }},
    {"sequence_divides", "2 cp divides the sequence, and tp what is left", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       const std::int64_t seq = p.training.seq;
       return (l.cp == 1 || divides(2 * l.cp, seq)) && (!l.sequence_parallel || divides(l.tp, seq / l.cp));
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("sequence {}, cp {}, tp {}", p.training.seq, l.cp, l.tp);
     }},
    {"context_too_short", "a context rank keeps at least 256 tokens", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return p.fixed.cp || p.fixed.stages || l.cp == 1 || p.training.seq / l.cp >= 256;
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("cp {} leaves {} of {} tokens", l.cp, p.training.seq / l.cp, p.training.seq);
     }},
    {"context_needs_attention", "context parallelism needs attention in every mixing layer", Level::Grid,
     kNoScanExchange,
     [](const Problem& p, const Layout& l) {
       return l.cp == 1 || all_kinds(p, [](const Layer& kind) { return !scans(kind); });
     }},
    {"context_scan_heads", "context parallelism divides the heads of layers that scan", Level::Grid, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return l.cp == 1 || scans_spread(p, l); }, 0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("tp {} * cp {} for {} heads", l.tp, l.cp, heads_of(p.model));
     }},

    {"experts_divide", "ep divides the experts", Level::Experts, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return l.ep == 1 || divides(l.ep, p.model.experts()); }, 0,
     [](const Problem& p, const Layout& l) { return fmt::format("ep {} for {} experts", l.ep, p.model.experts()); }},
    {"expert_width_divides", "etp divides the expert width", Level::Experts, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return expert_widths_divide(p, l.etp); }, 0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("etp {} for width {}", l.etp, expert_widths_of(p.model));
     }},
    {"expert_grid_divides", "etp * ep * pp divides the GPUs", Level::Experts, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return divides(static_cast<std::int64_t>(l.etp) * l.ep * l.pp, static_cast<std::int64_t>(p.gpus));
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("{} * {} * {} for {} GPUs", l.etp, l.ep, l.pp, p.gpus);
     }},

    {"torus_expert_axes", "etp and ep fill axes of the torus or equal parts of them", Level::Experts, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return lies_in_slice(p.cluster, l.etp, 1) && lies_in_slice(p.cluster, l.ep, l.etp);
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("etp {}, ep {} on {}", l.etp, l.ep, slice_words(p.cluster));
     }},

    {"experts_exist", "a dense model has no experts to spread or split", Level::Experts, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return p.model.moe() || (l.ep == 1 && l.etp == 1); }},

    {"micro_batch_divides", "micro_batch * dp divides the global batch", Level::MicroBatch, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return divides(static_cast<std::int64_t>(l.dp) * l.micro_batch, p.training.global_batch);
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("{} * {} for {} sequences", l.micro_batch, l.dp, p.training.global_batch);
     }},

    {"ulysses_heads", "all-to-all context parallelism divides heads and KV heads", Level::Context, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       if (l.cp == 1 || l.cp_kind == CpKind::Ring || l.cp_kind == CpKind::AllGather) return true;
       const int ulysses = exchanging_ranks(l.cp_kind, l.cp, l.cp_ulysses);
       return divides(ulysses, l.cp) && ulysses_fits(p, l.tp, ulysses);
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("cp {}, tp {} for {} heads, KV heads {}", l.cp, l.tp, heads_of(p.model),
                          kv_heads_of(p.model));
     }},

    {"order_keeps_stages", "with dp outermost every rank's experts belong to its own stage: etp * ep is tp * cp",
     Level::Schedule, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return l.order == AxisOrder::PipelineOutermost || l.pp == 1 || !p.model.moe() ||
              static_cast<std::int64_t>(l.etp) * l.ep == static_cast<std::int64_t>(l.tp) * l.cp;
     },
     0, [](const Problem&, const Layout& l) { return fmt::format("{} * {} and {} * {}", l.etp, l.ep, l.tp, l.cp); }},
    {"schedule_limits", "the schedule accepts pp, vp and the number of micro-batches", Level::Schedule, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return schedule_allows(pipeline_of(p, l)); }, 0,
     [](const Problem& p, const Layout& l) { return schedule_numbers(pipeline_of(p, l)); }},
    {"group_interleaves", "only interleaved pipelines pass micro-batches in groups", Level::Schedule, kAllFrameworks,
     [](const Problem&, const Layout& l) {
       return l.group == 0 || schedule_row(l.schedule).passes == Passes::EachGroup;
     },
     0, [](const Problem&, const Layout& l) { return fmt::format("{} with group {}", name(l.schedule), l.group); }},
    {"chunks_need_layers", "each model chunk has a layer, or is the embedding or the head", Level::Schedule,
     kAllFrameworks, [](const Problem& p, const Layout& l) { return l.chunks() <= p.model.depth() + 2; }, 0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("pp {} * vp {} is {}, and the model has {} layers", l.pp, l.vp, l.chunks(), p.model.depth());
     }},
    {"layers_count", "`layers` has one number for each of the pp * vp model chunks", Level::Schedule, kAllFrameworks,
     [](const Problem&, const Layout& l) {
       return l.chunk_layers.empty() || static_cast<std::int64_t>(l.chunk_layers.size()) == l.chunks();
     },
     0,
     [](const Problem&, const Layout& l) {
       return fmt::format("it has {} for {} chunks, pp {} * vp {}", l.chunk_layers.size(), l.chunks(), l.pp, l.vp);
     }},
    {"layers_sum", "`layers` adds up to the model's layers", Level::Schedule, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return l.chunk_layers.empty() || (*std::min_element(l.chunk_layers.begin(), l.chunk_layers.end()) >= 0 &&
                                         placed_layers(l) == p.model.depth());
     },
     0,
     [](const Problem& p, const Layout& l) {
       return fmt::format("it places {} layers, and {} has {}", placed_layers(l), p.model.name, p.model.depth());
     }},
    {"layers_empty", "a chunk without layers holds the embedding or the head, or Megatron's rank has another chunk",
     Level::Schedule, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return l.chunk_layers.empty() || chunks_hold_something(p, l); }},
    {"chunks_uneven", "no third of an interleaved pipeline idles because layers do not divide, unless vp is fixed",
     Level::Schedule, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return p.fixed.vp || p.fixed.chunk_layers || stages_even(p.model.depth(), l.chunks());
     }},

    {"shard_needs_zero", "a shard group needs states that are sharded: zero 1, 2 or 3", Level::Sharding, kAllFrameworks,
     [](const Problem&, const Layout& l) { return l.zero > 0 || rule::shards_over_all(l); }},
    {"offload_shards", "weights that lie in host memory are sharded ones: zero 2 or 3", Level::Sharding, kAllFrameworks,
     [](const Problem& p, const Layout& l) { return l.zero >= 2 || !p.training.offload.parameters; }},
    {"copies_apart", "each copy under --diloco shards its states over its own ranks", Level::Sharding, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       const LocalUpdates& local = p.training.local;
       return !local.any() ||
              (divides(local.copies, l.expert_dp()) && l.shard == (l.zero > 0 ? l.dense_group() / local.copies : 0));
     }},
    {"copies_outermost", "with pipelines the copies of --diloco stand outside them: order=tp-cp-ep-pp-dp",
     Level::Sharding, kAllFrameworks,
     [](const Problem& p, const Layout& l) {
       return !p.training.local.any() || l.pp == 1 || l.order == AxisOrder::DataOutermost ||
              !order_matters(p.cluster, l);
     }},
    {"stage_strategies", "`stages` has a strategy for each of the pp stages that it can have", Level::Sharding,
     kAllFrameworks, [](const Problem& p, const Layout& l) { return l.stages.empty() || stages_fault(p, l).empty(); },
     0, [](const Problem& p, const Layout& l) { return stages_fault(p, l); }},
    {"stages_differ", "the framework takes one strategy for all stages, and no list of them", Level::Sharding,
     kNamedFrameworks, [](const Problem&, const Layout& l) { return l.stages.empty(); }},
    {"axis_without_word", "the framework has no word for one of the axes, but for its usual value", Level::Sharding,
     kNamedFrameworks, unsettled_start_so},
    {"shard_divides", "the shard group divides dp * cp", Level::Sharding, kAllFrameworks,
     [](const Problem&, const Layout& l) { return l.shard == 0 || divides(l.shard, l.dense_group()); }, 0,
     [](const Problem&, const Layout& l) { return fmt::format("shard {} for {} ranks", l.shard, l.dense_group()); }},
};

}  // namespace

std::span<const Rule> common_rules() { return kRules; }

}  // namespace plan
