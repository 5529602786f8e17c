// Results of nvbandwidth and of perftest (ib_write_bw, ib_send_lat and their kin): host links, pairs, network.
// Tested by tests/hwprobe/import_test.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "hwprobe/fits/fit.hpp"
#include "hwprobe/import/import.hpp"
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
  for (const std::vector<double>& row : rows)
    profile.gpus_per_node = std::max(profile.gpus_per_node, static_cast<int>(row.size()));
}

void read_test(const Json& test, const std::string& id, HardwareProfile& profile, std::vector<std::string>& taken) {
  const auto text = test.find("name"), status = test.find("status");
  if (status != test.end() && *status != "Passed") return;  // waived, or what it copied was wrong
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
  double unit = 0;                      ///< of the bandwidth column in GB/s; 0: one that is not known
  double ways = 1;                      ///< that one figure is the sum of
  std::size_t column = 0, columns = 0;  ///< of the figure; 0: the header names none
  std::size_t rate = 0;                 ///< column of million messages a second; 0: none
  std::size_t least = 0, most = 0;      ///< columns of the shortest and longest latency; 0: none
  std::string test{};
  std::vector<std::pair<double, double>> rows{};  ///< bytes, GB/s or us
};

void read_header(std::string_view line, PerftestTable& table) {
  const auto has = [&](std::string_view word) { return line.find(word) != std::string_view::npos; };
  table.latency = has("t_typical") || has("t_avg");
  table.unit = has("Gb/sec") ? 0.125 : has("MB/sec") || has("MiB/sec") ? 1048576e-9 : 0;  // its MB are MiB
  // The column is where its name is: service levels and queue pairs may have columns of their own in front.
  const std::string_view wanted = has("t_typical") ? "t_typical" : table.latency ? "t_avg" : "average";
  std::size_t at = 0;
  for (const std::string_view word : words_of_line(line)) {
    if (word == "BW" || word == "tps" || word.ends_with("%")) continue;  // the first half of a name
    if (word.starts_with(wanted)) table.column = at;
    if (word.starts_with("MsgRate") && table.rate == 0) table.rate = at;
    if (word.starts_with("t_min")) table.least = at;
    if (word.starts_with("t_max")) table.most = at;
    ++at;
  }
  table.columns = at;
}

/// A row: its rate in GB/s or its latency in us. Messages a second times their size are the same rate, so that a column
/// or a unit that was mistaken shows.
Result<void> read_row(const std::vector<std::string_view>& words, const std::string& file, PerftestTable& table) {
  const auto bytes = number_in(words[0]);
  if (!bytes || *bytes <= 0) return {};
  const auto wrong = [&](std::string why) {
    return fail(Error{"bad_table",
                      fmt::format("`{}`: {} in the row of {:.0f} bytes", file, why, *bytes),
                      {},
                      {"take the file as the program wrote it"}});
  };
  if (words.size() != table.columns) return wrong(fmt::format("{} columns, and not {},", words.size(), table.columns));
  if (table.column == 0) return wrong("no column of averages");
  const auto value = number_in(words[table.column]);
  if (!value || *value <= 0) return wrong(fmt::format("`{}` where a figure belongs", words[table.column]));
  const auto column = [&](std::size_t at) { return at > 0 ? number_in(words[at]).value_or(*value) : *value; };
  if (table.latency && (*value < column(table.least) || *value > column(table.most)))
    return wrong("a latency that is not between the shortest and the longest");
  if (table.latency) return table.rows.emplace_back(*bytes, *value), Result<void>{};
  if (table.unit <= 0) return wrong("a bandwidth without a unit that is known");
  const double rate = *value * table.unit;
  const double messages = table.rate > 0 ? number_in(words[table.rate]).value_or(0) : 0;
  if (messages > 0 && std::abs(messages * 1e6 * *bytes / 1e9 / rate - 1) > 0.03)
    return wrong("messages a second and a bandwidth that do not belong together");
  table.rows.emplace_back(*bytes, rate / table.ways);
  return {};
}

/// The tables of a file, in their order: each program of perftest says its name, then its columns.
Result<std::vector<PerftestTable>> read_perftest(std::string_view text, const std::string& file) {
  std::vector<PerftestTable> tables;
  PerftestTable next;
  const std::vector<std::string_view> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = plain_line(lines[i]);
    const std::vector<std::string_view> words = words_of_line(line);
    if (line.find(" Test") != std::string::npos) {
      next = {};
      for (const std::string_view word : words) next.test += (next.test.empty() ? "" : " ") + std::string(word);
      if (line.find("Bidirectional") != std::string::npos) next.ways = 2;
    } else if (line.find("#bytes") != std::string::npos) {
      read_header(line, next);
      tables.push_back(std::exchange(next, {}));
    } else if (!tables.empty() && next.test.empty() && !words.empty()) {
      const bool cut = i + 1 == lines.size() && !text.ends_with('\n');  // of a job that was ended: no row yet
      if (const Result<void> read = read_row(words, file, tables.back()); !read && !cut)
        return tl::unexpected(read.error());
    }
  }
  return tables;
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

namespace {

/// A test of nvbandwidth's text while it is read. The line that ends it names it again, with the sum of its figures.
struct TestText {
  std::string name{};
  Matrix rows{};
  double sum = 0;
};

Error misplaced(const std::string& file, const std::string& line) {
  return {"bad_table",
          fmt::format("`{}`: `{}` is not in its place", file, line.substr(0, 60)),
          {},
          {"take the file as nvbandwidth wrote it"}};
}

/// Takes a row of figures; true if the line is one.
Result<bool> read_matrix_row(const std::string& line, const std::string& file, TestText& test) {
  const std::vector<std::string_view> words = words_of_line(line);
  if (words.size() < 2 || !number_in(words[0])) return false;
  const bool values = std::all_of(words.begin() + 1, words.end(), [](std::string_view word) {
    return word == "N/A" || (word.find('.') != std::string_view::npos && number_in(word));
  });
  if (!values) return false;  // the line above a matrix numbers its columns
  if (test.name.empty() || *number_in(words[0]) != static_cast<double>(test.rows.size()))
    return fail(misplaced(file, line));
  test.rows.emplace_back();
  for (std::size_t i = 1; i < words.size(); ++i) {
    test.rows.back().push_back(number_in(words[i]).value_or(0));
    test.sum += test.rows.back().back();
  }
  return true;
}

}  // namespace

Result<std::string> import_nvbandwidth_text(std::string_view text, const std::string& file, HardwareProfile& profile) {
  TestText test;
  std::map<std::string, Matrix> tests;
  for (const std::string_view raw : lines_of(text)) {
    const std::string line = plain_line(raw);
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.size() == 2 && words[0] == "Running" && words[1].ends_with(".")) {
      test = {std::string(words[1].substr(0, words[1].size() - 1))};
      continue;
    }
    if (words.size() > 1 && words[0] == "SUM") {
      const auto sum = number_in(words.back());
      const bool own = words.size() == 2 || words[1] == test.name;
      if (!sum || !own || test.name.empty() || std::abs(*sum - test.sum) > 0.02 + 1e-3 * test.sum)
        return fail(misplaced(file, line));
      if (tests.count(test.name) > 0)
        return fail(Error{
            "two_reports", fmt::format("`{}` has results of {} twice", file, test.name), {}, {"one report a file"}});
      tests[test.name] = std::move(test.rows);
      test = {};
      continue;
    }
    if (const Result<bool> row = read_matrix_row(line, file, test); !row) return tl::unexpected(row.error());
  }
  if (tests.empty())
    return fail(Error{"bad_table", fmt::format("`{}` has no whole matrix of bandwidths, with its SUM", file)});
  const std::string id = add_import_source(profile, "nvbandwidth", file);
  std::vector<std::string> taken;
  for (const auto& [name, rows] : tests) take_test(name, rows, id, profile, taken);
  return taken_of(taken, file);
}

namespace {

/// What a table of perftest says of the network: its latency, or the rate of the size that reaches most. A long
/// message's latency is mostly its transfer, and a short one's rate that of messages: neither is taken for the other.
Result<std::string> add_perftest(const PerftestTable& table, const std::string& file, HardwareProfile& profile) {
  constexpr double kPacket = 4096, kStream = 65536;  // bytes: InfiniBand's largest packet, perftest's usual message
  if (table.rows.empty()) return fail(Error{"bad_table", fmt::format("`{}` has no row of results", file)});
  const std::string tool = table.test.empty() ? "perftest" : "perftest, " + table.test;
  const auto [shortest, longest] = std::minmax_element(table.rows.begin(), table.rows.end());
  if (table.latency && shortest->first > kPacket)
    return fail(Error{
        "no_latency",
        fmt::format("`{}` has the latency of {:.0f} bytes, most of which is their transfer", file, shortest->first),
        {},
        {"take it without `-s`: 2 bytes"}});
  if (!table.latency && longest->first < kStream)
    return fail(
        Error{"latency_only",
              fmt::format("`{}` has the rate of messages of {:.0f} bytes, and no bandwidth", file, longest->first),
              {},
              {"take it without `-s`: 65536 bytes"}});
  const std::string id = add_import_source(profile, tool, file);
  ProfileTier& tier = network_tier(profile);
  tier.prov = id;
  if (table.latency) {
    tier.latency_us = shortest->second;
    return fmt::format("{}: latency of the network {} us at {:.0f} bytes", tool, tier.latency_us, shortest->first);
  }
  double best = 0;
  for (const auto& [bytes, rate] : table.rows) best = std::max(best, rate);
  tier.measured_gb_s = std::max(tier.measured_gb_s, best);
  return fmt::format("{}: {:.4g} GB/s of the network{}", tool, best,
                     table.ways > 1 ? ", half of what went both ways" : "");
}

}  // namespace

Result<std::string> import_perftest(std::string_view text, const std::string& file, HardwareProfile& profile) {
  const Result<std::vector<PerftestTable>> tables = read_perftest(text, file);
  if (!tables) return tl::unexpected(tables.error());
  HardwareProfile with = profile;
  std::vector<std::string> taken;
  for (const PerftestTable& table : *tables) {
    Result<std::string> one = add_perftest(table, file, with);
    if (!one) return one;
    taken.push_back(*one);
  }
  profile = std::move(with);
  return fmt::format("{}", fmt::join(taken, "; "));
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
  const double value = table.latency ? latency : bytes * number("MsgRate") * 1e6 / 1e9 / table.ways;
  if (value > 0) table.rows.emplace_back(bytes, value);
  return add_perftest(table, file, profile);
}

}  // namespace plan
