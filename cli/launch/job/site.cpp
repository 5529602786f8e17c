// The file of `plan emit --site`: strict YAML whose every word is used or refused. Tested by
// tests/cli/site_test.cpp.
#include "cli/launch/job/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "presets/quantity.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

using yaml::kOptional;

constexpr double kMostHours = 1e9, kMostStorage = 1e18, kHour = 3600;
constexpr std::string_view kSbatch[] = {"partition", "account", "qos", "reservation", "constraint", "exclude"};

/// Letters that sbatch takes on a `#SBATCH` line without quotes.
bool plain(std::string_view word) {
  return !word.empty() && word.front() != '-' &&
         word.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./:,@&|[]") ==
             std::string_view::npos;
}

bool has_control(std::string_view word) {
  return std::any_of(word.begin(), word.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

bool is_variable(std::string_view word) {
  return !word.empty() && std::isdigit(static_cast<unsigned char>(word.front())) == 0 &&
         std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

/// Every scalar and list of the file under its dotted key.
void note_places(const yaml::Node& node, const std::string& key, const yaml::Reader& reader, Site& site) {
  if (node.kind != yaml::Kind::Map) {
    if (node.kind != yaml::Kind::Null) site.stated.emplace(key, reader.place(node));
    return;
  }
  for (std::size_t i = 0; i + 1 < node.items.size(); i += 2)
    note_places(node.items[i + 1], key.empty() ? node.items[i].text : key + "." + node.items[i].text, reader, site);
}

struct Reading {
  yaml::Reader& reader;
  Site& site;
  bool unrooted = false;  ///< a relative path has been refused, as others are for the same want of a work_dir

  void wrong(yaml::Map& map, std::string_view key, std::string_view wanted, std::vector<std::string> help = {}) {
    reader.error(*map.get(key, kOptional), "bad_value", fmt::format("`{}` must be {}", map.path_of(key), wanted),
                 std::move(help));
  }

  /// An absolute path; a relative one lies under work_dir.
  void path(yaml::Map& map, std::string_view key, std::string& out) {
    if (!map.text(key, out, kOptional)) return;
    if (out.empty() || has_control(out)) return wrong(map, key, "a path without control characters");
    if (out.front() == '/') return;
    if (site.work_dir.empty()) {
      if (!std::exchange(unrooted, true) && !map.has("work_dir"))
        wrong(map, key, "an absolute path, since no work_dir is stated",
              {"write `work_dir: /lustre/team/run`, under which relative paths lie"});
      return;
    }
    out = site.work_dir + "/" + out;
  }

  void work_dir(yaml::Map& root) {
    std::string& out = site.work_dir;
    if (!root.text("work_dir", out, kOptional)) return;
    if (out.empty() || out.front() != '/' || !plain(out))
      wrong(root, "work_dir", "an absolute path of letters, digits and ._-+=@:, as a line of sbatch's takes it",
            {"write `work_dir: /lustre/team/run`, the folder on the cluster where the job's files will lie"});
    while (out.size() > 1 && out.back() == '/') out.pop_back();
  }

  void slurm(yaml::Map map) {
    for (const std::string_view key : kSbatch) {
      std::string value;
      if (!map.text(key, value, kOptional)) continue;
      if (plain(value))
        site.sbatch.emplace_back(key, value);
      else
        wrong(map, key, "one word of letters, digits and ._-+=/:,@&|[]");
    }
    std::string limit;
    if (map.text("time", limit, kOptional) && !time_limit(limit))
      wrong(map, "time", "a time as sbatch writes it, from 10 minutes on", {"write `time: 24:00:00` or `2-12:00:00`"});
    map.integer("requeue", site.requeue, {0, 1e4}, kOptional);
    map.finish();
  }

  /// `[days-]hours:minutes:seconds`
  bool time_limit(std::string_view text) {
    std::array<std::int64_t, 4> parts{};  // seconds, minutes, hours, days
    std::size_t part = 3;
    const std::size_t dash = text.find('-');
    if (dash != std::string_view::npos) {
      const auto days = parse_integer(text.substr(0, dash));
      if (!days || *days < 0 || *days > 365) return false;
      parts[3] = *days, text.remove_prefix(dash + 1);
    }
    while (part > 0) {
      const std::size_t colon = part == 1 ? text.size() : text.find(':');
      if (colon == std::string_view::npos) return false;
      const auto value = parse_integer(text.substr(0, colon));
      if (!value || *value < 0 || *value > (part == 3 ? 8760 : 59)) return false;
      parts[--part] = *value;
      text.remove_prefix(std::min(text.size(), colon + 1));
    }
    site.time_limit_s = ((parts[3] * 24 + parts[2]) * 60 + parts[1]) * 60 + parts[0];
    return site.time_limit_s >= 600;
  }

  void container(yaml::Map map) {
    if (map.text("image", site.image, kOptional) && (site.image.empty() || has_control(site.image)))
      wrong(map, "image", "a name without control characters");
    for (const yaml::Node* node : map.list("mounts", kOptional)) {
      const std::string& mount = node->text;
      const std::size_t colon = mount.find(':');
      if (node->kind == yaml::Kind::Scalar && mount.starts_with('/') && colon != std::string::npos &&
          mount.size() > colon + 1 && mount[colon + 1] == '/' && !has_control(mount) &&
          mount.find(',') == std::string::npos)
        site.mounts.push_back(mount);
      else
        reader.error(*node, "bad_value", "a mount is `/on/the/node:/in/the/container`, and `:ro` behind it",
                     {"write `mounts: [/lustre:/lustre]`"});
    }
    map.finish();
  }

  void environment(yaml::Map map) {
    for (const auto& [name, value] : map.entries()) {
      if (!is_variable(name->text))
        reader.error(*name, "bad_value", fmt::format("`{}` is no name of a variable", yaml::printable(name->text)));
      else if (value->kind != yaml::Kind::Scalar)
        reader.error(*value, "bad_value", fmt::format("`{}` needs one value", name->text),
                     {"quote it where it holds a comma: \"mlx5_0,mlx5_1\""});
      else
        site.environment.emplace_back(name->text, value->text);
    }
  }

  void binding(yaml::Map map) {
    map.integer("cpus_per_gpu", site.cpus_per_gpu, {1, 1024}, kOptional);
    map.boolean("numa", site.numa, kOptional);
    map.finish();
  }

  void failures(yaml::Map map) {
    double value = 0;
    if (map.quantity("gpu_mtbf", value, Dimension::Time, {1, kMostHours * kHour}, kOptional))
      site.failures.gpu_mtbf_hours = value / kHour;
    if (map.quantity("storage", value, Dimension::ByteRate, {1, kMostStorage}, kOptional))
      site.failures.storage_bytes_per_s = value;
    map.finish();
  }

  void lines(yaml::Map& root) {
    for (const yaml::Node* node : root.list("setup", kOptional))
      if (node->kind == yaml::Kind::Scalar)
        site.setup.push_back(node->text);
      else
        reader.error(*node, "bad_value", "`setup` is a list of shell lines");
    std::string& program = site.preflight;
    if (!root.text("preflight", program, kOptional)) return;
    if (program == "off" || program == "false" || program == "no")
      program.clear();
    else if (program.empty() || has_control(program))
      wrong(root, "preflight", "the path of plan, or off");
  }
};

/// Which words a launcher has a place for.
struct Taker {
  std::string_view key;
  bool slurm, script, k8s, skypilot;
};
constexpr Taker kTakers[] = {{"work_dir", true, true, false, true},
                             {"checkpoints", true, true, true, true},
                             {"logs", true, true, false, true},
                             {"setup", true, true, false, true},
                             {"preflight", true, true, false, true},
                             {"slurm", true, false, false, false},
                             {"container.image", true, false, true, true},
                             {"container.mounts", true, false, false, false},
                             {"environment", true, true, true, true},
                             {"binding.cpus_per_gpu", true, false, false, false},
                             {"binding.numa", true, true, false, true},
                             {"failures", true, true, true, true}};

bool takes(const Taker& row, std::string_view launcher) {
  if (launcher == "slurm") return row.slurm;
  if (launcher == "k8s") return row.k8s;
  return launcher == "skypilot" ? row.skypilot : row.script;
}

}  // namespace

Result<Site> read_site(const std::string& path) {
  Result<std::string> text = yaml::read_text(path);
  if (!text) return tl::unexpected(text.error());
  const Result<yaml::Document> document = yaml::parse(*std::move(text), path);
  if (!document) return tl::unexpected(document.error());
  yaml::Reader reader(*document);
  yaml::Map root = reader.root();
  Site site;
  site.file = path;
  Reading reading{reader, site};
  reading.work_dir(root);
  reading.path(root, "checkpoints", site.checkpoints);
  reading.path(root, "logs", site.logs);
  if (site.logs.find('%') != std::string::npos)
    reading.wrong(root, "logs", "a path without `%`, which srun reads as a pattern");
  reading.lines(root);
  reading.slurm(root.map("slurm", kOptional));
  reading.container(root.map("container", kOptional));
  reading.environment(root.map("environment", kOptional));
  reading.binding(root.map("binding", kOptional));
  reading.failures(root.map("failures", kOptional));
  root.finish();
  if (reader.failed()) return fail(reader.take());
  note_places(document->root, "", reader, site);
  return site;
}

Errors unused_by(const Site& site, std::string_view launcher) {
  Errors errors;
  for (const auto& [key, place] : site.stated)
    for (const Taker& row : kTakers) {
      const bool same = key == row.key || (key.starts_with(row.key) && key[row.key.size()] == '.');
      if (!same || takes(row, launcher)) continue;
      errors.push_back({"not_expressible",
                        fmt::format("`{}` has no place under `--launcher {}`", key, launcher),
                        {},
                        {fmt::format("take `{}` out of the site file, or write `--launcher slurm`", key)},
                        place});
    }
  if (launcher != "k8s" && site.work_dir.empty())
    errors.push_back(
        {"missing_key",
         "the site file states no `work_dir`",
         {},
         {"write `work_dir: /lustre/team/run`, the folder on the cluster where the job's files will lie"}});
  if (launcher == "k8s" && site.checkpoints.empty())
    errors.push_back(
        {"missing_key", "the site file states no `checkpoints`", {}, {"write `checkpoints: /mnt/checkpoints`"}});
  return errors;
}

Errors clashes(const Site& site, const std::vector<std::pair<std::string, std::string>>& environment) {
  constexpr std::string_view kRanks[] = {"RANK",        "LOCAL_RANK",  "WORLD_SIZE", "LOCAL_WORLD_SIZE",
                                         "MASTER_ADDR", "MASTER_PORT", "NODE_RANK"};
  Errors errors;
  for (const auto& [name, value] : site.environment) {
    const auto found = site.stated.find("environment." + name);
    const Place place = found != site.stated.end() ? found->second : Place{};
    if (std::find(std::begin(kRanks), std::end(kRanks), name) != std::end(kRanks) || name.starts_with("SLURM_"))
      errors.push_back({"conflicting_keys",
                        fmt::format("`{}` is the launcher's to set", name),
                        {},
                        {fmt::format("take `environment.{}` out", name)},
                        place});
    // Ranks of FSDP hang with one hardware queue, the others overlap nothing without it.
    const auto stated = [variable = name](const auto& own) { return own.first == variable; };
    if (name == "CUDA_DEVICE_MAX_CONNECTIONS" && std::none_of(environment.begin(), environment.end(), stated))
      errors.push_back({"conflicting_keys",
                        fmt::format("the plan leaves {} unset", name),
                        {},
                        {fmt::format("take `environment.{}` out", name)},
                        place});
    for (const auto& [own, needed] : environment)
      if (own == name && needed != value)
        errors.push_back({"conflicting_keys",
                          fmt::format("the plan needs {}={}, and the site file sets it to `{}`", name, needed,
                                      yaml::printable(value)),
                          {},
                          {fmt::format("take `environment.{}` out", name)},
                          place});
  }
  return errors;
}

}  // namespace plan
