#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/launch/job/format.hpp"
#include "cli/settings/settings.hpp"
#include "planner/problem/axes.hpp"

/// What the readers of configuration files share: from settings to a job, every value with its place or its default.
namespace plan {

class JobBuilder {
 public:
  JobBuilder(Settings& settings, std::string_view format, Framework framework);

  /// The number of a key, or the framework's default; at least `least`. 0 where the file's value is refused.
  int degree(std::string_view key, int otherwise, int least = 1);
  /// Do the factors multiply to at most 2^24 ranks? If not, a mistake.
  bool plausible(std::initializer_list<std::int64_t> factors);
  /// Their product; 0, and a mistake, above 10^15.
  std::int64_t product(std::initializer_list<std::int64_t> factors);
  /// Fixes an axis and notes where it came from: the key if it is stated, else the default.
  void fix(std::optional<int> Fixed::*axis, int value, std::string_view key);
  template <class T>
  void fix(std::optional<T> Fixed::*axis, T value, std::string_view word, std::string_view key) {
    job.fixed.*axis = value;
    origin(axis_key(axis), word, key);
  }
  /// Notes a value: stated by `key`, or else the framework's default.
  void origin(std::string_view name, std::string_view value, std::string_view key);
  void sequence(std::int64_t tokens, std::string_view key);
  void global_batch(std::int64_t sequences, std::string_view key);
  /// The batch as what a rank trains: `steps` micro-batches each, on the ranks that the GPUs and axes leave.
  void rank_batch(int micro_batch, std::int64_t steps, std::string_view key);
  void precision(Precision precision, std::string_view key);
  /// States a value that the file leaves to something that no file says; `--strict` refuses it.
  void guess(const char* name, std::string_view value, std::string why);
  /// What the file states, would change the answer and has no meaning here.
  void unused(std::string_view key, std::string text);
  /// What the file states and is counted as something else, by its own code: reported in the first lines, too.
  void unmodelled(std::string code, std::string text) { plan::unused(job, std::move(code), std::move(text)); }
  void note(std::string code, std::string text) { job.notes.push_back({std::move(code), std::move(text)}); }
  /// A preset by name, and the word that the file had for it.
  void model(std::string_view preset, std::string_view word, std::string_view key);
  /// A switch that sends sharded weights, gradients and optimizer states to the host together.
  void offload_switch(std::string_view key);
  /// GPUs as the launchers around the file state them.
  void launcher(const LaunchFacts& facts);
  /// GPUs as a key of the file states them, over what launchers do.
  void gpus(std::int64_t count, std::string_view key);
  /// Keys that nobody asked for and that are not among `known`, one by one, with the nearest known name: as not used
  /// where the tool stops there, the name is a slip of a known one or sounds as if it weighed; else as a note. Degrees
  /// are mistakes, except where the tool stops at them or passes over them in silence.
  void unknown(std::span<const std::string_view> known, std::string_view verdict);
  /// Judges one key, or the `word` in it that is in question.
  void unknown_key(const Setting& setting, std::string_view word, std::span<const std::string_view> known,
                   std::string_view verdict);
  /// A key that nobody asked for and that splits the job over ranks is a mistake; false: it is no such key.
  bool refuses_degree(const Setting& setting, std::string_view key);
  /// The job, or every mistake found.
  Result<LaunchJob> finish();

  Settings& settings;
  LaunchJob job{};
  Training training{};
  Errors errors{};

 private:
  std::size_t unknown_ = 0;
};

/// Does `layout` satisfy the framework's rules? If not, an error that names the rule in the way.
[[nodiscard]] Result<bool> expressible(const Plan& plan, Framework framework, std::string_view format);
/// An error for what the plan has and the format has no word for.
[[nodiscard]] tl::unexpected<Errors> cannot(std::string_view format, std::string message, std::string help = "");

/// `llama3-405b on 512 h100-sxm: tp 8, pp 8, dp 8`, for the head of a file.
[[nodiscard]] std::string plan_line(const Plan& plan);

/// Whether two models have the same layers, whatever their names and defaults. Prediction modules do not count.
[[nodiscard]] bool same_layers(const Model& a, const Model& b);
/// Whether the preset of that name has the layers of the model.
[[nodiscard]] bool has_layers_of(std::string_view preset, const Model& model);

/// The row of a framework's table of models whose preset has the layers of the model; nullptr: it knows none such.
template <class Row>
[[nodiscard]] const Row* row_of_model(std::span<const Row> rows, const Model& model) {
  for (const Row& row : rows)  // by name first: reading every preset takes time
    if (row.preset == model.name && has_layers_of(row.preset, model)) return &row;
  for (const Row& row : rows)
    if (has_layers_of(row.preset, model)) return &row;
  return nullptr;
}

/// The folder that the model was read from, its name on the Hugging Face hub, or its own name.
[[nodiscard]] std::string hub_name(const Plan& plan);

/// Why files that name a checkpoint cannot say which model is meant: one that is described, or edited.
[[nodiscard]] std::optional<Error> no_checkpoint(const Plan& plan, std::string_view format);

}  // namespace plan
