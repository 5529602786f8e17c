// Whole commands, words to answer: bytes are words, one a line, up to an empty line; what follows is a file, which the
// word
// `@` names. The answer must be one of the documented statuses, with an error's message on 2 and numbers inside
// physics on 0 and 1. Nothing is written but into a folder of the target's own.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "temporary_folder.hpp"
#include "tests/fuzz/targets.hpp"

namespace plan::fuzz {
namespace {

void must_hold(bool kept, const std::string& what) {
  if (!kept) throw Broken{what};
}

/// Words that reach beyond the target's folder, measure this machine, or search for minutes.
bool is_safe(const std::vector<std::string>& words) {
  constexpr std::string_view kVerbs[] = {"estimate", "explain", "check", "formula", "show", "list", "emit"};
  if (words.empty() || std::find(std::begin(kVerbs), std::end(kVerbs), words[0]) == std::end(kVerbs)) return false;
  return std::none_of(words.begin(), words.end(), [](const std::string& word) {
    return word.find('/') != std::string::npos || word.find("..") != std::string::npos || word.starts_with("-o") ||
           word.starts_with("--out") || word.find('*') != std::string::npos;
  });
}

void check_numbers(const nlohmann::json& json, const std::string& key) {
  if (json.is_number()) {
    const double value = json.get<double>();
    must_hold(std::isfinite(value), key + " is no number");
    if (key == "model_causal" || key == "model_full")
      must_hold(value >= 0 && value <= 1, "utilisation beyond the peak");
    if (key == "step_time_s" || key == "peak_memory_bytes") must_hold(value > 0, key + " is not above zero");
  }
  for (const auto& [name, value] : json.items())
    if (json.is_structured()) check_numbers(value, json.is_object() ? name : key);
}

}  // namespace

void whole_command(std::string_view bytes) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at < bytes.size() && bytes[at] != '\n') {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    words.emplace_back(bytes.substr(at, end - at));
    at = std::min(end + 1, bytes.size());
  }
  if (words.size() > 40 || !is_safe(words)) return;
  const TemporaryFolder folder;
  const std::string file = folder.write("file", std::string(bytes.substr(std::min(at + 1, bytes.size()))));
  for (std::string& word : words)
    if (word == "@") word = file;
  if (words[0] == "emit") words.insert(words.end(), {"-o", folder.at("job")});
  Streams streams;
  const int status = run_command_line(words, streams);
  must_hold(status >= 0 && status <= 3, "an undocumented status");
  must_hold(status == 0 || status == 1 || streams.out.empty(), "an answer beside an error");
  must_hold(status != 2 || streams.err.find("error:") != std::string::npos, "a refusal without an error");
  if (status <= 1 && streams.out.starts_with('{')) check_numbers(nlohmann::json::parse(streams.out), "");
  if (words[0] != "emit" || status != 0 || !std::filesystem::exists(folder.at("job"))) return;  // or only help
  std::vector<std::string> back = {"estimate"};
  for (const auto& entry : std::filesystem::directory_iterator(folder.at("job")))
    back.insert(back.end(), {"--from", entry.path().string()});
  Streams again;
  must_hold(run_command_line(back, again) <= 1, "what was emitted does not read back: " + again.err);
}

}  // namespace plan::fuzz
