// Many searches and what separates their answers. Tested by tests/cli/sweep_test.cpp.
#include "cli/commands/sweep_points.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/csv.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/numbers.hpp"
#include "formulas/keep_errors.hpp"
#include "planner/choice/why.hpp"
#include "planner/planner.hpp"
#include "planner/rules/rules.hpp"
#include "planner/search/search.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

constexpr double kDay = 86400, kMore = 1.1;
constexpr int kMostTried = 12;

Result<Problem> problem_at(const Args& args) {
  Args amounts = args;
  if (times_of_hosts(args)) amounts.host_memory.reset();
  Result<Problem> problem = resolve_problem(amounts);
  const Result<HardwareFactors> factors = hardware_factors(args);
  Errors errors = problem ? Errors{} : problem.error();
  keep_errors(errors, factors);
  if (!errors.empty()) return fail(std::move(errors));
  scale_hardware(problem->cluster, *factors);
  if (!times_of_hosts(args)) return problem;
  const Bytes hosts = problem->cluster.host_memory;
  if (hosts.value == 0)
    return fail({"missing_fact",
                 fmt::format("`--host-memory {}` times what? {} does not state the memory of its nodes",
                             *args.host_memory, problem->cluster.name),
                 {},
                 {"write amounts: `--host-memory 512GiB,1TiB`"}});
  problem->inputs.push_back(
      {"host_memory", format_quantity(static_cast<double>(hosts.value), Dimension::Bytes), Origin::Flag});
  return problem;
}

/// GPUs of so many nodes. sweep_axes() has reported what is no number.
std::int64_t lost_gpus(const std::string& nodes, const Cluster& cluster) {
  return parse_integer(nodes).value_or(0) * std::max(1, cluster.gpus_per_node);
}

/// A point where nothing is possible is an answer.
SweptPlan plan_at(const SweepQuestion& point, Problem problem, const RunOptions& run) {
  problem.top = 1;
  SweptPlan out{.at = point.at, .inputs = problem.inputs};
  if (point.args.lose) {
    const std::int64_t left = problem.gpus - lost_gpus(*point.args.lose, problem.cluster);
    if (left <= 0) {
      out.errors = {{"no_layout", "no GPU is left"}};
      return out;
    }
    problem.gpus = static_cast<int>(left);
  }
  Result<Plan> plan = search(problem);
  if (!plan) {
    out.errors = plan.error();
    return out;
  }
  out.run = run_cost(*plan, run);
  out.plan = std::move(*plan);
  return out;
}

/// Why the layout of one point is not the next one's: the rule that it breaks there, its memory, its time, or that
/// of two as good as equally fast plan recommends the plainer one.
std::string why_not(const Plan& here, Layout old, int old_gpus) {
  const int world = old.world();
  if (here.problem.gpus != old_gpus && static_cast<std::int64_t>(old.dp) * here.problem.gpus % world == 0)
    old.dp = static_cast<int>(static_cast<std::int64_t>(old.dp) * here.problem.gpus / world);
  old.shard = 0, old.chunk_layers.clear();
  if (const int rule = broken_rule(here.problem, old); rule >= 0)
    return fmt::format("the old one breaks a rule there: {}", rules()[static_cast<std::size_t>(rule)].text);
  const Estimate e = estimate(here.problem, old);
  if (e.peak > usable_memory(here.problem, false))
    return fmt::format("the old one needs {} of {} GiB", gib(e.peak), gib(e.capacity));
  const double percent = 100 * (e.step_time / here.best.step_time - 1);
  if (std::abs(percent) < 0.05) return "the old one, as fast, is less plain";
  if (percent < 0) return fmt::format("the old one, {:.1f} % faster, is less plain", -percent);
  std::string text = fmt::format("the old one is {:.1f} % slower", percent);
  const std::vector<TermDelta> deltas = against(here.best, e);
  for (std::size_t i = 0; i < deltas.size() && i < 2; ++i)
    text += fmt::format("{} {} {} s", i == 0 ? ":" : ",", deltas[i].term, signed_number(deltas[i].delta.value, 2));
  return text;
}

std::string degrees(const Plan& plan) {
  std::string text = axis_columns({&plan.best.layout}, plan.problem.model.moe())[0];
  text.erase(std::unique(text.begin(), text.end(), [](char a, char b) { return a == ' ' && b == ' '; }), text.end());
  return text;
}

/// Same choice of everything but dp, which follows from the GPUs?
bool same_choice(Layout a, Layout b) {
  a.dp = b.dp = 1;
  return same_degrees(a, b);
}

std::string label(const PlanSweep& sweep, const SweptPlan& point) {
  std::string out;
  for (std::size_t i = 0; i < sweep.axes.size(); ++i)
    out += fmt::format("{}{} {}", i == 0 ? "" : ", ", sweep.axes[i].key, sweep.axes[i].values[point.at[i]].text);
  return out;
}

void find_changes(PlanSweep& sweep) {
  for (std::size_t i = 1; i < sweep.points.size(); ++i) {
    const SweptPlan &a = sweep.points[i - 1], &b = sweep.points[i];
    const bool neighbours = std::equal(a.at.begin(), a.at.end() - 1, b.at.begin());
    if (!neighbours || !a.plan || !b.plan) continue;
    if (same_choice(a.plan->best.layout, b.plan->best.layout)) continue;
    const bool same_model = a.plan->problem.model.name == b.plan->problem.model.name;
    sweep.changes.push_back(
        {i - 1, i,
         fmt::format("{}: {} -> {}{}", label(sweep, b), degrees(*a.plan), degrees(*b.plan),
                     same_model ? "; " + why_not(*b.plan, a.plan->best.layout, a.plan->problem.gpus) : "")});
  }
}

/// What 10 % more of a resource is worth to the same layout.
void find_sensitivity(PlanSweep& sweep) {
  const auto last = std::find_if(sweep.points.rbegin(), sweep.points.rend(), [](const SweptPlan& p) { return p.plan; });
  if (last == sweep.points.rend()) return;
  const Plan& plan = *last->plan;
  const auto worth = [&](const char* what, auto change) {
    Problem more = plan.problem;
    change(more.cluster);
    const double gain = 1 - estimate(more, plan.best.layout).step_time / plan.best.step_time;
    sweep.sensitivity.push_back(fmt::format("10 % more {} is worth {:.1f} %", what, 100 * gain));
  };
  worth("NIC bandwidth", [](Cluster& c) { scale_hardware(c, {kMore, 1, 1}); });
  worth("bandwidth inside the node", [](Cluster& c) { scale_hardware(c, {1, kMore, 1}); });
  worth("memory bandwidth", [](Cluster& c) { c.gpu.memory_bandwidth = c.gpu.memory_bandwidth * kMore; });
  worth("matmul rate", [](Cluster& c) { c.calibration.gemm *= kMore; });
  sweep.sensitivity.front() = fmt::format("At {}: {}", label(sweep, *last), sweep.sensitivity.front());
}

/// Every point with nodes lost against the one of the same other values that has them all.
void find_losses(PlanSweep& sweep) {
  if (sweep.axes.back().key != "lose") return;
  const std::size_t series = sweep.axes.back().values.size();
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    const std::size_t first = i / series * series;
    if (i == first || !sweep.points[i].plan || !sweep.points[first].plan) continue;
    const Plan &whole = *sweep.points[first].plan, &left = *sweep.points[i].plan;
    const auto lost = [&](const Estimate& e) { return 1 - e.tokens_per_s / whole.best.tokens_per_s; };
    const std::string& nodes = sweep.axes.back().values[i - first].text;
    Loss loss{.whole = first, .point = i, .nodes = static_cast<int>(parse_integer(nodes).value_or(0))};
    loss.slower = lost(left.best);
    const int gpus = static_cast<int>(whole.problem.gpus + whole.idle_gpus - lost_gpus(nodes, whole.problem.cluster));
    if (const auto fewer = with_fewer_replicas(whole.problem, whole.best.layout, gpus)) {
      loss.replicas = estimate(fewer->problem, fewer->layout);
      loss.replicas_batch = fewer->problem.training.global_batch;
      loss.replicas_slower = lost(*loss.replicas);
    }
    sweep.losses.push_back(std::move(loss));
  }
}

double usd(const PlanSweep& sweep, const Plan& plan) {
  return gpu_hours(plan.best, paid_gpus(sweep, plan), 1e12) * price_of(sweep, plan);
}

void mark_front(PlanSweep& sweep) {
  for (SweptPlan& point : sweep.points) {
    if (!point.plan) continue;
    const auto beats = [&](const SweptPlan& other) {
      if (!other.plan) return false;
      const std::array<double, 4> a = {other.plan->best.step_time.value,
                                       static_cast<double>(other.plan->best.peak.value),
                                       double(other.plan->problem.gpus), usd(sweep, *other.plan)};
      const std::array<double, 4> b = {point.plan->best.step_time.value,
                                       static_cast<double>(point.plan->best.peak.value),
                                       double(point.plan->problem.gpus), usd(sweep, *point.plan)};
      bool no_worse = true;
      for (std::size_t i = 0; i < a.size(); ++i) no_worse = no_worse && a[i] <= b[i];
      return no_worse && a != b;
    };
    point.pareto = std::none_of(sweep.points.begin(), sweep.points.end(), beats);
  }
}

/// Numbers of GPUs that divide well: whole nodes, no prime factor above 7.
bool smooth(std::int64_t n) {
  for (const std::int64_t prime : {2, 3, 5, 7})
    while (n % prime == 0) n /= prime;
  return n == 1;
}

/// Tries numbers between the last swept one that is too slow and the first that is not, halving what is left. That more
/// GPUs are faster is checked only at the numbers tried.
Result<bool> find_fewest(PlanSweep& sweep, const Args& args, const RunOptions& run, double days) {
  Deadline found{.days = days, .tokens = *run.tokens};
  const auto in_time = [&](const SweptPlan& p) { return p.run && p.run->time.value <= days * kDay; };
  for (const SweptPlan& point : sweep.points) {
    if (in_time(point)) {
      found.fewest = point;
      break;
    }
    if (point.plan) found.next_fewer = point;
  }
  if (found.fewest) {
    const int node = std::max(1, found.fewest->plan->problem.cluster.gpus_per_node);
    const int low = found.next_fewer ? found.next_fewer->plan->problem.gpus : 0;
    std::vector<int> counts;
    for (int n = low / node * node + node; n < found.fewest->plan->problem.gpus; n += node)
      if (n > low && smooth(n)) counts.push_back(n);
    std::size_t begin = 0, end = counts.size();
    while (begin < end && found.tried < kMostTried) {
      const std::size_t middle = (begin + end) / 2;
      SweepQuestion point{found.fewest->at, args};
      point.args.gpus = fmt::format("{}", counts[middle]);
      Result<Problem> problem = problem_at(point.args);
      if (!problem) return fail(problem.error());
      SweptPlan tried = plan_at(point, std::move(*problem), run);
      ++found.tried;
      if (in_time(tried)) {
        found.fewest = std::move(tried), end = middle;
      } else {
        if (tried.plan) found.next_fewer = std::move(tried);
        begin = middle + 1;
      }
    }
  }
  sweep.deadline = std::move(found);
  return true;
}

/// Days, with a unit or without, or another time with its unit.
Result<double> read_deadline(const std::string& text) {
  constexpr double kDay = 86400, kMostDays = 1e6;
  const ParsedQuantity time = parse_quantity(parse_number(text) ? text + "d" : text, Dimension::Time);
  if (time && time.value > 0 && time.value < kMostDays * kDay) return time.value / kDay;
  std::string instead = time.instead.empty() ? "60d" : time.instead.front();
  std::erase(instead, ' ');  // of its unit: one word needs no quotes
  return fail({"bad_value",
               fmt::format("`--deadline` takes days, or a time such as 48h, not `{}`", text),
               {},
               {fmt::format("write `--deadline {}`", instead)}});
}

/// --deadline with what it needs.
Result<std::optional<double>> deadline_of(const Args& args, const std::vector<SweepAxis>& axes, const RunOptions& run) {
  if (!args.deadline) return std::optional<double>{};
  const Result<double> days = read_deadline(*args.deadline);
  if (!days) return fail(days.error());
  if (!run.tokens)
    return fail({"missing_flag", "`--deadline` needs the tokens of the run", {}, {"add `--tokens 15.6T`"}});
  if (axes.size() != 1 || axes[0].key != "gpus")
    return fail({"conflicting_flags", "`--deadline` needs a sweep over GPUs alone", {}, {"write `--gpus 256..65536`"}});
  return std::optional<double>(*days);
}

}  // namespace

Result<PlanSweep> run_sweep_points(const Args& args, const SweepProgress& progress) {
  Result<std::vector<SweepAxis>> axes = sweep_axes(args);
  const Result<RunOptions> run = resolve_run(args);
  Errors errors = axes ? Errors{} : axes.error();
  keep_errors(errors, run);
  if (!errors.empty()) return fail(std::move(errors));
  const Result<std::optional<double>> days = deadline_of(args, *axes, *run);
  if (!days) return fail(days.error());
  PlanSweep sweep{.axes = std::move(*axes)};
  sweep.price = run->price_per_hour.value_or(0), sweep.spares = run->spares;
  const std::vector<SweepQuestion> points = sweep_points(args, sweep.axes);
  std::vector<Problem> problems;  // a mistake in a value ends the command before the first search
  for (const SweepQuestion& point : points) {
    Result<Problem> problem = problem_at(point.args);
    if (!problem) return fail(problem.error());
    problems.push_back(std::move(*problem));
  }
  for (std::size_t i = 0; i < points.size(); ++i) {
    progress(static_cast<int>(i), static_cast<int>(points.size()));
    sweep.points.push_back(plan_at(points[i], std::move(problems[i]), *run));
  }
  find_changes(sweep);
  find_losses(sweep);
  find_sensitivity(sweep);
  mark_front(sweep);
  if (*days)
    if (const Result<bool> done = find_fewest(sweep, args, *run, **days); !done) return fail(done.error());
  return sweep;
}

}  // namespace plan
