// The screen of `plan probe --check`. Tested by tests/hwprobe/check_test.cpp with tests/hwprobe/check.
#include "cli/report/probe/probe_check.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "cli/report/plan/json.hpp"
#include "cli/terminal/format.hpp"

namespace plan {
namespace {

constexpr int kIndent = 10;

/// What ranks have in common more often than not, in lines of their own above the table.
std::string software_text(const CheckedRank& rank) {
  const RankCheck& c = rank.check;
  std::string text =
      fmt::format("{:<{}}{}\n", "GPU", kIndent, rank.hello.gpu_name.empty() ? "none" : rank.hello.gpu_name);
  text += fmt::format("{:<{}}{}", "driver", kIndent, rank.hello.driver.empty() ? "none" : rank.hello.driver);
  if (!c.cuda.empty()) text += fmt::format(", runs CUDA up to {}", c.cuda);
  text += c.toolkit.empty()
              ? "; no plugin"
              : fmt::format("; plugin built with {} {}", c.maker == Maker::Amd ? "ROCm" : "CUDA", c.toolkit);
  text += "\n";
  for (const Vendor vendor : vendors_of(c.maker)) {
    const VendorLibrary& library = c.libraries[static_cast<std::size_t>(vendor)];
    const std::string version = library.version.empty() ? "" : library.version + "  ";
    text += library.missing.empty() ? fmt::format("{:<{}}{}{}\n", name(vendor, c.maker), kIndent, version, library.path)
                                    : fmt::format("{:<{}}none\n", name(vendor, c.maker), kIndent);
  }
  return text + fmt::format("{:<{}}{}\n", "RDMA", kIndent, c.rdma.empty() ? "not seen" : c.rdma);
}

/// "0-3, 8".
std::string ranks_text(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (end > i) text += fmt::format("-{}", numbers[end]);
    i = end + 1;
  }
  return text;
}

std::string software_of_all(const std::vector<CheckedRank>& ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (const CheckedRank& rank : ranks) {
    const std::string text = software_text(rank);
    const auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == text; });
    if (same == groups.end())
      groups.push_back({text, {rank.number}});
    else
      same->second.push_back(rank.number);
  }
  std::string text;
  for (auto& [software, numbers] : groups) {
    std::sort(numbers.begin(), numbers.end());
    if (groups.size() > 1) text += fmt::format("rank{} {}\n", numbers.size() == 1 ? "" : "s", ranks_text(numbers));
    text += software + "\n";
  }
  return text;
}

/// At most `width` columns, the rest cut off.
std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

/// "mlx5_0 400", or "mlx5_0 +3" of several.
std::string adapters_text(const std::string& all) {
  if (all.empty()) return "none";
  const auto more = std::count(all.begin(), all.end(), ',');
  return cut(more == 0 ? all : fmt::format("{} +{}", all.substr(0, all.find(' ')), more), 10);
}

std::string rank_line(const CheckedRank& rank) {
  const RankHello& h = rank.hello;
  const RankCheck& c = rank.check;
  const auto number = [](int value) { return value < 0 ? std::string("-") : std::to_string(value); };
  const std::string use = h.gpu < 0 ? "-" : h.busy.empty() ? "idle" : "busy";
  return fmt::format("{:>4}  {:<10}{:>4}  {:<12} {:>4} {:>5}  {:<10} {:>8}  {:<4}  {}\n", rank.number, cut(h.host, 10),
                     number(h.gpu), h.gpu_uuid.empty() ? "-" : h.gpu_uuid.substr(0, 12), number(c.numa),
                     number(h.processors > 0 ? h.processors : -1), adapters_text(c.adapters),
                     c.total_gib > 0 ? number_text(c.free_gib, 3) : "-", use, cut(c.visible, 12));
}

}  // namespace

bool would_measure(const std::vector<CheckFinding>& findings) {
  return std::none_of(findings.begin(), findings.end(), [](const CheckFinding& f) { return f.stops; });
}

std::string check_text(const std::vector<CheckedRank>& ranks, const std::vector<CheckFinding>& findings,
                       const Terminal& terminal) {
  std::string text = software_of_all(ranks);
  text += paint(terminal, Style::Dim,
                fmt::format("{:>4}  {:<10}{:>4}  {:<12} {:>4} {:>5}  {:<10} {:>8}  {:<4}  {}", "rank", "host", "GPU",
                            "UUID", "NUMA", "cores", "adapter", "free GiB", "use", "visible")) +
          "\n";
  for (const CheckedRank& rank : ranks) text += rank_line(rank);
  text += "\n";
  for (const CheckFinding& f : findings) {
    const auto [word, style] = f.stops ? std::pair("stops:", Style::Bad) : std::pair("warning:", Style::Warn);
    const std::string_view plain(word);
    const std::string line =
        wrap(fmt::format("{:<{}}{}: {}", word, kIndent, f.where, f.text), terminal.width, kIndent, 0);
    text += paint(terminal, style, word) + line.substr(plain.size()) + "\n";
    if (!f.help.empty()) text += std::string(kIndent, ' ') + wrap(f.help, terminal.width, kIndent) + "\n";
  }
  if (!findings.empty()) text += "\n";
  if (!would_measure(findings)) return text + "a probe would not work: it would end with exit status 3\n";
  return text + (findings.empty() ? "a probe would work: nothing stands in its way\n"
                                  : "a probe would work, with what the warnings say\n");
}

std::string check_json(const std::vector<CheckedRank>& ranks, const std::vector<CheckFinding>& findings) {
  Json rows = Json::array(), found = Json::array();
  for (const CheckedRank& rank : ranks) {
    const RankHello& h = rank.hello;
    const RankCheck& c = rank.check;
    Json libraries = Json::object();
    for (const Vendor vendor : vendors_of(c.maker)) {
      const VendorLibrary& library = c.libraries[static_cast<std::size_t>(vendor)];
      libraries[std::string(name(vendor, c.maker))] = {
          {"version", library.version}, {"path", library.path}, {"missing", library.missing}};
    }
    rows.push_back({{"rank", rank.number},
                    {"host", h.host},
                    {"gpu", h.gpu},
                    {"gpu_name", h.gpu_name},
                    {"gpu_uuid", h.gpu_uuid},
                    {"visible_devices", c.visible},
                    {"numa_node", c.numa},
                    {"cores", h.processors},
                    {"adapters", c.adapters},
                    {"rdma", c.rdma},
                    {"busy", h.busy},
                    {"free_memory_gib", std::round(c.free_gib * 1000) / 1000},
                    {"driver", h.driver},
                    {"driver_cuda", c.cuda},
                    {"plugin_cuda", c.maker == Maker::Amd ? "" : c.toolkit},
                    {"plugin_rocm", c.maker == Maker::Amd ? c.toolkit : ""},
                    {"libraries", std::move(libraries)}});
  }
  for (const CheckFinding& f : findings)
    found.push_back({{"code", f.code}, {"where", f.where}, {"stops", f.stops}, {"text", f.text}, {"help", f.help}});
  return dump({{"schema", "plan-probe-check/1"},
               {"works", would_measure(findings)},
               {"ranks", std::move(rows)},
               {"findings", std::move(found)}});
}

}  // namespace plan
