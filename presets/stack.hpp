#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formulas/model.hpp"
#include "formulas/result.hpp"
#include "formulas/training.hpp"
#include "presets/stack_facts.hpp"
#include "presets/stack_runs.hpp"

namespace plan {

/// A release of a framework's software, by year and month of its container and its patch: 26.06.01. Ordered.
struct StackRelease {
  int year = 0, month = 0, patch = 0;
  auto operator<=>(const StackRelease&) const = default;
};

/// "26.04", "26.06.01"; also within a word, "dgxc-25.05.05", or as a date, "main-2026-08". nullopt for
/// words that name no month.
[[nodiscard]] std::optional<StackRelease> read_stack_release(std::string_view word);
[[nodiscard]] std::string stack_release_text(const StackRelease& release);

/// One switch that a release turned.
struct StackChange {
  StackRelease since{};
  StackFact fact{};
};

/// Changes of a framework's software from release to release, oldest first.
struct StackHistory {
  std::string name{};
  StackRelease newest{};  ///< that the file knows of
  std::vector<StackChange> changes{};

  /// `stack` with every switch of the history as `release` had it.
  [[nodiscard]] Stack at(const StackRelease& release, Stack stack) const;
};

/// What a `preset: stack/1` file says of a stack: what it does whatever the release, and what releases changed.
struct StackPreset {
  std::string like{};      ///< the stack whose facts hold where this one states none; empty: Stack{}
  std::string releases{};  ///< the stack whose changes are its own too; empty: itself
  std::vector<StackFact> facts{};
  StackHistory history{};
  /// How tables of runs write the software, in the column `framework`; none: it is part of other software alone.
  std::vector<std::string> names{};
  /// Those of `names` that are libraries and front ends, which run on whatever else a cell names.
  std::vector<std::string> general{};
  std::vector<std::string> makers{};  ///< whose names tables write in front of the software's: NVIDIA NeMo
  /// What published runs of it did where they do not say, each entry over those before it.
  std::vector<RunEntry> runs{};

  /// What only some runs of any software did, which say so themselves.
  bool stands_over() const { return names.empty() && like.empty() && facts.empty() && !runs.empty(); }
};

/// The file of that name among those embedded; nullopt if there is none.
[[nodiscard]] std::optional<Result<StackPreset>> load_stack_preset(std::string_view name);

/// Strict: unknown facts, facts that are stated twice, missing sources and releases out of order are mistakes.
[[nodiscard]] Result<StackPreset> read_stack(std::string text, std::string file);

/// The stack of that name with all that it does by default, from the files that the program is built with. An Error
/// names what is missing: the file, or one that it is like.
[[nodiscard]] Result<Stack> load_default_stack(std::string_view name);

/// The names of all files of stacks that the program is built with.
[[nodiscard]] std::vector<std::string> stack_names();

/// The history of that name among those embedded; nullopt if releases of it are not distinguished.
[[nodiscard]] std::optional<StackHistory> load_stack(std::string_view name);

/// Whether a model and its training have what a change is about.
[[nodiscard]] bool matters(const StackChange& change, const Model& model, const Training& training);

/// `stack` as the release of that word had it; unchanged where its framework has no history or the word no month.
[[nodiscard]] Stack stack_of_release(std::string_view word, Stack stack);

}  // namespace plan
