// The arguments that Megatron-LM prints when a job starts, between `--- arguments ---` and `--- end of arguments ---`:
// every argument under its name in the program, set by the user or not. Only what a user would have to write to get the
// same is taken: switches that are on, values that are there, and nothing of parts that the model does not have.
// Tested by tests/launch/megatron_log_test.cpp.
#include "cli/launch/megatron/log.hpp"
#include "cli/launch/job/keys.hpp"
#include "cli/launch/job/weighty_names.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "cli/launch/megatron/counted.hpp"
#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/fork_flags.hpp"
#include "cli/launch/megatron/megatron.hpp"
#include "cli/settings/settings.hpp"
#include "formulas/keep_errors.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostHead = std::size_t{64} << 20;  // of a log, in which the arguments have to be
constexpr std::size_t kLongestLine = 4096;

bool opens(std::string_view line) {
  return line.find("- arguments -") != std::string_view::npos && line.find("end of") == std::string_view::npos;
}
bool closes(std::string_view line) { return line.find("- end of arguments -") != std::string_view::npos; }

struct Printed {
  std::string name{}, value{};
  int line = 0;
};

/// "  tensor_model_parallel_size ...................... 8", whatever a launcher writes before it.
std::optional<Printed> printed(std::string_view line, int number) {
  std::size_t dots = line.find(" ..");
  if (dots == std::string_view::npos) dots = line.find(" . ");
  std::size_t value = dots == std::string_view::npos ? dots : line.find_first_not_of('.', dots + 1);
  if (dots == std::string_view::npos) {  // a name of more than 48 letters has two blanks and no dots
    dots = line.find_last_not_of(" \r");
    dots = dots == std::string_view::npos ? dots : line.rfind("  ", dots);
    value = dots;
  }
  if (dots == std::string_view::npos || value == std::string_view::npos) return std::nullopt;
  std::size_t begin = dots;
  while (begin > 0 && line[begin - 1] != ' ') --begin;
  const std::size_t last = line.find_last_not_of(" \r");
  value = line.find_first_not_of(' ', value);
  if (begin == dots || value == std::string_view::npos || last < value) return std::nullopt;
  return Printed{std::string(line.substr(begin, dots - begin)), std::string(line.substr(value, last - value + 1)),
                 number};
}

std::vector<Printed> logged_arguments(const std::string& text) {
  std::vector<Printed> all;
  bool inside = false;
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (inside && closes(line)) break;
    if (inside && all.size() < kMostKeys)
      if (std::optional<Printed> one = printed(line, number)) all.push_back(std::move(*one));
    inside = inside || opens(line);
  }
  return all;
}

std::string printed_value(const std::vector<Printed>& all, std::string_view name) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const Printed& p) { return p.name == name; });
  return found == all.end() ? std::string() : found->value;
}

/// Arguments of a part that a model may lack, and the one that says whether it has it. Their values are printed all the
/// same, and the program itself rejects some of them where a user writes them.
struct Part {
  std::string_view prefix, has;
};
constexpr Part kParts[] = {
    {"moe_", "num_experts"},
    {"expert_", "num_experts"},
    {"q_lora_rank", "multi_latent_attention"},
    {"kv_lora_rank", "multi_latent_attention"},
    {"qk_head_dim", "multi_latent_attention"},
    {"qk_pos_emb_head_dim", "multi_latent_attention"},
    {"v_head_dim", "multi_latent_attention"},
    {"rotary_scaling_factor", "multi_latent_attention"},
    {"mscale", "multi_latent_attention"},
    {"num_query_groups", "group_query_attention"},
    {"mamba_", "is_hybrid_model"},
    {"hybrid_", "is_hybrid_model"},
    {"fp8_", "fp8"},
    {"fp4_", "fp4"},
    {"mtp_", "mtp_num_layers"},
    {"cuda_graph_", "enable_cuda_graph"},
    {"recompute_", "recompute_granularity"},
};

bool absent(std::string_view value) { return value.empty() || value == "None" || value == "False" || value == "[]"; }

bool left_out(const std::vector<Printed>& all, const std::string& name) {
  // Of other programs that share the parser, computed by this one, or where this rank runs.
  for (const char* other :
       {"encoder_", "biencoder_", "bert_", "dino_", "ict_", "retro_", "img_", "inference_",
        "num_layers_per_virtual_pipeline_stage", "rank", "local_rank", "vocab_size", "lazy_mpu_init"})
    if (name == other || (std::string_view(other).ends_with("_") && name.starts_with(other))) return true;
  for (const Part& part : kParts)
    if (name != part.has && name.starts_with(part.prefix) && absent(printed_value(all, part.has)) &&
        !(part.has == "enable_cuda_graph" && !absent(printed_value(all, "external_cuda_graph"))))
      return true;
  return false;
}

/// The flag that gives a printed name its value; empty if none does.
std::string flag_of(const Printed& p) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"fp8", "fp8-format"},
      {"fp4", "fp4-format"},
      {"padded_vocab_size", "vocab-size"},
      {"virtual_pipeline_model_parallel_size", "num-virtual-stages-per-pipeline-rank"},
  };
  for (const auto& [name, flag] : kNames)
    if (p.name == name) return std::string(flag);
  return with_dashes(p.name);
}

/// `1.0` as the `1` that a command line has.
std::string whole(const std::string& value) {
  return value.size() > 2 && value.ends_with(".0") && value.find_first_not_of("0123456789.") == std::string::npos
             ? value.substr(0, value.size() - 2)
             : value;
}

/// Words of `['a', 'b']`, `AttnBackend.auto` and `torch.bfloat16` as a command line has them.
std::vector<std::string> words_of(std::string value) {
  for (const char* prefix : {"AttnBackend.", "torch."})
    if (value.starts_with(prefix)) value = value.substr(std::string_view(prefix).size());
  if (!value.starts_with('[')) return {whole(value)};
  std::vector<std::string> words(1);
  for (const char c : value) {
    if (c == '[' || c == ']' || c == '\'' || c == '"' || c == ' ') continue;
    if (c == ',')
      words.emplace_back();
    else
      words.back().push_back(c);
  }
  std::erase(words, "");
  return words;
}

/// The words of a command that prints the same. `unknown` are switches that are on and that nobody knows here.
std::vector<ShellWord> command_of(const std::vector<Printed>& all, std::vector<std::string>& unknown) {
  std::vector<ShellWord> words;
  for (const Printed& p : all) {
    if (p.value == "False") {
      if (const std::string_view off = flag_of_false(p.name); !off.empty())
        words.push_back({"--" + std::string(off), p.line});
      continue;
    }
    if (absent(p.value) || left_out(all, p.name)) continue;
    if (p.name == "virtual_pipeline_model_parallel_size" && p.value == "1") continue;
    const std::string flag = flag_of(p);
    const MegatronFlag* known = find_megatron_flag(flag);
    const ForkFlag* own = known == nullptr ? find_fork_flag(flag) : nullptr;
    if (known == nullptr && own == nullptr) {
      if (p.value == "True" && flag_of_false(p.name).empty() && !sounds_harmless(flag)) unknown.push_back(p.name);
      continue;
    }
    // What a fork prints of its own parts at one or none is off.
    if (own != nullptr && own->meaning == ForkFlag::Meaning::Weighs && (whole(p.value) == "0" || whole(p.value) == "1"))
      continue;
    const int values = known != nullptr ? known->values : own->values;
    if ((p.value == "True") != (values == 0)) continue;
    words.push_back({"--" + flag, p.line});
    if (values == 0) continue;
    for (std::string& word : words_of(p.value)) words.push_back({std::move(word), p.line});
  }
  return words;
}

}  // namespace

std::optional<std::string> printed_arguments(const std::string& path) {
  std::error_code status;
  if (!std::filesystem::is_regular_file(path, status)) return std::nullopt;  // a pipe can be read only once
  std::ifstream in(path, std::ios::binary);
  std::array<char, kLongestLine> buffer{};
  std::string text;
  std::size_t read = 0;
  bool inside = false;
  // Progress bars rewrite one line for as long as a job runs: of a line no more is kept than the buffer holds.
  while (read < kMostHead && (in.getline(buffer.data(), buffer.size()) || in.gcount() > 0)) {
    const std::string line(buffer.data());
    read += static_cast<std::size_t>(in.gcount());
    if (in.fail() && !in.eof()) {
      in.clear();
      in.ignore(static_cast<std::streamsize>(kMostHead), '\n');
      read += static_cast<std::size_t>(in.gcount());
    }
    inside = inside || opens(line);
    // Lines before keep their number, so that a place in the log can be named.
    text += inside ? line + "\n" : "\n";
    if (inside && closes(line)) return text;
  }
  return std::nullopt;
}

bool is_megatron_log(const LaunchSource& source) {
  return source.text.find("- end of arguments -") != std::string::npos &&
         source.text.find("tensor_model_parallel_size ..") != std::string::npos;
}

Result<LaunchJob> read_megatron_log(std::span<const LaunchSource> files, const LaunchFacts& facts) {
  const LaunchSource& source = files.front();
  const std::vector<Printed> all = logged_arguments(source.text);
  Errors errors;
  std::vector<Note> notes;
  std::vector<std::string> unknown;
  MegatronArgs args = read_megatron_words(command_of(all, unknown), source.path, errors, notes, true);
  args.states_environment = false;
  settle_forks(args);
  LaunchFacts known = facts;
  if (const std::string world = printed_value(all, "world_size"); known.total == 0 && !world.empty()) {
    const long ranks = std::atol(world.c_str());
    if (ranks > 0 && ranks <= kMostGpus) known.total = static_cast<int>(ranks);
  }
  Result<LaunchJob> job = megatron_job(args, known);
  keep_errors(errors, job);
  if (!errors.empty()) return fail(std::move(errors));
  job->format = "megatron-log";
  if (!unknown.empty())
    job->notes.push_back(
        {"flags_left_out", fmt::format("{}: on, and unknown to plan: {}", source.path, fmt::join(unknown, ", "))});
  job->notes.insert(job->notes.begin(), notes.begin(), notes.end());
  return job;
}

}  // namespace plan
