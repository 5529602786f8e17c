// `nvidia-smi topo -m`: who is connected to whom. It says how many GPUs a host has and which of them NVLink joins, and
// no speed. Tested by tests/hwprobe/import_test.cpp.
#include <fmt/core.h>

#include <algorithm>

#include "hwprobe/import/import.hpp"
#include "hwprobe/text.hpp"

namespace plan {
namespace {

struct Matrix {
  std::size_t headers = 0;                       ///< lines that number the columns
  std::size_t gpus = 0;                          ///< that the first of them names
  std::vector<std::vector<std::string>> rows{};  ///< of GPUs, each with its words for the others
};

Matrix gpu_rows(std::string_view text) {
  Matrix out;
  for (const std::string_view raw : lines_of(text)) {
    const std::string line = plain_line(raw);
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.size() < 2 || !words[0].starts_with("GPU")) continue;
    if (words[0] == "GPU0" && (words[1].starts_with("GPU") || words[1].starts_with("NIC") ||
                               words[1].starts_with("mlx") || words[1] == "CPU")) {
      while (out.headers == 0 && out.gpus < words.size() && words[out.gpus] == fmt::format("GPU{}", out.gpus))
        ++out.gpus;
      ++out.headers;
    } else if (words[0] == fmt::format("GPU{}", out.rows.size())) {
      out.rows.emplace_back(words.begin() + 1, words.end());
    }
  }
  return out;
}

bool nvlink(const std::string& word) {
  return word.size() > 2 && word.starts_with("NV") && number_in(std::string_view(word).substr(2)).has_value();
}

/// Size of the group of GPUs that NVLink joins, directly or through one another, with the first of them.
std::size_t joined(const std::vector<std::vector<std::string>>& rows, std::size_t first) {
  std::vector<std::size_t> group{first};
  for (std::size_t next = 0; next < group.size(); ++next)
    for (std::size_t other = 0; other < rows.size(); ++other)
      if (nvlink(rows[group[next]][other]) && std::find(group.begin(), group.end(), other) == group.end())
        group.push_back(other);
  return group.size();
}

}  // namespace

Result<std::string> import_topology(std::string_view text, const std::string& file, HardwareProfile& profile) {
  const Matrix matrix = gpu_rows(text);
  const std::vector<std::vector<std::string>>& rows = matrix.rows;
  const bool whole = rows.size() == matrix.gpus &&
                     std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return row.size() >= rows.size(); });
  if (matrix.headers > 1)
    return fail(Error{"two_reports", fmt::format("`{}` has more than one matrix", file), {}, {"one host's a file"}});
  if (rows.empty() || !whole)
    return fail(Error{"bad_table", fmt::format("`{}` is no whole matrix of `nvidia-smi topo -m`", file)});
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i][i] != "X")
      return fail(Error{"bad_table", fmt::format("`{}`: GPU{} and itself are not marked `X`", file, i)});
  static_cast<void>(add_import_source(profile, "nvidia-smi topo -m", file));
  profile.host_gpus = static_cast<int>(rows.size());
  std::size_t least = rows.size(), most = 1;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t size = joined(rows, i);
    least = std::min(least, size), most = std::max(most, size);
  }
  std::string taken = fmt::format("nvidia-smi topo -m: {} GPU{} on a host", rows.size(), rows.size() == 1 ? "" : "s");
  if (rows.size() == 1) return taken + "; no speed of anything";
  if (most == 1) taken += ", no NVLink between them";
  if (most == rows.size()) taken += fmt::format(", all joined by NVLink ({})", rows[0][1]);
  if (most > 1 && most < rows.size()) taken += fmt::format(", NVLink joins them by {}", most);
  if (most < rows.size())
    profile.warnings.push_back(
        {"NVLINK", "node",
         most == 1 ? "no two GPUs are joined by NVLink: state the tier's size and bandwidth under `tiers`"
                   : fmt::format("NVLink joins {} of {} GPUs: state the tier's size and bandwidth under `tiers`", most,
                                 rows.size())});
  return taken + "; no speed of anything";
}

}  // namespace plan
