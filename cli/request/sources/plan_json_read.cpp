// Reads back what cli/report/plan/json.cpp writes, key by key. Tested by tests/cli/plan_json_read_test.cpp.
#include "cli/request/sources/plan_json_read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/request/sources/json_source.hpp"
#include "cli/request/words/layout_values.hpp"
#include "cli/terminal/words.hpp"
#include "planner/problem/axes.hpp"
#include "planner/problem/pipeline.hpp"
#include "planner/problem/stage_layout.hpp"
#include "presets/quantity.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// A word of one of the tables of names.
template <class E, std::size_t N>
E word(const JsonFields& fields, std::string_view key, const Named<E> (&table)[N]) {
  const std::string text = fields.text(key);
  const std::optional<E> value = parse(table, text);
  if (value || !fields.has(key) || text.empty()) return value.value_or(table[0].value);
  const std::string near = nearest_name(text, words_of(table));
  fields.error(key, "unknown_word", fmt::format("unknown `{}` `{}`", fields.path_of(key), yaml::printable(text)),
               {near.empty() ? fmt::format("one of: {}", fmt::join(words_of(table), ", "))
                             : fmt::format("a word with a similar name exists: `{}`", near)});
  return table[0].value;
}

int degree(const JsonFields& fields, std::string_view key, std::int64_t least = 1, std::int64_t most = kMostRanks) {
  return static_cast<int>(fields.whole(key, least, most));
}
Bytes bytes(const JsonFields& fields, std::string_view key) { return Bytes(fields.whole(key)); }
Seconds seconds(const JsonFields& fields, std::string_view key) {
  constexpr double kMost = 1e12;  // beyond any step
  const double number = fields.number(key);
  if (number <= kMost) return Seconds(number);
  fields.error(key, "out_of_range", fmt::format("`{}` is out of range", fields.path_of(key)));
  return {};
}

/// The value of an axis, by its kind.
void read_value(const JsonFields& fields, const LayoutAxis<int>& axis, Layout& layout) {
  if (axis.is(&Layout::cp_ulysses) && layout.cp_kind != CpKind::Hybrid) return;  // what it says follows from the kind
  if (axis.is(&Layout::group)) {
    Layout open = layout;  // its schedule is read behind it
    open.schedule = Schedule::Interleaved;
    const int group = degree(fields, axis.key, 0), fewest = pipeline_of(open, fields.whole("micro_batches", 1)).group;
    layout.group = group == fewest ? 0 : group;
    return;
  }
  if (!axis.is(&Layout::shard)) {
    layout.*axis.value = degree(fields, axis.key, axis.least, axis.most);
    return;
  }
  const int shard = degree(fields, axis.key);
  layout.shard = shard == layout.dense_group() ? 0 : shard;
}

void read_value(const JsonFields& fields, const LayoutAxis<bool>& axis, Layout& layout) {
  layout.*axis.value = fields.boolean(axis.key);
}

template <class E>
requires std::is_enum_v<E>
void read_value(const JsonFields& fields, const LayoutAxis<E>& axis, Layout& layout) {
  layout.*axis.value = word(fields, axis.key, names_of(E{}));
}

Recompute read_rebuilt(const JsonFields& fields, std::string_view key) {
  const std::string text = fields.text(key);
  if (text.empty()) return {};
  if (const Result<Recompute> read = read_recompute(text)) return *read;
  fields.error(key, "unknown_word", fmt::format("unknown `{}` `{}`", fields.path_of(key), yaml::printable(text)),
               {"it is written as `--layout recompute=` takes it"});
  return {};
}

/// The same recomputation of all stages, unless the plan states a strategy for each stage.
void read_value(const JsonFields& fields, const LayoutAxis<Recompute>& axis, Layout& layout) {
  if (!fields.has("stage_strategies") && !fields.has("runs")) layout.*axis.value = read_rebuilt(fields, axis.key);
}

void read_value(const JsonFields& fields, const LayoutAxis<std::vector<StageStrategy>>& axis, Layout& layout) {
  if (!fields.has(axis.key)) return;
  for (const std::string& text : fields.texts(axis.key)) {
    const Result<std::vector<StageStrategy>> stage = read_stages(text);
    if (stage && stage->size() == 1) {
      (layout.*axis.value).push_back(stage->front());
      continue;
    }
    fields.error(axis.key, "unknown_word",
                 fmt::format("unknown `{}` `{}`", fields.path_of(axis.key), yaml::printable(text)),
                 {"each is written as `--layout stages=` takes it"});
  }
}

/// The layers of chunks are not written; those of stages are, and belong to the estimate.
void read_value(const JsonFields&, const LayoutAxis<std::vector<int>>&, Layout&) {}

/// One run of layers in numbers; what it has as the layout has it is not its own.
StageStrategy read_run(const JsonFields& row, const Layout& layout) {
  StageStrategy run;
  run.tp = degree(row, "tp"), run.cp = degree(row, "cp"), run.zero = degree(row, "zero", 0, 3);
  run.recompute = read_rebuilt(row, "recompute");
  run.offload = degree(row, "offload_layers", 0), run.layers = degree(row, "layers", 0);
  const int dp = degree(row, "dp"), micro_batch = degree(row, "micro_batch");
  if (run.tp == 0 || run.cp == 0 || layout.tp == 0 || layout.cp == 0) return run;  // reported already
  const std::int64_t before = static_cast<std::int64_t>(layout.tp) * layout.cp;
  const std::int64_t replica = static_cast<std::int64_t>(run.tp) * run.cp;
  if (before * layout.dp != replica * dp || layout.micro_batch * replica != before * micro_batch)
    row.error("", "bad_value",
              fmt::format("`{}` has not the GPUs and sequences of its stage, tp * cp * dp and dp * micro_batch",
                          row.path_of("")));
  leave_to_layout(run, layout);
  return run;
}

/// Strategies of stages from their runs in numbers; what `stage_strategies` says in words, if it is there, is the same.
void read_runs(const JsonFields& fields, Estimate& e) {
  if (!fields.present() || !fields.has("runs")) return;
  const auto wrong = [&](std::string_view what) {
    fields.error("runs", "bad_value", fmt::format("`{}` {}", fields.path_of("runs"), what));
  };
  std::vector<StageStrategy> stages;
  std::vector<int> left = e.stage_layers;  // of each stage, behind the runs read so far
  std::size_t first = 0;                   // of the stages that the runs at hand belong to
  for (const JsonFields& row : fields.objects("runs")) {
    const auto begin = static_cast<std::size_t>(degree(row, "first_stage", 0));
    const auto count = static_cast<std::size_t>(degree(row, "stages"));
    const StageStrategy run = read_run(row, e.layout);
    const bool next = begin == stages.size();
    if ((!next && (begin != first || count != stages.size() - first || stages.empty())) || count == 0 ||
        count > left.size() || begin > left.size() - count)
      return wrong("has stages out of their order, or some that are not there");
    if (next) stages.resize(begin + count, run), first = begin;
    for (std::size_t stage = begin; stage < begin + count; ++stage) {
      if (!next) stages[stage].behind.push_back(run);
      left[stage] -= run.layers;
    }
  }
  for (StageStrategy& stage : stages) (stage.behind.empty() ? stage : stage.behind.back()).layers = 0;
  if (stages.size() != left.size() || std::ranges::count(left, 0) != std::ssize(left))
    return wrong("has not the layers of `stage_layers`");
  std::vector<StageStrategy> stated = e.layout.stages;
  for (StageStrategy& stage : stated) leave_to_layout(stage, e.layout);
  if (stated.empty())
    e.layout.stages = std::move(stages);
  else if (stated != stages)
    wrong("says something else than `stage_strategies`");
}

void read_layout_fields(const JsonFields& fields, Estimate& e) {
  Layout& l = e.layout;
  each_axis([&](const auto& axis) {
    if (!axis.later || fields.has(axis.key)) read_value(fields, axis, l);
  });
  e.micro_batches = fields.whole("micro_batches", 1);
  e.stage_layers = fields.integers("stage_layers");
  read_runs(fields, e);
  if (fields.failed() || !fields.has("stage_layers")) return;
  if (e.stage_layers.size() != static_cast<std::size_t>(l.pp))
    fields.error(
        "stage_layers", "bad_value",
        fmt::format("`{}` has {} numbers for pp {}", fields.path_of("stage_layers"), e.stage_layers.size(), l.pp));
}

Terms read_terms(const JsonFields& fields) {
  Terms t;
  t.compute = seconds(fields, "compute"), t.recompute = seconds(fields, "recompute");
  t.tp = seconds(fields, "tp"), t.cp = seconds(fields, "cp"), t.ep = seconds(fields, "ep");
  t.pp = seconds(fields, "pp"), t.dp = seconds(fields, "dp"), t.bubble = seconds(fields, "bubble");
  t.optimizer = seconds(fields, "optimizer"), t.straggler = seconds(fields, "straggler");
  return t;
}

StageMemory read_stage(const JsonFields& fields) {
  StageMemory m;
  m.stage = degree(fields, "stage", 0);
  for (const MemoryCategory& row : kMemoryCategories) m.*row.bytes = bytes(fields, fmt::format("{}_bytes", row.key()));
  if (fields.has("host_bytes")) m.host = bytes(fields, "host_bytes");
  const Bytes total = bytes(fields, "total_bytes");
  if (!fields.failed() && fields.has("total_bytes") && !(total == m.total()))
    fields.error("total_bytes", "bad_value",
                 fmt::format("`{}` is not the sum of the stage's categories", fields.path_of("total_bytes")));
  return m;
}

void read_memory(const JsonFields& fields, Estimate& e) {
  e.fits = word(fields, "fits", kFitsNames);
  e.capacity = bytes(fields, "capacity_bytes");
  e.peak = bytes(fields, "peak_bytes");
  e.peak_low = bytes(fields, "peak_low_bytes"), e.peak_high = bytes(fields, "peak_high_bytes");
  if (fields.has("host_bytes")) e.host = bytes(fields, "host_bytes");
  if (fields.has("host_capacity_bytes")) e.host_capacity = bytes(fields, "host_capacity_bytes");
  e.peak_stage = degree(fields, "peak_stage", 0);
  e.peak_instant = fields.text("peak_instant");
  for (const JsonFields& stage : fields.objects("stages")) e.stages.push_back(read_stage(stage));
  if (fields.failed() || !fields.has("stages")) return;
  if (e.stages.empty())
    fields.error("stages", "bad_value", fmt::format("`{}` is empty", fields.path_of("stages")));
  else if (e.peak_stage >= static_cast<int>(e.stages.size()))
    fields.error("peak_stage", "out_of_range", fmt::format("`{}` names no stage", fields.path_of("peak_stage")));
  for (std::size_t i = 0; i < e.stages.size() && i < e.stage_layers.size(); ++i) e.stages[i].layers = e.stage_layers[i];
}

Communication read_communication(const JsonFields& fields) {
  Communication c;
  c.axis = word(fields, "axis", kAxisNames);
  c.op = word(fields, "op", kCollectiveNames);
  c.group.size = degree(fields, "group");
  c.tier = fields.text("tier");
  c.per_step = bytes(fields, "bytes_per_step");
  c.count = fields.number("count_per_step");
  c.time = seconds(fields, "time_s"), c.exposed = seconds(fields, "exposed_s");
  return c;
}

/// What a plan says twice: one that was edited by hand says it in one place alone.
void judge_sums(const JsonFields& fields, const Estimate& e) {
  constexpr double kRounding = 1e-6;
  if (fields.failed() || !fields.has("step_time_s") || !fields.has("terms_s")) return;
  const auto wrong = [&](const char* key, const std::string& why) {
    fields.error(key, "bad_value", fmt::format("`{}` {}", fields.path_of(key), why));
  };
  const double step = e.step_time.value, sum = e.terms.total().value;
  if (!(std::abs(step - sum) <= kRounding * std::max(step, sum)))
    return wrong("step_time_s", "is not the sum of `terms_s`");
  if (e.step_time_low > e.step_time || e.step_time_high < e.step_time)
    wrong("step_time_s", "lies outside its own interval");
  if (e.peak.value > 0 && e.peak_stage < static_cast<int>(e.stages.size()) &&
      !(e.peak == e.stages[static_cast<std::size_t>(e.peak_stage)].total()))
    wrong("memory", "has another `peak_bytes` than its `peak_stage`");
}

Estimate read_estimate(const JsonFields& fields) {
  Estimate e;
  read_layout_fields(fields.object("layout"), e);
  e.step_time = seconds(fields, "step_time_s");
  e.step_time_low = seconds(fields, "step_time_low_s"), e.step_time_high = seconds(fields, "step_time_high_s");
  e.tokens_per_s = fields.number("tokens_per_s"), e.tokens_per_s_per_gpu = fields.number("tokens_per_s_per_gpu");
  const JsonFields mfu = fields.object("mfu_ratio");
  e.mfu = {mfu.number("model_causal"), mfu.number("model_full"), mfu.number("hardware")};
  e.terms = read_terms(fields.object("terms_s"));
  read_memory(fields.object("memory"), e);
  judge_sums(fields, e);
  for (const JsonFields& row : fields.objects("communication")) e.communication.push_back(read_communication(row));
  return e;
}

std::vector<Input> read_inputs(const JsonFields& fields) {
  constexpr std::string_view kDigest = "sha256:";
  std::vector<Input> inputs;
  for (const auto& [key, entry] : fields.members()) {
    Input input{key, entry.word("value"), word(entry, "origin", kOriginNames), {}, {}};
    if (entry.has("digest"))
      if (const std::string digest = entry.text("digest"); digest.starts_with(kDigest))
        input.digest = digest.substr(kDigest.size());
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace

Result<bool> check_schema(const JsonSource& source, std::string_view schema) {
  Errors errors;
  const JsonFields root(source, errors);
  const std::vector<std::string> help = {fmt::format("`plan --json` and `plan estimate --json` write `{}`", schema)};
  if (!root.has("schema")) {
    root.error("", "wrong_schema", fmt::format("`{}` has no `schema`", source.file), help);
    return fail(std::move(errors));
  }
  const std::string found = root.text("schema");
  if (!errors.empty()) return fail(std::move(errors));
  if (found == schema) return true;
  const std::string_view family = schema.substr(0, schema.find('/'));
  const bool version = found.starts_with(std::string(family) + "/");
  root.error("schema", "wrong_schema", fmt::format("the schema is `{}`, not `{}`", yaml::printable(found), schema),
             {version ? "write the file again with this version of plan" : help.front()});
  return fail(std::move(errors));
}

/// What nobody stated when the earlier plan was made is not stated now either.
void read_unstated(const JsonFields& root, std::vector<Input>& inputs) {
  constexpr std::string_view kPreset = "preset ", kOwn = "plan's default";
  if (!root.has("unstated")) return;
  for (const JsonFields& fact : root.objects("unstated")) {
    const std::string field = fact.text("field"), origin = fact.text("origin");
    for (Input& input : inputs) {
      if (input.key != field) continue;
      input.guessed = fact.boolean("guessed");
      if (origin != kOwn) input.where = origin.starts_with(kPreset) ? origin.substr(kPreset.size()) : origin;
    }
  }
}

/// What the layout and the speed say of the job, beside its inputs; of several kinds of GPU each says its own.
void judge_job(const JsonFields& root, const EarlierPlan& earlier) {
  if (root.failed()) return;
  const auto number = [&](std::string_view key) {
    const Input* input = find_input(earlier.inputs, key);
    return input == nullptr ? std::nullopt : parse_integer(input->value);
  };
  const std::optional<std::int64_t> gpus = number("gpus"), batch = number("global_batch"), seq = number("seq");
  const Estimate& best = earlier.best;
  const Layout& l = best.layout;
  if (!gpus || !batch || !seq || !l.stages.empty()) return;
  const JsonFields fields = root.object("best");
  const std::int64_t step = static_cast<std::int64_t>(l.dp) * l.micro_batch * best.micro_batches;
  const double tokens = static_cast<double>(*batch) * static_cast<double>(*seq);
  constexpr double kRounding = 1e-6;
  const auto apart = [](double a, double b) { return std::abs(a - b) > kRounding * std::max(a, b); };
  if (l.world() > *gpus)
    fields.error("layout", "bad_value",
                 fmt::format("`best.layout` is of {} GPUs, and `inputs.gpus` are {}", l.world(), *gpus));
  else if (step != *batch)
    fields.error(
        "layout", "bad_value",
        fmt::format("`best.layout` takes {} sequences in a step, and `inputs.global_batch` is {}", step, *batch));
  else if (apart(best.tokens_per_s * best.step_time.value, tokens))
    fields.error("tokens_per_s", "bad_value",
                 "`best.tokens_per_s` is not the tokens of a step over `best.step_time_s`");
  else if (apart(best.tokens_per_s_per_gpu * l.world(), best.tokens_per_s))
    fields.error("tokens_per_s_per_gpu", "bad_value",
                 "`best.tokens_per_s_per_gpu` is not `best.tokens_per_s` over the GPUs of `best.layout`");
}

EarlierPlan read_plan_fields(const JsonFields& root) {
  EarlierPlan earlier;
  earlier.version = root.object("tool").text("version");
  earlier.inputs = read_inputs(root.object("inputs"));
  read_unstated(root, earlier.inputs);
  const JsonFields model = root.object("model");
  earlier.model = model.text("name");
  earlier.parameters = model.whole("parameters"), earlier.active_parameters = model.whole("active_parameters");
  earlier.best = read_estimate(root.object("best"));
  judge_job(root, earlier);
  return earlier;
}

Result<EarlierPlan> read_plan_json(std::string text, std::string file) {
  const Result<JsonSource> source = parse_json_source(std::move(text), std::move(file));
  if (!source) return fail(source.error());
  if (const Result<bool> right = check_schema(*source, "plan/1"); !right) return fail(right.error());
  Errors errors;
  EarlierPlan earlier = read_plan_fields(JsonFields(*source, errors));
  if (!errors.empty()) return fail(std::move(errors));
  earlier.file = source->file;
  return earlier;
}

}  // namespace plan
