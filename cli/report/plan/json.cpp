// The machine-readable report, schema plan/1: fixed keys in a fixed order, units in their names, numbers as numbers,
// nothing about this machine or moment. Every key is in man/plan-json.5. Tested by tests/cli/json_test.cpp.
#include "cli/report/plan/json.hpp"

#include <fmt/core.h>

#include "cli/report/parts/choice_text.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/request/table/option_table.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/json_list.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/communication.hpp"
#include "formulas/parameters.hpp"
#include "planner/choice/starved.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/problem/stage_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

/// A number where the input's flag takes one; every other value is a word.
Json input_value(const Input& input) {
  if (const Option* option = option_of(input.key); option == nullptr || !option->takes_number()) return input.value;
  if (const auto whole = parse_integer(input.value)) return *whole;
  if (const auto number = parse_number(input.value)) return *number;
  return input.value;
}

Json terms_json(const Terms& t) {
  return {{"compute", t.compute.value},
          {"recompute", t.recompute.value},
          {"tp", t.tp.value},
          {"cp", t.cp.value},
          {"ep", t.ep.value},
          {"pp", t.pp.value},
          {"dp", t.dp.value},
          {"bubble", t.bubble.value},
          {"optimizer", t.optimizer.value},
          {"straggler", t.straggler.value}};
}

Json stage_json(const StageMemory& m) {
  Json json = {{"stage", m.stage}};
  for (const MemoryCategory& row : kMemoryCategories) json[fmt::format("{}_bytes", row.key())] = (m.*row.bytes).value;
  json["total_bytes"] = m.total().value;
  if (m.host.value > 0) json["host_bytes"] = m.host.value;
  return json;
}

Json memory_json(const Estimate& e) {
  Json json = {{"fits", name(e.fits)},
               {"capacity_bytes", e.capacity.value},
               {"peak_bytes", e.peak.value},
               {"peak_low_bytes", e.peak_low.value},
               {"peak_high_bytes", e.peak_high.value}};
  if (e.host.value > 0) json["host_bytes"] = e.host.value;
  if (e.host_capacity.value > 0) json["host_capacity_bytes"] = e.host_capacity.value;
  json["peak_stage"] = e.peak_stage, json["peak_instant"] = e.peak_instant;
  json["stages"] = json_list(e.stages, stage_json);
  return json;
}

Json communication_json(const Estimate& e) {
  return json_list(e.communication, [](const Communication& c) -> Json {
    return {{"axis", name(c.axis)},
            {"op", name(c.op)},
            {"group", c.group.size},
            {"tier", c.tier},
            {"bytes_per_step", c.per_step.value},
            {"count_per_step", c.count},
            {"time_s", c.time.value},
            {"exposed_s", c.exposed.value}};
  });
}

}  // namespace

Json difference_json(const Difference& difference) {
  return {{"low", difference.low}, {"middle", difference.middle}, {"high", difference.high}};
}

namespace {

Json runner_up_json(const RunnerUp& runner) {
  Json json = estimate_json(runner.estimate);
  json["difference_ratio"] = difference_json(runner.difference);
  json["against_best"] = json_list(runner.against_best, [](const TermDelta& delta) -> Json {
    return {{"term", delta.term}, {"delta_s", delta.delta.value}};
  });
  return json;
}

Json search_json(const SearchStats& stats) {
  Json rejected = json_list(stats.rejected, [](const Rejected& row) -> Json {
    return {{"reason", row.reason}, {"count", row.count}};
  });
  return {{"considered", stats.considered},  {"legal", stats.legal},    {"fit", stats.fit}, {"pruned", stats.pruned},
          {"rejected", std::move(rejected)}, {"elapsed_excluded", true}};
}

Json model_json(const Model& model) {
  const ModelParameters parameters = model_parameters(model);
  return {{"name", model.name}, {"parameters", parameters.total}, {"active_parameters", parameters.active}};
}

Json run_json(const RunCost& run) {
  Json json = {{"tokens", run.tokens}, {"time_s", run.time.value}, {"gpu_hours", run.gpu_hours}};
  if (run.usd) json["cost_usd"] = *run.usd;
  if (!run.goodput) return json;
  json["expected_time_s"] = run.expected_time().value;
  json["expected_gpu_hours"] = run.expected_gpu_hours();
  if (run.usd) json["expected_cost_usd"] = *run.expected_usd();
  return json;
}

Json failures_json(const Goodput& g, const FailureFacts& stated) {
  const auto origin = [](bool flag) { return flag ? "flag" : "default"; };
  return {{"goodput_ratio", g.ratio},
          {"gpu_mtbf_s", g.gpu_mtbf_hours * 3600},
          {"interruption_s", g.interruption.value},
          {"checkpoint_bytes", g.checkpoint.value},
          {"checkpoint_time_s", g.checkpoint_time.value},
          {"checkpoint_interval_s", g.interval.value},
          {"storage_bytes_per_s", g.storage},
          {"storage_origin", origin(stated.storage_bytes_per_s.has_value())},
          {"restart_s", g.restart.value},
          {"restart_origin", origin(stated.restart.has_value())}};
}

Json thumb_json(const BrokenThumb& broken) {
  return {{"code", "rule_of_thumb"}, {"text", broken.text},   {"rule", broken.rule},
          {"value", broken.value},   {"limit", broken.limit}, {"why", broken.why}};
}

Json advice_json(const Advice& one) {
  Json json = {{"change", one.change}, {"tokens_per_s_ratio", one.faster}};
  if (one.cheaper) json["usd_per_token_ratio"] = -*one.cheaper;
  json["gpus"] = one.problem.gpus;
  json["global_batch"] = one.problem.training.global_batch;
  json["layout"] = layout_json(one.fastest);
  json["step_time_s"] = one.fastest.step_time.value;
  json["tokens_per_s"] = one.fastest.tokens_per_s;
  return json;
}

/// The layout of one run as an estimate's own.
Estimate as_estimate(const Estimate& e, const PoolRun& run) {
  Estimate one;
  one.layout = run.layout, one.stage_layers = run.layout.chunk_layers, one.micro_batches = e.micro_batches;
  return one;
}

/// What the runs of a job with several kinds of GPU do differently, `null` in the layout of all.
void blank_differences(const Estimate& e, Json& layout) {
  for (const PoolRun& run : e.runs) {
    const Json own = layout_json(as_estimate(e, run));
    for (auto& [key, value] : layout.items())
      if (key != "pp" && key != "stage_layers" && key != "micro_batches" && own.value(key, Json()) != value)
        value = nullptr;
  }
}

Json pools_json(const Estimate& e) {
  return json_list(e.runs, [&](const PoolRun& run) -> Json {
    return {{"gpu", run.gpu},
            {"gpus", run.gpus},
            {"first_stage", run.first_stage},
            {"layout", layout_json(as_estimate(e, run))},
            {"busy_s", run.busy.value},
            {"idle_ratio", run.idle_ratio},
            {"fits", name(run.fits)},
            {"capacity_bytes", run.capacity.value},
            {"peak_bytes", run.peak.value},
            {"peak_low_bytes", run.peak_low.value},
            {"peak_high_bytes", run.peak_high.value},
            {"peak_stage", run.peak_stage}};
  });
}

Json alone_json(const Plan& plan, const PoolAlone& alone) {
  const Pool& pool = plan.problem.pools[static_cast<std::size_t>(alone.pool)];
  Json json = {{"gpu", pool.cluster.gpu.name}, {"gpus", pool.gpus}};
  json["fits"] = name(alone.best ? alone.best->fits : Fits::No);
  if (!alone.best) return json;
  json["layout"] = layout_json(*alone.best);
  json["step_time_s"] = alone.best->step_time.value;
  json["tokens_per_s"] = alone.best->tokens_per_s;
  return json;
}

/// Runs of layers in numbers, front to back: of neighbouring stages that do the same with as many layers, each run
/// once.
Json stage_runs_json(const Estimate& e) {
  const std::vector<StageStrategy>& stages = e.layout.stages;
  Json rows = Json::array();
  for (std::size_t first = 0, end = 0; first < stages.size(); first = end) {
    while (end < stages.size() && stages[end] == stages[first] && e.stage_layers[end] == e.stage_layers[first]) ++end;
    int left = e.stage_layers[first];
    for (const StageStrategy& run : runs_of(stages[first])) {
      const Layout own = layout_of_run(e.layout, run);
      const int layers = run.layers > 0 ? run.layers : left;
      left -= layers;
      rows.push_back({{"first_stage", first},
                      {"stages", end - first},
                      {"layers", layers},
                      {"tp", own.tp},
                      {"cp", own.cp},
                      {"dp", own.dp},
                      {"micro_batch", own.micro_batch},
                      {"zero", own.zero},
                      {"recompute", recompute_text(run.recompute)},
                      {"offload_layers", run.offload}});
    }
  }
  return rows;
}

}  // namespace

Json layout_json(const Estimate& e) {
  const Layout& l = e.layout;
  Json json = Json::object();
  each_axis([&](const auto& axis) {
    if (axis.is(&Layout::cp_ulysses)) {
      json["cp_ulysses"] = exchanging_ranks(l.cp_kind, l.cp, l.cp_ulysses);
      return;
    }
    if (axis.is(&Layout::stages) && l.stages.empty()) return;
    const auto& value = l.*axis.value;
    using Value = std::decay_t<decltype(value)>;
    if (axis.is(&Layout::recompute) && !l.stages.empty())
      json["recompute"] = nullptr;
    else if constexpr (std::is_same_v<Value, std::vector<StageStrategy>>)
      for (const StageStrategy& stage : value) json["stage_strategies"].push_back(stage_strategy_text(stage));
    else if (axis.is(&Layout::chunk_layers))
      json["stage_layers"] = e.stage_layers;
    else if (axis.is(&Layout::shard))
      json["shard"] = l.shard_group();
    else if (axis.is(&Layout::group))
      json["group"] = pipeline_of(l, e.micro_batches).group;
    else if constexpr (std::is_same_v<Value, int> || std::is_same_v<Value, bool>)
      json[std::string(axis.key)] = value;
    else
      json[std::string(axis.key)] = axis_text(value);
    if (axis.is(&Layout::micro_batch)) json["micro_batches"] = e.micro_batches;
  });
  if (!l.stages.empty() && l.stages.size() == e.stage_layers.size()) json["runs"] = stage_runs_json(e);
  blank_differences(e, json);
  return json;
}

Json estimate_json(const Estimate& e) {
  Json json = {{"layout", layout_json(e)},
               {"step_time_s", e.step_time.value},
               {"step_time_low_s", e.step_time_low.value},
               {"step_time_high_s", e.step_time_high.value},
               {"tokens_per_s", e.tokens_per_s},
               {"tokens_per_s_per_gpu", e.tokens_per_s_per_gpu},
               {"mfu_ratio",
                {{"model_causal", e.mfu.model_causal}, {"model_full", e.mfu.model_full}, {"hardware", e.mfu.hardware}}},
               {"terms_s", terms_json(e.terms)},
               {"memory", memory_json(e)},
               {"communication", communication_json(e)}};
  if (!e.switches.empty()) json["switches"] = e.switches;
  if (!e.runs.empty()) json["pools"] = pools_json(e);
  return json;
}

Json inputs_json(const std::vector<Input>& inputs) {
  Json json = Json::object();
  for (const Input& input : inputs) {
    json[input.key] = {{"value", input_value(input)}, {"origin", name(input.origin)}};
    if (!input.digest.empty()) json[input.key]["digest"] = "sha256:" + input.digest;
  }
  return json;
}

Json unstated_json(const std::vector<Unstated>& facts) {
  return json_list(facts, [](const Unstated& fact) -> Json {
    return {{"field", fact.field}, {"value", fact.value}, {"origin", fact.origin}, {"guessed", fact.guessed}};
  });
}

Json unstated_json(const std::vector<Input>& inputs) { return unstated_json(unstated(inputs)); }

Json notes_json(const std::vector<Note>& notes) {
  return json_list(notes, [](const Note& note) -> Json { return {{"code", note.code}, {"text", note.text}}; });
}

namespace {

Json runs_on_json(const std::vector<RunsOn>& frameworks) {
  return json_list(frameworks, [](const RunsOn& each) { return framework_row(each.framework).name; });
}

/// What a search of strategies that differ found beside those that do not.
template <class Found>
Json beside_json(const Found& found) {
  Json json = {{"pipelines", found.pipelines}, {"exact", found.exact}};
  if (!found.best) return json;
  json["difference_ratio"] = difference_json(found.difference);
  if constexpr (requires { found.runs_on; }) { json["runs_on"] = runs_on_json(found.runs_on); }
  json["best"] = estimate_json(*found.best);
  return json;
}

}  // namespace

Json plan_json(const Plan& plan, const RunOptions& options) {
  Json json = {{"schema", "plan/1"},
               {"tool", {{"name", "plan"}, {"version", PLAN_VERSION}}},
               {"inputs", inputs_json(plan.problem.inputs)},
               {"model", model_json(plan.problem.model)},
               {"best", estimate_json(plan.best)}};
  json["inputs"].update(inputs_json(options.inputs));
  if (const Training& training = plan.problem.training; training.adapters())
    json["adapter"] = {
        {"rank", training.lora.rank},
        {"trainable_parameters", static_cast<std::int64_t>(adapter_parameters(plan.problem.model, training))}};
  if (plan.fastest) json["fastest"] = estimate_json(*plan.fastest);
  if (plan.fastest_on_paper) {
    json["fastest_on_paper"] = estimate_json(*plan.fastest_on_paper);
    json["fastest_on_paper"]["lacks"] = plan.paper_lacks;
  }
  if (plan.per_stage) json["per_stage"] = beside_json(*plan.per_stage);
  if (plan.per_layer) json["per_layer"] = beside_json(*plan.per_layer);
  json["runs_on"] = runs_on_json(plan.runs_on);
  if (plan.choice)
    json["choice"] = {{"best_share", plan.choice->best_share},
                      {"degrees_share", plan.choice->degrees_share},
                      {"within_2_percent_share", plan.choice->within_2_percent_share},
                      {"headroom_bytes", plan.choice->headroom.value}};
  json["about"] = Json::object();
  for (const Fact& fact : subject_facts(plan, options)) json["about"][fact.name] = fact.text;
  if (!plan.alone.empty())
    json["alone"] = json_list(plan.alone, [&](const PoolAlone& alone) { return alone_json(plan, alone); });
  json["runners_up"] = json_list(plan.runners_up, runner_up_json);
  if (!plan.front.empty()) json["front"] = json_list(plan.front, estimate_json);
  if (const std::optional<RunCost> run = run_cost(plan, options)) json["run"] = run_json(*run);
  if (const std::optional<Goodput> goodput = goodput_of(plan.problem, options.failures))
    json["failures"] = failures_json(*goodput, options.failures);
  else
    for (const Fact& fact : failure_facts(plan, options)) json["about"][fact.name] = fact.text;
  if (options.spares > 0) json["spare_gpus"] = options.spares;
  json["search"] = search_json(plan.search);
  json["why"] = plan.why;
  json["unstated"] = unstated_json(plan.problem.inputs);
  json["unused"] = notes_json(plan.problem.unused);
  json["notes"] = notes_json(plan.notes);
  for (const BrokenThumb& broken : plan.thumbs) json["notes"].push_back(thumb_json(broken));
  if (plan.advice) json["advice"] = json_list(*plan.advice, advice_json);
  if (plan.starved)
    json["starved"] = json_list(*plan.starved, [&](const Advice& one) {
      Json row = advice_json(one);
      row["tokens_per_s_per_gpu_times"] = lift(one, plan);
      return row;
    });
  return json;
}

std::string json_report(const Plan& plan, const RunOptions& options) { return dump(plan_json(plan, options)); }

}  // namespace plan
