#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/launch/job/format.hpp"
#include "cli/settings/settings.hpp"

/// Keys of configurations as files and commands state them, before anybody says what they mean.
namespace plan {

/// The value of a key or a flag as a file gives it: one word, those of a list, or none for a switch.
struct StatedValue {
  std::vector<std::string> values{};
  std::string where{};  ///< "run.sh:12"
};

/// Keys as written, dotted, with their values and lines.
using StatedKeys = std::map<std::string, StatedValue, std::less<>>;

/// All keys of a YAML file, or the KEY=VALUE or --key value words of a script's command that starts `program`.
[[nodiscard]] Result<StatedKeys> keys_of_yaml(const LaunchSource& source);
/// The key under which a file is named that another lies over and that could not be opened.
inline constexpr std::string_view kMissingBase = "defaults";
/// Says of such a file that what it states is not known.
void tell_missing_base(const StatedKeys& keys, LaunchJob& job);
[[nodiscard]] Result<StatedKeys> keys_of_overrides(const LaunchSource& source, std::string_view program);
/// `reads`: whether the reader of the job asks for a key. One that it asks for, and that a `megatron` command and its
/// `--config` file state differently, is a mistake; of others the command's value is kept.
[[nodiscard]] Result<StatedKeys> keys_of_flags(const LaunchSource& source, std::string_view program,
                                               const std::function<bool(std::string_view)>& reads = {});
/// A file of arguments that a command names at `where`, and that is not beside the script.
[[nodiscard]] Error missing_arguments(const std::string& where, const std::string& name);
/// A word of an ms-swift command that its `--config` file, at `there`, states otherwise.
[[nodiscard]] Error differs_from_config(const std::string& where, const std::string& key, const std::string& there);
/// A key of a file or of a printed table as a flag: `moe_ffn_hidden_size` is `moe-ffn-hidden-size`.
[[nodiscard]] std::string with_dashes(std::string_view key);
/// A flag as a key of a file.
[[nodiscard]] std::string with_underscores(std::string_view flag);
/// A word without the quotes around it, of either kind.
[[nodiscard]] std::string without_quotes(const std::string& word);
/// `${policy.x}`, `${.x}`, `${multiply:4, ${.x}}` as what they come to; what is not known stays as it is.
void interpolate(StatedKeys& keys);
/// Keys as settings, without those that are null.
[[nodiscard]] Settings settings_of_keys(const StatedKeys& keys);
/// A script starts trainings that differ, so that no one of them is its job.
[[nodiscard]] Error several_trainings(const std::string& path, const std::string& where);

/// Whether values say the same in other letters: `True` and `true` and `1`, `1e-5` and `0.00001`.
[[nodiscard]] bool say_the_same(std::span<const std::string> some, std::span<const std::string> others);
/// Whether a value is one of YAML's and hydra's words for yes.
[[nodiscard]] bool is_true(const StatedValue& value);
/// Whether a value is one of the words for no, or for nothing at all.
[[nodiscard]] bool is_false(const StatedValue& value);
/// Keys without those whose value is none: such an override takes back what lies below it.
[[nodiscard]] StatedKeys without_nulls(StatedKeys keys);
/// The keys that start so, without that start.
[[nodiscard]] StatedKeys keys_under(const StatedKeys& keys, std::string_view prefix);
/// An integer's value; 0: not stated.
[[nodiscard]] int number_of(const StatedKeys& keys, std::string_view key);
/// What is wrong with a key whose number is counted with and that holds none, as `1024x`, or none that can be known, as
/// `${LENGTH}`: its default would stand in. `asked_elsewhere`: the latter is asked for as if no file stated it.
[[nodiscard]] std::optional<Error> no_number(const StatedKeys& keys, std::string_view key,
                                             bool asked_elsewhere = false);
/// `bf16`, `fp16` or `fp32`, under any of the names that configurations have for it; empty: none of them.
[[nodiscard]] std::string_view number_format(std::string_view word);
/// A key's first word; empty: not stated.
[[nodiscard]] std::string word_of(const StatedKeys& keys, std::string_view key);
/// Whether a key is stated with a word for yes.
[[nodiscard]] bool is_on(const StatedKeys& keys, std::string_view key);
/// Where a key is stated; empty: nowhere.
[[nodiscard]] std::string where_of(const StatedKeys& keys, std::string_view key);

}  // namespace plan
