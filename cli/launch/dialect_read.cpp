// From a dialect's keys to Megatron-LM's arguments. Tested by tests/launch/round_trip_test.cpp.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/launch/bridge_precision.hpp"
#include "cli/launch/dialect.hpp"
#include "cli/launch/megatron_counted.hpp"
#include "cli/launch/megatron_flags.hpp"
#include "cli/launch/shell.hpp"
#include "cli/launch/weighty_names.hpp"
#include "formulas/keep_errors.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"
#include "presets/yaml_anchors.hpp"

namespace plan {
namespace {

/// The words of a list, with those of lists in it.
// Documents are as deep as the YAML reader allows.
void add_items(const yaml::Node& node, MegatronValue& out) {  // NOLINT(misc-no-recursion)
  for (const yaml::Node& item : node.items)
    if (item.kind == yaml::Kind::Sequence)
      add_items(item, out);
    else
      out.values.push_back(item.text);
}

void walk(const yaml::Node& node, const std::string& path, const std::string& file, DialectKeys& out) {
  if (node.kind == yaml::Kind::Map) {
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
      walk(node.items[i + 1], path.empty() ? node.items[i].text : path + "." + node.items[i].text, file, out);
    return;
  }
  MegatronValue value{{}, fmt::format("{}:{}", file, node.line)};
  if (node.kind == yaml::Kind::Sequence)
    add_items(node, value);
  else if (node.kind == yaml::Kind::Scalar)
    value.values.push_back(node.text);
  else
    return;  // null: not stated
  if (!path.empty()) out[path] = std::move(value);
}

/// `mixed_precision: bf16_with_fp8_current_scaling_mixed`, `bfloat16` or `true` under a key called bf16, as flags.
void precision(const Dialect& dialect, const DialectKeys& keys, MegatronArgs& args, Errors& errors) {
  const auto found = keys.find(dialect.precision);
  const std::string word = found == keys.end() || found->second.values.empty() ? "" : lowered(found->second.values[0]);
  const auto set = [&](const char* flag, const char* value) {
    args.given[flag] = {value[0] == '\0' ? std::vector<std::string>{} : std::vector<std::string>{value},
                        found == keys.end() ? "" : found->second.where};
  };
  if (word.empty() || word == "true" || word.find("bf16") != std::string::npos || word == "bfloat16") set("bf16", "");
  if (word == "float16" || word == "fp16" || word.starts_with("fp16_") || word == "16" || word == "16-mixed")
    set("fp16", "");
  if (dialect.precision != "mixed_precision") return;
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
std::string megatron_dtype(const MegatronValue& value) {
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

/// Keys beside those of the table: a slip of one of them is a mistake, others are named in a note.
void judge_unread(const Dialect& dialect, const DialectKeys& keys, Errors& errors, LaunchJob& job) {
  std::vector<std::string_view> known;
  std::vector<std::string> sections;
  for (const DialectKey& row : dialect.keys)
    if (!row.key.empty()) {
      known.push_back(row.key);
      sections.emplace_back(
          row.key.substr(0, row.key.rfind('.') == std::string_view::npos ? 0 : row.key.rfind('.') + 1));
    }
  for (const std::string_view key : {dialect.model, dialect.nodes, dialect.gpus, dialect.precision})
    if (!key.empty()) known.push_back(key);
  for (const std::string_view key : dialect.derived)
    if (key != "verb") known.push_back(key);
  for (const CountedAs& row : dialect.counted) known.push_back(row.key);
  const auto stands_with = [](const std::vector<std::string_view>& names, const std::string& section) {
    return std::any_of(names.begin(), names.end(), [&](std::string_view name) {
      return name.substr(0, name.rfind('.') == std::string_view::npos ? 0 : name.rfind('.') + 1) == section;
    });
  };
  std::string unread, weighty, where;
  for (const auto& [key, value] : keys) {
    if (key == "verb" || std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string section = key.substr(0, key.rfind('.') == std::string::npos ? 0 : key.rfind('.') + 1);
    const bool inside = std::find(sections.begin(), sections.end(), section) != sections.end();
    const std::string near = nearest_name(key, known);
    const bool slip = is_slip(key, known) && !names_a_flag(key);
    const std::string_view last = std::string_view(key).substr(section.size());
    const CountedAs* own = counted_setting(last);
    if (const std::optional<CountedAs> row = own != nullptr ? *own : counted_key(last);
        row && stands_with(known, section)) {
      const std::string word = value.values.empty() ? "true" : lowered(value.values.front());
      if (!is_plain(word, row->plain) && word != "null")
        unused(job, "not_counted", fmt::format("{}: `{}: {}`: {}", value.where, key, yaml::printable(word), row->what));
      continue;
    }
    const bool off = value.values.size() == 1 && switched_off(value.values.front());
    // One that the tool knows outside of sections says something here, too.
    const bool displaced =
        !section.empty() && std::find(known.begin(), known.end(), key.substr(section.size())) != known.end();
    if (slip && inside) {
      errors.push_back({"unknown_key",
                        fmt::format("{}: {} has no key `{}`", value.where, dialect.format, key),
                        {},
                        {fmt::format("the nearest is `{}`", near)}});
    } else if (slip || displaced || (stands_with(known, section) && sounds_weighty(key) && !off)) {
      if (where.empty()) where = value.where;
      weighty += (weighty.empty() ? "" : ", ") + key;
    } else if (inside) {
      unread += (unread.empty() ? "" : ", ") + key;
    }
  }
  if (!unread.empty()) job.notes.push_back({"keys_not_read", fmt::format("keys that are not read: {}", unread)});
  if (!weighty.empty())
    unused(job, "not_used", fmt::format("{}: what these keys change is not known: {}", where, weighty));
}

void take_model(const Dialect& dialect, const DialectKeys& keys, LaunchFacts& facts, std::string& model_name) {
  const auto found = dialect.model.empty() ? keys.end() : keys.find(dialect.model);
  if (found == keys.end() || found->second.values.empty()) return;
  model_name = found->second.values[0];
  if (facts.model) return;
  if (std::optional<NamedModel> named = model_named(model_name)) {
    facts.model = std::move(named->model);
    facts.model_where = found->second.where;
  }
}

Error missing_arguments(const std::string& path, const std::string& name, int line) {
  return {"missing_file",
          fmt::format("{}:{}: there is no file `{}` beside it, and the job stands there", path, line, name),
          {},
          {"give it with a `--from` of its own"}};
}

/// The keys of the command that trains. A script may show it twice (`srun bash -c`), but two that differ are two jobs.
class OneOfThem {
 public:
  explicit OneOfThem(const LaunchSource& source) : source_(source) {}

  void add(DialectKeys keys) {
    constexpr std::string_view kNoJob[] = {"export", "infer", "eval", "deploy", "merge", "app", "rollout", "sample"};
    const auto verb = keys.find("verb");
    const bool trains = verb == keys.end() || std::find(std::begin(kNoJob), std::end(kNoJob),
                                                        verb->second.values.front()) == std::end(kNoJob);
    if (keys.empty() || !trains) return;
    if (!keys_.empty() && differ(keys)) other_ = keys.begin()->second.where;
    keys_ = std::move(keys);
  }
  Result<DialectKeys> keys() {
    if (other_.empty()) return std::move(keys_);
    return fail(several_trainings(source_.path, other_));
  }

 private:
  /// Paths, names and seeds may differ between two runs of one job.
  bool differ(const DialectKeys& keys) const {
    for (const auto& [key, value] : keys)
      for (const std::string_view part : {"parallel", "batch", "length", "lora", "recompute", "num_layers", "hidden"})
        if (key.find(part) != std::string::npos)
          if (const auto before = keys_.find(key); before == keys_.end() || before->second.values != value.values)
            return true;
    return false;
  }

  const LaunchSource& source_;
  DialectKeys keys_{};
  std::string other_{};
};

}  // namespace

Settings settings_of_keys(const DialectKeys& keys) {
  Settings out;
  for (const auto& [key, value] : keys) {
    const std::size_t colon = value.where.rfind(':');
    const std::string file = value.where.substr(0, colon);
    const int line = colon == std::string::npos ? 1 : std::max(1, std::atoi(value.where.c_str() + colon + 1));
    if (value.values.size() == 1 && (value.values.front() == "null" || value.values.front() == "~")) continue;
    out.add({.key = key,
             .value = value.values.empty() ? "" : value.values.front(),
             .items = value.values.size() > 1 ? value.values : std::vector<std::string>{},
             .list = value.values.size() > 1,
             .place = {.file = file, .line = line, .column = 1, .length = 1, .text = {}}});
  }
  return out;
}

Error several_trainings(const std::string& path, const std::string& where) {
  return {"several_trainings",
          fmt::format("{}: several commands start trainings that differ; the last is at {}", path, where),
          {},
          {"give a script with one of them, or record the one that is meant with `plan capture`"}};
}

Result<DialectKeys> keys_of_yaml(const LaunchSource& source) {
  if (std::optional<Error> script = script_for_settings(source)) return fail(std::move(*script));
  const Result<yaml::Document> document = yaml::parse_with_anchors(source.text, source.path);
  if (!document) return fail(document.error());
  DialectKeys keys;
  walk(document->root, "", source.path, keys);
  for (const Overlay& over : source.overlays)
    keys[over.key] = {listed(over.value), fmt::format("{}:{}", over.place.file, over.place.line)};
  return keys;
}

Result<DialectKeys> keys_of_overrides(const LaunchSource& source, std::string_view program) {
  OneOfThem trainings{source};
  for (const ShellCommand& command : follow_script(source).commands) {
    DialectKeys keys;
    const auto starts = std::any_of(command.words.begin(), command.words.end(), [&](const ShellWord& word) {
      return word.text.find(program) != std::string::npos;
    });
    for (const ShellWord& word : command.words) {
      const std::size_t equals = word.text.find('=');
      std::string key = word.text.substr(0, equals);
      while (key.starts_with('+')) key.erase(key.begin());
      if (!starts || equals == std::string::npos || key.starts_with('-')) continue;
      std::string value = word.text.substr(equals + 1);
      if (value.size() > 1 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      if (value == "null") continue;  // not stated
      keys[key] = {listed(value), fmt::format("{}:{}", source.path, word.line)};
    }
    trainings.add(std::move(keys));
  }
  return trainings.keys();
}

Result<DialectKeys> keys_of_flags(const LaunchSource& source, std::string_view program) {
  OneOfThem trainings{source};
  for (const ShellCommand& command : follow_script(source).commands) {
    DialectKeys keys;
    const auto start = std::find_if(command.words.begin(), command.words.end(), [&](const ShellWord& word) {
      return word.text == program || word.text.ends_with("/" + std::string(program));
    });
    if (start != command.words.end() && start + 1 != command.words.end())
      keys["verb"] = {{(start + 1)->text}, fmt::format("{}:{}", source.path, start->line)};
    if (start != command.words.end() && command.words.end() - start > 2)
      if (const std::string& name = (start + 2)->text; name.ends_with(".yaml") || name.ends_with(".yml")) {
        const std::optional<LaunchSource> file = beside(source, name);
        if (!file) return fail(missing_arguments(source.path, name, (start + 2)->line));
        const Result<DialectKeys> own = keys_of_yaml(*file);
        if (!own) return fail(own.error());
        for (const auto& [key, value] : *own) keys[key] = value;
      }
    for (auto word = start; word != command.words.end(); ++word) {
      if (!word->text.starts_with("--")) continue;
      MegatronValue value{{}, fmt::format("{}:{}", source.path, word->line)};
      std::string key = word->text.substr(2);
      if (const std::size_t equals = key.find('='); equals != std::string::npos) {
        keys[key.substr(0, equals)] = {listed(key.substr(equals + 1)), value.where};
        continue;
      }
      if (word + 1 != command.words.end() && !(word + 1)->text.starts_with("--"))
        value.where = fmt::format("{}:{}", source.path, (word + 1)->line);  // where it was assigned, not its use
      while (word + 1 != command.words.end() && !(word + 1)->text.starts_with("--"))
        value.values.push_back((++word)->text);
      if (value.values.empty()) value.values.emplace_back("true");
      keys[key] = std::move(value);
    }
    trainings.add(std::move(keys));
  }
  return trainings.keys();
}

namespace {

/// Keys that mean a flag of Megatron's, as that flag.
void take_keys(const Dialect& dialect, const DialectKeys& keys, MegatronArgs& args) {
  for (const DialectKey& row : dialect.keys) {
    const auto found = row.key.empty() ? keys.end() : keys.find(row.key);
    if (found == keys.end() || args.has(row.flag)) continue;
    const bool on = is_true(found->second);
    const bool is_switch = row.kind == KeyKind::Switch || row.kind == KeyKind::On;
    if (is_switch ? !on : row.kind == KeyKind::Off && on) continue;
    if (found->second.values.size() == 1 && found->second.values.front() == row.otherwise) continue;
    const bool bare = is_switch || row.kind == KeyKind::Off;
    if (row.kind == KeyKind::Dtype) {
      args.given[std::string(row.flag)] = {{megatron_dtype(found->second)}, found->second.where};
      continue;
    }
    if (row.kind == KeyKind::Layers && found->second.values.size() > 1) {
      args.given[std::string(row.flag)] = {{fmt::format("[{}]", fmt::join(found->second.values, ","))},
                                           found->second.where};
      continue;
    }
    args.given[std::string(row.flag)] = {bare ? std::vector<std::string>{} : found->second.values, found->second.where};
  }
}

/// GPUs of a node, and the one node that files leave out.
void count_gpus(const Dialect& dialect, const DialectKeys& keys, const MegatronArgs& args, LaunchFacts& facts) {
  if (const int nodes = number_of(keys, dialect.nodes); nodes > 0 && facts.total == 0) facts.nodes = nodes;
  if (const int gpus = number_of(keys, dialect.gpus); gpus > 0 && facts.total == 0) {
    // One node is the default, but no job whose degrees ask for more: how many there are is left to who asks.
    const auto degree = [&](std::string_view flag) {
      return std::clamp<std::int64_t>(args.integer(flag, 1), 1, 1 << 12);
    };
    const std::int64_t dense = degree("tensor-model-parallel-size") * degree("context-parallel-size");
    const std::int64_t experts = degree("expert-model-parallel-size") * degree("expert-tensor-parallel-size");
    const bool fits = std::max(dense, experts) * degree("pipeline-model-parallel-size") <= gpus;
    if (facts.nodes == 0 && fits) facts.nodes = 1;
    facts.gpus_per_node = gpus;
    const auto stated = keys.find(dialect.nodes);
    facts.gpus_where = (stated != keys.end() ? stated : keys.find(dialect.gpus))->second.where;
  }
}

}  // namespace

Result<LaunchJob> dialect_job(const Dialect& dialect, const DialectKeys& keys, LaunchFacts facts) {
  if (std::optional<Error> error = too_many("keys", keys.size(), keys.empty() ? "" : keys.begin()->second.where))
    return fail(std::move(*error));
  const bool understood = std::any_of(dialect.keys.begin(), dialect.keys.end(), [&](const DialectKey& row) {
    return !row.key.empty() && keys.find(row.key) != keys.end();
  });
  if (!understood)
    return fail({"training_not_understood",
                 fmt::format("no key of {} that states a job was found", dialect.format),
                 {"its command may take them from variables or files that are not here"},
                 {"state the job with `--model`, `--gpus` and `--layout`"}});
  MegatronArgs args;
  args.format = std::string(dialect.format);
  args.states_environment = false;
  Errors errors;
  take_keys(dialect, keys, args);
  std::string model_name;
  take_model(dialect, keys, facts, model_name);
  count_gpus(dialect, keys, args, facts);
  if (const std::optional<Error> error = too_many_gpus(facts)) errors.push_back(*error), facts.nodes = 0;
  if (args.has("num-query-groups") && args.integer("num-query-groups") != args.integer("num-attention-heads"))
    args.given["group-query-attention"] = {{}, args.where("num-query-groups")};
  precision(dialect, keys, args, errors);
  for (const DialectKey& row : dialect.keys)
    if (row.kind == KeyKind::On && keys.find(row.key) == keys.end()) args.given[std::string(row.flag)] = {{}, ""};
  if (!args.has("micro-batch-size")) args.given["micro-batch-size"] = {{"1"}, ""};
  args.given["moe-grouped-gemm"] = {{}, ""};
  if (dialect.derive != nullptr) dialect.derive(keys, facts, args);
  tell_counted(keys, dialect.counted, args);
  LaunchJob told;
  judge_unread(dialect, keys, errors, told);
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
  job->notes.insert(job->notes.end(), told.notes.begin(), told.notes.end());
  job->unused.insert(job->unused.end(), told.unused.begin(), told.unused.end());
  return job;
}

}  // namespace plan
