#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plan {

/// A flag of `plan` with its value.
struct MeantFlag {
  std::string_view flag{};
  std::string value{};
};

/// What a word of the field means, without dashes in front, that `plan` calls otherwise: `bf16` is `--precision bf16`.
/// `value`: what was given with it; empty: nothing. None if it is no such word.
[[nodiscard]] std::optional<MeantFlag> meant_flag(std::string_view name, std::string_view value);

/// Does a switch with this value not do what its name says?
[[nodiscard]] bool turns_off(std::string_view value);

/// Do launchers count nodes by this name, or the GPUs of a node?
[[nodiscard]] bool counts_nodes(std::string_view name);
[[nodiscard]] bool counts_gpus_of_node(std::string_view name);

/// Does a cloud call its machines by this name?
[[nodiscard]] bool names_machine(std::string_view name);

/// `--gpus` of so many machines of a cloud, of one where `nodes` is empty; their kind alone where GPUs are `counted`
/// elsewhere. None if `machine` names none.
[[nodiscard]] std::optional<MeantFlag> meant_machines(std::string_view machine, std::string_view nodes, bool counted);

/// `--gpus` of so many nodes, of 8 GPUs where `of_node` is empty. None if either is no number.
[[nodiscard]] std::optional<MeantFlag> meant_gpus(std::string_view nodes, std::string_view of_node);

/// Words of which no single flag says the same, such as those for data parallelism that copies or shards, or for
/// micro-batches of a rank: what to write, in sentences; empty if it is no such word.
[[nodiscard]] std::vector<std::string> meant_in_words(std::string_view name, std::string_view value);

/// Ulysses over so many ranks, as items of --layout.
[[nodiscard]] std::string ulysses_item(std::string_view ranks);

/// An axis of --layout under another of its names as the item that states it: `tensor_parallel` with 8 is `tp8`.
[[nodiscard]] std::optional<std::string> meant_axis(std::string_view name, std::string_view value);

/// The same, and axes under any of their names: `tensor-parallel-size` with 8 is `--layout tp8`.
[[nodiscard]] std::optional<MeantFlag> meant_flag_or_axis(std::string_view name, std::string_view value);

}  // namespace plan
