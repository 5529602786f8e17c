// Results of nccl-tests: the table that it prints, and its JSON (`-J FILE`, file version 2). Columns and keys are those
// of nccl-tests' util.cu. Tested by tests/hwprobe/import_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hwprobe/import/import.hpp"
#include "hwprobe/text.hpp"

namespace plan {
namespace {

using Json = nlohmann::json;
constexpr double kLargestRounding = 0.01;  // that 16-bit sums of nccl-tests' small integers show

/// A table with what is above it, while it is read.
struct Reading {
  NcclRun run{};                      ///< what all of its rows share
  std::vector<NcclRow> rows{};        ///< one a line
  std::vector<int> groups{};          ///< of every rank, where ranks work in several at once
  std::size_t columns = 0;            ///< that its header names, 0 without one
  std::size_t width = 0;              ///< words of its first row
  bool root = false, deltas = false;  ///< its header names columns `root`, `error`
};

Error damaged(const std::string& file, std::string_view line, const std::string& why) {
  return {"bad_table",
          fmt::format("`{}`: {} in the row `{}`", file, why, line.substr(0, 100)),
          {},
          {"take the file as nccl-tests wrote it"}};
}

/// Has a line that begins with `#` another one in it, written at once?
bool two_in_one(const std::vector<std::string_view>& words) {
  return std::any_of(words.begin() + 1, words.end(),
                     [](std::string_view word) { return word.find('#') != std::string_view::npos; });
}

/// "#  Rank  3 Group  0 Pid 1234 on node01 device  3 [0x1b] NVIDIA H100 80GB HBM3"; false if another rank is due, or
/// two lines were written into one.
bool read_rank_line(const std::vector<std::string_view>& words, Reading& table) {
  NcclRun& run = table.run;
  const auto rank = number_in(words[2]);
  if (!rank || *rank != static_cast<double>(run.hosts.size())) return false;
  if (two_in_one(words)) return false;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "on") continue;
    if (i + 2 >= words.size() || words[i + 2] != "device") return false;
    run.hosts.emplace_back(words[i + 1]);
    table.groups.push_back(words[3] == "Group" ? static_cast<int>(number_in(words[4]).value_or(0)) : 0);
    std::string device;
    bool after = false;
    for (std::size_t j = i + 2; j < words.size(); ++j) {
      if (after) device += (device.empty() ? "" : " ") + std::string(words[j]);
      if (words[j].ends_with("]")) after = true;
    }
    if (!device.empty()) run.device = device;
    return true;
  }
  return false;
}

/// Ranks in several groups at once: each has the first one's size, and is as wide as that.
Result<void> keep_one_group(Reading& table, const std::string& file) {
  std::map<int, std::vector<std::string>> groups;
  for (std::size_t r = 0; r < table.groups.size(); ++r) groups[table.groups[r]].push_back(table.run.hosts[r]);
  for (const auto& [colour, hosts] : groups)
    if (hosts.size() != groups.begin()->second.size())
      return fail(Error{"unequal_groups", fmt::format("`{}` lists groups of {} and of {} ranks", file,
                                                      groups.begin()->second.size(), hosts.size())});
  if (groups.size() > 1) table.run.hosts = groups.begin()->second;
  return {};
}

/// Does a time in us belong to its algorithm bandwidth in GB/s, which is the size over the time? Both are rounded. Old
/// releases print the bus's bandwidth in its place where nothing is reduced to all.
bool belongs(double bytes, double us, double algbw, double busbw) {
  if (!(us > 0) || (algbw > 0 && algbw == busbw)) return true;
  return std::abs(bytes / us / 1e3 - algbw) <= 0.0051 + 0.01 * algbw;
}

/// "size count type redop root time algbw busbw #wrong ..."; older versions have no root. Nothing if it is no row.
Result<void> read_result_line(const std::vector<std::string_view>& words, std::string_view line,
                              const std::string& file, Reading& table) {
  if (words.size() < 3) return {};
  const auto bytes = number_in(words[0]), count = number_in(words[1]);
  if (!bytes || !count || number_in(words[2]) || std::isalpha(static_cast<unsigned char>(words[2][0])) == 0) return {};
  if (table.width == 0) table.width = std::max(words.size(), table.columns);
  if (words.size() != table.width || words.size() < 6)
    return fail(damaged(file, line,
                        fmt::format("{} columns, and not {},", words.size(), std::max<std::size_t>(table.width, 6))));
  if (std::any_of(words.begin(), words.end(),
                  [](std::string_view word) { return word.find(',') != std::string_view::npos; }))
    return fail(damaged(file, line, "a comma where a decimal point belongs"));
  NcclRow row{.bytes = *bytes, .type = std::string(words[2])};
  std::size_t at = 3;
  if (!number_in(words[at])) row.op = std::string(words[at++]);
  // Old releases print the largest difference, rounding included, where new ones count what is wrong.
  const auto wrong = [&](double x) { return table.deltas && x < kLargestRounding ? 0 : x; };
  const auto values = [&](std::size_t i) { return i < words.size() ? number_in(words[i]).value_or(0) : 0.0; };
  // Releases before 2.9 have no column `root`, which the line above the table tells. Without it: root is a whole
  // number, as times from 10000 on are, too; those are longer.
  const bool whole = at < words.size() && words[at].find('.') == std::string_view::npos && words.size() >= at + 5;
  if (table.columns > 0 ? table.root : whole && words[at].size() < 5) ++at;
  if (at + 2 >= words.size()) return fail(damaged(file, line, "no bandwidth"));
  row.out_us = values(at), row.algbw = values(at + 1), row.busbw = values(at + 2);
  row.wrong = wrong(values(at + 3));
  std::size_t second = at + 4;
  if (words.size() >= at + 16) second = at + 8;  // per-iteration statistics come in between
  if (second + 2 < words.size()) {
    row.in_us = values(second);
    row.wrong += wrong(values(second + 3));
  }
  if (!belongs(row.bytes, row.out_us, row.algbw, row.busbw) ||
      !belongs(row.bytes, row.in_us, values(second + 1), values(second + 2)))
    return fail(damaged(file, line, "a time and a bandwidth that do not belong together"));
  table.rows.push_back(std::move(row));
  return {};
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

std::string first_word(std::string_view text) {
  const std::vector<std::string_view> words = words_of_line(text);
  return words.empty() ? std::string() : std::string(words[0]);
}

std::string text_of(const Json& object, const char* key) {
  const auto at = object.find(key);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

void read_json_row(const Json& row, Reading& table) {
  if (!row.is_object() || !row.contains("size") || !row["size"].is_number()) return;
  if (table.run.program.empty()) table.run.program = text_of(row, "experiment_name");
  table.rows.push_back({.bytes = row["size"].get<double>(),
                        .type = text_of(row, "type"),
                        .op = text_of(row, "redop"),
                        .out_us = value_of(row, "out_of_place", "time"),
                        .in_us = value_of(row, "in_place", "time"),
                        .algbw = value_of(row, "out_of_place", "alg_bw"),
                        .busbw = value_of(row, "out_of_place", "bus_bw"),
                        .wrong = value_of(row, "out_of_place", "nwrong") + value_of(row, "in_place", "nwrong")});
}

/// Is it a sweep of sizes, or the same sweep again, in the order in which nccl-tests takes it: upwards? A line that two
/// processes wrote counts once.
bool in_place(const std::vector<NcclRow>& of) {
  std::vector<double> sizes;
  for (std::size_t i = 0; i < of.size(); ++i)
    if (i == 0 || of[i].bytes != of[i - 1].bytes || of[i].out_us != of[i - 1].out_us || of[i].in_us != of[i - 1].in_us)
      sizes.push_back(of[i].bytes);
  std::size_t sweep = 1;  // sizes of the first
  while (sweep < sizes.size() && sizes[sweep] > sizes[sweep - 1]) ++sweep;
  for (std::size_t i = sweep; i < sizes.size(); ++i)
    if (sizes[i] != sizes[i % sweep]) return false;
  return true;
}

/// The rows of each type. One run takes the same sizes in all of them, and may have been ended in the last.
Result<std::vector<std::vector<NcclRow>>> rows_by_type(const std::vector<NcclRow>& rows, const std::string& file) {
  std::vector<std::vector<NcclRow>> all;
  for (const NcclRow& row : rows) {
    const auto same =
        std::find_if(all.begin(), all.end(), [&](const auto& other) { return other.front().type == row.type; });
    if (same == all.end())
      all.push_back({row});
    else
      same->push_back(row);
  }
  for (const auto& of : all)
    if (!in_place(of))
      return fail(
          Error{"mixed_rows",
                fmt::format("`{}` has rows in {} whose sizes do not go up as those of a run do", file, of.front().type),
                {},
                {"take the file as nccl-tests wrote it"}});
  for (const NcclRow& row : rows)
    if ((row.op == "none") != (rows.front().op == "none"))
      return fail(Error{"mixed_rows",
                        fmt::format("`{}` has rows that reduce and rows that do not: they are not of one run", file),
                        {},
                        {"take the file as nccl-tests wrote it"}});
  const auto sizes = [](const std::vector<NcclRow>& of) {
    std::set<double> seen;
    for (const NcclRow& row : of) seen.insert(row.bytes);
    return std::vector<double>(seen.begin(), seen.end());
  };
  for (const auto& of : all) {
    const std::vector<double> first = sizes(all.front()), own = sizes(of);
    const bool prefix = own.size() <= first.size() && std::equal(own.begin(), own.end(), first.begin());
    if (!prefix || (own.size() < first.size() && &of != &all.back()))
      return fail(Error{"mixed_rows",
                        fmt::format("`{}` has rows in {} of other sizes than those in {}: they are not of one run",
                                    file, of.front().type, all.front().front().type),
                        {},
                        {"take the file as nccl-tests wrote it"}});
  }
  return all;
}

/// One curve for each type of the rows. Nothing is added where any of them is refused.
Result<std::string> add_tables(std::vector<Reading> tables, const std::string& file, HardwareProfile& profile,
                               const ImportHints& hints) {
  HardwareProfile with = profile;
  std::string taken;
  for (Reading& table : tables) {
    if (const Result<void> one = keep_one_group(table, file); !one) return tl::unexpected(one.error());
    Result<std::vector<std::vector<NcclRow>>> types = rows_by_type(table.rows, file);
    if (!types) return tl::unexpected(types.error());
    if (types->empty()) types->emplace_back();  // what it lacks is said as of any other
    for (std::vector<NcclRow>& rows : *types) {
      NcclRun run = table.run;
      run.rows = std::move(rows);
      const Result<std::string> added = add_nccl_run(std::move(run), file, with, hints);
      if (!added) return added;
      taken += (taken.empty() ? "" : "; ") + *added;
    }
  }
  profile = std::move(with);
  return taken;
}

}  // namespace

Result<std::string> import_nccl_table(std::string_view text, const std::string& file, HardwareProfile& profile,
                                      const ImportHints& hints) {
  const bool rccl = text.find("rccl") != std::string_view::npos || text.find("AMD Instinct") != std::string_view::npos;
  std::vector<Reading> tables(1);
  const std::vector<std::string_view> lines = lines_of(text);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string line = plain_line(lines[i]);
    const std::vector<std::string_view> words = words_of_line(line);
    if (words.empty()) continue;
    if (!words[0].starts_with("#")) {
      const Result<void> read = read_result_line(words, line, file, tables.back());
      const bool cut = i + 1 == lines.size() && !text.ends_with('\n');  // of a job that was ended: no row yet
      if (!read && !cut) return tl::unexpected(read.error());
      continue;
    }
    const auto has = [&](std::string_view word) { return std::find(words.begin(), words.end(), word) != words.end(); };
    const bool header = has("size") && has("count") && has("type");
    const std::size_t program = line.find("Collective test starting: ");
    if (!tables.back().rows.empty() && (header || has("nThread") || has("Rank") || program != std::string::npos))
      tables.emplace_back();  // another run begins
    Reading& table = tables.back();
    if (header) {
      table.columns = words.size() - (words[0] == "#" ? 1 : 0);
      table.root = has("root"), table.deltas = has("error");
    }
    if (words.size() > 6 && words[1] == "Rank" && !read_rank_line(words, table))
      return fail(Error{"strange_ranks",
                        fmt::format("`{}` lists rank {} where rank {} is due: one rank lacks its line, or runs that "
                                    "know nothing of each other wrote one file, or two lines were written into one",
                                    file, words[2], table.run.hosts.size()),
                        {},
                        {"under mpirun nccl-tests want to be built with MPI=1; one run a file"}});
    if (program != std::string::npos) {
      const std::string named = first_word(line.substr(program + 26));
      if (two_in_one(words) || (!table.run.program.empty() && table.run.program != named))
        return fail(Error{"two_programs",
                          fmt::format("`{}` names a second program, in `{}`, before any result of {}", file,
                                      line.substr(0, 100), table.run.program.empty() ? "one" : table.run.program),
                          {},
                          {"take the file as nccl-tests wrote it; of a run that ended before a result leave nothing"}});
      table.run.program = named;
    }
    if (const std::size_t at = line.find("NCCL version "); at != std::string::npos)
      table.run.nccl = first_word(line.substr(at + 13));
  }
  if (std::any_of(tables.begin(), tables.end(), [](const Reading& table) { return !table.rows.empty(); }))
    std::erase_if(tables, [](const Reading& table) { return table.rows.empty(); });  // runs that ended before a result
  for (Reading& table : tables) table.run.rccl = rccl;
  return add_tables(std::move(tables), file, profile, hints);
}

Result<std::string> import_nccl_json(std::string_view text, const std::string& file, HardwareProfile& profile,
                                     const ImportHints& hints) {
  const Json root = Json::parse(text, nullptr, false);
  if (root.is_discarded() || !root.is_object() || !root.contains("results") || !root["results"].is_array())
    return fail(Error{"bad_json", fmt::format("`{}` is no JSON report of nccl-tests", file)});
  Reading table;
  NcclRun& run = table.run;
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
  for (const Json& row : root["results"]) read_json_row(row, table);
  return add_tables({std::move(table)}, file, profile, hints);
}

}  // namespace plan
