// Keys as files and commands state them. Tested by tests/launch/round_trip_test.cpp and
// tests/launch/dialect_switches_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/job/keys.hpp"
#include "cli/settings/settings.hpp"
#include "cli/shell/shell.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// The words of a list, with those of lists in it.
// Documents are as deep as the YAML reader allows.
void add_items(const yaml::Node& node, StatedValue& out) {  // NOLINT(misc-no-recursion)
  for (const yaml::Node& item : node.items)
    if (item.kind == yaml::Kind::Sequence)
      add_items(item, out);
    else
      out.values.push_back(item.text);
}

void walk(const yaml::Node& node, const std::string& path, const std::string& file, StatedKeys& out) {
  if (node.kind == yaml::Kind::Map) {
    for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
      walk(node.items[i + 1], path.empty() ? node.items[i].text : path + "." + node.items[i].text, file, out);
    return;
  }
  StatedValue value{{}, fmt::format("{}:{}", file, node.line)};
  if (node.kind == yaml::Kind::Sequence)
    add_items(node, value);
  else if (node.kind == yaml::Kind::Scalar)
    value.values.push_back(node.text);
  else if (path.ends_with("precision"))
    value.values.emplace_back("null");  // a number format of its own to some
  else
    return;  // null: not stated
  if (!path.empty()) out[path] = std::move(value);
}

/// The keys of the command that trains. A script may show it twice (`srun bash -c`), but two that differ are two jobs.
class OneOfThem {
 public:
  explicit OneOfThem(const LaunchSource& source) : source_(source) {}

  void add(StatedKeys keys) {
    constexpr std::string_view kNoJob[] = {"export", "infer", "eval", "deploy", "merge", "app", "rollout", "sample"};
    const auto verb = keys.find("verb");
    const bool trains = verb == keys.end() || std::find(std::begin(kNoJob), std::end(kNoJob),
                                                        verb->second.values.front()) == std::end(kNoJob);
    if (keys.empty() || !trains) return;
    if (!keys_.empty() && differ(keys)) other_ = keys.begin()->second.where;
    keys_ = std::move(keys);
  }
  Result<StatedKeys> keys() {
    if (other_.empty()) return std::move(keys_);
    return fail(several_trainings(source_.path, other_));
  }

 private:
  /// Paths, names and seeds may differ between two runs of one job.
  bool differ(const StatedKeys& keys) const {
    for (const auto& [key, value] : keys)
      for (const std::string_view part : {"parallel", "batch", "length", "lora", "recompute", "num_layers", "hidden"})
        if (key.find(part) != std::string::npos)
          if (const auto before = keys_.find(key); before == keys_.end() || before->second.values != value.values)
            return true;
    return false;
  }

  const LaunchSource& source_;
  StatedKeys keys_{};
  std::string other_{};
};

/// The word of `bash -c "python3 ... key=value"`, whose own commands stand among those of the script.
bool is_script(const ShellCommand& command, const ShellWord& word) {
  if (&word == command.words.data()) return false;
  const std::string& before = (&word - 1)->text;
  return before.size() > 1 && before.front() == '-' && before[1] != '-' && before.ends_with('c');
}

}  // namespace

Settings settings_of_keys(const StatedKeys& keys) {
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

Error missing_arguments(const std::string& where, const std::string& name) {
  return {"missing_file",
          fmt::format("{}: there is no file `{}` beside it, and the job is described there", where, name),
          {},
          {"give it with a `--from` of its own"}};
}

Error several_trainings(const std::string& path, const std::string& where) {
  return {"several_trainings",
          fmt::format("{}: several commands start trainings that differ; the last is at {}", path, where),
          {},
          {"give a script with one of them, or record the one that is meant with `plan capture`"}};
}

Result<StatedKeys> keys_of_yaml(const LaunchSource& source) {
  if (std::optional<Error> script = script_for_settings(source)) return fail(std::move(*script));
  const Result<yaml::Document> document = yaml::parse_with_anchors(source.text, source.path);
  if (!document) return fail(document.error());
  StatedKeys keys;
  walk(document->root, "", source.path, keys);
  for (const Overlay& over : source.overlays)
    keys[over.key] = {listed(over.value), fmt::format("{}:{}", over.place.file, over.place.line)};
  return keys;
}

void tell_missing_base(const StatedKeys& keys, LaunchJob& job) {
  const auto base = keys.find(kMissingBase);
  if (base == keys.end()) return;
  unused(job, "missing_file",
         fmt::format("{}: `{}`, which the file lies over, is not beside it: what it states is not known",
                     base->second.where, yaml::printable(base->second.values.front())));
}

Result<StatedKeys> keys_of_overrides(const LaunchSource& source, std::string_view program) {
  OneOfThem trainings{source};
  std::string module(program);  // `python -m examples.run_sft`
  std::replace(module.begin(), module.end(), '/', '.');
  for (const ShellCommand& command : follow_script(source).commands) {
    StatedKeys keys;
    const auto starts = std::any_of(command.words.begin(), command.words.end(), [&](const ShellWord& word) {
      return !is_script(command, word) &&
             (word.text.find(program) != std::string::npos || word.text.find(module) != std::string::npos);
    });
    for (const ShellWord& word : command.words) {
      const std::size_t equals = word.text.find('=');
      std::string key = word.text.substr(0, equals);
      while (key.starts_with('+')) key.erase(key.begin());
      if (is_script(command, word)) continue;
      if (starts && key.starts_with('~'))
        keys[key.substr(1)] = {{"null"}, fmt::format("{}:{}", source.path, word.line)};
      if (!starts || key.starts_with('~') || equals == std::string::npos || key.starts_with('-')) continue;
      std::string value = word.text.substr(equals + 1);
      if (value.size() > 1 && value.front() == '"' && value.back() == '"') value = value.substr(1, value.size() - 2);
      keys[key] = {listed(value), fmt::format("{}:{}", source.path, word.line)};
    }
    trainings.add(std::move(keys));
  }
  return trainings.keys();
}

namespace {

/// Adds what the file of ms-swift's `--config FILE` states. Which of the two counts has changed between its releases.
std::optional<Errors> add_config(const LaunchSource& source, StatedKeys& keys,
                                 const std::function<bool(std::string_view)>& reads) {
  const auto named = keys.find("config");
  if (named == keys.end() || named->second.values.size() != 1) return std::nullopt;
  const StatedValue config = named->second;
  const std::string& name = config.values.front();
  const std::optional<LaunchSource> file = beside(source, name);
  if (!file) return Errors{missing_arguments(config.where, name)};
  const Result<StatedKeys> own = keys_of_yaml(*file);
  if (!own) return own.error();
  keys.erase("config");
  for (const auto& [key, value] : *own)
    if (const auto [at, added] = keys.emplace(key, value);
        !added && (!reads || reads(key)) && !say_the_same(at->second.values, value.values))
      return Errors{differs_from_config(at->second.where, key, value.where)};
  return std::nullopt;
}

}  // namespace

Error differs_from_config(const std::string& where, const std::string& key, const std::string& there) {
  return {"conflicting_keys",
          fmt::format("{}: `--{}` differs from `{}` in the file of `--config` ({})", where, key, key, there),
          {"which of the two ms-swift takes has changed between its releases"},
          {"state it once"}};
}

Result<StatedKeys> keys_of_flags(const LaunchSource& source, std::string_view program,
                                 const std::function<bool(std::string_view)>& reads) {
  OneOfThem trainings{source};
  for (const ShellCommand& command : follow_script(source).commands) {
    StatedKeys keys;
    const auto start = std::find_if(command.words.begin(), command.words.end(), [&](const ShellWord& word) {
      return word.text == program || word.text.ends_with("/" + std::string(program));
    });
    if (start != command.words.end() && start + 1 != command.words.end())
      keys["verb"] = {{(start + 1)->text}, fmt::format("{}:{}", source.path, start->line)};
    if (start != command.words.end() && command.words.end() - start > 2)
      if (const std::string& name = (start + 2)->text;
          !name.starts_with("--") && (name.ends_with(".yaml") || name.ends_with(".yml"))) {
        const std::optional<LaunchSource> file = beside(source, name);
        if (!file) return fail(missing_arguments(fmt::format("{}:{}", source.path, (start + 2)->line), name));
        const Result<StatedKeys> own = keys_of_yaml(*file);
        if (!own) return fail(own.error());
        for (const auto& [key, value] : *own) keys[key] = value;
      }
    for (auto word = start; word != command.words.end(); ++word) {
      if (!word->text.starts_with("--")) continue;
      StatedValue value{{}, fmt::format("{}:{}", source.path, word->line)};
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
    if (std::optional<Errors> errors = program == "megatron" ? add_config(source, keys, reads) : std::nullopt)
      return tl::unexpected(std::move(*errors));
    trainings.add(std::move(keys));
  }
  return trainings.keys();
}

}  // namespace plan
