// Results of nccl-tests: the table that it prints, and its JSON (`-J FILE`, file version 2). Columns and keys are those
// of nccl-tests' util.cu. Tested by tests/hwprobe/import_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hwprobe/import.hpp"
#include "hwprobe/text.hpp"

namespace plan {
namespace {

using Json = nlohmann::json;
constexpr double kLargestRounding = 0.01;  // that 16-bit sums of nccl-tests' small integers show

/// "#  Rank  3 Group  0 Pid 1234 on node01 device  3 [0x1b] NVIDIA H100 80GB HBM3"
void read_rank_line(const std::vector<std::string_view>& words, NcclRun& run) {
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "on") continue;
    run.hosts.emplace_back(words[i + 1]);
    std::string device;
    bool after = false;
    for (std::size_t j = i + 2; j < words.size(); ++j) {
      if (after) device += (device.empty() ? "" : " ") + std::string(words[j]);
      if (words[j].ends_with("]")) after = true;
    }
    if (!device.empty()) run.device = device;
    return;
  }
}

/// "size count type redop root time algbw busbw #wrong ..."; older versions have no root.
bool read_result_line(const std::vector<std::string_view>& words, NcclRun& run) {
  if (words.size() < 6) return false;
  const auto bytes = number_in(words[0]), count = number_in(words[1]);
  if (!bytes || !count || number_in(words[2])) return false;
  run.dtype = std::string(words[2]);
  std::size_t at = 3;
  if (!number_in(words[at])) run.reduces = words[at++] != "none";
  // Old releases print the largest difference, rounding included, where new ones count what is wrong.
  const auto wrong = [&](double x) { return run.deltas && x < kLargestRounding ? 0 : x; };
  const auto values = [&](std::size_t i) { return i < words.size() ? number_in(words[i]).value_or(0) : 0.0; };
  // Releases before 2.9 have no column `root`, which the line above the table tells. Without it: root is a whole
  // number, as times from 10000 on are, too; those are longer.
  const bool whole = at < words.size() && words[at].find('.') == std::string_view::npos && words.size() >= at + 5;
  if (run.header ? run.root : whole && words[at].size() < 5) ++at;
  run.out_of_place.push_back({*bytes, values(at), 0});
  if (values(at + 1) > 0) run.wire_ratio = values(at + 2) / values(at + 1);
  run.wrong += wrong(values(at + 3));
  std::size_t second = at + 4;
  if (words.size() >= at + 16) second = at + 8;  // per-iteration statistics stand in between
  if (second + 2 < words.size()) {
    run.in_place.push_back({*bytes, values(second), 0});
    run.wrong += wrong(values(second + 3));
  }
  return true;
}

std::string nccl_version(int code) {
  if (code <= 0) return {};
  return code >= 10000 ? fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100)
                       : fmt::format("{}.{}.{}", code / 1000, code / 100 % 10, code % 100);
}

double value_of(const Json& row, const char* part, const char* key) {
  const auto at = row.find(part);
  if (at == row.end() || !at->is_object()) return 0;
  const auto value = at->find(key);
  return value != at->end() && value->is_number() ? value->get<double>() : 0;
}

std::string text_of(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

void read_json_row(const Json& row, NcclRun& run) {
  if (!row.is_object() || !row.contains("size") || !row["size"].is_number()) return;
  const double bytes = row["size"].get<double>();
  run.dtype = text_of(row, "type");
  run.reduces = text_of(row, "redop") != "none";
  if (run.program.empty()) run.program = text_of(row, "experiment_name");
  const double out = value_of(row, "out_of_place", "time"), in = value_of(row, "in_place", "time");
  if (out > 0) run.out_of_place.push_back({bytes, out, 0});
  if (in > 0) run.in_place.push_back({bytes, in, 0});
  if (const double alg = value_of(row, "out_of_place", "alg_bw"); alg > 0)
    run.wire_ratio = value_of(row, "out_of_place", "bus_bw") / alg;
  run.wrong += value_of(row, "out_of_place", "nwrong") + value_of(row, "in_place", "nwrong");
}

}  // namespace

Result<std::string> import_nccl_table(std::string_view text, const std::string& file, HardwareProfile& profile,
                                      const ImportHints& hints) {
  NcclRun run;
  run.rccl = text.find("rccl") != std::string_view::npos || text.find("AMD Instinct") != std::string_view::npos;
  for (const std::string_view raw : lines_of(text)) {
    const std::string line = plain_line(raw);
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.empty()) continue;
    if (words[0].starts_with("#")) {
      const auto has = [&](std::string_view word) {
        return std::find(words.begin(), words.end(), word) != words.end();
      };
      if (has("size") && has("count") && has("type"))
        run.header = true, run.root = has("root"), run.deltas = has("error");
      if (words.size() > 6 && words[1] == "Rank") read_rank_line(words, run);
      if (const std::size_t at = line.find("Collective test starting: "); at != std::string_view::npos)
        run.program = std::string(line.substr(at + 26));
      if (const std::size_t at = line.find("NCCL version "); at != std::string_view::npos)
        run.nccl = std::string(line.substr(at + 13));
    } else {
      static_cast<void>(read_result_line(words, run));
    }
  }
  return add_nccl_run(std::move(run), file, profile, hints);
}

Result<std::string> import_nccl_json(std::string_view text, const std::string& file, HardwareProfile& profile,
                                     const ImportHints& hints) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded() || !root.is_object() || !root.contains("results") || !root["results"].is_array())
    return fail(Error{"bad_json", fmt::format("`{}` is no JSON report of nccl-tests", file)});
  NcclRun run;
  if (const auto version = root.find("nccl_version"); version != root.end() && version->is_number_integer())
    run.nccl = nccl_version(version->get<int>());
  if (const auto args = root.find("args");
      args != root.end() && args->is_array() && !args->empty() && (*args)[0].is_string())
    run.program = (*args)[0].get<std::string>();
  const Json& config = root.contains("config") && root["config"].is_object() ? root["config"] : root;
  for (const Json& device : config.value("devices", Json::array())) {
    if (!device.is_object()) continue;
    run.hosts.push_back(text_of(device, "hostname"));
    run.device = text_of(device, "device_info");
  }
  // Without MPI the report lists the first device of a process alone.
  if (run.hosts.size() == 1) {
    const double all =
        (config.contains("ngpus") && config["ngpus"].is_number() ? config["ngpus"].get<double>() : 1) *
        (config.contains("nthreads") && config["nthreads"].is_number() ? config["nthreads"].get<double>() : 1);
    run.hosts.resize(static_cast<std::size_t>(std::clamp(all, 1.0, 4096.0)), run.hosts[0]);
  }
  for (const Json& row : root["results"]) read_json_row(row, run);
  return add_nccl_run(std::move(run), file, profile, hints);
}

}  // namespace plan
