#include "told.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <sstream>

#include "cli/terminal/offload_flag.hpp"
#include "formulas/names.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/reader.hpp"
#include "presets/stack_facts.hpp"

namespace plan::launching {
namespace {

/// Collects facts; those with the value that they have when nobody says anything are left out.
struct Teller {
  std::string folder{};
  Told facts{};

  void text(std::string key, std::string value) {
    for (std::size_t at = value.find(folder); !folder.empty() && at != std::string::npos; at = value.find(folder, at))
      value.erase(at, folder.size());
    for (std::size_t at = value.find('\n'); at != std::string::npos; at = value.find('\n', at))
      value.replace(at, 1, " / ");
    facts.emplace_back(std::move(key), std::move(value));
  }
  template <class T>
  void fact(const std::string& key, const T& value, const T& usual) {
    if (value != usual) text(key, fmt::format("{}", value));
  }
};

/// The model as a preset's file says it, a key of a block with the block's name in front.
void tell_model(Teller& teller, const Model& model) {
  std::istringstream lines(write_model(model));
  std::string block;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t start = line.find_first_not_of(' '), colon = line.find(": ");
    if (start == std::string::npos || line.starts_with("preset:") || line.starts_with("name:")) continue;
    if (colon == std::string::npos)
      block = line.substr(start, line.size() - start - 1);
    else
      teller.text("model " + (start > 0 ? block + " " : "") + line.substr(start, colon - start),
                  line.substr(colon + 2));
  }
}

void tell_stack(Teller& teller, const Stack& stack, const Stack& usual) {
  for (const StackFactRow& row : stack_fact_rows())
    teller.fact(fmt::format("stack {}", row.name), fact_of(row, stack), fact_of(row, usual));
  teller.fact("stack framework", stack.framework, usual.framework);
  teller.fact("stack graph scopes", stack.graph_scopes, usual.graph_scopes);
  teller.fact("stack vocabulary barriers", stack.vocab_barriers, usual.vocab_barriers);
  teller.fact("stack deterministic", stack.deterministic, usual.deterministic);
  teller.fact("stack routing imbalance", stack.routing_imbalance, usual.routing_imbalance);
  teller.fact("stack fp8 by rows", stack.fp8_rowwise, usual.fp8_rowwise);
}

void tell_training(Teller& teller, const Training& training, const Stack& usual) {
  const Training plain;
  teller.fact("seq", training.seq, std::int64_t{0});
  teller.fact("global batch", training.global_batch, std::int64_t{0});
  teller.fact("precision", name(training.precision), std::string_view{});
  teller.fact("bf16 layers, first", training.bf16_layers.first, 0);
  teller.fact("bf16 layers, last", training.bf16_layers.last, 0);
  teller.fact("optimizer", name(training.optimizer), name(plain.optimizer));
  teller.fact("gradient bytes", training.grad_bytes, plain.grad_bytes);
  teller.fact("master bytes", training.master_bytes, plain.master_bytes);
  teller.fact("moment 1 bytes", training.moment1_bytes, plain.moment1_bytes);
  teller.fact("moment 2 bytes", training.moment2_bytes, plain.moment2_bytes);
  teller.fact("precision aware", training.precision_aware, plain.precision_aware);
  teller.fact("task", name(training.task), name(plain.task));
  if (training.adapters())
    teller.text("lora",
                fmt::format("{} attention {} ffn {}", training.lora.rank, training.lora.attention, training.lora.ffn));
  teller.fact("dropout", training.dropout, plain.dropout);
  teller.fact("packed length", training.packed_length, plain.packed_length);
  if (training.offload.any()) teller.text("offload", offload_text(training.offload));
  if (training.local.steps > 0 || training.local.copies > 1)
    teller.text("local updates", fmt::format("{} of {}", training.local.steps, training.local.copies));
  tell_stack(teller, training.stack, usual);
}

/// In one line, or an axis in each, where two readings are compared.
void tell_layout(Teller& teller, const Fixed& fixed, bool together) {
  if (together) return teller.text("layout", fmt::format("{}", fmt::join(fixed_words(fixed), " ")));
  each_axis([&](const auto& axis) {
    if (const auto& value = fixed.*axis.fixed) teller.text(std::string(axis.word), axis_text(*value));
  });
}

void tell_counts(Teller& teller, const LaunchJob& job, bool places) {
  teller.text("format", job.format);
  teller.text("framework", std::string(framework_row(job.framework).name));
  teller.fact("model's name", job.model_name, std::string{});
  teller.fact("states seq", job.states_seq, true);
  teller.fact("states global batch", job.states_global_batch, true);
  if (job.rank_batch)
    teller.text("batch of a rank", fmt::format("{} {}", job.rank_batch->steps, job.rank_batch->sequences));
  teller.fact("gpus", job.gpus, 0);
  teller.fact("gpus per node", job.gpus_per_node, 0);
  teller.fact("gpus of a slice", job.slice_gpus, 0);
  teller.fact("gpu", job.gpu, std::string{});
  teller.fact("hardware", job.hardware, std::string{});
  tell_layout(teller, job.fixed, places);
  for (const LaunchMesh& mesh : job.meshes)
    teller.text("mesh " + mesh.device, fmt::format("{}: {}", mesh.gpus, fmt::join(fixed_words(mesh.fixed), " ")));
}

/// In files below the folder, paths are names of files; of other places only the name is left.
std::string place_of(const std::string& where) {
  return where.starts_with("--") ? where : where.substr(where.rfind('/') + 1);
}

void tell_words(Teller& teller, const LaunchJob& job, bool places) {
  for (const Input& input : job.inputs) {
    const bool stated = input.origin != Origin::Default && !input.guessed;
    const std::string origin = stated          ? (places ? place_of(input.where) : "stated")
                               : input.guessed ? "guessed"
                                               : "default";
    teller.text("origin of " + input.key, places ? fmt::format("{} for {}", origin, input.value) : origin);
  }
  const auto shown = [&](const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
      out += text[i];
      if (places || text[i] != ':') continue;  // of "run.sh:12", the line
      while (i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9') ++i;
    }
    return out;
  };
  std::map<std::string, int> of_code;
  for (const Note& note : job.notes) teller.text(fmt::format("note {}", note.code), shown(note.text));
  for (const Note& note : job.unused) teller.text(fmt::format("not used, {}", note.code), shown(note.text));
  if (!places) return;
  for (const auto& [key, place] : job.homes) teller.text("home of " + key, place_of(place));
  if (job.rank_batch) teller.text("place of a rank's batch", place_of(job.rank_batch->where));
  if (!job.meshes_where.empty()) teller.text("place of meshes", place_of(job.meshes_where));
}

void tell_mistakes(Teller& teller, const Errors& errors, bool places) {
  for (const Error& error : errors) {
    std::string text = error.message;
    if (places) {
      for (const std::string& fact : error.facts) text += " = " + fact;
      for (const std::string& help : error.help) text += " help: " + help;
      if (error.place.line > 0)
        text += fmt::format(" [{}:{}:{}+{}]", place_of(error.place.file), error.place.line, error.place.column,
                            error.place.length);
    }
    teller.text("refused, " + error.code, text);
  }
}

}  // namespace

Told told(const Result<LaunchJob>& job, const std::string& folder, bool places) {
  Teller teller{folder, {}};
  if (!job) {
    tell_mistakes(teller, job.error(), places);
    return teller.facts;
  }
  tell_counts(teller, *job, places);
  if (job->training) tell_training(teller, *job->training, framework_row(job->framework).stack);
  if (job->model) tell_model(teller, *job->model);
  tell_words(teller, *job, places);
  return teller.facts;
}

bool is_refused(const Told& told) { return !told.empty() && told.front().first.starts_with("refused"); }

std::vector<std::string> differences(const Told& before, const Told& after) {
  std::multimap<std::string, std::string> gone(before.begin(), before.end());
  std::vector<std::string> parts;
  Told come;
  for (const auto& fact : after) {
    const auto [first, last] = gone.equal_range(fact.first);
    const auto same = std::find_if(first, last, [&](const auto& one) { return one.second == fact.second; });
    if (same == last)
      come.push_back(fact);
    else
      gone.erase(same);
  }
  for (const auto& [key, value] : come) {
    const auto was = gone.find(key);
    parts.push_back(was == gone.end() ? fmt::format("{}: {}", key, value)
                                      : fmt::format("{}: {} -> {}", key, was->second, value));
    if (was != gone.end()) gone.erase(was);
  }
  if (!is_refused(after))
    for (const auto& [key, value] : gone) parts.push_back(fmt::format("no {}: {}", key, value));
  return parts;
}

}  // namespace plan::launching
