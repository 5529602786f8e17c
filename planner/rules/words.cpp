// Words that a person writes and that cannot be meant. Tested by tests/cli/words_test.cpp.
#include "planner/rules/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "formulas/names.hpp"
#include "formulas/schedule.hpp"
#include "formulas/text.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "planner/rules/rules.hpp"

namespace plan {
namespace {

/// When a word has no meaning beside the others.
struct Meaningless {
  std::string_view key;  ///< of the axis
  bool harmless;         ///< in a launch file: its framework takes it and does nothing
  bool (*holds)(const Problem&, const Fixed&);
  std::string (*why)(const Problem&, const Fixed&);
  std::string_view instead;
};

/// Modules that the model does not have.
std::uint16_t absent_modules(const Problem& problem, const Recompute& recompute) {
  if (recompute.kind != RecomputeKind::Selective) return 0;
  return static_cast<std::uint16_t>(recompute.modules & ~(modules_of(problem.model) | kRecomputeOps));
}
std::uint16_t absent_modules(const Problem& problem, const Fixed& fixed) {
  return fixed.recompute ? absent_modules(problem, *fixed.recompute) : std::uint16_t{0};
}
std::uint16_t absent_in_stages(const Problem& problem, const Fixed& fixed) {
  unsigned absent = 0;
  for (const StageStrategy& stage : fixed.stages.value_or(std::vector<StageStrategy>{}))
    for (const StageStrategy& run : runs_of(stage)) absent |= absent_modules(problem, run.recompute);
  return static_cast<std::uint16_t>(absent);
}

/// More layers in one stage than the model has.
bool stage_too_deep(const Problem& problem, const Fixed& fixed) {
  const std::vector<StageStrategy> stages = fixed.stages.value_or(std::vector<StageStrategy>{});
  const auto deep = [&](const StageStrategy& run) {
    return std::max({run.layers, run.recompute.layers, run.recompute.uniform, run.offload}) > problem.model.depth();
  };
  return std::any_of(stages.begin(), stages.end(), [&](const StageStrategy& stage) {
    return deep(stage) || std::any_of(stage.behind.begin(), stage.behind.end(), deep);
  });
}

std::string modules_text(unsigned modules) {
  return recompute_text({.kind = RecomputeKind::Selective, .modules = static_cast<std::uint16_t>(modules)});
}

bool chunks_mismatch(const Fixed& fixed) {
  return fixed.schedule && fixed.vp && !takes_chunks(*fixed.schedule, *fixed.vp);
}

std::string chunks_text(Schedule schedule) {
  switch (schedule_row(schedule).chunks) {
    case Chunks::One: return "one chunk of layers on each rank: vp 1";
    case Chunks::Two: return "two chunks of layers on each rank: vp 2";
    case Chunks::Many: return "several chunks of layers on each rank: vp 2 or more";
  }
  return {};
}

std::int64_t placed(const Fixed& fixed) {
  return std::accumulate(fixed.chunk_layers->begin(), fixed.chunk_layers->end(), std::int64_t{0});
}

bool layers_miscounted(const Fixed& fixed) {
  if (!fixed.chunk_layers) return false;
  const auto count = static_cast<std::int64_t>(fixed.chunk_layers->size());
  if (fixed.pp && fixed.vp) return count != static_cast<std::int64_t>(*fixed.pp) * *fixed.vp;
  return count % fixed.pp.value_or(1) != 0 || count % fixed.vp.value_or(1) != 0;
}

bool hybrid_parts_wrong(const Fixed& fixed) {
  if (!fixed.cp_ulysses || fixed.cp_kind != CpKind::Hybrid) return false;
  const int part = *fixed.cp_ulysses;
  return part == 1 || (fixed.cp && (part >= *fixed.cp || *fixed.cp % part != 0));
}

constexpr Meaningless kRows[] = {
    {"ep", false, [](const Problem& p, const Fixed& f) { return f.ep.value_or(1) > 1 && !p.model.moe(); },
     [](const Problem& p, const Fixed&) { return fmt::format("{} has no experts to spread", p.model.name); },
     "leave `ep` out"},
    {"etp", true, [](const Problem& p, const Fixed& f) { return f.etp.value_or(1) > 1 && !p.model.moe(); },
     [](const Problem& p, const Fixed&) { return fmt::format("{} has no experts to split", p.model.name); },
     "leave `etp` out"},
    {"recompute", false, [](const Problem& p, const Fixed& f) { return absent_modules(p, f) != 0; },
     [](const Problem& p, const Fixed& f) {
       return fmt::format("{} has no {}; it has {}", p.model.name, modules_text(absent_modules(p, f)),
                          modules_text(modules_of(p.model)));
     },
     "name modules that it has, or write `recompute=full`"},
    {"recompute", false,
     [](const Problem& p, const Fixed& f) {
       return f.recompute && std::max(f.recompute->layers, f.recompute->uniform) > p.model.depth();
     },
     [](const Problem& p, const Fixed&) { return fmt::format("{} has {} layers", p.model.name, p.model.depth()); },
     "write `recompute=full` for all of them"},
    {"recompute", false, [](const Problem&, const Fixed& f) { return f.recompute && f.stages; },
     [](const Problem&, const Fixed&) { return std::string("`stages=` says what each stage recomputes"); },
     "leave one of the two out"},
    {"stage_strategies", false,
     [](const Problem&, const Fixed& f) { return f.stages && f.pp && static_cast<int>(f.stages->size()) != *f.pp; },
     [](const Problem&, const Fixed& f) { return fmt::format("it has {} for pp {}", f.stages->size(), *f.pp); },
     "give one strategy for each pipeline stage, as in `stages=2xfull:none:none`"},
    {"stage_strategies", false, [](const Problem& p, const Fixed& f) { return absent_in_stages(p, f) != 0; },
     [](const Problem& p, const Fixed& f) {
       return fmt::format("{} has no {}; it has {}", p.model.name, modules_text(absent_in_stages(p, f)),
                          modules_text(modules_of(p.model)));
     },
     "name modules that it has, or write `full`"},
    {"stage_strategies", false, stage_too_deep,
     [](const Problem& p, const Fixed&) { return fmt::format("{} has {} layers", p.model.name, p.model.depth()); },
     "write `full` for all layers of a stage"},
    {"cp_kind", true,
     [](const Problem&, const Fixed& f) {
       return f.cp == 1 && f.cp_kind.value_or(CpKind::Ring) != CpKind::Ring &&
              !have_context(f.stages.value_or(std::vector<StageStrategy>{}));
     },
     [](const Problem&, const Fixed&) { return std::string("at cp 1 nothing is exchanged"); },
     "leave `cp-kind` out, or write `cp2`"},
    {"cp_ulysses", true,
     [](const Problem&, const Fixed& f) {
       return f.cp_ulysses.value_or(1) > 1 && (f.cp == 1 || f.cp_kind.value_or(CpKind::Hybrid) != CpKind::Hybrid);
     },
     [](const Problem&, const Fixed&) { return std::string("only a hybrid context group has a part of its own"); },
     "write `cp-kind=hybrid` and a cp above it"},
    {"cp_ulysses", false, [](const Problem&, const Fixed& f) { return hybrid_parts_wrong(f); },
     [](const Problem&, const Fixed&) { return std::string("it divides cp, and is neither 1 nor cp itself"); },
     "write `cp4,cp-kind=hybrid,cp-ulysses=2`"},
    {"vp", false, [](const Problem&, const Fixed& f) { return f.vp.value_or(1) > 1 && f.pp == 1; },
     [](const Problem&, const Fixed&) { return std::string("pp 1 has no pipeline stages to cut into chunks"); },
     "leave `vp` out, or write `pp2`"},
    {"schedule", true,
     [](const Problem&, const Fixed& f) {
       return f.pp == 1 && f.schedule.value_or(Schedule::OneFOneB) != Schedule::OneFOneB;
     },
     [](const Problem&, const Fixed&) { return std::string("pp 1 has no pipeline to schedule"); },
     "leave `schedule` out, or write `pp2`"},
    {"group", true,
     [](const Problem&, const Fixed& f) {
       return f.group.value_or(0) > 0 &&
              (f.pp == 1 || f.vp == 1 ||
               schedule_row(f.schedule.value_or(Schedule::Interleaved)).passes != Passes::EachGroup);
     },
     [](const Problem&, const Fixed&) { return std::string("only interleaved pipelines pass chunks in groups"); },
     "leave `group` out, or write `vp2,schedule=interleaved`"},
    {"group", false, [](const Problem&, const Fixed& f) { return f.group.value_or(0) > 0 && f.pp && *f.group < *f.pp; },
     [](const Problem&, const Fixed& f) { return fmt::format("a group has at least pp {} micro-batches", *f.pp); },
     "leave `group` out for the fewest that it can have"},
    {"vp", false, [](const Problem&, const Fixed& f) { return chunks_mismatch(f); },
     [](const Problem&, const Fixed& f) {
       return fmt::format("{} has {}", name(*f.schedule), chunks_text(*f.schedule));
     },
     "leave `vp` or `schedule` out"},
    {"schedule", false, [](const Problem&, const Fixed& f) { return chunks_mismatch(f); },
     [](const Problem&, const Fixed& f) { return fmt::format("it has {}", chunks_text(*f.schedule)); },
     "leave `vp` or `schedule` out"},
    {"sequence_parallel", true,
     [](const Problem&, const Fixed& f) { return f.tp == 1 && f.sequence_parallel.value_or(false); },
     [](const Problem&, const Fixed&) { return std::string("tp 1 has no ranks to split the sequence between"); },
     "leave `sp` out, or write `tp2`"},
    {"shard", true,
     [](const Problem& p, const Fixed& f) {
       if (f.zero != 0 || f.shard.value_or(0) == 0) return false;
       // All of dp * cp, as reports print it, is no group of its own.
       return !f.tp || !f.pp || static_cast<std::int64_t>(*f.shard) * *f.tp * *f.pp != p.gpus;
     },
     [](const Problem&, const Fixed&) { return std::string("zero 0 shards nothing"); },
     "leave `shard` out, or write `zero1`"},
    {"layers", false, [](const Problem&, const Fixed& f) { return layers_miscounted(f); },
     [](const Problem&, const Fixed& f) {
       Fixed pipeline;
       pipeline.pp = f.pp, pipeline.vp = f.vp;
       return fmt::format("it has {} for {}", f.chunk_layers->size(), fmt::join(fixed_words(pipeline), ", "));
     },
     "give one number for each of the pp * vp chunks"},
    {"layers", false, [](const Problem& p, const Fixed& f) { return f.chunk_layers && placed(f) != p.model.depth(); },
     [](const Problem& p, const Fixed& f) {
       return fmt::format("it places {} layers, and {} has {}", placed(f), p.model.name, p.model.depth());
     },
     "make the numbers add up to the model's layers"},
};
static_assert(name_axes(kRows));

/// The word of an axis by its key, if it is fixed.
std::string word_of(const Fixed& fixed, std::string_view key) {
  std::string word;
  each_axis([&](const auto& axis) {
    if (const auto& value = fixed.*axis.fixed; axis.key == key && value) word = worded(axis, *value);
  });
  return word;
}

/// The word as a person typed it: `layers=1+1`, which is `layers=2x1` here. `ours` where it was typed otherwise, or
/// not.
std::string typed_word(const Problem& problem, std::string_view key, const std::string& ours) {
  const Input* typed = find_input(problem.inputs, "layout");
  if (typed == nullptr) return ours;
  std::string found = ours;
  each_axis([&](const auto& axis) {
    if (axis.key != key) return;
    for (std::size_t at = 0; at < typed->value.size();) {
      const std::size_t end = std::min(typed->value.find_first_of(", ()", at), typed->value.size());
      const std::string item = typed->value.substr(at, end - at);
      const bool named = lowered(item.substr(0, axis.word.size())) == axis.word && item.size() > axis.word.size();
      if (named && std::string_view("=:0123456789").find(item[axis.word.size()]) != std::string_view::npos)
        found = item;
      at = end + 1;
    }
  });
  return found;
}

void free_axis(Fixed& fixed, std::string_view key) {
  each_axis([&](const auto& axis) {
    if (axis.key == key) (fixed.*axis.fixed).reset();
  });
}

/// The formats that `has` holds for, between commas.
std::string formats_where(const std::function<bool(Precision)>& has) {
  std::vector<std::string_view> names;
  for (const Named<Precision>& row : kPrecisionNames)
    if (has(row.value)) names.push_back(row.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string formats_of(const Gpu& gpu) {
  return formats_where([&](Precision precision) { return multiplies(gpu, precision); });
}

}  // namespace

Errors meaningless_words(const Problem& problem, const Fixed& typed) {
  Errors errors;
  for (const Meaningless& row : kRows) {
    const std::string word = word_of(typed, row.key);
    if (word.empty() || !row.holds(problem, problem.fixed)) continue;
    const bool said = std::any_of(errors.begin(), errors.end(), [&](const Error& error) {
      return error.message.find("`" + typed_word(problem, row.key, word) + "`") != std::string::npos;
    });
    // A schedule and a vp that do not go together are one mistake.
    if (said || (row.key == "schedule" && !errors.empty() && chunks_mismatch(problem.fixed))) continue;
    const std::string shown = typed_word(problem, row.key, word);
    errors.push_back({"meaningless_word",
                      fmt::format("`{}` in `--layout` has no meaning here: {}", shown, row.why(problem, problem.fixed)),
                      {},
                      {std::string(row.instead)}});
  }
  return errors;
}

Errors dropped_words(const Problem& problem) {
  Problem full = problem;
  const Layout layout = complete_layout(problem);
  for (const auto& [fixed, value] :
       {std::pair{&Fixed::tp, layout.tp}, std::pair{&Fixed::cp, layout.cp}, std::pair{&Fixed::pp, layout.pp}})
    if (!(full.fixed.*fixed)) full.fixed.*fixed = value;
  const Errors known = meaningless_words(problem, problem.fixed);
  Errors errors = meaningless_words(full, problem.fixed);
  std::erase_if(errors, [&](const Error& error) {
    return std::any_of(known.begin(), known.end(), [&](const Error& one) { return one.message == error.message; });
  });
  return errors;
}

Fixed typed_over_files(const Problem& problem, const Fixed& files, const Fixed& typed) {
  Fixed base = files;
  const auto moved = [&](auto axis) { return typed.*axis && base.*axis && typed.*axis != base.*axis; };
  if (moved(&Fixed::pp) || moved(&Fixed::vp)) base.chunk_layers.reset(), base.schedule.reset(), base.group.reset();
  if (moved(&Fixed::pp) || typed.recompute) base.stages.reset();
  if (typed.stages) base.recompute.reset();
  if (moved(&Fixed::schedule)) base.vp.reset(), base.chunk_layers.reset();
  if (moved(&Fixed::pp) && !typed.vp) base.vp.reset();
  if ((moved(&Fixed::tp) || moved(&Fixed::cp) || moved(&Fixed::pp)) && !typed.dp) base.dp.reset();
  if (moved(&Fixed::tp) && !typed.sequence_parallel) base.sequence_parallel.reset();
  const Fixed all = overlaid(base, typed);
  for (const Meaningless& row : kRows)
    if (row.harmless && row.holds(problem, all)) free_axis(base, row.key);
  return overlaid(base, typed);
}

bool multiplies(const Gpu& gpu, Precision precision) {
  const auto has = [&](DType type) { return gpu.peak[static_cast<std::size_t>(type)].value > 0; };
  // Blocks with a scale of their own came to matrix units together with FP4 (OCP Microscaling Formats v1.0).
  return has(gemm_dtype(precision)) && (precision != Precision::Mxfp8 || has(DType::Fp4));
}

/// Rules of a job's formats alone, whatever its layout.
bool concerns_precision(const Rule& rule) {
  return rule.code.ends_with("_precision") || rule.code == "bf16_layers_scaling";
}

namespace {

std::optional<Error> unbuilt_model(const Problem& problem) {
  const FrameworkRow& row = framework_row(problem.framework);
  const std::string_view lacking = lacks(row, problem);
  if (lacking.empty()) return std::nullopt;
  std::string others;
  for (const FrameworkRow& other : frameworks())
    if (named(other.framework) && lacks(other, problem).empty() && runs_on(other, problem.cluster.gpu.vendor))
      others.append(others.empty() ? "" : ", ").append(other.name);
  Error error{"unsupported_model",
              fmt::format("`--framework {}`: {} builds no model with {}, which {} has", row.name, row.title, lacking,
                          problem.model.name),
              {},
              {}};
  if (!others.empty()) error.help.push_back("these do: " + others);
  error.help.emplace_back("`--framework none` asks for no framework's consent");
  return error;
}

bool concerns_adapters(const Rule& rule) { return rule.code.ends_with("_adapters"); }

/// Frameworks that train the job's adapters, whatever else they lack.
std::vector<std::string_view> adapter_trainers(const Problem& problem) {
  std::vector<std::string_view> names;
  for (const FrameworkRow& row : frameworks()) {
    const auto refuses = [&](const Rule& rule) {
      return concerns_adapters(rule) && (rule.frameworks & framework_bit(row.framework)) != 0 &&
             !rule.holds(problem, {});
    };
    if (named(row.framework) && std::none_of(rules().begin(), rules().end(), refuses)) names.push_back(row.name);
  }
  return names;
}

/// A rule of the job's framework alone that looks at the job before any axis is chosen.
bool of_job(const Rule& rule, const Problem& problem) {
  return rule.frameworks != kAllFrameworks && (rule.frameworks & framework_bit(problem.framework)) != 0 &&
         rule.level == Level::Grid;
}

/// Formats that the job's framework and GPU both have.
std::string formats_of_both(const Problem& problem) {
  Problem other = problem;
  return formats_where([&](Precision precision) {
    other.training.precision = precision;
    const auto refuses = [&](const Rule& rule) {
      return of_job(rule, other) && concerns_precision(rule) && !rule.holds(other, {});
    };
    return multiplies(problem.cluster.gpu, precision) && std::none_of(rules().begin(), rules().end(), refuses);
  });
}

}  // namespace

Errors unsupported_hardware(const Problem& problem) {
  Errors errors;
  const Gpu& gpu = problem.cluster.gpu;
  const FrameworkRow& row = framework_row(problem.framework);
  if (!runs_on(row, gpu.vendor)) {
    std::string others;
    for (const FrameworkRow& other : frameworks())
      if (!other.vendors.empty() && runs_on(other, gpu.vendor))
        others.append(others.empty() ? "" : ", ").append(other.name);
    errors.push_back({"unsupported_framework",
                      fmt::format("`--framework {}` does not run on {}, of {}", row.name, gpu.name, gpu.vendor),
                      {},
                      {others.empty() ? "no framework that plan knows does; leave `--framework` out"
                                      : fmt::format("these do: {}", others)}});
  }
  if (std::optional<Error> error = unbuilt_model(problem)) errors.push_back(*std::move(error));
  for (const Rule& rule : rules()) {
    if (!of_job(rule, problem) || rule.holds(problem, {})) continue;
    if (concerns_precision(rule))
      errors.push_back({"unsupported_precision",
                        fmt::format("`--precision {}`: {}", name(problem.training.precision), rule.text),
                        {},
                        {fmt::format("{} trains in {} on {}", row.title, formats_of_both(problem), gpu.name)}});
    if (concerns_adapters(rule))
      errors.push_back({"unsupported_task",
                        fmt::format("`--task {}`: {}", name(problem.training.task), rule.text),
                        {},
                        {fmt::format("these do: {}", fmt::join(adapter_trainers(problem), ", "))}});
  }
  if (const Precision precision = problem.training.precision; !multiplies(gpu, precision))
    errors.push_back({"unsupported_precision",
                      fmt::format("`--precision {}`: {} has no matrix units for it", name(precision), gpu.name),
                      {},
                      {fmt::format("{} multiplies in {}", gpu.name, formats_of(gpu))}});
  return errors;
}

}  // namespace plan
