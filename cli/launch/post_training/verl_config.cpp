// The configuration that a command of verl's lies over: hydra's `--config-path` and `--config-name`, or the one beside
// its program. verl's own are plan's defaults already; a copy of an early release, which is in one file, states
// others. Flags and the order of `defaults:` are hydra 1.3's ("Hydra's command line flags", "The Defaults List").
// Tested by tests/launch/argument_files_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "cli/launch/post_training/verl_commands.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/words.hpp"

namespace plan::verl {
namespace {

constexpr int kDeepest = 8;

/// Configurations that verl brings, whose values are plan's defaults for it.
constexpr std::string_view kBrought[] = {"ppo_trainer",        "ppo_megatron_trainer",
                                         "ppo_veomni_trainer", "ppo_torchtitan_trainer",
                                         "sft_trainer",        "sft_trainer_engine"};

/// What verl's programs read where their command names no file.
constexpr std::pair<std::string_view, std::string_view> kPrograms[] = {{"main_ppo", "ppo_trainer"},
                                                                       {"main_dapo", "dapo_trainer"},
                                                                       {"fsdp_sft_trainer", "sft_trainer"},
                                                                       {"sft_trainer", "sft_trainer_engine"}};

bool is_brought(std::string_view name) {
  return std::find(std::begin(kBrought), std::end(kBrought), base_name(name)) != std::end(kBrought);
}

struct Config {
  std::string folder;   ///< of `--config-path`, else empty
  std::string name;     ///< without `.yaml`
  std::string program;  ///< path of what is started, without its ending
  int line = 0;         ///< of the word that names it; 0: none does
};

/// `verl.trainer.main_ppo` and `verl/trainer/main_ppo.py` as verl/trainer/main_ppo; empty for any other word.
std::string program_path(const ShellCommand& command, std::size_t i) {
  std::string word = command.words[i].text;
  if (word.ends_with(".py")) return word.substr(0, word.size() - std::string_view(".py").size());
  if (i == 0 || command.words[i - 1].text != "-m") return {};
  std::replace(word.begin(), word.end(), '.', '/');
  return word;
}

Config config_of(const ShellCommand& command) {
  Config out;
  const auto take = [&](std::size_t i, std::string_view flag, std::string& into) {
    const std::string& word = command.words[i].text;
    if (word == flag && i + 1 < command.words.size()) into = command.words[i + 1].text;
    if (word.starts_with(flag) && word.size() > flag.size() && word[flag.size()] == '=')
      into = without_quotes(word.substr(flag.size() + 1));
    return word == flag || (word.starts_with(flag) && word[flag.size()] == '=');
  };
  for (std::size_t i = 0; i < command.words.size(); ++i) {
    if (out.program.empty()) out.program = program_path(command, i);
    for (const std::string_view flag : {"--config-name", "-cn"})
      if (take(i, flag, out.name)) out.line = command.words[i].line;
    for (const std::string_view flag : {"--config-path", "-cp", "--config-dir", "-cd"}) take(i, flag, out.folder);
  }
  for (const auto& [program, name] : kPrograms)
    if (out.name.empty() && base_name(out.program) == program) out.name = name;
  if (out.name.ends_with(".yaml")) out.name.resize(out.name.size() - std::string_view(".yaml").size());
  return out;
}

/// A folder that is named is one of the machine's or, as hydra has it, one beside the program; that beside the program
/// is `config` where none is named.
std::optional<LaunchSource> opened(const LaunchSource& source, const Config& config, std::string_view name) {
  const std::string program = config.program.substr(0, config.program.rfind('/') + 1);
  const std::string file = fmt::format("{}.yaml", name);
  const std::string places[] = {
      config.folder.empty() ? "" : fmt::format("{}{}/{}", program, config.folder, file),
      config.folder.empty() ? fmt::format("{}config/{}", program, file) : fmt::format("{}/{}", config.folder, file),
      is_brought(name) ? fmt::format("verl/trainer/config/{}", file) : ""};
  for (const std::string& place : places)
    if (std::optional<LaunchSource> found = place.empty() ? std::nullopt : beside(source, place)) return found;
  return std::nullopt;
}

class Below {
 public:
  Below(const LaunchSource& script, const Config& config, StatedKeys& keys)
      : script_(script), config_(config), keys_(keys) {}

  // Files lie over each other as deep as kDeepest.
  // NOLINTNEXTLINE(misc-no-recursion)
  Result<void> lay(const LaunchSource& file, std::string_view name, int depth) {
    Result<StatedKeys> own = keys_of_yaml(file);
    if (!own) return fail(own.error());
    StatedValue defaults;
    if (const auto found = own->find(kMissingBase); found != own->end()) {
      defaults = found->second;
      own->erase(found);
      if (is_brought(name)) return {};  // in parts, as releases since 2025 have it: plan's own table
    }
    std::erase_if(*own, [](const auto& key) { return key.first.starts_with("hydra."); });
    std::vector<std::string>& order = defaults.values;
    if (std::find(order.begin(), order.end(), "_self_") == order.end()) order.emplace_back("_self_");
    for (auto part = order.rbegin(); part != order.rend(); ++part) {  // later parts lie over earlier ones
      if (*part == "_self_") {
        keys_.insert(own->begin(), own->end());
        continue;
      }
      if (Result<void> laid = lay_part(file, *part, defaults.where, depth); !laid) return laid;
    }
    return {};
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion)
  Result<void> lay_part(const LaunchSource& file, const std::string& part, const std::string& where, int depth) {
    std::optional<LaunchSource> next =
        depth < kDeepest && !part.empty() ? beside(file, fmt::format("{}.yaml", part)) : std::nullopt;
    if (!next && !part.empty()) next = opened(script_, config_, part);
    if (next) return lay(*next, part, depth + 1);
    // A group of options, of which the list shows no name, or a file that is not here.
    if (!is_brought(part)) keys_[std::string(kMissingBase)] = {{part.empty() ? "defaults" : part}, where};
    return {};
  }

  const LaunchSource& script_;
  const Config& config_;
  StatedKeys& keys_;
};

}  // namespace

std::optional<LaunchSource> config_beside(const LaunchSource& script, const ShellCommand& command) {
  const Config config = config_of(command);
  return config.name.empty() ? std::nullopt : opened(script, config, config.name);
}

Result<StatedKeys> keys_of_command(const LaunchSource& script, std::string_view program) {
  Result<StatedKeys> keys = keys_of_overrides(script, program);
  if (!keys || keys->empty()) return keys;
  Config config;
  for (const ShellCommand& command : follow_script(script).commands)
    if (std::any_of(command.words.begin(), command.words.end(),
                    [&](const ShellWord& word) { return word.text.find(program) != std::string::npos; }))
      if (Config own = config_of(command); !own.name.empty()) config = std::move(own);
  if (config.name.empty()) return keys;
  if (const std::optional<LaunchSource> file = opened(script, config, config.name)) {
    Below below(script, config, *keys);
    if (Result<void> laid = below.lay(*file, config.name, 0); !laid) return fail(laid.error());
  } else if (config.line > 0 && !is_brought(config.name)) {
    (*keys)[std::string(kMissingBase)] = {{config.name}, fmt::format("{}:{}", script.path, config.line)};
  }
  return keys;
}

}  // namespace plan::verl
