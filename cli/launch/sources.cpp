// Launch files as they lie on disk, and the files that they name: a script's `source`, a YAML file's `defaults:`, the
// path of a DeepSpeed configuration. Files are read, nothing else. Tested by tests/launch/reading_test.cpp.
#include <fmt/core.h>

#include <cmath>
#include <filesystem>
#include <iterator>

#include "cli/launch/sources.hpp"

#include "cli/launch/capture/capture.hpp"
#include "cli/launch/formats.hpp"
#include "cli/launch/job/format.hpp"
#include "cli/launch/launch.hpp"
#include "cli/launch/megatron/log.hpp"
#include "cli/shell/shell.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/words.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

constexpr int kMostAbove = 8;                    // folders above a file in which what it names is looked for
constexpr int kFewestParts = 2;                  // of an absolute path that is looked for by its end
constexpr std::uintmax_t kMostBytes = 1U << 20;  // of a file that another one names

/// `$SCRIPT_DIR/conf.sh`, `$(dirname "$0")/conf.sh`: the folder is not known, the rest is.
std::string without_variables(std::string_view name) {
  const std::size_t last = name.find_last_of("$`)}");
  if (last == std::string_view::npos) return std::string(name);
  const std::size_t slash = name.find('/', last);
  return slash == std::string_view::npos ? std::string() : std::string(name.substr(slash + 1));
}

std::optional<LaunchSource> opened(const fs::path& path) {
  std::error_code failed;
  if (!fs::is_regular_file(path, failed) || fs::file_size(path, failed) > kMostBytes || failed) return std::nullopt;
  Result<std::string> text = yaml::read_text(path.string());
  if (!text) return std::nullopt;
  LaunchSource source{path.lexically_normal().string(), std::move(*text), {}, {}, {}, {}};
  return source;
}

void let_open(LaunchSource& source);

// An absolute path that is not there is looked for by its end, once.
// NOLINTNEXTLINE(misc-no-recursion)
std::optional<LaunchSource> look_for(const std::string& base, std::string_view name) {
  const fs::path wanted = without_variables(name);
  if (wanted.empty()) return std::nullopt;
  std::optional<LaunchSource> found;
  if (wanted.is_absolute()) {
    found = opened(wanted);
    // `/root/slime/scripts/models/x.sh` of another machine: the same end of the path in a folder above.
    fs::path rest = wanted.relative_path();
    for (int parts = static_cast<int>(std::distance(rest.begin(), rest.end())); parts > kFewestParts && !found;
         --parts) {
      fs::path shorter;
      for (auto part = std::next(rest.begin()); part != rest.end(); ++part) shorter /= *part;
      rest = shorter;
      found = look_for(base, rest.string());
    }
    if (found) return found;
  } else {
    // Folders above a relative path end at the root of the disk, not where its own words end.
    std::error_code failed;
    const fs::path here = fs::path(base).is_absolute() ? fs::path() : fs::current_path(failed);
    fs::path folder = (here / base).lexically_normal().parent_path();
    for (int above = 0; above <= kMostAbove && !found && !failed; ++above) {
      found = opened(here.empty() ? folder / wanted : (folder / wanted).lexically_proximate(here));
      if (folder == folder.parent_path()) break;
      folder = folder.parent_path();
    }
  }
  if (found) let_open(*found);
  return found;
}

void let_open(LaunchSource& source) {
  source.open = [base = source.path](std::string_view name) { return look_for(base, name); };
}

/// What a script writes into files itself, DeepSpeed's configuration or the script that each node runs, can be opened
/// under those files' names.
void let_open_written(LaunchSource& source) {
  const auto holds = [&](std::string_view part) { return source.text.find(part) != std::string::npos; };
  if (!is_shell(source) || (!holds("<<") && !holds("echo") && !holds("printf") && !holds("cp "))) return;
  std::map<std::string, std::string> written = follow_script(source).written;
  if (written.empty()) return;
  source.followed.reset();  // it may open more now
  source.open = [disk = std::move(source.open), written = std::move(written)](std::string_view name) {
    const auto found = written.find(std::string(base_name(name)));
    if (found == written.end() || found->second.empty()) return disk(name);
    return std::optional<LaunchSource>({found->first, found->second, {}, {}, {}, {}});
  };
}

/// `config_registry.py:llama3_405b`, where no file has that very name.
std::string selector_of(std::string& path) {
  const std::size_t colon = path.rfind(':');
  std::error_code failed;
  if (colon == std::string::npos || colon + 1 == path.size() || fs::exists(path, failed)) return {};
  if (!fs::exists(path.substr(0, colon), failed)) return {};
  std::string selector = path.substr(colon + 1);
  path.resize(colon);
  return selector;
}

}  // namespace

Result<std::vector<LaunchSource>> load_sources(const std::vector<std::string>& paths,
                                               const std::vector<std::string>& arguments) {
  std::vector<LaunchSource> files;
  Errors errors;
  for (std::string path : paths) {
    std::string selector = selector_of(path);
    std::optional<std::string> printed = printed_arguments(path);
    Result<std::string> text = printed ? *std::move(printed) : yaml::read_text(path);
    if (!keep_errors(errors, text)) continue;
    if (is_capture(*text)) {
      Result<LaunchSource> captured = read_capture(path, *text, is_read);
      if (keep_errors(errors, captured)) files.push_back(std::move(*captured));
      continue;
    }
    files.push_back({std::move(path), std::move(*text), std::move(selector), arguments, {}, {}});
    let_open(files.back());
    let_open_written(files.back());
  }
  if (!errors.empty()) return fail(std::move(errors));
  return files;
}

std::vector<std::string> script_arguments(std::string_view typed) {
  std::vector<std::string> words(1);
  for (const char c : typed)
    if (c != ' ')
      words.back().push_back(c);
    else if (!words.back().empty())
      words.emplace_back();
  if (words.back().empty()) words.pop_back();
  return words;
}

}  // namespace plan
