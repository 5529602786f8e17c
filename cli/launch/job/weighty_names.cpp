// What names of keys and flags say where no reader knows them: parts of words, gathered from the configurations of the
// tools that are read here. Tested by tests/launch/strict_test.cpp.
#include "cli/launch/job/weighty_names.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "cli/launch/job/keys.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/words.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// Parts of names that say memory, time or the model, and of those that say something else after all.
constexpr auto kWeighty = word_list([] {
  return "lora peft checkpointing seq_len max_len _length parallel quantiz freeze offload zero_ fsdp precision "
         "num_layer hidden_size num_head expert moe micro_batch microb batch_size recompute fp8 grad_accum "
         "accumulation_steps "
         "ulysses _degree ring_attn_size sp_size packed_sequence cp_size tp_size pp_size ep_size cuda_graph "
         "grad_checkpoint num_learners ray_num_workers sharding_strategy ssm_ mamba";
});
constexpr std::string_view kOther[] = {
    "alpha",
    "dropout",
    "kwargs",
    "path",
    "group_by",
    "eval",
    "generat",
    "penalty",
    "save",
    "bias",
    "name",
    "dir",
    "lr",
    "reward",
    "vllm",
    "prompt",
    "sglang",
    "rollout",
    "launched",
    "init",
    "weight",
    "merge",
    "target",
    "response",
    "completion",
    "plugin",
    "rslora",
    "debug",
    "dtype",
    "loss",
    "coeff",
    "log_prob",
    "logprob",
    "router",
    "dataset",
    "valid",
    "ckpt",
    "tokenizer",
    "fusion",
    "val_",
    "_val",
    "divisible",
    // what verl clears off the GPU between updates, when it trains nothing
    "param_offload",
    "grad_offload",
    "optimizer_offload",
};
/// Parts of the sections of other jobs: what generates, judges or checks beside the training.
constexpr std::string_view kElsewhere[] = {"eval",       "rollout.",   ".ref.",  "critic", "vllm",
                                           "generation", "generator.", "reward", "valid",  "dataset",
                                           "callback",   "logg",       "nsight"};

/// Of a model beside the trained one, and of what is done with the trained one afterwards: their degrees are not the
/// job's. `run.` and `value.` are whole sections, since other names hold these words, too.
constexpr std::string_view kBeside[] = {"teacher", "draft", "inference", "export", "convert", "conversion"};
constexpr std::string_view kBesideSections[] = {"run", "value"};
/// How the names of arguments begin that are about a model beside the trained one, which stays as it is.
constexpr std::string_view kOtherModels[] = {"teacher_", "ref_",    "reference_", "reward_", "rm_",   "judge_",
                                             "draft_",   "scorer_", "verifier_",  "eval_",   "vllm_", "inference_"};
/// The same of the other parts of a job of RL, whose ranks are not the trained model's.
constexpr std::string_view kOtherRoles[] = {"critic_", "rollout_", "sglang_"};

bool starts_with_any(std::string_view name, const auto& starts) {
  return std::any_of(std::begin(starts), std::end(starts),
                     [&](std::string_view start) { return name.starts_with(start); });
}

std::string_view last_part(std::string_view key) {
  return key.substr(key.rfind('.') == std::string_view::npos ? 0 : key.rfind('.') + 1);
}

bool is_beside(const std::string& name) {
  const std::string_view last = last_part(name);
  return holds_any(name, kBeside) || starts_with_any(last, kOtherModels) || starts_with_any(last, kOtherRoles) ||
         std::any_of(std::begin(kBesideSections), std::end(kBesideSections),
                     [&](std::string_view section) { return name.substr(0, name.find('.')) == section; });
}

/// The first parts between dots in which two keys differ.
std::pair<std::string_view, std::string_view> first_difference(std::string_view a, std::string_view b) {
  const auto part = [](std::string_view key) { return key.substr(0, key.find('.')); };
  while (part(a) == part(b) && part(a).size() < a.size() && part(b).size() < b.size())
    a.remove_prefix(part(a).size() + 1), b.remove_prefix(part(b).size() + 1);
  return {part(a), part(b)};
}

/// Do the names differ by words that come in pairs, or by a digit? Then neither is a misspelling of the other:
/// `min_seq_length` is not meant to be `max_seq_length`.
bool both_are_words(std::string_view a, std::string_view b) {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"min", "max"}, {"in", "out"}, {"pre", "post"}, {"up", "down"}, {"start", "stop"}, {"no", "use"}};
  for (const auto& [one, other] : kPairs)
    for (const auto& [x, y] : {std::pair{one, other}, std::pair{other, one}})
      if (const std::size_t at = a.find(x);
          at != std::string_view::npos && b.substr(std::min(at, b.size())).starts_with(y))
        return true;
  const auto without_digits = [](std::string_view text) {
    std::string out(text);
    std::erase_if(out, [](char c) { return c >= '0' && c <= '9'; });
    return out;
  };
  return without_digits(a) == without_digits(b);
}

/// Beginnings of names that concern data, logging, checkpoints, evaluation, rollouts and schedules of the rate.
constexpr auto kHarmlessStarts = word_list([] {
  return "sglang- rollout- wandb use-wandb eval- log- logging lr- tensorboard save- ckpt data- dataset train- "
         "valid- test- kl- eps- rm- update-weight custom- debug- tokenizer patch-tokenizer profile num-workers "
         "prompt input- label- dist rdzv top- temperature n-samples num-rollout entropy advantage reward "
         "metadata apply-chat text- out-seq repetition ref-load load- no-load no-save rope- beta- original- "
         "epoch seed swanlab resume cache- index-n codecarbon universal-checkpoint master_ node_ nnodes nproc "
         "use-fused random- loss-mask loss-type over-sampling dynamic-sampling opd- use-opd tis- num-epoch "
         "num-steps-per use-kl mtp-loss lm- warmup start- name project run-name";
});

/// Two letters beside each other in the other order: `otpim`.
bool is_by_a_swap(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin());
  return a.end() - x > 1 && x[0] == y[1] && x[1] == y[0] && std::equal(x + 2, a.end(), y + 2);
}

/// `tensor_parallel_size`, `context_parallelism`, `ulysses_degree`: an axis, and behind it that ranks are counted. What
/// else may follow is a size of something else: `sequence_parallel_fpdt_chunk_size`.
bool counts_ranks(std::string_view name) {
  constexpr std::string_view kAxes[] = {"parallel", "ulysses", "ring_attn"};
  constexpr std::string_view kBetween[] = {"_model", "_world", "_group", "_shard", "_replicate", "_replica", "_inner"};
  constexpr std::string_view kRanks[] = {"", "_size", "_degree", "_dim"};
  std::size_t behind = 0;
  for (const std::string_view axis : kAxes)
    if (const std::size_t at = name.rfind(axis); at != std::string_view::npos)
      behind = std::max(behind, at + axis.size());
  if (behind == 0) return false;
  name.remove_prefix(behind);
  if (name.starts_with("ism")) name.remove_prefix(3);
  for (const std::string_view between : kBetween)
    if (name.starts_with(between)) name.remove_prefix(between.size());
  return std::find(std::begin(kRanks), std::end(kRanks), name) != std::end(kRanks);
}

/// A number of samples, or of something else that is no sequence: `data_length`, but not `max_data_length`.
bool counts_no_tokens(std::string_view last) {
  constexpr std::string_view kWhat[] = {"data",   "dataset", "epoch", "episode", "vocab", "vocabulary",
                                        "hidden", "history", "queue", "prefix",  "bucket"};
  for (const std::string_view ending : {"_length", "_len"})
    if (last.ends_with(ending)) {
      last.remove_suffix(ending.size());
      const std::string_view word = last.substr(last.rfind('_') == std::string_view::npos ? 0 : last.rfind('_') + 1);
      return last.find("max") == std::string_view::npos &&
             std::find(std::begin(kWhat), std::end(kWhat), word) != std::end(kWhat);
    }
  return false;
}

}  // namespace

bool is_slip(std::string_view key, std::span<const std::string_view> known) {
  const auto swaps = [&](std::string_view name) {  // not `lr` for `rl`, which are words of their own
    return is_by_a_swap(key, name) && first_difference(key, name).first.size() > 4;
  };
  if (std::any_of(known.begin(), known.end(), swaps) && std::find(known.begin(), known.end(), key) == known.end())
    return true;
  const std::string near = key.size() < 5 ? std::string() : nearest_name(key, known);
  if (near.empty() || near == key) return false;
  const auto [part, meant] = first_difference(key, near);
  const std::size_t most = part.size() >= 8 ? 2 : part.size() >= 5 ? 1 : 0;
  return edit_distance(near, key) <= most && !both_are_words(part, meant);
}

bool is_of_another_model(std::string_view name) { return starts_with_any(name, kOtherModels); }

bool sounds_weighty(std::string_view key) {
  const std::string name = with_underscores(lowered(std::string(key)));
  const std::string last(last_part(name));
  // GPUs that a part of the job has are the trained model's no longer, whatever that part does with them. `gpus` and
  // `num_gpus_per_node` are the job's, `actor_` and `ref_` a trainer's that is read.
  constexpr std::string_view kWhole[] = {"gpus", "num_gpus", "n_gpus", "actor_", "ref_"};
  if (last.find("gpus") != std::string::npos)
    return std::none_of(std::begin(kWhole), std::end(kWhole), [&](auto start) { return last.starts_with(start); }) &&
           !holds_any(name, kElsewhere);
  return holds_any(last, kWeighty) && !holds_any(last, kOther) && !holds_any(name, kElsewhere) &&
         !counts_no_tokens(last);
}

bool sounds_like_length(std::string_view key, std::string_view value) {
  constexpr std::string_view kLength[] = {"length", "_len", "maxlen", "max_tokens"};
  constexpr std::string_view kNoLength[] = {"penalty", "group_by", "min_", "warmup", "log", "save", "split"};
  if (value.empty() || value.find_first_not_of("0123456789") != std::string_view::npos) return false;
  const std::string name = with_underscores(lowered(std::string(key)));
  const std::string last(last_part(name));
  return holds_any(last, kLength) && !holds_any(last, kNoLength) && !holds_any(name, kElsewhere) && !is_beside(name) &&
         !counts_no_tokens(last);
}

Degree degree_in(std::string_view key, std::string_view value) {
  constexpr std::string_view kShort[] = {"tp_size",   "pp_size",   "cp_size",   "ep_size",   "sp_size",
                                         "tp_degree", "pp_degree", "cp_degree", "ep_degree", "sp_degree"};
  if (value.size() > 6 || value.find_first_not_of("0123456789") != std::string_view::npos || value.empty() ||
      value.find_first_not_of('0') == std::string_view::npos || value == "1")
    return Degree::None;
  const std::string name = with_underscores(lowered(std::string(key)));
  const std::string last(last_part(name));
  const auto ends = [&](std::string_view ending) { return last.ends_with(ending); };
  const bool degree = std::any_of(std::begin(kShort), std::end(kShort), ends) || counts_ranks(last);
  const bool copies = last.starts_with("dp_") ||
                      (last.find("data_parallel") != std::string::npos && last.find("shard") == std::string::npos);
  if (!degree || copies || holds_any(last, kOther) || holds_any(name, kElsewhere)) return Degree::None;
  return is_beside(name) ? Degree::Beside : Degree::OfTheJob;
}

bool states_degree(std::string_view key, std::string_view value) { return degree_in(key, value) == Degree::OfTheJob; }

bool says_nothing(std::string_view key, std::string_view value) {
  const std::string name = with_underscores(lowered(std::string(key)));
  const std::string_view last = last_part(name);
  // A switch that is off says that what it would switch off is on: `nolora: false` trains adapters.
  constexpr std::string_view kNot[] = {"no_", "not_", "nolora", "nopeft", "disable_", "without_"};
  const bool negated =
      std::any_of(std::begin(kNot), std::end(kNot), [&](std::string_view start) { return last.starts_with(start); });
  return negated ? truth_of(value).value_or(false) : switched_off(value);
}

bool switched_off(std::string_view value) {
  const std::string word = lowered(std::string(value));
  return word.empty() || word == "none" || word == "null" || word == "~" || !truth_of(word).value_or(true);
}

bool sounds_harmless(std::string_view name) {
  // These start the names of data sets and schedules, and of data parallelism and batches.
  for (const std::string_view start : {"data-", "train-"})
    if (name.starts_with(start) && sounds_weighty(name)) return false;
  return std::any_of(std::begin(kHarmlessStarts), std::end(kHarmlessStarts),
                     [&](std::string_view start) { return name.starts_with(start); });
}

}  // namespace plan
