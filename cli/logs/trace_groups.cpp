// Which axis a trace's messages belong to. Tested by tests/logs/nsys_test.cpp and tests/cli/diagnose_test.cpp.
#include "cli/logs/trace_groups.hpp"

#include <algorithm>
#include <optional>

#include "presets/suggest.hpp"

namespace plan {
namespace {

/// By what the framework calls the group. Data before all else: "expert data parallel" and "dp_shard_cp" are of
/// gradients and parameters, whatever they span.
std::optional<Observable> named_part(const TraceGroup& group) {
  struct Word {
    std::string_view word;
    Observable part;
  };
  constexpr Word kWords[] = {{"data", Observable::Dp},           {"_dp", Observable::Dp},
                             {"fsdp", Observable::Dp},           {"shard", Observable::Dp},
                             {"expert", Observable::Ep},         {"_ep", Observable::Ep},
                             {"pipeline", Observable::Pipeline}, {"_pp", Observable::Pipeline},
                             {"context", Observable::Cp},        {"_cp", Observable::Cp},
                             {"tensor", Observable::Tp},         {"_tp", Observable::Tp}};
  const std::string description = lowered(group.description);
  for (const Word& row : kWords)
    if (description.find(row.word) != std::string::npos) return row.part;
  return std::nullopt;
}

bool holds(const std::string& text, std::string_view word) { return text.find(word) != std::string::npos; }

/// By what is sent and among how many.
Observable likely_part(const TraceGroup& group, const Layout& layout) {
  const std::string op = lowered(group.op);
  if (holds(op, "sendrecv") || op.starts_with("send") || op.starts_with("recv")) {
    if (layout.ep > 1 && group.ranks == layout.ep) return Observable::Ep;
    if (layout.pp > 1) return Observable::Pipeline;
    return layout.ep > 1 ? Observable::Ep : Observable::Cp;
  }
  if (holds(op, "alltoall") || holds(op, "all_to_all")) return layout.ep > 1 ? Observable::Ep : Observable::Cp;
  if (group.ranks > 1 && group.ranks == layout.tp && layout.tp != layout.dense_group()) return Observable::Tp;
  if (group.ranks > 1 && group.ranks == layout.cp && layout.cp != layout.dense_group()) return Observable::Cp;
  if (group.ranks == 0 && layout.tp > 1 && layout.dense_group() == 1) return Observable::Tp;
  return Observable::Dp;
}

/// Streams in the order of how often something is sent on them, the busiest first. `sends` counts by group.
std::vector<int> busiest_streams(const Trace& trace, const std::vector<std::int64_t>& sends,
                                 const std::vector<std::size_t>& groups) {
  std::vector<std::pair<std::int64_t, int>> streams;
  for (const std::size_t i : groups) {
    const auto same = [&](const auto& stream) { return stream.second == trace.groups[i].stream; };
    auto at = std::find_if(streams.begin(), streams.end(), same);
    if (at == streams.end()) at = streams.insert(streams.end(), {0, trace.groups[i].stream});
    at->first += sends[i];
  }
  std::stable_sort(streams.begin(), streams.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<int> out;
  for (const auto& [count, stream] : streams) out.push_back(stream);
  return out;
}

}  // namespace

std::vector<Observable> parts_of_groups(const Trace& trace, const Layout& layout) {
  std::vector<Observable> parts;
  std::vector<std::int64_t> sends(trace.groups.size(), 0);
  for (const TraceKernel& kernel : trace.kernels)
    if (kernel.group >= 0) ++sends[static_cast<std::size_t>(kernel.group)];
  std::vector<std::size_t> reductions, exchanges;  // that only their stream tells apart
  for (std::size_t i = 0; i < trace.groups.size(); ++i) {
    const TraceGroup& group = trace.groups[i];
    const std::optional<Observable> named = named_part(group);
    parts.push_back(named ? *named : likely_part(group, layout));
    const bool size_tells = group.ranks > 0 && !(group.ranks == layout.tp && layout.tp == layout.dense_group());
    if (named || group.stream < 0 || size_tells) continue;
    const bool exchange = parts.back() == Observable::Pipeline || parts.back() == Observable::Ep ||
                          (parts.back() == Observable::Cp && !holds(lowered(group.op), "gather"));
    (exchange ? exchanges : reductions).push_back(i);
  }
  const auto give = [&](const std::vector<std::size_t>& groups, int stream, Observable part) {
    for (const std::size_t i : groups)
      if (trace.groups[i].stream == stream) parts[i] = part;
  };
  // Tensor ranks exchange in every layer, context ranks in every attention; gradients go in a few large pieces.
  const std::vector<int> reducing = busiest_streams(trace, sends, reductions);
  std::size_t next = 0;
  if (layout.tp > 1 && reducing.size() > (layout.dense_group() > 1 ? 1 : 0))
    give(reductions, reducing[next++], Observable::Tp);
  if (layout.cp > 1 && layout.cp_kind == CpKind::AllGather && reducing.size() > next + 1)
    give(reductions, reducing[next], Observable::Cp);
  // Experts exchange twice in every layer, a ring of context ranks in every attention, stages once a micro-batch.
  const std::vector<int> exchanging = busiest_streams(trace, sends, exchanges);
  const bool rings = layout.cp > 1 && layout.cp_kind != CpKind::AllGather;
  if (layout.pp > 1 && (layout.ep > 1 || rings) && exchanging.size() > 1) {
    for (const int stream : exchanging) give(exchanges, stream, Observable::Pipeline);
    give(exchanges, exchanging.front(), layout.ep > 1 ? Observable::Ep : Observable::Cp);
  }
  return parts;
}

}  // namespace plan
