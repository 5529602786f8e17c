#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/training.hpp"
#include "presets/stack_facts.hpp"
#include "presets/yaml.hpp"

namespace plan {

/// How a fact of a run is written in a file, and kept in memory.
enum class RunFactKind : std::uint8_t { Boolean, Count, Number, Size, Text, Cp, Precision, Modules, Scopes };

/// A fact of published runs beside those of their stack: its key, which is also its member of RunJob
/// (planner/rules/run_software.hpp).
struct RunFactRow {
  std::string_view name;
  RunFactKind kind;
};

struct RunFact {
  const RunFactRow* row = nullptr;
  double number = 0;   ///< a truth, a count, bytes, an enumerator or bits as a number
  std::string text{};  ///< of RunFactKind::Text
};

/// The runs that an entry is about; what is not asked does not matter.
struct RunWhen {
  std::optional<int> since{};               ///< months since the year 0 of the software
  std::optional<int> below{};               ///< 1000 * major + minor of the version behind the software's name
  std::vector<Precision> precision{};       ///< one of them
  std::optional<bool> recomputes{};         ///< the run states that it recomputes something
  std::optional<bool> pipelined{};          ///< it has several stages
  std::optional<bool> shards{};             ///< it states that weights are sharded
  std::optional<bool> experts{}, latent{};  ///< the model has routed experts, latent attention
  std::vector<std::string> model{};         ///< one of them, by its preset's name
  std::vector<std::string> task{};          ///< one of them
  std::vector<std::string> says{};          ///< one of them is a word of the run's task or notes
  std::vector<std::string> silent{};        ///< none of them is
  bool operator==(const RunWhen&) const = default;
};

/// One entry of `runs`, which has one source.
struct RunEntry {
  RunWhen when{};
  std::vector<StackFact> stack{};
  std::vector<RunFact> job{};
  std::string source{};
};

/// The kinds of word of `when` that are yes or no, with their members.
struct RunWhenRow {
  std::string_view name;
  std::optional<bool> RunWhen::*member;
};
[[nodiscard]] std::span<const RunWhenRow> run_when_rows();

/// Reads `when` and the facts of a run, those of its stack excepted, and the source.
[[nodiscard]] RunEntry read_run_entry(yaml::Map& entry);

}  // namespace plan
