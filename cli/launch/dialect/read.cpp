// From a dialect's keys to Megatron-LM's arguments. Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/launch/dialect/bridge_precision.hpp"
#include "cli/launch/dialect/dialect.hpp"
#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/unread.hpp"
#include "cli/launch/job/weighty_names.hpp"
#include "cli/launch/megatron/counted.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The key of the number format. Megatron-Bridge's may be a section that names the function it is made by.
StatedKeys::const_iterator key_of_precision(const Dialect& dialect, const StatedKeys& keys) {
  const auto found = keys.find(dialect.precision);
  if (found != keys.end() || dialect.precision != "mixed_precision") return found;
  const auto target = keys.find("mixed_precision._target_");
  const bool plain = target != keys.end() && word_of(keys, target->first).ends_with("MixedPrecisionConfig");
  return plain ? keys.end() : target;
}

/// `mixed_precision: bf16_with_fp8_current_scaling_mixed`, `bfloat16` or `true` under a key called bf16, as flags.
void precision(const Dialect& dialect, const StatedKeys& keys, MegatronArgs& args, Errors& errors) {
  const auto found = key_of_precision(dialect, keys);
  const std::string word = found == keys.end() || found->second.values.empty() ? "" : lowered(found->second.values[0]);
  const auto set = [&](const char* flag, const char* value) {
    args.given[flag] = {value[0] == '\0' ? std::vector<std::string>{} : std::vector<std::string>{value},
                        found == keys.end() ? "" : found->second.where};
  };
  const std::string_view format = number_format(word);
  if (word.empty() || word == "true" || format == "bf16") set("bf16", "");
  if (format == "fp16") set("fp16", "");
  if (found != keys.end() && !args.has("bf16") && !args.has("fp16")) args.fp32_where = found->second.where;
  if (dialect.precision != "mixed_precision") {
    if (format.empty() && word != "true" && !switched_off(word))
      errors.push_back(
          {"unknown_precision",
           fmt::format("{}: unknown `{}: {}`", found->second.where, dialect.precision, yaml::printable(word)),
           {},
           {"bf16, fp16 and fp32 are known"}});
    return;
  }
  if (word.find("fp8_delayed") != std::string::npos) set("fp8-format", "hybrid"), set("fp8-recipe", "delayed");
  if (word.find("fp8_current") != std::string::npos) set("fp8-format", "hybrid"), set("fp8-recipe", "tensorwise");
  if (word.find("fp8_subchannel") != std::string::npos) set("fp8-format", "e4m3"), set("fp8-recipe", "blockwise");
  if (word.find("mxfp8") != std::string::npos) set("fp8-format", "e4m3"), set("fp8-recipe", "mxfp8");
  if (word.find("nvfp4") != std::string::npos) set("fp4-format", "e2m1"), set("fp4-recipe", "nvfp4");
  if (const BridgePrecision* recipe = bridge_precision(word); recipe != nullptr && recipe->bf16_layers.any()) {
    set("first-last-layers-bf16", "");
    set("num-layers-at-start-in-bf16", std::to_string(recipe->bf16_layers.first).c_str());
    set("num-layers-at-end-in-bf16", std::to_string(recipe->bf16_layers.last).c_str());
  }
  if (found != keys.end() && !args.has("bf16") && !args.has("fp16"))
    errors.push_back(
        {"unknown_precision",
         fmt::format("{}: unknown `{}: {}`", found->second.where, dialect.precision, word),
         {},
         {"bf16_mixed, bf16_with_fp8_current_scaling_mixed, bf16_with_mxfp8_mixed and their like are known"}});
}

/// `torch.bfloat16`, `bfloat16` or `bf16` as Megatron-LM's word.
std::string megatron_dtype(const StatedValue& value) {
  std::string word = value.values.empty() ? "" : value.values.front();
  if (word.starts_with("torch.")) word = word.substr(6);
  if (word == "bfloat16") return "bf16";
  if (word == "float16") return "fp16";
  return word == "float32" ? "fp32" : word == "uint8" ? "fp8" : word;
}

/// The last part of a key as a flag of Megatron-LM: `model.moe_ffn_hidden_size` is `moe-ffn-hidden-size`.
bool names_a_flag(std::string_view key) {
  const std::size_t dot = key.rfind('.');
  return find_megatron_flag(with_dashes(dot == std::string_view::npos ? key : key.substr(dot + 1))) != nullptr;
}

/// Is a section, or one around it, `enabled: false` or `enable: false`?
bool switched_off_section(const StatedKeys& keys, const std::string& section) {
  for (std::size_t dot = section.find('.'); dot != std::string::npos; dot = section.find('.', dot + 1))
    for (const char* word : {"enabled", "enable"})
      if (const auto enabled = keys.find(section.substr(0, dot + 1) + word);
          enabled != keys.end() && is_false(enabled->second))
        return true;
  return false;
}

/// What a key stands in, with its dot; empty: none.
std::string_view section_of(std::string_view key) {
  return key.substr(0, key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
}

/// Reports a key in a section that is read, where Megatron-LM's flag of its name is counted in one way only. Whether it
/// is such a key.
bool told_as_counted(const std::string& key, const StatedValue& value, LaunchJob& job) {
  const std::string_view last = std::string_view(key).substr(section_of(key).size());
  const CountedAs* own = counted_setting(last);
  const std::optional<CountedAs> row = own != nullptr ? *own : counted_key(last);
  if (!row) return false;
  const std::string word = value.values.empty() ? "true" : lowered(value.values.front());
  if (!is_plain(word, row->plain) && word != "null")
    unused(job, "not_counted", fmt::format("{}: `{}: {}`: {}", value.where, key, yaml::printable(word), row->what));
  return true;
}

/// Whether a key has the name of one that the dialect reads in another section, where nothing states it. In a section
/// that is off it says nothing, where the file has that other section.
bool elsewhere(std::string_view key, std::span<const std::string_view> known, const StatedKeys& keys) {
  const auto last = [](std::string_view name) { return name.substr(section_of(name).size()); };
  bool named = false, beside = false;
  for (const std::string_view other : known) {
    if (last(other) != last(key)) continue;
    if (keys.find(other) != keys.end()) return false;
    named = true;
    const auto stated = keys.lower_bound(section_of(other));
    beside |= stated != keys.end() && stated->first.starts_with(section_of(other));
  }
  return named && !(beside && switched_off_section(keys, std::string(section_of(key))));
}

/// Keys beside those of the table: a slip of one of them is a mistake, others are named in a note.
void judge_unread(const Dialect& dialect, const StatedKeys& keys, Errors& errors, LaunchJob& job) {
  const std::vector<std::string_view> known = asked_keys(dialect);
  std::vector<std::string_view> sections;  // of the table
  for (const DialectKey& row : dialect.keys)
    if (!row.key.empty()) sections.push_back(section_of(row.key));
  const auto below = [&](const std::string& section) {  // a section of a section that the dialect reads
    return !switched_off_section(keys, section) &&
           std::any_of(sections.begin(), sections.end(),
                       [&](std::string_view outer) { return !outer.empty() && section.starts_with(outer); });
  };
  Unread weighty;
  std::string unread;
  for (const auto& [key, value] : keys) {
    if (key == "verb" || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string section(section_of(key));
    const bool inside = std::find(sections.begin(), sections.end(), section) != sections.end();
    const bool beside =
        std::any_of(known.begin(), known.end(), [&](std::string_view name) { return section_of(name) == section; });
    if (beside && told_as_counted(key, value, job)) continue;
    const bool slip = is_slip(key, known) && !names_a_flag(key);
    const bool off = value.values.size() == 1 && switched_off(value.values.front());
    // One that the tool knows outside of sections says something here, too.
    const bool displaced =
        !section.empty() && std::find(known.begin(), known.end(), key.substr(section.size())) != known.end();
    if (slip && inside) {
      errors.push_back({"unknown_key",
                        fmt::format("{}: {} has no key `{}`", value.where, dialect.format, key),
                        {},
                        {the_nearest_is(nearest_name(key, known))}});
    } else if (slip || displaced || ((beside || below(section)) && sounds_weighty(key) && !off)) {
      const std::string number = value.values.empty() ? "" : value.values.front();
      if (states_degree(key, number))
        errors.push_back(degree_not_read(value.where, key, number));
      else
        weighty.add(key, value.where);
    } else if (elsewhere(key, known, keys) && !off) {
      const std::string number = value.values.empty() ? "" : value.values.front();
      const Degree degree = degree_in(key, number);
      if (degree == Degree::OfTheJob)
        errors.push_back(degree_not_read(value.where, key, number));
      else if (degree == Degree::Beside)
        weighty.add(key, value.where);
      else if (inside)
        unread += (unread.empty() ? "" : ", ") + key;
    } else if (inside) {
      unread += (unread.empty() ? "" : ", ") + key;
    }
  }
  if (!unread.empty()) job.notes.push_back({"keys_not_read", fmt::format("keys that are not read: {}", unread)});
  weighty.tell(job.unused);
}

void take_model(const Dialect& dialect, const StatedKeys& keys, LaunchFacts& facts, std::string& model_name) {
  const auto found = dialect.model.empty() ? keys.end() : keys.find(dialect.model);
  if (found == keys.end() || found->second.values.empty()) return;
  model_name = found->second.values[0];
  if (facts.model) return;
  if (std::optional<NamedModel> named = model_named(model_name)) {
    facts.model = std::move(named->model);
    facts.model_where = found->second.where;
  }
}

/// A switch whose word is neither yes nor no.
Error no_switch(const DialectKey& row, const StatedValue& value) {
  const std::string word = value.values.size() > 1 ? "a list" : "`" + yaml::printable(value.values.front()) + "`";
  Error error{"wrong_value",
              fmt::format("{}: `{}` is {}, but must be true or false", value.where, shown_key(row.key), word)};
  if (word.find('$') != std::string::npos) error.help.emplace_back(kOpenValueHelp);
  return error;
}

/// Keys that mean a flag of Megatron's, as that flag.
void take_keys(const Dialect& dialect, const StatedKeys& keys, MegatronArgs& args, Errors& errors) {
  for (const DialectKey& row : dialect.keys) {
    const auto found = row.key.empty() ? keys.end() : keys.find(row.key);
    if (found == keys.end()) continue;
    const StatedValue& value = found->second;
    const bool on = is_true(value),
               bare = row.kind == KeyKind::Switch || row.kind == KeyKind::On || row.kind == KeyKind::Off;
    if (bare && !on && !is_false(value)) errors.push_back(no_switch(row, value));
    if (bare && on == (row.kind == KeyKind::Off)) continue;
    if (value.values.size() == 1 && value.values.front() == row.otherwise) continue;
    const std::string flag(row.flag);
    if (const auto before = args.given.find(flag); before != args.given.end()) {  // another key says the same
      if (row.kind == KeyKind::Value && before->second.values != value.values)
        errors.push_back(
            {"two_values",
             fmt::format("{}: `{}` is {}, but {} at {}", value.where, row.key, yaml::printable(word_of(keys, row.key)),
                         yaml::printable(before->second.values.empty() ? "" : before->second.values.front()),
                         before->second.where),
             {},
             {"state one number in both"}});
      continue;
    }
    if (row.kind == KeyKind::Dtype)
      args.given[flag] = {{megatron_dtype(value)}, value.where};
    else if (row.kind == KeyKind::Layers && value.values.size() > 1)
      args.given[flag] = {{fmt::format("[{}]", fmt::join(value.values, ","))}, value.where};
    else
      args.given[flag] = {bare ? std::vector<std::string>{} : value.values, value.where};
  }
}

/// The tools around Megatron-LM group the products of experts unless a file says otherwise.
void group_experts(const Dialect& dialect, const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args) {
  args.given["moe-grouped-gemm"] = {{}, ""};
  if (facts.model && !facts.model->moe()) return;
  for (const DialectKey& row : dialect.keys)
    if (const auto found = keys.find(row.key);
        row.flag == "moe-grouped-gemm" && found != keys.end() && is_false(found->second))
      args.unused.push_back({"not_counted", fmt::format("{}: `{}: false`: products of experts are counted as grouped",
                                                        found->second.where, row.key)});
}

/// GPUs of a node, and the one node that files leave out.
void count_gpus(const Dialect& dialect, const StatedKeys& keys, const MegatronArgs& args, LaunchFacts& facts) {
  if (const int nodes = number_of(keys, dialect.nodes); nodes > 0 && facts.total == 0) facts.nodes = nodes;
  if (const int gpus = number_of(keys, dialect.gpus); gpus > 0 && facts.total == 0) {
    // One node is the default, but no job whose degrees ask for more: how many there are is left to who asks.
    const auto degree = [&](std::string_view flag) {
      return std::clamp<std::int64_t>(args.integer(flag, 1), 1, 1 << 12);
    };
    const std::int64_t dense = degree("tensor-model-parallel-size") * degree("context-parallel-size");
    const std::int64_t experts = degree("expert-model-parallel-size") * degree("expert-tensor-parallel-size");
    const bool fits = std::max(dense, experts) * degree("pipeline-model-parallel-size") <= gpus;
    const bool open = !word_of(keys, dialect.nodes).empty() && number_of(keys, dialect.nodes) == 0;  // `${N}`, `-1`
    // A launcher's nodes are not those that Ray is asked for.
    const bool ray = dialect.format == "verl" && word_of(keys, dialect.nodes).empty() && facts.total == 0;
    if ((facts.nodes == 0 || ray) && fits && !open) facts.nodes = 1;
    facts.gpus_per_node = gpus;
    const auto stated = keys.find(dialect.nodes);
    facts.gpus_where = (stated != keys.end() ? stated : keys.find(dialect.gpus))->second.where;
  }
}

/// Whether keys say anything of a job. Where no single key states the length of a sequence, those that it is figured
/// from do, too.
bool states_a_job(const Dialect& dialect, const StatedKeys& keys) {
  const auto stated = [&](std::string_view key) { return !key.empty() && keys.find(key) != keys.end(); };
  return std::any_of(dialect.keys.begin(), dialect.keys.end(),
                     [&](const DialectKey& row) { return stated(row.key); }) ||
         (key_of(dialect, "seq-length").empty() && std::any_of(dialect.numbers.begin(), dialect.numbers.end(), stated));
}

}  // namespace

std::vector<std::string_view> asked_keys(const Dialect& dialect) {
  std::vector<std::string_view> known;
  for (const DialectKey& row : dialect.keys)
    if (!row.key.empty()) known.push_back(row.key);
  for (const std::string_view key : {dialect.model, dialect.nodes, dialect.gpus, dialect.precision})
    if (!key.empty()) known.push_back(key);
  for (const std::string_view key : dialect.derived)
    if (key != "verb") known.push_back(key);
  for (const CountedAs& row : dialect.counted) known.push_back(row.key);
  return known;
}

Result<LaunchJob> dialect_job(const Dialect& dialect, const StatedKeys& stated, LaunchFacts facts) {
  const StatedKeys keys = without_nulls(stated);
  if (std::optional<Error> error = too_many("keys", keys.size(), keys.empty() ? "" : keys.begin()->second.where))
    return fail(std::move(*error));
  if (!states_a_job(dialect, keys))
    return fail({"training_not_understood",
                 fmt::format("no key of {} that states a job was found", dialect.format),
                 {"its command may take them from variables or files that are not here"},
                 {"state the job with `--model`, `--gpus` and `--layout`"}});
  MegatronArgs args;
  args.format = std::string(dialect.format);
  args.states_environment = false;
  Errors errors;
  take_keys(dialect, keys, args, errors);
  std::string model_name;
  take_model(dialect, keys, facts, model_name);
  for (const std::string_view key : dialect.numbers)
    if (std::optional<Error> error = no_number(keys, key)) errors.push_back(std::move(*error));
  for (const std::string_view key : {dialect.nodes, dialect.gpus})
    if (std::optional<Error> error = no_number(keys, key, true)) errors.push_back(std::move(*error));
  count_gpus(dialect, keys, args, facts);
  if (const std::optional<Error> error = too_many_gpus(facts)) errors.push_back(*error), facts.nodes = 0;
  if (args.has("num-query-groups") && args.integer("num-query-groups") != args.integer("num-attention-heads"))
    args.given["group-query-attention"] = {{}, args.where("num-query-groups")};
  precision(dialect, keys, args, errors);
  for (const DialectKey& row : dialect.keys)
    if (row.kind == KeyKind::On && keys.find(row.key) == keys.end()) args.given[std::string(row.flag)] = {{}, ""};
  if (!args.has("micro-batch-size")) args.given["micro-batch-size"] = {{"1"}, ""};
  group_experts(dialect, keys, facts, args);
  if (dialect.derive != nullptr) dialect.derive(keys, facts, args);
  if (dialect.stops != nullptr)
    if (std::optional<Error> error = dialect.stops(keys, facts, args)) errors.push_back(std::move(*error));
  tell_counted(keys, dialect.counted, args);
  LaunchJob noted;
  judge_unread(dialect, keys, errors, noted);
  Result<LaunchJob> job = megatron_job(args, facts);
  keep_errors(errors, job);
  if (!errors.empty()) return fail(std::move(errors));
  if (!model_name.empty()) job->model_name = model_name;
  const auto first = std::min_element(keys.begin(), keys.end(), [](const auto& a, const auto& b) {
    return a.second.where.size() != b.second.where.size() ? a.second.where.size() < b.second.where.size()
                                                          : a.second.where < b.second.where;
  });
  for (const Input& input : job->inputs)
    if (input.origin == Origin::Default) job->homes[input.key] = first->second.where;
  job->notes.insert(job->notes.end(), noted.notes.begin(), noted.notes.end());
  job->unused.insert(job->unused.end(), noted.unused.begin(), noted.unused.end());
  return job;
}

void tell_counted(const StatedKeys& keys, std::span<const CountedAs> rows, MegatronArgs& args) {
  for (const CountedAs& row : rows)
    if (const std::string word = lowered(word_of(keys, row.key)); !is_plain(word, row.plain) && word != "null")
      args.unused.push_back({"not_counted", fmt::format("{}: `{}: {}`: {}", where_of(keys, row.key), row.key,
                                                        yaml::printable(word), row.what)});
}

}  // namespace plan
