// The words of a person, whether flags or keys of a budget, read into a request. Tested by tests/cli/resolve_test.cpp
// and tests/cli/request_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/launch/megatron/megatron.hpp"
#include "cli/request/flags/sweep_axes.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/sources/releases.hpp"
#include "cli/request/sources/request.hpp"
#include "cli/request/sources/switches.hpp"
#include "cli/request/table/args.hpp"
#include "cli/request/words/choice_words.hpp"
#include "cli/request/words/gpu_words.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "cli/terminal/bf16_layers.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/offload_flag.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/overlap.hpp"
#include "formulas/text.hpp"
#include "planner/pools/pools.hpp"
#include "planner/problem/axes.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/quantity.hpp"
#include "presets/store.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::int64_t kMostSeq = std::int64_t{1} << 27, kMostTop = 1000, kMostThreads = 4096;

/// Which flag gives the word of a key.
struct WordRow {
  std::string_view key;
  Args::Text Args::*flag;
  bool of_job;  ///< states something of the job, and so may be written in a budget
};
constexpr WordRow kWords[] = {{"model", &Args::model, true},
                              {"seq", &Args::seq, true},
                              {"global_batch", &Args::global_batch, true},
                              {"precision", &Args::precision, true},
                              {"bf16_layers", &Args::bf16_layers, true},
                              {"optimizer", &Args::optimizer, true},
                              {"task", &Args::task, true},
                              {"lora_rank", &Args::lora_rank, true},
                              {"gpus", &Args::gpus, true},
                              {"slice", &Args::slice, true},
                              {"gpu", &Args::gpu, true},
                              {"cluster", &Args::cluster, true},
                              {"profile", &Args::profile, true},
                              {"host_memory", &Args::host_memory, true},
                              {"framework", &Args::framework, true},
                              {"megatron_version", &Args::megatron_version, true},
                              {"release", &Args::release, true},
                              {"layout", &Args::layout, true},
                              {"offload", &Args::offload, true},
                              {"state_formats", &Args::state_formats, true},
                              {"cuda_graphs", &Args::cuda_graphs, true},
                              {"overlap", &Args::overlap, true},
                              {"dispatcher", &Args::dispatcher, true},
                              {"imbalance", &Args::imbalance, true},
                              {"diloco", &Args::diloco, true},
                              {"headroom", &Args::headroom, true},
                              {"objective", &Args::objective, false},
                              {"top", &Args::top, false},
                              {"threads", &Args::threads, false},
                              {"spares", &Args::spares, false}};

/// A mistake without a place of its own has its word's place.
void add_errors(const Errors& found, const Word& word, Errors& errors) {
  for (Error error : found) {
    if (error.place.file.empty()) error.place = word.place;
    errors.push_back(std::move(error));
  }
}

Error conflict(std::string message, std::string help) {
  return {"conflicting_flags", std::move(message), {}, {std::move(help)}};
}

Input input_of(std::string_view key, const Word& word, std::string text) {
  Input input{std::string(key), std::move(text), Origin::Flag};
  if (word.place.file.empty()) return input;
  input.origin = Origin::File;
  input.where = fmt::format("{}:{}", word.place.file, word.place.line);
  return input;
}

struct Reading {
  const Asked& asked;
  Request request{};
  Errors& errors;

  /// Of several values of a flag, that another command takes them.
  void refuse(std::string_view key, const Word& word, Errors found) {
    std::string flag = fmt::format("--{}", key);
    std::replace(flag.begin(), flag.end(), '_', '-');
    add_errors(word.place.file.empty() ? swept_errors(flag, word.text, std::move(found)) : found, word, errors);
  }

  /// The field from the word of its key, if there is one: `read` makes a value of the text, `print` a text of the
  /// value.
  template <class T, class Read, class Print>
  void take(std::string_view key, std::optional<Stated<T>> Request::*field, const Read& read, const Print& print) {
    const Word* word = asked.find(key);
    if (word == nullptr) return;
    auto value = read(word->text);
    if (!value) return refuse(key, *word, value.error());
    std::string text = print(*value);
    request.*field = Stated<T>{static_cast<T>(std::move(*value)), input_of(key, *word, std::move(text)), true};
  }
  /// One that reports print as it was written.
  template <class T, class Read>
  void take(std::string_view key, std::optional<Stated<T>> Request::*field, const Read& read) {
    const Word* word = asked.find(key);
    take(key, field, read, [&](const auto&) { return word->text; });
  }
  template <class T>
  void count(std::string_view key, std::string_view flag, std::optional<Stated<T>> Request::*field, std::int64_t most) {
    take(
        key, field, [&](const std::string& text) { return read_count(flag, text, 1, most); },
        [](std::int64_t value) { return fmt::format("{}", value); });
  }
  /// One of the words that the option table allows, or another name of it.
  template <class E, std::size_t N>
  void choice(std::string_view key, std::string_view flag, std::optional<Stated<E>> Request::*field,
              const Named<E> (&table)[N]) {
    take(
        key, field,
        [&](const std::string& text) {
          return read_choice(flag, text).map([&](const std::string& word) { return parse(table, word).value(); });
        },
        [&](E value) { return std::string(detail::name_in(table, value)); });
  }
};

void read_model(Reading& reading, const StoreOptions& store) {
  const Word* word = reading.asked.find("model");
  if (word == nullptr) return;
  Result<Found<Model>> found = load_model(word->text, store);
  if (!found) return reading.refuse("model", *word, found.error());
  Input input = input_of("model", *word, found->value.name);
  if (input.origin == Origin::Flag) input.where = found->origin;
  input.digest = found->digest;
  reading.request.left_out = std::move(found->left_out);
  reading.request.unpublished = std::move(found->unpublished);
  reading.request.model = {std::move(found->value), std::move(input), true};
}

/// Several kinds of GPU that a cluster's file describes, with their numbers; false if it is of one.
bool take_pools(Reading& reading, const Word& word, const StoreOptions& store) {
  Result<std::optional<Found<PooledCluster>>> found = load_pools(word.text, store);
  if (found && !*found) return false;
  if (!found) {
    add_errors(found.error(), word, reading.errors);
    return true;
  }
  PooledCluster& pools = (*found)->value;
  Request& request = reading.request;
  const int gpus = pools.gpus();
  if (request.gpus && request.gpus->value != gpus)
    add_errors({conflict(fmt::format("`--gpus {}` is not what the pools of {} have together: {}", request.gpus->value,
                                     pools.name, gpus),
                         "leave `--gpus` out: the file says how many GPUs each kind has")},
               *reading.asked.find("gpus"), reading.errors);
  const auto input = [&](const char* key, std::string value) {
    return Input{key, std::move(value), Origin::Preset, (*found)->origin};
  };
  if (!request.gpus) request.gpus = {gpus, input("gpus", fmt::format("{}", gpus)), true};
  Cluster cluster = joined(pools.pools, pools.link);
  request.gpu = input("gpu", cluster.gpu.name);
  cluster.name = pools.name;
  Input named = input_of("cluster", word, pools.name);
  if (named.origin == Origin::Flag) named.where = (*found)->origin;
  named.digest = (*found)->digest;
  request.cluster = {std::move(cluster), std::move(named), true};
  Input words = input("pools", pools_text(pools));
  request.pools = {std::move(pools), std::move(words), true};
  return true;
}

/// GPUs with their number in other words than `--gpus 8xh100-sxm`, as the value of `--gpu`, `--gpus` or `--cluster`.
bool take_counted(Reading& reading, const char* key, const Word& word, const StoreOptions& store) {
  const bool file = !word.place.file.empty();
  std::optional<Error> error = machines_or_gpus(key, word.text, store, file);
  if (!error && key != std::string_view("gpus"))
    error = number_for_kind(key, word.text, reading.asked.find("gpus") != nullptr, file, store);
  if (!error) error = number_without_kind(key, word.text, store);
  if (const auto kinds = error ? std::nullopt : several_kinds(word.text, store))
    error = refused_kinds(key, word.text, *kinds, file);
  if (error) {
    add_errors({*std::move(error)}, word, reading.errors);
    if (!reading.request.gpus) reading.request.gpus = {1, input_of("gpus", word, word.text), true};
    return true;
  }
  const auto meant = counted_gpus(word.text, store);
  if (!meant) return false;
  const bool kind_alone = key != std::string_view("gpus") && reading.asked.find("gpus") != nullptr;
  add_errors({refused_count(key, word.text, *meant, kind_alone, file)}, word, reading.errors);
  // That the number is missing is no second mistake.
  if (!reading.request.gpus) reading.request.gpus = {meant->gpus, input_of("gpus", word, word.text), true};
  return true;
}

/// --profile, --cluster or --gpu: at most one of them.
void read_hardware(Reading& reading, const StoreOptions& store) {
  const Word *profile = reading.asked.find("profile"), *cluster = reading.asked.find("cluster"),
             *gpu = reading.asked.find("gpu");
  if (int(profile != nullptr) + int(cluster != nullptr) + int(gpu != nullptr) > 1)
    return add_errors({conflict("`--gpu`, `--cluster` and `--profile` name the same thing",
                                "a cluster file says which GPU it has; give one of the three")},
                      gpu != nullptr ? *gpu : *cluster, reading.errors);
  const Word* word = profile != nullptr ? profile : cluster != nullptr ? cluster : gpu;
  if (word == nullptr || (word == cluster && take_pools(reading, *word, store))) return;
  Result<Found<Cluster>> found =
      gpu != nullptr ? load_cluster_of_gpu(word->text, store) : load_cluster(word->text, store);
  if (!found && word != profile && take_counted(reading, word == gpu ? "gpu" : "cluster", *word, store)) return;
  if (!found) return reading.refuse(word == gpu ? "gpu" : "cluster", *word, found.error());
  const auto input = [&](std::string_view key, const std::string& name, bool stated, Origin otherwise) {
    Input out{std::string(key), name, otherwise, found->origin};
    if (!stated) return out;
    out = input_of(key, *word, name);
    if (out.origin == Origin::Flag) out.where = found->origin;
    return out;
  };
  const Origin otherwise = profile != nullptr ? Origin::Profile : Origin::Preset;
  Request& request = reading.request;
  Input named =
      input("cluster", found->value.name, cluster != nullptr, profile != nullptr ? otherwise : Origin::Default);
  named.digest = found->digest;
  request.gpu = input("gpu", found->value.gpu.name, gpu != nullptr, otherwise);
  request.cluster = {std::move(found->value), std::move(named), true};
}

/// A number of GPUs in words: `16 GPUs`, `2 nodes x 8`.
bool take_worded(Reading& reading, const Word& word, const StoreOptions& store) {
  const Word* gpu = reading.asked.find("gpu");
  const auto meant = worded_count(word.text, gpu != nullptr ? gpu->text : "", store);
  if (!meant) return false;
  add_errors({refused_words(word.text, *meant, !word.place.file.empty())}, word, reading.errors);
  reading.request.gpus = {std::max(meant->gpus, 1), input_of("gpus", word, word.text), true};  // one mistake, not two
  return true;
}

/// A number, or so many of each kind: of one kind they are a number and a cluster.
void read_gpus(Reading& reading, const StoreOptions& store) {
  const Word* word = reading.asked.find("gpus");
  if (word == nullptr || take_worded(reading, *word, store)) return;
  if (const auto grouped = grouped_gpus(word->text, store)) return add_errors({*grouped}, *word, reading.errors);
  if (!names_pools(word->text)) {
    if (read_count("--gpus", word->text, 1, kMostRanks))
      return reading.count("gpus", "--gpus", &Request::gpus, kMostRanks);
    if (take_counted(reading, "gpus", *word, store)) return;
    return reading.refuse("gpus", *word, {refused_number(word->text, !word->place.file.empty())});
  }
  for (const char* key : {"gpu", "cluster", "profile"})
    if (reading.asked.find(key) != nullptr)
      return add_errors({conflict(fmt::format("`--gpus` names the kinds of GPU, and so does `--{}`", key),
                                  fmt::format("leave `--{}` out, or give `--gpus` a number", key))},
                        *word, reading.errors);
  Result<PooledCluster> read = read_pools(word->text, store);
  if (!read && take_counted(reading, "gpus", *word, store)) return;
  if (!read) return reading.refuse("gpus", *word, read.error());
  Request& request = reading.request;
  request.gpus = {read->gpus(), input_of("gpus", *word, fmt::format("{}", read->gpus())), true};
  const bool one = read->pools.size() == 1;
  Cluster cluster = one ? read->pools.front().cluster : joined(read->pools, read->link);
  Input named{"cluster", cluster.name, Origin::Default};
  request.gpu = input_of("gpu", *word, cluster.gpu.name);
  request.cluster = {std::move(cluster), std::move(named), true};
  if (!one) request.pools = {std::move(*read), input_of("pools", *word, word->text), true};
}

/// Axes for all GPUs, or for each kind of them.
void read_layouts(Reading& reading) {
  const Word* word = reading.asked.find("layout");
  if (word == nullptr || word->text.find('/') == std::string::npos)
    return reading.take("layout", &Request::layout, read_layout);
  Result<std::vector<Fixed>> read = read_pool_layouts(word->text);
  if (!read) return add_errors(read.error(), *word, reading.errors);
  reading.request.pool_layouts = {std::move(*read), input_of("layout", *word, word->text), true};
}

void read_framework(Reading& reading) {
  reading.take(
      "framework", &Request::framework,
      [](const std::string& text) {
        return read_choice("--framework", text).map([](const std::string& word) { return *find_framework(word); });
      },
      [](Framework framework) { return std::string(framework_row(framework).name); });
}

}  // namespace

const Word* Asked::find(std::string_view key) const {
  const auto found = words.find(key);
  return found == words.end() ? nullptr : &found->second;
}

const std::vector<std::string_view>& job_words() {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> out;
    for (const WordRow& row : kWords)
      if (row.of_job) out.push_back(row.key);
    return out;
  }();
  return keys;
}

Asked asked_of(const Args& args) {
  Asked asked;
  for (const WordRow& row : kWords)
    if (const Args::Text& typed = args.*row.flag) asked.words[std::string(row.key)] = {*typed, {}};
  asked.from = args.from;
  asked.arguments = args.arguments.value_or("");
  asked.takes_pools = args.verb.empty() || args.verb == "plan" || args.verb == "estimate" || args.verb == "emit";
  asked.accept_risk = args.accept_risk, asked.pareto = args.pareto, asked.per_stage = args.per_stage;
  asked.strict = args.strict;
  return asked;
}

Request read_words(const Asked& asked, Errors& errors) {
  Reading reading{asked, {}, errors};
  const StoreOptions store = StoreOptions::from_environment();
  read_model(reading, store);
  read_gpus(reading, store);
  read_hardware(reading, store);
  reading.take("host_memory", &Request::host_memory, read_host_memory,
               [](Bytes memory) { return format_quantity(static_cast<double>(memory.value), Dimension::Bytes); });
  reading.count("seq", "--seq", &Request::seq, kMostSeq);
  reading.take("global_batch", &Request::global_batch, [](const std::string& text) {
    return Result<GlobalBatch>(GlobalBatch{text, 0, {}});
  });
  reading.choice("precision", "--precision", &Request::precision, kPrecisionNames);
  reading.take("bf16_layers", &Request::bf16_layers, read_bf16_layers, bf16_layers_text);
  reading.choice("optimizer", "--optimizer", &Request::optimizer, kOptimizerNames);
  reading.choice("task", "--task", &Request::task, kTaskNames);
  read_framework(reading);
  reading.take("megatron_version", &Request::megatron_version, read_megatron_release,
               [](int minor) { return fmt::format("0.{}", minor); });
  reading.take("release", &Request::release, read_release, stack_release_text);
  reading.take("offload", &Request::offload, read_offload);
  reading.take("state_formats", &Request::state_formats, read_state_formats);
  reading.take("cuda_graphs", &Request::cuda_graphs, read_cuda_graphs);
  reading.take("overlap", &Request::overlap, read_overlap,
               [](const Overlap& overlap) { return overlap_words(overlap.parts); });
  reading.choice("dispatcher", "--dispatcher", &Request::dispatcher, kDispatcherNames);
  reading.take("imbalance", &Request::imbalance, read_imbalance);
  reading.take("diloco", &Request::diloco, read_diloco);
  reading.take("slice", &Request::slice, read_slice_word, [](const SliceShape& shape) { return slice_text(shape); });
  reading.count("lora_rank", "--lora-rank", &Request::lora_rank, 1 << 20);
  reading.choice("objective", "--objective", &Request::objective, kObjectiveNames);
  reading.take("headroom", &Request::headroom, read_headroom);
  read_layouts(reading);
  reading.count("top", "--top", &Request::top, kMostTop);
  reading.count("threads", "--threads", &Request::threads, kMostThreads);
  reading.take("spares", &Request::spares,
               [](const std::string& text) { return read_count("--spares", text, 0, kMostRanks); });
  return std::move(reading.request);
}

Request overlaid(Request base, const Request& over) {
  each_field([&](const auto& field) {
    if (over.*field.value) base.*field.value = over.*field.value;
  });
  const bool meshes = base.files && !base.files->meshes.empty();  // they lie on the pools that the words name
  if (over.model) base.left_out = over.left_out, base.unpublished = over.unpublished;
  if (over.cluster) base.gpu = over.gpu;
  if (over.cluster && !meshes) base.pools = over.pools;
  if (over.pool_layouts) base.pool_layouts = over.pool_layouts;
  if (over.files) base.files = over.files;
  return base;
}

Args asked_as(Args args, const std::vector<Input>& inputs) {
  const Input *kind = find_input(inputs, "gpu"), *usual = find_input(inputs, "cluster");
  const Input* pools = find_input(inputs, "pools");  // say kinds and numbers, and have a cluster made of them
  if (pools != nullptr && !args.gpus) args.gpus = pools->value;
  // A job that named its GPU is on what that usually comes in, which need be no cluster's preset.
  const bool by_kind = kind != nullptr && kind->origin != Origin::Preset && usual != nullptr &&
                       usual->origin == Origin::Default && pools == nullptr;
  if (by_kind && !args.gpu && !args.cluster && !args.profile) args.gpu = kind->value;
  const bool hardware = args.gpu || args.profile || pools != nullptr;
  for (const WordRow& row : kWords) {
    const bool own = row.key == "layout" || row.key == "gpu" || row.key == "profile" ||
                     (row.key == "cluster" && hardware) || (!row.of_job && row.key != "objective");
    if (own || args.*row.flag) continue;
    const Input* input = find_input(inputs, row.key);
    const bool figured = row.key == "slice" && input != nullptr && input->origin == Origin::Default;
    if (input != nullptr && !figured) args.*row.flag = input->value;
  }
  if (!args.headroom && find_input(inputs, "accept_risk") != nullptr) args.accept_risk = true;
  return args;
}

}  // namespace plan
