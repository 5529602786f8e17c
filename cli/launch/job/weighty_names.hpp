#pragma once

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>

namespace plan {

/// Whether a name has any of these parts in it.
[[nodiscard]] bool holds_any(std::string_view name, const auto& parts) {
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

/// Whether a key that no reader knows says, by its name, memory, time or the model: `moe_offload_ratio` does,
/// `logging_steps` does not. What sounds so and is not read is named in the first lines of an answer.
[[nodiscard]] bool sounds_weighty(std::string_view key);

/// Whether the name of an argument begins as those do that are about a model beside the trained one: `ref_`,
/// `teacher_`.
[[nodiscard]] bool is_of_another_model(std::string_view name);

/// Whose ranks a key that no reader knows counts: nobody's, those of the job, or those of a model beside it.
enum class Degree { None, OfTheJob, Beside };
[[nodiscard]] Degree degree_in(std::string_view key, std::string_view value);

/// Whether a key that no reader knows splits a job over ranks, by its name and a number above 1: `pipe_parallel_size:
/// 4`. Without it the answer is another layout's, so that such a file is refused. Copies of the whole follow from the
/// other degrees and are no such key.
[[nodiscard]] bool states_degree(std::string_view key, std::string_view value);

/// Whether a key is one of `known` misspelt: a letter or two away, and no word of its own that happens to be near, as
/// `min_length` is to `max_length` and `fp16` to `bf16`.
[[nodiscard]] bool is_slip(std::string_view key, std::span<const std::string_view> known);

/// Whether a key is, by its name and a number, a length of what is trained on, a prompt's or an answer's included.
[[nodiscard]] bool sounds_like_length(std::string_view key, std::string_view value);

/// Whether a value says that its key is switched off or not stated: false, none, null, 0, or nothing.
[[nodiscard]] bool switched_off(std::string_view value);
/// Whether such a key has nothing to say: switched off, or on where it switches something off, as `no_lora: true`.
[[nodiscard]] bool says_nothing(std::string_view key, std::string_view value);
/// Whether a flag that nobody knows is, by its name, one of data, logging, checkpoints, evaluation or rollouts.
[[nodiscard]] bool sounds_harmless(std::string_view name);

}  // namespace plan
