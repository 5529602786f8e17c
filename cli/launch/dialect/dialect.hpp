#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/counted_as.hpp"
#include "cli/launch/job/keys.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/settings/settings.hpp"

namespace plan {

/// How a dialect writes what is a flag to Megatron-LM.
enum class KeyKind {
  Value,   ///< key: value
  Switch,  ///< key: true where the flag is given
  On,      ///< a switch that is on unless a file says otherwise
  Off,     ///< key: false where the flag is given
  List,    ///< key: [a, b]
  Dtype,   ///< key: torch.bfloat16
  Layers,  ///< key: [0, 1, 1, 1], where the flag has a pattern: no parser works it out behind the file
};

struct DialectKey {
  std::string_view flag;  ///< of Megatron-LM, without dashes
  std::string key;        ///< dotted; empty: the dialect decides it otherwise and it is left out
  KeyKind kind = KeyKind::Value;
  std::string_view otherwise{};  ///< written where the plan has no such flag: what a recipe may have set is undone
};

/// A row of a dialect's table as people write it: flags of one section under the names that Megatron core
/// has for them, or one flag under a key of the dialect's own.
struct DialectRow {
  std::string_view key;           ///< as a DialectKey's, with `*` for what Megatron core calls the flag
  std::string_view flags;         ///< between blanks
  std::optional<KeyKind> kind{};  ///< none: as Megatron core has it
  std::string_view otherwise{};   ///< as a DialectKey's
};
/// A key for every flag of the rows, in their order.
[[nodiscard]] std::vector<DialectKey> keys_of_rows(std::span<const DialectRow> rows);

/// A tool around Megatron-LM with its own names.
struct Dialect {
  std::string_view format;
  std::vector<DialectKey> keys;
  std::string_view model;                       ///< key that names the model; empty: dimensions under `model.`
  std::string_view nodes;                       ///< key of the number of nodes, if files state it
  std::string_view gpus;                        ///< key of GPUs per node, likewise
  std::string_view precision;                   ///< key of the number format
  std::span<const std::string_view> derived{};  ///< keys that flags are figured from by `derive`
  void (*derive)(const StatedKeys&, const LaunchFacts&, MegatronArgs&) = nullptr;
  std::span<const CountedAs> counted{};         ///< reported where they have another value than is counted
  bool bridge = false;                          ///< Megatron-Bridge builds the model from its published configuration
  std::span<const std::string_view> numbers{};  ///< of the derived keys: those that are counted with
  /// A number at which the tool stops, by the degrees beside it.
  std::optional<Error> (*stops)(const StatedKeys&, const LaunchFacts&, const MegatronArgs&) = nullptr;
};

[[nodiscard]] const Dialect& bridge_dialect();
[[nodiscard]] const Dialect& verl_dialect();
[[nodiscard]] const Dialect& nemo_rl_dialect();
[[nodiscard]] const Dialect& skyrl_dialect();
[[nodiscard]] const Dialect& swift_dialect();
[[nodiscard]] const Dialect& llama_factory_dialect();
[[nodiscard]] const Dialect& mca_dialect();
/// Whether a file is of LLaMA-Factory over mcore_adapter, by keys that none has over Megatron-Bridge.
[[nodiscard]] bool is_mca(const LaunchSource& source);
/// The keys of a file of LLaMA-Factory's, what it hands on in one of them as keys of their own.
[[nodiscard]] Result<StatedKeys> keys_of_llama_factory(const LaunchSource& source, bool mca);

/// The keys that a dialect asks for.
[[nodiscard]] std::vector<std::string_view> asked_keys(const Dialect& dialect);
/// The key of one of Megatron-LM's flags; empty where the dialect has none.
[[nodiscard]] std::string_view key_of(const Dialect& dialect, std::string_view flag);
/// Names each key in the first lines whose value is counted as another one.
void tell_counted(const StatedKeys& keys, std::span<const CountedAs> rows, MegatronArgs& args);

/// Flags that no single key states: what a dialect's own words for batches, sequences and recomputation come to.
void derive_bridge(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args);
void derive_verl(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args);
/// Micro-batches of all data ranks that are fewer than these.
[[nodiscard]] std::optional<Error> verl_leaves_none(const StatedKeys& keys, const LaunchFacts& facts,
                                                    const MegatronArgs& args);
void derive_nemo_rl(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args);
void derive_skyrl(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args);
void derive_swift(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args);
void derive_llama_factory(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args);
void derive_mca(const StatedKeys& keys, const LaunchFacts& facts, MegatronArgs& args);

/// ms-swift's keys with those of the role that is trained in the place of what all roles share.
[[nodiscard]] Result<StatedKeys> keys_of_role(Result<StatedKeys> keys);
/// The GPUs of that role, where it states them and nothing else does.
void take_gpus_of_role(const StatedKeys& keys, LaunchFacts& facts);

/// The job that keys of a dialect describe.
[[nodiscard]] Result<LaunchJob> dialect_job(const Dialect& dialect, const StatedKeys& keys, LaunchFacts facts);

/// A plan's settings under the dialect's keys, in the order of its table; what it cannot say is refused.
struct DialectSetting {
  std::string key{};
  std::string value{};  ///< as YAML: 8, true, "a2a+p2p", [core_attn, mlp]
};
[[nodiscard]] Result<std::vector<DialectSetting>> dialect_settings(const Dialect& dialect, const Plan& plan,
                                                                   const EmitOptions& options);
/// Nested YAML of dotted keys.
[[nodiscard]] std::string yaml_of(const std::vector<DialectSetting>& settings);
/// The same as words of a shell, KEY=VALUE.
[[nodiscard]] std::vector<std::string> override_words(const std::vector<DialectSetting>& settings);
/// Comments that say which plan a file runs, and these lines.
[[nodiscard]] std::string dialect_header(const Plan& plan, const std::vector<std::string>& more);

}  // namespace plan
