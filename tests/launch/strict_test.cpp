// One word of a launch file edited, in every tool's words: a misspelt key, a misspelt word and a key that nobody knows
// are refused or named among what is not used, which is in the first lines and which `--strict` refuses.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <regex>

#include "samples.hpp"

namespace plan {

using namespace launching;

namespace {

LaunchContext context_of(const Sample& sample) {
  return {.model = {}, .gpus = sample.gpus, .gpus_per_node = 8, .arguments = {}};
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

/// All that a job says, and where each of it is from.
std::string said_and_whence(const LaunchJob& job) {
  std::string out = said(job);
  for (const Input& input : job.inputs) out += input.key + (input.origin == Origin::File ? " file\n" : " default\n");
  return out;
}

/// Lines that say something of the job: it changes, or cannot be read, without them.
std::vector<std::size_t> weighing_lines(const Sample& sample, const std::vector<std::string>& lines) {
  const std::string before = said_and_whence(job_of(sample.name, sample.text, context_of(sample)));
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("#!") || lines[i].find_first_not_of(" {})\\") == std::string::npos) continue;
    std::vector<std::string> fewer = lines;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    const Files files;
    const Result<LaunchJob> after = files.read(sample.name, joined(fewer), context_of(sample));
    if (!after || said_and_whence(*after) != before) out.push_back(i);
  }
  return out;
}

/// Refused, named as not used, or a job without the model or the GPUs that decide all else.
bool told(const Sample& sample, const std::string& text, const std::string& word) {
  const Files files;
  const Result<LaunchJob> after = files.read(sample.name, text, context_of(sample));
  if (!after || !after->model || (after->gpus == 0 && sample.gpus == 0)) return true;
  if (names(after->unused, word)) return true;
  for (const Note& note : after->unused) MESSAGE("not used: " << note.text);
  for (const Note& note : after->notes) MESSAGE("note: " << note.text);
  return false;
}

/// Words of the launcher, which would end at an unknown one, and variables that only it looks for.
bool of_launcher(const std::string& key) {
  for (const char* word : {"nproc-per-node", "nnodes", "NNODES", "NPROC_PER_NODE", "num_processes", "config-name"})
    if (key == word) return true;
  return false;
}

/// A key with two neighbours of its middle swapped: `micro_batch_szie`.
std::string swapped(std::string key) {
  for (std::size_t at = key.size() - 3; at > 1; --at)
    if (key[at] != key[at + 1] && std::isalpha(key[at]) && std::isalpha(key[at + 1])) {
      std::swap(key[at], key[at + 1]);
      break;
    }
  return key;
}

}  // namespace

TEST_CASE("a misspelt key is refused or named as not used") {
  static const std::regex kKey("(--|^|[\\s{\"])([A-Za-z][\\w.-]{4,})(?=[ =:\"\\\\]|$)");
  int tried = 0;
  for (const Sample& sample : kSamples) {
    CAPTURE(std::string(sample.name));
    const std::vector<std::string> lines = lines_of(sample.text);
    for (const std::size_t i : weighing_lines(sample, lines)) {
      const bool shell = std::string(sample.name).ends_with(".sh");
      for (std::sregex_iterator found(lines[i].begin(), lines[i].end(), kKey), end; found != end; ++found) {
        const std::string key = (*found)[2], slip = swapped(key);
        const std::size_t at = static_cast<std::size_t>(found->position(2));
        // In a script, words that are flags or overrides; elsewhere, what is before its value.
        const bool named = shell
                               ? (*found)[1] == "--" || lines[i][std::min(at + key.size(), lines[i].size() - 1)] == '='
                               : lines[i].find_first_of(":=", at) <= at + key.size() + 1;
        if (!named || slip == key || key == "general" || of_launcher(key)) continue;
        std::vector<std::string> edited = lines;
        edited[i].replace(at, key.size(), slip);
        CAPTURE(edited[i]);
        CHECK(told(sample, joined(edited), slip.substr(slip.rfind('.') + 1)));
        ++tried;
      }
    }
  }
  CHECK(tried >= 100);
}

TEST_CASE("a misspelt word of a choice is refused or named as not used") {
  static const std::regex kWord(
      "\\b(true|false|full|block|lora|bf16|bfloat16|bf16-true|mixed|amp_bf16|FULL_SHARD|rms|swiglu|hsdp|sft|"
      "adamw_torch)\\b(?=[\"\\\\ ]*,?\\}*$|\" *[,}])");
  int tried = 0;
  for (const Sample& sample : kSamples) {
    CAPTURE(std::string(sample.name));
    const std::vector<std::string> lines = lines_of(sample.text);
    for (const std::size_t i : weighing_lines(sample, lines)) {
      std::smatch found;
      if (!std::regex_search(lines[i], found, kWord) || lines[i].find("--" + found.str()) != std::string::npos)
        continue;
      if (lines[i].find("--swiglu") != std::string::npos) continue;
      std::vector<std::string> edited = lines;
      edited[i] = found.prefix().str() + found.str() + "zq" + found.suffix().str();
      CAPTURE(edited[i]);
      CHECK(told(sample, joined(edited), lines[i].substr(0, 0)));
      ++tried;
    }
  }
  CHECK(tried >= 15);
}

TEST_CASE("a key that nobody knows and that sounds as if it weighed is named as not used") {
  int tried = 0;
  for (const Sample& sample : kSamples) {
    CAPTURE(std::string(sample.name));
    const std::string name = sample.name;
    const std::vector<std::string> lines = lines_of(sample.text);
    for (const std::size_t i : weighing_lines(sample, lines)) {
      std::vector<std::string> edited = lines;
      const std::size_t indent = lines[i].find_first_not_of(' ');
      // Sections of data, and what is outside the only section that is read.
      const bool section = indent == 0 && lines[i].ends_with(":");
      if (lines[i].find("data_loader") != std::string::npos || section) continue;
      if (name.ends_with(".sh")) {
        const bool flags = lines[i].find(" --") != std::string::npos && i + 1 == lines.size();
        const bool overrides = lines[i].find("megatron.") != std::string::npos;
        if (!flags && !overrides) continue;
        const std::string word =
            overrides ? " actor_rollout_ref.actor.megatron.moe_offload_experts=4 " : " --moe-offload-experts 4 ";
        edited[i].insert(edited[i].ends_with("\\") ? edited[i].size() - 1 : edited[i].size(), word);
      } else if (name.ends_with(".json") || lines[0] == "{") {
        const std::size_t brace = lines[i].find('{');
        if (brace == std::string::npos) continue;
        edited[i].insert(brace + 1, "\"moe_offload_experts\": 4, ");
      } else if (name.ends_with(".toml")) {
        edited.insert(edited.begin() + static_cast<std::ptrdiff_t>(i) + 1, "moe_offload_experts = 4");
      } else {
        const bool flag = lines[i].find("  --") == 0;
        edited.insert(edited.begin() + static_cast<std::ptrdiff_t>(i),
                      std::string(indent, ' ') + (flag ? "--moe-offload-experts: 4" : "moe_offload_experts: 4"));
      }
      CAPTURE(edited[i]);
      CHECK(told(sample, joined(edited),
                 name.ends_with("model.yaml") || lines[i].find(" --") != std::string::npos ? "offload"
                                                                                           : "moe_offload_experts"));
      ++tried;
    }
  }
  CHECK(tried >= 60);
}

}  // namespace plan
