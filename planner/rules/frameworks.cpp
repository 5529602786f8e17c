// The frameworks that plans are made for, joined. Tested by
// tests/planner/framework_rules_test.cpp.
#include "planner/rules/frameworks.hpp"

#include <algorithm>
#include <vector>

#include "formulas/enum_rows.hpp"
#include "formulas/overlap.hpp"

namespace plan {

static_assert(kRowForEach<Framework, std::size(kFrameworkRows)>);
static_assert(std::size(kFrameworkRows) <= 8 * sizeof(FrameworkMask));

std::span<const FrameworkRow> frameworks() {
  static const std::vector<FrameworkRow> rows = [] {
    std::vector<FrameworkRow> all;
    for (const auto& row : kFrameworkRows) all.push_back(row());
    return all;
  }();
  return rows;
}

bool runs_on(const FrameworkRow& row, std::string_view vendor) {
  return row.vendors.empty() || vendor.empty() || row.vendors.find(vendor) != std::string_view::npos;
}

std::string_view lacks(const FrameworkRow& row, const Problem& problem) {
  return row.lacks == nullptr || problem.built ? std::string_view() : row.lacks(problem.model);
}

namespace {

/// Without what its kernels do not do on that GPU.
Stack fitted(Stack stack, const Gpu& gpu) {
  stack.dedup_dispatch &= sends_once_a_node(gpu);
  stack.flash_attention &= fuses_attention(stack, gpu);
  return stack;
}

}  // namespace

Stack stack_on(const FrameworkRow& row, const Gpu& gpu) { return fitted(row.stack, gpu); }

bool fuses_attention(const Stack& stack, const Gpu& gpu) {
  // Its fused kernels are written for Ampere and later.
  return !stack.transformer_engine ||
         (gpu.architecture != Architecture::Volta && gpu.architecture != Architecture::Turing);
}

bool sends_once_a_node(const Gpu& gpu) {
  return gpu.architecture == Architecture::Hopper || gpu.architecture == Architecture::Blackwell ||
         gpu.architecture == Architecture::RtxBlackwell;
}

namespace {

bool states(const Problem& problem, std::string_view key) { return find_input(problem.inputs, key) != nullptr; }

bool states_release(const Problem& problem) {
  return states(problem, "release") || states(problem, "megatron_version");
}

}  // namespace

Stack stack_under(const Problem& problem, const FrameworkRow& row, const Gpu& gpu) {
  const Stack& own = problem.training.stack;
  // What a stated release does, not the newest.
  Stack stack = states_release(problem) && has_image(row) ? own : row.stack;
  stack.routing_imbalance = own.routing_imbalance;  // of the model's routers, whoever runs them
  if (row.graphs_of_parts) stack.cuda_graphs = own.cuda_graphs, stack.graph_scopes = own.graph_scopes;
  if (row.dispatches && states(problem, "dispatcher")) stack.dedup_dispatch = own.dedup_dispatch;
  if (states(problem, "overlap"))
    for (const OverlapPart& part : kOverlapParts)
      if ((row.overlaps & part.bit) != 0) stack.*part.on = own.*part.on;
  return fitted(stack, gpu);
}

bool drops_stated(const Problem& problem, const FrameworkRow& row) {
  const Stack& stack = problem.training.stack;
  if (states_release(problem) && !has_image(row)) return true;
  if ((stack.cuda_graphs || stack.graph_scopes != 0) && !row.graphs_of_parts) return true;
  if (problem.training.offload.activations() && !row.offloads_activations) return true;
  // Every stack overlaps and dispatches in one way or another, so that these ask for the framework only where a word
  // stated them.
  const unsigned turned = overlapping(stack) ^ overlapping(stack_on(row, problem.cluster.gpu));
  if ((turned & ~unsigned{row.overlaps}) != 0 && states(problem, "overlap")) return true;
  return !row.dispatches && states(problem, "dispatcher");
}

std::optional<Framework> find_framework(std::string_view name) {
  for (const FrameworkRow& row : frameworks())
    if (row.name == name) return row.framework;
  return std::nullopt;
}

std::string framework_flag(const FrameworkRow& row) { return "--framework " + std::string(row.name); }

std::optional<Framework> framework_called(std::string_view alias) {
  for (const FrameworkRow& row : frameworks())
    for (std::string_view rest = row.aliases; !rest.empty();) {
      const std::string_view word = rest.substr(0, rest.find(' '));
      if (word == alias) return row.framework;
      rest.remove_prefix(std::min(rest.size(), word.size() + 1));
    }
  return std::nullopt;
}

}  // namespace plan
