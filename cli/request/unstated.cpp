// What an answer rests on and nobody stated: a preset's batch, a default cluster, a framework's defaults. It is printed
// in the first lines of every answer, in JSON under `unstated`, and `--strict` refuses what is a guess among it. Tested
// by tests/cli/unstated_test.cpp.
#include "cli/request/unstated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/memory/host_memory.hpp"

namespace plan {
namespace {

/// Inputs that say nothing of the job: how the answer is chosen, and what another input decides.
bool weighs(const Input& input) {
  if (input.key == "cluster" && !input.guessed) return false;  // of the GPU that was asked for
  return input.key != "objective" && input.key != "framework" && input.key != "gpu" && input.key != "top";
}

std::string origin_text(const Input& input) {
  if (input.origin == Origin::Preset) return "preset " + input.where;
  if (!input.guessed && input.where.empty()) return "default";
  if (input.where.empty() || input.key == "cluster") return "plan's default";
  const bool named = input.where.starts_with("default of ") || input.where.find(' ') != std::string::npos;
  return named ? input.where : "default of " + input.where;
}

/// `a 1, b 2 (origin); c 3 (other origin)`
std::string listed_by_origin(const std::vector<Unstated>& facts) {
  std::vector<std::string> origins;
  for (const Unstated& fact : facts)
    if (std::find(origins.begin(), origins.end(), fact.origin) == origins.end()) origins.push_back(fact.origin);
  std::string out;
  for (const std::string& origin : origins) {
    std::string words;
    for (const Unstated& fact : facts)
      if (fact.origin == origin) words += fmt::format("{}{} {}", words.empty() ? "" : ", ", fact.field, fact.value);
    out += fmt::format("{}{} ({})", out.empty() ? "" : "; ", words, origin);
  }
  return out;
}

std::vector<Unstated> part(const std::vector<Input>& inputs, bool guessed) {
  std::vector<Unstated> out;
  for (Unstated& fact : unstated(inputs))
    if (fact.guessed == guessed) out.push_back(std::move(fact));
  return out;
}

}  // namespace

std::vector<Unstated> unstated(const std::vector<Input>& inputs) {
  std::vector<Unstated> out;
  for (const Input& input : inputs) {
    const bool open = input.origin == Origin::Default || (input.origin == Origin::Preset && input.guessed);
    if (open && weighs(input)) out.push_back({input.key, input.value, origin_text(input), input.guessed});
  }
  std::stable_partition(out.begin(), out.end(), [](const Unstated& fact) { return fact.guessed; });
  return out;
}

std::vector<std::string> unstated_lines(const std::vector<Input>& inputs, const std::vector<Note>& unused) {
  std::vector<std::string> lines;
  if (const std::vector<Unstated> facts = part(inputs, true); !facts.empty())
    lines.push_back("not stated: " + listed_by_origin(facts));
  if (const std::vector<Unstated> facts = part(inputs, false); !facts.empty())
    lines.push_back("by default: " + listed_by_origin(facts));
  for (const Note& note : unused) lines.push_back("not used: " + note.text);
  return lines;
}

std::string job_text(const std::vector<Input>& inputs) {
  const auto value = [&](std::string_view key) {
    const Input* found = find_input(inputs, key);
    return found == nullptr ? std::string() : found->value;
  };
  std::string out = value("model");
  const std::string gpus = value("gpus"), gpu = value("gpu");
  const char* between = gpus.empty() ? "" : gpu.empty() ? " GPUs" : " x ";
  if (!gpus.empty() || !gpu.empty()) out += fmt::format("{}on {}{}{}", out.empty() ? "" : " ", gpus, between, gpu);
  for (const auto& [key, word] : {std::pair{"seq", "sequence"}, std::pair{"global_batch", "global batch"}})
    if (const std::string text = value(key); !text.empty())
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", word, text);
  return out;
}

Errors unsettled(const Problem& problem) {
  Errors errors;
  std::vector<Unstated> facts = part(problem.inputs, true);
  if (const Input* hosts = assumed_hosts(problem); hosts != nullptr && problem.training.offload.any())
    facts.push_back({hosts->key, hosts->value, origin_text(*hosts), true});
  if (!facts.empty()) {
    Error error{"not_stated", "the answer hangs on what nobody stated: " + listed_by_origin(facts)};
    error.help.emplace_back("state it with flags or in the files, or leave `--strict` out");
    errors.push_back(std::move(error));
  }
  for (const Note& note : problem.unused) {
    Error error{"not_used", note.text};
    error.facts.emplace_back("it would change the answer and has no meaning here");
    errors.push_back(std::move(error));
  }
  return errors;
}

}  // namespace plan
