// The flags of `plan probe`. Tested by tests/cli/probe_test.cpp.
#include "cli/request/flags/probe_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/names.hpp"
#include "hwprobe/text.hpp"
#include "presets/default_cluster.hpp"
#include "presets/hardware.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

struct ProbeDraft {
  const Args& args;
  StoreOptions store = StoreOptions::from_environment();
  ProbeOptions options{};
  Errors errors{};

  template <class T>
  std::optional<T> take(Result<T> result) {
    return value_or_errors(errors, std::move(result));
  }
};

void read_depth(ProbeDraft& draft) {
  const Args& args = draft.args;
  if (int(args.quick) + int(args.standard) + int(args.thorough) > 1)
    draft.errors.push_back({"conflicting_flags",
                            "`--quick`, `--standard` and `--thorough` name the same thing",
                            {},
                            {"give one of the three"}});
  draft.options.depth = args.thorough ? Depth::Thorough : args.standard ? Depth::Standard : Depth::Quick;
  if (args.budget.size() > 1)
    draft.errors.push_back(
        {"given_twice", fmt::format("`--budget` is given {} times", args.budget.size()), {}, {"write it once"}});
  if (!args.budget.empty()) draft.options.budget_s = draft.take(read_duration("--budget", args.budget.back()));
  if (args.timeout)
    if (const auto seconds = draft.take(read_duration("--timeout", *args.timeout))) draft.options.timeout_s = *seconds;
}

void read_formats(ProbeDraft& draft) {
  if (!draft.args.dtypes) return;
  const std::vector<std::string> known{"fp32", "fp16", "bf16", "fp8", "mxfp8", "nvfp4"};
  for (const std::string_view word : split(*draft.args.dtypes, ",")) {
    if (format_of(word) >= 0) {
      draft.options.formats.emplace_back(word);
      continue;
    }
    Error error{"unknown_dtype", fmt::format("unknown number format `{}`", yaml::printable(word))};
    if (const std::string near = nearest_name(word, known); !near.empty())
      error.help.push_back(fmt::format("a format with a similar name exists: `{}`", near));
    else
      error.help.push_back(fmt::format("known are {}", fmt::join(known, ", ")));
    draft.errors.push_back(std::move(error));
  }
}

void read_shapes(ProbeDraft& draft) {
  const Args& args = draft.args;
  if (!args.model) {
    for (const auto& [flag, value] : {std::pair("--tp", &args.tp), std::pair("--seq", &args.seq)})
      if (*value)
        draft.errors.push_back({"missing_flag",
                                fmt::format("`{}` needs the model whose shapes it divides", flag),
                                {},
                                {"add `--model 405b`"}});
    return;
  }
  if (const auto model = draft.take(load_model(*args.model, draft.store))) draft.options.model = model->value;
  if (args.seq)
    if (const auto seq = draft.take(read_count("--seq", *args.seq, 1, 1 << 24))) draft.options.tokens = *seq;
  if (args.tp) {
    for (const std::string_view word : split(*args.tp, ","))
      if (const auto tp = draft.take(read_count("--tp", word, 1, 1024)))
        draft.options.tp.push_back(static_cast<int>(*tp));
    return;
  }
  for (const int tp : {1, 2, 4, 8})
    if (draft.options.model.hidden % tp == 0) draft.options.tp.push_back(tp);
}

void read_hardware_flags(ProbeDraft& draft) {
  const Args& args = draft.args;
  if (args.gpu && args.cluster)
    draft.errors.push_back(
        {"conflicting_flags", "`--gpu` and `--cluster` name the same thing", {}, {"give one of the two"}});
  else if (args.gpu) {
    if (auto found = draft.take(load_cluster_of_gpu(*args.gpu, draft.store)))
      draft.options.expected = std::move(found->value);
  } else if (args.cluster) {
    if (auto found = draft.take(load_cluster(*args.cluster, draft.store)))
      draft.options.expected = std::move(found->value);
  }
  if (args.gpus)
    if (const auto gpus = draft.take(read_count("--gpus", *args.gpus, 1, 1 << 20)))
      draft.options.gpus = static_cast<int>(*gpus);
  if (args.gpus && !args.dry_run && !args.transport_check)
    draft.errors.push_back({"conflicting_flags",
                            "`--gpus` goes with `--dry-run` alone: a probe takes the GPUs that it finds",
                            {},
                            {"add `--dry-run`, or limit the GPUs with CUDA_VISIBLE_DEVICES"}});
}

/// Letters alone: `AllReduce`, `all-reduce` and `all_reduce_perf` are one operation.
std::string letters_of(std::string_view word) {
  if (word.ends_with("_perf")) word.remove_suffix(5);
  std::string out;
  for (const char c : word)
    if (c != '_' && c != '-' && c != ' ') out += lower_case(c);
  return out;
}

/// --op and --ranks: what results of other tools do not say.
void read_hints(ProbeDraft& draft) {
  const Args& args = draft.args;
  for (const auto& [flag, value] : {std::pair("--op", &args.op), std::pair("--ranks", &args.ranks)})
    if (*value && args.import_files.empty())
      draft.errors.push_back({"missing_flag",
                              fmt::format("`{}` says what imported results do not, and nothing is imported", flag),
                              {},
                              {"add `--import FILE`"}});
  if (args.op) {
    std::vector<std::string> known;
    for (int op = 0; op < kCollectives; ++op) known.emplace_back(name(static_cast<Collective>(op)));
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const std::string& one) { return letters_of(one) == letters_of(*args.op); });
    if (found != known.end())
      draft.options.hints.op = static_cast<Collective>(found - known.begin());
    else
      draft.errors.push_back({"unknown_op",
                              fmt::format("unknown operation `{}`", yaml::printable(*args.op)),
                              {},
                              {fmt::format("known are {}", fmt::join(known, ", "))}});
  }
  if (!args.ranks) return;
  const std::size_t by = args.ranks->find('x');
  const bool nodes = by != std::string::npos;
  const auto outer =
      nodes ? draft.take(read_count("--ranks", args.ranks->substr(0, by), 1, 1 << 16)) : std::optional(std::int64_t{1});
  const auto inner = draft.take(read_count("--ranks", nodes ? args.ranks->substr(by + 1) : *args.ranks, 1, 1 << 16));
  if (!outer || !inner) return;
  if (*outer * *inner < 2 || *outer * *inner > (1 << 16))
    draft.errors.push_back({"bad_number",
                            fmt::format("`--ranks {}` is {} ranks", yaml::printable(*args.ranks), *outer * *inner),
                            {},
                            {"a collective needs 2 to 65536: `--ranks 8`, or `--ranks 2x8` for two nodes of 8"}});
  draft.options.hints.ranks = static_cast<int>(*outer * *inner);
  draft.options.hints.nodes = static_cast<int>(*outer);
}

}  // namespace

Result<double> read_duration(std::string_view flag, std::string_view text) {
  std::size_t digits = 0;
  while (digits < text.size() && (std::isdigit(static_cast<unsigned char>(text[digits])) != 0 || text[digits] == '.'))
    ++digits;
  const auto value = number_in(text.substr(0, digits));
  std::string_view unit = text.substr(digits);
  while (unit.starts_with(' ')) unit.remove_prefix(1);
  double factor = -1;
  if (unit.empty() || unit == "s") factor = 1;
  if (unit == "ms") factor = 1e-3;
  if (unit == "min" || unit == "m") factor = 60;
  if (unit == "h") factor = 3600;
  if (value && *value > 0 && factor > 0 && *value * factor <= 86400) return *value * factor;
  return fail(Error{"bad_duration",
                    fmt::format("`{}` is no time for `{}`", yaml::printable(text), flag),
                    {},
                    {fmt::format("write {} 120s, or 5min; at most a day", flag)}});
}

Result<ProbeOptions> read_probe_options(const Args& args) {
  ProbeDraft draft{args};
  read_depth(draft);
  read_formats(draft);
  read_shapes(draft);
  read_hardware_flags(draft);
  read_hints(draft);
  if (!draft.errors.empty()) return fail(std::move(draft.errors));
  return std::move(draft.options);
}

Result<Cluster> expected_cluster(const ProbeOptions& options, const std::string& device, double memory_gib,
                                 const StoreOptions& store) {
  if (options.expected) return *options.expected;
  const std::string preset = preset_of_device(device, memory_gib, store);
  if (preset.empty()) {  // nothing to compare with; sweeps and fits start from nominal rates
    Gpu gpu;
    gpu.name = device;
    gpu.memory = round_bytes(memory_gib * kGiB);
    return default_cluster(gpu);
  }
  Result<Found<Cluster>> found = load_cluster_of_gpu(preset, store);
  if (!found) return tl::unexpected(found.error());
  return std::move(found->value);
}

SweepRequest sweep_request(const ProbeOptions& options, const Cluster& expected, int ranks, int per_node) {
  SweepRequest request{.expected = expected, .ranks = ranks, .ranks_per_node = per_node, .depth = options.depth};
  request.budget_s = options.budget_s.value_or(default_budget(options.depth, ranks, ranks / std::max(1, per_node)));
  request.formats = options.formats;
  if (request.formats.empty()) {
    request.formats = {"bf16"};
    if (expected.gpu.peak[static_cast<std::size_t>(DType::Fp8)].value > 0) request.formats.emplace_back("fp8");
  }
  request.model = options.model;
  request.tp = options.tp;
  request.tokens = options.tokens;
  return request;
}

Result<HardwareProfile> read_profile_file(const std::string& path) {
  Result<std::string> text = yaml::read_text(path);
  if (!text) return tl::unexpected(text.error());
  return read_hardware(*std::move(text), path);
}

}  // namespace plan
