// Results of nvbandwidth and of perftest (ib_write_bw, ib_send_lat and their kin): host links, pairs, network.
// Tested by tests/hwprobe/import_test.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "hwprobe/fit.hpp"
#include "hwprobe/import.hpp"
#include "hwprobe/text.hpp"

namespace plan {
namespace {

using Json = nlohmann::json;

/// A cell is a number or its text; "N/A" and the like are none.
double cell(const Json& value) {
  if (value.is_number()) return value.get<double>();
  return value.is_string() ? number_in(value.get<std::string>()).value_or(0) : 0;
}

std::vector<std::vector<double>> matrix_of(const Json& test) {
  std::vector<std::vector<double>> rows;
  const auto at = test.find("bandwidth_matrix");
  if (at == test.end() || !at->is_array()) return rows;
  for (const Json& row : *at) {
    rows.emplace_back();
    if (row.is_array())
      for (const Json& value : row) rows.back().push_back(cell(value));
  }
  return rows;
}

/// Median over the GPUs; in a matrix of NUMA nodes by GPUs each GPU counts with its nearest node.
Measured over_gpus(const std::vector<std::vector<double>>& rows) {
  std::vector<double> best;
  for (const std::vector<double>& row : rows) {
    best.resize(std::max(best.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) best[i] = std::max(best[i], row[i]);
  }
  std::erase_if(best, [](double x) { return x <= 0; });
  return {median(best), 0};
}

using Matrix = std::vector<std::vector<double>>;

/// Takes a test of nvbandwidth that the profile has a place for, and notes its name.
void take_test(const std::string& name, const Matrix& rows, const std::string& id, HardwareProfile& profile,
               std::vector<std::string>& taken) {
  const Measured middle = over_gpus(rows);
  if (!middle.known()) return;
  ProfileHostLink& link = profile.host_link;
  const auto take = [&](Measured& place, double factor, std::string& prov) {
    place = {factor * middle.value, 0};
    prov = id;
    taken.push_back(fmt::format("{} {:.4g} GB/s", name, place.value));
  };
  if (name == "host_to_device_memcpy_ce") take(link.h2d, 1, link.prov);
  if (name == "device_to_host_memcpy_ce") take(link.d2h, 1, link.prov);
  if (name == "host_to_device_bidirectional_memcpy_ce") take(link.bidir, 2, link.prov);
  if (name == "host_to_all_memcpy_ce") take(link.all_gpus_h2d, 1, link.prov);
  // It counts what it copies once; the profile's rate counts what is read and what is written.
  if (name == "device_local_copy") take(profile.hbm.copy, 2, profile.hbm.prov);
  if (name != "device_to_device_memcpy_read_ce") return;
  taken.push_back(fmt::format("{} {:.4g} GB/s", name, middle.value));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < rows[i].size(); ++j)
      if (rows[i][j] > 0)
        profile.pairs.push_back(
            {.from = static_cast<int>(i), .to = static_cast<int>(j), .gb_s = rows[i][j], .prov = id});
  profile.gpus_per_node = std::max(profile.gpus_per_node, static_cast<int>(rows.size()));
}

void read_test(const Json& test, const std::string& id, HardwareProfile& profile, std::vector<std::string>& taken) {
  const auto text = test.find("name");
  if (text != test.end() && text->is_string()) take_test(text->get<std::string>(), matrix_of(test), id, profile, taken);
}

/// A report of which nothing has a place in a profile is refused, with the tests that would have one.
Result<std::string> taken_of(const std::vector<std::string>& taken, const std::string& file) {
  if (!taken.empty()) return fmt::format("nvbandwidth: {}", fmt::join(taken, ", "));
  return fail(Error{"nothing_taken",
                    fmt::format("`{}` is nvbandwidth's, and holds no test that a profile has a place for", file),
                    {"taken are host_to_device_memcpy_ce, device_to_host_memcpy_ce, their bidirectional and all-GPU "
                     "forms, device_local_copy and device_to_device_memcpy_read_ce"},
                    {}});
}

/// One table of perftest: a size, a number of iterations, then either bandwidths or latencies.
struct PerftestTable {
  bool latency = false;
  double unit = 1;  ///< of the bandwidth column in GB/s
  double ways = 1;  ///< that one figure is the sum of
  std::size_t column = 3;
  std::string test{};
  std::vector<std::pair<double, double>> rows{};  ///< bytes, GB/s or us
};

void read_header(std::string_view line, PerftestTable& table) {
  table.latency = line.find("t_typical") != std::string_view::npos || line.find("t_avg") != std::string_view::npos;
  table.unit = line.find("Gb/sec") != std::string_view::npos ? 0.125 : 1048576e-9;  // its MB are MiB
  // The column is where its name stands: service levels and queue pairs may have columns of their own in front.
  const std::string_view wanted = line.find("t_typical") != std::string_view::npos ? "t_typical"
                                  : table.latency                                  ? "t_avg"
                                                                                   : "average";
  std::size_t at = 0;
  for (const std::string_view word : words_of_line(line)) {
    if (word == "BW") continue;  // the first half of a name
    if (word.starts_with(wanted)) table.column = at;
    ++at;
  }
}

PerftestTable read_perftest(std::string_view text) {
  PerftestTable table;
  bool inside = false;
  for (const std::string_view raw : lines_of(text)) {
    const std::string line = plain_line(raw);
    if (line.find(" Test") != std::string_view::npos && table.test.empty()) {
      for (const std::string_view word : words_of_line(line))
        table.test += (table.test.empty() ? "" : " ") + std::string(word);
      if (line.find("Bidirectional") != std::string::npos) table.ways = 2;
    }
    if (line.find("#bytes") != std::string_view::npos) {
      read_header(line, table);
      inside = true;
      continue;
    }
    const std::vector<std::string_view> words = words_of_line(line);
    if (!inside || words.size() <= table.column) continue;
    const auto bytes = number_in(words[0]), value = number_in(words[table.column]);
    if (bytes && value && *bytes > 0 && *value > 0) table.rows.emplace_back(*bytes, *value);
  }
  return table;
}

ProfileTier& network_tier(HardwareProfile& profile) {
  for (ProfileTier& tier : profile.tiers)
    if (tier.kind == "scale_out") return tier;
  profile.tiers.push_back({.id = "network", .kind = "scale_out"});
  return profile.tiers.back();
}

}  // namespace

Result<std::string> import_nvbandwidth(std::string_view text, const std::string& file, HardwareProfile& profile) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded() || !root.is_object() || !root.contains("nvbandwidth") || !root["nvbandwidth"].is_object())
    return fail(Error{"bad_json", fmt::format("`{}` is no JSON report of nvbandwidth", file)});
  const Json& report = root["nvbandwidth"];
  const auto tests = report.find("testcases");
  if (tests == report.end() || !tests->is_array() || tests->empty())
    return fail(Error{"bad_json", fmt::format("`{}` lists no `testcases`", file)});
  const std::string id = add_import_source(profile, "nvbandwidth", file);
  if (const auto driver = report.find("Driver Version"); driver != report.end() && driver->is_string())
    profile.provenance.back().driver = driver->get<std::string>();
  std::vector<std::string> taken;
  for (const Json& test : *tests)
    if (test.is_object()) read_test(test, id, profile, taken);
  return taken_of(taken, file);
}

Result<std::string> import_nvbandwidth_text(std::string_view text, const std::string& file, HardwareProfile& profile) {
  std::string name;
  std::map<std::string, Matrix> tests;
  for (const std::string_view raw : lines_of(text)) {
    const std::string line = plain_line(raw);
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.size() == 2 && words[0] == "Running" && words[1].ends_with("."))
      name = std::string(words[1].substr(0, words[1].size() - 1));
    if (name.empty() || words.size() < 2 || !number_in(words[0])) continue;
    const bool values = std::all_of(words.begin() + 1, words.end(), [](std::string_view word) {
      return word == "N/A" || (word.find('.') != std::string_view::npos && number_in(word));
    });
    if (!values) continue;  // the line above a matrix numbers its columns
    tests[name].emplace_back();
    for (std::size_t i = 1; i < words.size(); ++i) tests[name].back().push_back(number_in(words[i]).value_or(0));
  }
  if (tests.empty()) return fail(Error{"bad_table", fmt::format("`{}` has no matrix of bandwidths", file)});
  const std::string id = add_import_source(profile, "nvbandwidth", file);
  std::vector<std::string> taken;
  for (const auto& [test, rows] : tests) take_test(test, rows, id, profile, taken);
  return taken_of(taken, file);
}

namespace {

/// What a table of perftest says of the network: its latency, or the rate of the size that reaches most.
Result<std::string> add_perftest(const PerftestTable& table, const std::string& file, HardwareProfile& profile) {
  if (table.rows.empty()) return fail(Error{"bad_table", fmt::format("`{}` has no row of results", file)});
  const std::string tool = table.test.empty() ? "perftest" : "perftest, " + table.test;
  const std::string id = add_import_source(profile, tool, file);
  ProfileTier& tier = network_tier(profile);
  tier.prov = id;
  if (table.latency) {
    tier.latency_us = table.rows.front().second;
    return fmt::format("{}: latency of the network {} us at {:.0f} bytes", tool, tier.latency_us,
                       table.rows.front().first);
  }
  double best = 0;
  for (const auto& [bytes, rate] : table.rows) best = std::max(best, rate * table.unit / table.ways);
  tier.measured_gb_s = std::max(tier.measured_gb_s, best);
  return fmt::format("{}: {:.4g} GB/s of the network{}", tool, best,
                     table.ways > 1 ? ", half of what went both ways" : "");
}

}  // namespace

Result<std::string> import_perftest(std::string_view text, const std::string& file, HardwareProfile& profile) {
  return add_perftest(read_perftest(text), file, profile);
}

/// `results` holds one size. It names no unit for BW_average, which is MiB or, with --report_gbits, Gb: but messages a
/// second times their size is the bandwidth in bytes.
Result<std::string> import_perftest_json(std::string_view text, const std::string& file, HardwareProfile& profile) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded() || !root.is_object() || !root.contains("results") || !root["results"].is_object())
    return fail(Error{"bad_json", fmt::format("`{}` is no JSON report of perftest", file)});
  const Json& row = root["results"];
  const auto number = [&](const char* key) { return row.contains(key) ? cell(row[key]) : 0.0; };
  PerftestTable table;
  if (const auto info = root.find("test_info"); info != root.end() && info->is_object())
    if (const auto test = info->find("test"); test != info->end() && test->is_string())
      table.test = test->get<std::string>().substr(0, 60);
  if (text.find("Bidirectional") != std::string_view::npos) table.ways = 2;
  const double bytes = number("MsgSize"), latency = number("t_typical") > 0 ? number("t_typical") : number("t_avg");
  table.latency = latency > 0;
  if (!table.latency && number("MsgRate") <= 0)
    return fail(
        Error{"unit_missing",
              fmt::format("`{}` does not say the unit of its bandwidths, nor `MsgRate`, which would tell", file),
              {},
              {"take what the program prints instead: `ib_write_bw --report_gbits > FILE`"}});
  const double value = table.latency ? latency : bytes * number("MsgRate") * 1e6 / 1e9;
  if (value > 0) table.rows.emplace_back(bytes, value);
  return add_perftest(table, file, profile);
}

}  // namespace plan
