// Nodes and GPUs that launchers state. Tested by tests/frameworks/framework_files_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "cli/launch/job/format.hpp"
#include "cli/launch/scripts/launcher_commands.hpp"
#include "cli/launch/scripts/pods.hpp"
#include "cli/launch/scripts/script_words.hpp"
#include "cli/shell/shell.hpp"
#include "cli/shell/statements.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "formulas/words.hpp"
#include "presets/entries.hpp"
#include "presets/hardware.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

using shell::behind_kind;
using shell::count_of;

/// A part of a GPU, as MIG names it: `3g.40gb` behind the name of the whole.
bool is_slice(std::string_view kind) {
  const std::size_t dot = kind.find("g.");
  return dot != std::string_view::npos && dot > 0 && std::isdigit(static_cast<unsigned char>(kind[dot - 1])) != 0 &&
         kind.ends_with("gb");
}

/// The preset of that name; empty if there is none.
std::string preset_called(std::string_view word) {
  const std::optional<PresetEntry> entry = find_entry(PresetKind::Gpu, word, StoreOptions::from_environment());
  return entry ? entry->name : "";
}

/// A feature of nodes or a partition that begins with the name of a GPU: `a100_80g`, `v100-32g`, `h100_ib`. The preset,
/// or `other` where numbers behind the name may say another kind.
std::string preset_in_label(std::string_view label, std::string_view& other) {
  std::string word = lowered(std::string(label));
  if (std::string preset = preset_called(word); !preset.empty()) return preset;
  for (const std::string_view memory : {"b", "gb"})  // `80g` and `80` are gigabytes
    if (std::string preset = preset_called(word + std::string(memory)); !preset.empty()) return preset;
  const std::string head = word.substr(0, word.find_first_of("_-."));
  const std::string tail = word.substr(head.size());
  std::string preset = head.size() < word.size() ? preset_called(head) : "";
  if (preset.empty() || tail.find_first_of("0123456789") == std::string::npos) return preset;
  other = label;
  return "";
}

/// The GPU that a launcher's word means: a preset, or a name that has none. `h100:8`, `gpu:h100:8`; `8` and `gpu:8` say
/// nothing.
void kind_of_gpu(std::string_view text, const std::string& where, LaunchFacts& facts) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return;
  const std::string_view kind = behind_kind(text.substr(0, colon));
  if (kind == "gpu" || kind.find('$') != std::string_view::npos) return;
  std::string spaced(kind);
  std::replace(spaced.begin(), spaced.end(), '_', ' ');
  std::string preset;
  if (!is_slice(lowered(std::string(kind)))) {
    preset = preset_called(kind);
    if (preset.empty()) preset = preset_of_device(spaced, 0);
  }
  if (preset.empty())
    facts.other_gpu = std::string(kind), facts.other_gpu_where = where;
  else
    facts.gpu = std::move(preset);
}

/// `8`, `h100:8`, `gpu:8`, `gpu:h100:8`
void gpus_of(std::string_view text, const std::string& where, LaunchFacts& facts) {
  facts.gpus_per_node = count_of(behind_kind(text));
  kind_of_gpu(text, where, facts);
}

/// `a100&hbm80g`: features of nodes, of which one may be the name of a GPU.
void constraint_of(std::string_view text, const std::string& where, LaunchFacts& facts) {
  constexpr std::string_view kBetween = "&|,()[]*\"' ";
  std::string gpu;
  for (std::size_t at = text.find_first_not_of(kBetween); at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(kBetween, at), text.size());
    std::string_view other;
    if (const std::string preset = preset_in_label(text.substr(at, end - at), other); !preset.empty()) {
      if (!gpu.empty() && gpu != preset) return;  // a choice of several
      gpu = preset;
    }
    if (!other.empty() && facts.other_gpu.empty()) facts.other_gpu = std::string(other), facts.other_gpu_where = where;
    at = text.find_first_not_of(kBetween, end);
  }
  if (facts.gpu.empty()) facts.gpu = gpu;
}

/// A flag of Slurm's, of both sbatch and srun, without its dashes.
void from_slurm(std::string_view name, std::string_view value, const std::string& where, LaunchFacts& facts) {
  if (name == "nodes" || name == "N") facts.nodes = count_of(value), facts.gpus_where = where;
  if (name == "gpus-per-node") gpus_of(value, where, facts);
  if (const std::string_view gpus = name == "gres" ? shell::gpus_of_gres(value) : ""; !gpus.empty())
    gpus_of(gpus, where, facts);
  if (name == "gpus" || name == "G") {
    kind_of_gpu(value, where, facts);
    state_ranks(count_of(behind_kind(value)), where, facts);
  }
  if (name == "constraint" || name == "C") constraint_of(value, where, facts);
  if (std::string_view unsure; (name == "partition" || name == "p") && facts.gpu.empty())
    facts.gpu = preset_in_label(value, unsure);
  if (name == "ntasks-per-node" && facts.gpus_per_node == 0 && count_of(value) > 1)
    facts.gpus_per_node = count_of(value);
}

/// Flags of srun in front of a program that trains, where neither the header nor the program's launcher says: the step
/// takes from the job what it names.
void from_srun(const Script& script, const std::string& file, LaunchFacts& facts) {
  if (facts.nodes > 0 && facts.gpus_per_node > 0) return;
  for (const ShellCommand& command : script.commands) {
    std::size_t i = 0, end = 0;
    const auto name = [&](std::size_t at) { return base_name(command.words[at].text); };
    while (i < command.words.size() && name(i) != "srun") ++i;
    for (end = i; end < command.words.size() && !starts_ranks(name(end)) && !is_python(name(end));) ++end;
    if (end == command.words.size() || trains_nothing(command)) continue;
    LaunchFacts own;
    for (++i; i < end; ++i) {
      auto [flag, value, line] = flag_at(command, i);
      if (!flag.starts_with('-')) continue;
      const bool letter = !flag.starts_with("--");
      flag.erase(0, letter ? 1 : 2);
      if (letter && flag.size() > 1) value = flag.substr(1), flag.resize(1);  // -N4
      from_slurm(flag, value, fmt::format("{}:{}", file, line), own);
    }
    if (facts.nodes == 0) facts.nodes = own.nodes;
    if (facts.gpus_per_node == 0) facts.gpus_per_node = own.gpus_per_node;
    if (facts.ranks == 0) state_ranks(own.ranks, own.gpus_where, facts);
    if (facts.gpus_where.empty()) facts.gpus_where = own.gpus_where;
    if (facts.gpu.empty() && facts.other_gpu.empty())
      facts.gpu = own.gpu, facts.other_gpu = own.other_gpu, facts.other_gpu_where = own.other_gpu_where;
    return;
  }
}

/// `num_nodes: 4` of SkyPilot, `nodes: 4` of dstack: the first value of a key.
int yaml_number(const std::string& text, std::string_view key) {
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + 1)) {
    const bool starts = at == 0 || text[at - 1] == ' ' || text[at - 1] == '\n';
    std::size_t value = at + key.size();
    if (!starts || value >= text.size() || text[value] != ':') continue;
    do ++value;
    while (value < text.size() && text[value] == ' ');
    std::size_t end = value;
    while (end < text.size() && std::isdigit(static_cast<unsigned char>(text[end])) != 0) ++end;
    return count_of(std::string_view(text).substr(value, end - value));
  }
  return 0;
}

/// A file without its comments: an example in one (`# accelerators: A100:8`) states nothing.
std::string without_comments(const std::string& text) {
  std::string out;
  for (const std::string_view line : split(text, "\n")) {
    std::size_t comment = line.find('#');
    while (comment != std::string_view::npos && comment > 0 && line[comment - 1] != ' ' && line[comment - 1] != '\t')
      comment = line.find('#', comment + 1);
    out.append(line.substr(0, comment)).push_back('\n');
  }
  return out;
}

/// The kinds of GPUs that a task of SkyPilot's takes, each with its number, `H100:8`: of several it takes any one
/// (`{...}`, `any_of:`) or the first that is free (`[...]`, `ordered:`).
std::vector<std::string> skypilot_kinds(const std::string& text, const std::string& path) {
  std::vector<std::string> kinds;
  const auto add = [&](const yaml::Node& resources) {
    const yaml::Node* all = plan::value_of(resources, "accelerators");
    if (all == nullptr) return;
    if (all->kind == yaml::Kind::Scalar) kinds.push_back(all->text);
    const bool map = all->kind == yaml::Kind::Map;
    for (std::size_t i = 0; i < all->items.size(); i += map ? 2 : 1) {
      const bool counted = map && i + 1 < all->items.size() && !all->items[i + 1].text.empty();
      kinds.push_back(all->items[i].text + (counted ? ":" + all->items[i + 1].text : ""));
    }
  };
  for (const ManifestDocument& document : documents_of(text, path).all) {
    const yaml::Node* resources = plan::value_of(document.root, "resources");
    if (resources == nullptr) continue;
    add(*resources);
    for (const char* key : {"any_of", "ordered"})
      if (const yaml::Node* choices = plan::value_of(*resources, key); choices != nullptr)
        for (const yaml::Node& choice : choices->items) add(choice);
  }
  for (std::string& kind : kinds)
    if (kind.find(':') == std::string::npos) kind += ":1";
  return kinds;
}

/// A choice of several kinds: their number, where it is one, and their names, of which somebody has to choose.
void take_choice(const std::vector<std::string>& kinds, const std::string& where, LaunchFacts& facts) {
  std::vector<LaunchFacts> each(kinds.size());
  for (std::size_t i = 0; i < kinds.size(); ++i) gpus_of(kinds[i], where, each[i]);
  const auto same = [&](auto field) {
    return std::all_of(each.begin(), each.end(), [&](const LaunchFacts& one) { return one.*field == each[0].*field; });
  };
  const bool one_count = same(&LaunchFacts::gpus_per_node);
  if (one_count) facts.gpus_per_node = each[0].gpus_per_node;
  if (same(&LaunchFacts::gpu) && same(&LaunchFacts::other_gpu)) {
    facts.gpu = each[0].gpu, facts.other_gpu = each[0].other_gpu, facts.other_gpu_where = where;
    return;
  }
  facts.other_gpu_where = where;
  for (const std::string& kind : kinds)
    facts.other_gpu +=
        (facts.other_gpu.empty() ? "" : " or ") + kind.substr(0, one_count ? kind.rfind(':') : kind.npos);
}

/// SkyPilot: `accelerators: H100:8`
void from_skypilot(const std::string& text, const std::string& path, LaunchFacts& facts) {
  const std::size_t at = text.find("accelerators:");
  if (at == std::string::npos) return;
  const std::vector<std::string> kinds = skypilot_kinds(text, path);
  if (kinds.size() > 1) return take_choice(kinds, path, facts);
  if (kinds.size() == 1) return gpus_of(kinds.front(), path, facts);
  std::string value = text.substr(at + 13, text.find('\n', at) - at - 13);
  std::erase_if(value,
                [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0 || c == '"' || c == '\''; });
  if (value.empty() || value.find_first_of("{[,") != std::string::npos) return;  // a choice of several
  if (value.find(':') == std::string::npos) value += ":1";
  gpus_of(value, path, facts);
}

/// Whether a file is a task of dstack's, whoever reads its commands.
bool is_dstack_task(std::string_view text) {
  const auto states = [&](std::string_view line) {
    const std::size_t at = text.find(line);
    return at != std::string_view::npos && (at == 0 || text[at - 1] == '\n');
  };
  return states("type: task") && states("commands:");
}

/// dstack: `gpu: H100:8`, `A100:80GB:4`, `24GB`, which is one of any kind; a range of numbers is not known.
void from_dstack(const std::string& text, const std::string& path, LaunchFacts& facts) {
  const std::size_t at = text.find(" gpu: ");
  if (at == std::string::npos) return;
  std::string kind, count = "1";
  for (std::string_view word : split(trim(std::string_view(text).substr(at + 6, text.find('\n', at) - at - 6)), ":")) {
    word = trim(word, " \t\r\"'");
    if (word.ends_with("GB")) continue;  // its memory
    const bool number = !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) != 0;
    (number ? count : kind) = word;
  }
  gpus_of(kind.empty() ? count : fmt::format("{}:{}", kind, count), path, facts);
}

/// What the file says of nodes and images, also where a script was made of the command in it.
const std::string& file_text(const LaunchSource& source) {
  return source.manifest.empty() ? source.text : source.manifest;
}

/// The month in the name of NVIDIA's image for training: nvcr.io/nvidia/nemo:26.04, also as Enroot writes it. Comments
/// name none, but for Slurm's.
void from_image(const LaunchSource& source, LaunchFacts& facts) {
  constexpr std::string_view kImage = "nvidia/nemo:";
  const std::string& text = file_text(source);
  for (std::size_t at = text.find(kImage); at != std::string::npos; at = text.find(kImage, at + 1)) {
    const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
    const std::size_t first = text.find_first_not_of(" \t", line);
    if (text[first] == '#' && text.compare(first, 7, "#SBATCH") != 0) continue;
    const std::size_t tag = at + kImage.size();
    const std::string month = text.substr(tag, text.find_first_not_of("0123456789.", tag) - tag);
    if (!facts.release.empty() || month.empty()) continue;
    facts.release = month;
    facts.release_where = fmt::format(
        "{}:{}", source.path, 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
  }
}

/// `slots_per_trial: 16` of an experiment of Determined's: GPUs of all its nodes, where the command states none.
void from_determined(const LaunchSource& source, const std::string& text, LaunchFacts& facts) {
  count_commands(follow_script(source), source.path, facts);
  const int slots = yaml_number(text, "slots_per_trial");
  if (facts.gpus() > 0 || slots == 0) return;
  facts.one_node.clear();
  state_ranks(slots, source.path, facts);
}

/// `gpuCount: 8` of a task of Beaker's and its `replicas:`, where the command states no GPUs.
void from_beaker(const LaunchSource& source, const std::string& text, LaunchFacts& facts) {
  count_commands(follow_script(source), source.path, facts);
  const int gpus = yaml_number(text, "gpuCount");
  // Each of several replicas could be a job of its own.
  if (facts.nodes == 0 && pods_of(source.manifest, source.path).count > 1) facts.one_node.clear();
  if (facts.gpus_per_node > 0 || facts.ranks > 0 || gpus == 0) return;
  facts.one_node.clear();
  facts.gpus_per_node = gpus;
  if (facts.nodes == 0) facts.nodes = std::max(1, yaml_number(text, "replicas"));
  facts.gpus_where = source.path;
}

/// Lines `host slots=8`.
void from_hostfile(const std::string& text, const std::string& path, LaunchFacts& facts) {
  std::size_t hosts = 0;
  for (std::size_t at = text.find(" slots="); at != std::string::npos; at = text.find(" slots=", at + 1)) {
    const std::size_t end = text.find_first_not_of("0123456789", at + 7);
    facts.gpus_per_node =
        count_of(std::string_view(text).substr(at + 7, end == std::string::npos ? end : end - at - 7));
    ++hosts;
  }
  facts.nodes = static_cast<int>(hosts);
  facts.gpus_where = path;
  facts.one_node.clear();
}

}  // namespace

LaunchFacts launcher_facts(std::span<const LaunchSource> files) {
  LaunchFacts facts;
  for (const LaunchSource& source : files) {
    const std::string text = without_comments(file_text(source));
    from_image(source, facts);
    if (!source.manifest.empty() && text.find("apiVersion:") != std::string::npos) {
      count_pods(source, facts);
    } else if (!source.manifest.empty() && text.find("slots_per_trial:") != std::string::npos) {
      from_determined(source, text, facts);
    } else if (!source.manifest.empty() && text.find("gpuCount:") != std::string::npos) {
      from_beaker(source, text, facts);
    } else if (text.find("accelerators:") != std::string::npos && text.find("run:") != std::string::npos) {
      facts.nodes = std::max(1, yaml_number(text, "num_nodes"));
      from_skypilot(text, source.path, facts);
      facts.gpus_where = source.path;
    } else if (is_dstack_task(text)) {
      facts.nodes = std::max(1, yaml_number(text, "nodes"));
      from_dstack(text, source.path, facts);
      facts.gpus_where = source.path;
    } else if (text.find(" slots=") != std::string::npos && !source.text.starts_with("#!")) {
      from_hostfile(text, source.path, facts);
    } else if (is_shell(source) || text.find("torchrun") != std::string::npos ||
               source.text.find("#SBATCH") != std::string::npos) {
      const Script& script = follow_script(source);
      for (const ShellDirective& row : script.sbatch)
        from_slurm(row.name, row.value, fmt::format("{}:{}", source.path, row.line), facts);
      count_commands(script, source.path, facts);
      from_srun(script, source.path, facts);
    }
  }
  facts.ranks = std::max(0, facts.ranks);
  if (facts.gpus_per_node == 0 && facts.nodes > 0 && facts.ranks % facts.nodes == 0)
    facts.gpus_per_node = facts.ranks / facts.nodes;
  return facts;
}

}  // namespace plan
