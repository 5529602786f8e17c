// Why a figure moved: each changed input is set back alone and the job estimated again. Tested by
// tests/planner/cause_test.cpp.
#include "planner/choice/cause.hpp"

#include <algorithm>
#include <string_view>

#include "planner/problem/axes.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// A choice that can be set back.
struct Choice {
  std::string_view key;
  bool (*differs)(const Problem&, const Layout&, const EarlierJob&);
  void (*restore)(Problem&, Layout&, const EarlierJob&);
};

template <class T>
bool moved(const std::optional<T>& before, const T& now) {
  return before && !(*before == now);
}

void restore_tp(Layout& l, const Layout& before) {
  l.tp = before.tp;
  l.etp = before.etp;
  l.sequence_parallel = before.sequence_parallel;
}

/// Layers that are where a launch puts them are so in the other pipeline too.
void restore_pipeline(const Problem& problem, Layout& l, const Layout& before) {
  l.pp = before.pp, l.vp = before.vp, l.schedule = before.schedule, l.group = before.group;
  if (!l.chunk_layers.empty()) place_layers(problem, l);
}

bool same_grid(const Layout& a, const Layout& b) { return a.pp == b.pp && a.vp == b.vp; }

bool same_context(const Layout& a, const Layout& b) {
  return a.cp == b.cp && (a.cp == 1 || (a.cp_kind == b.cp_kind && a.cp_ulysses == b.cp_ulysses));
}

/// Axes that other axes take part in, or that mean nothing where those moved.
constexpr Choice kJoined[] = {
    {"tp", [](const Problem&, const Layout& l, const EarlierJob& e) { return l.tp != e.layout.tp; },
     [](Problem&, Layout& l, const EarlierJob& e) { restore_tp(l, e.layout); }},
    {"cp", [](const Problem&, const Layout& l, const EarlierJob& e) { return !same_context(l, e.layout); },
     [](Problem&, Layout& l, const EarlierJob& e) {
       l.cp = e.layout.cp, l.cp_kind = e.layout.cp_kind, l.cp_ulysses = e.layout.cp_ulysses;
     }},
    {"pp", [](const Problem&, const Layout& l, const EarlierJob& e) { return l.pp != e.layout.pp; },
     [](Problem& p, Layout& l, const EarlierJob& e) { restore_pipeline(p, l, e.layout); }},
    {"vp",
     [](const Problem&, const Layout& l, const EarlierJob& e) { return l.pp == e.layout.pp && l.vp != e.layout.vp; },
     [](Problem& p, Layout& l, const EarlierJob& e) { restore_pipeline(p, l, e.layout); }},
    {"group",
     [](const Problem&, const Layout& l, const EarlierJob& e) {
       return same_grid(l, e.layout) && l.schedule == e.layout.schedule && l.group != e.layout.group;
     },
     [](Problem&, Layout& l, const EarlierJob& e) { l.group = e.layout.group; }},
    {"etp",
     [](const Problem&, const Layout& l, const EarlierJob& e) { return l.tp == e.layout.tp && l.etp != e.layout.etp; },
     [](Problem&, Layout& l, const EarlierJob& e) { l.etp = e.layout.etp; }},
    {"zero", [](const Problem&, const Layout& l, const EarlierJob& e) { return l.zero != e.layout.zero; },
     [](Problem&, Layout& l, const EarlierJob& e) { l.zero = e.layout.zero, l.shard = e.layout.shard; }},
    {"shard",
     [](const Problem&, const Layout& l, const EarlierJob& e) {
       return l.zero == e.layout.zero && l.shard != e.layout.shard;
     },
     [](Problem&, Layout& l, const EarlierJob& e) { l.shard = e.layout.shard; }},
    {"schedule",
     [](const Problem&, const Layout& l, const EarlierJob& e) {
       return same_grid(l, e.layout) && l.pp > 1 && l.schedule != e.layout.schedule;
     },
     [](Problem&, Layout& l, const EarlierJob& e) { l.schedule = e.layout.schedule, l.group = e.layout.group; }},
    {"recompute",
     [](const Problem&, const Layout& l, const EarlierJob& e) {
       return !(l.recompute == e.layout.recompute && l.stages == e.layout.stages);
     },
     [](Problem&, Layout& l, const EarlierJob& e) { l.recompute = e.layout.recompute, l.stages = e.layout.stages; }},
    {"sequence_parallel",
     [](const Problem&, const Layout& l, const EarlierJob& e) {
       return l.tp == e.layout.tp && l.sequence_parallel != e.layout.sequence_parallel;
     },
     [](Problem&, Layout& l, const EarlierJob& e) { l.sequence_parallel = e.layout.sequence_parallel; }},
    {"layers",
     [](const Problem&, const Layout& l, const EarlierJob& e) {
       return same_grid(l, e.layout) && !l.chunk_layers.empty() && !e.layout.chunk_layers.empty() &&
              l.chunk_layers != e.layout.chunk_layers;
     },
     [](Problem&, Layout& l, const EarlierJob& e) { l.chunk_layers = e.layout.chunk_layers; }},
};

static_assert(name_axes(kJoined));

/// Has an axis no choice of its own? dp follows from the others, and the rest goes with cp and with recomputation.
template <class T>
bool follows(const LayoutAxis<T>& axis) {
  return axis.is(&Layout::dp) || axis.is(&Layout::cp_kind) || axis.is(&Layout::cp_ulysses) || axis.is(&Layout::stages);
}

/// What is no layout's.
constexpr Choice kTraining[] = {
    {"seq", [](const Problem& p, const Layout&, const EarlierJob& e) { return moved(e.seq, p.training.seq); },
     [](Problem& p, Layout&, const EarlierJob& e) { p.training.seq = *e.seq; }},
    {"global_batch",
     [](const Problem& p, const Layout&, const EarlierJob& e) {
       return moved(e.global_batch, p.training.global_batch);
     },
     [](Problem& p, Layout&, const EarlierJob& e) { p.training.global_batch = *e.global_batch; }},
    {"precision",
     [](const Problem& p, const Layout&, const EarlierJob& e) { return moved(e.precision, p.training.precision); },
     [](Problem& p, Layout&, const EarlierJob& e) { p.training.precision = *e.precision; }},
    {"optimizer",
     [](const Problem& p, const Layout&, const EarlierJob& e) { return moved(e.optimizer, p.training.optimizer); },
     [](Problem& p, Layout&, const EarlierJob& e) { p.training.optimizer = *e.optimizer; }},
    {"gpus", [](const Problem& p, const Layout&, const EarlierJob& e) { return moved(e.gpus, p.gpus); },
     [](Problem& p, Layout&, const EarlierJob& e) { p.gpus = *e.gpus; }},
};

/// An axis of which nothing is said above, by itself.
template <class T>
bool restore(const LayoutAxis<T>& axis, Layout& layout, const Layout& before) {
  if (follows(axis) || layout.*axis.value == before.*axis.value) return false;
  layout.*axis.value = before.*axis.value;
  return true;
}

}  // namespace

std::vector<Restoration> restorations(const Problem& problem, const Layout& layout, const EarlierJob& earlier) {
  std::vector<Restoration> out;
  const auto add = [&](Restoration one) {
    if (settle_dp(one.problem, one.layout) && broken_rule(one.problem, one.layout) < 0)
      one.estimate = estimate(one.problem, one.layout);
    out.push_back(std::move(one));
  };
  const auto set_back = [&](const Choice& choice) {
    if (!choice.differs(problem, layout, earlier)) return;
    Restoration one{std::string(choice.key), problem, layout, std::nullopt};
    choice.restore(one.problem, one.layout, earlier);
    add(std::move(one));
  };
  each_axis([&](const auto& axis) {
    const auto* joined = std::ranges::find(kJoined, axis.key, &Choice::key);
    if (joined != std::end(kJoined)) return set_back(*joined);
    Restoration one{std::string(axis.key), problem, layout, std::nullopt};
    if (restore(axis, one.layout, earlier.layout)) add(std::move(one));
  });
  for (const Choice& choice : kTraining) set_back(choice);
  return out;
}

}  // namespace plan
