// Files of measured runs, and the presets that they name. Tested by tests/cli/validation_test.cpp.
#include "cli/request/run_files.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "cli/request/node_size.hpp"
#include "cli/request/words/flag_words.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/text.hpp"
#include "presets/quantity.hpp"
#include "presets/stack.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Line `number` of `text`, the first being 1, without its end.
std::string line_of(std::string_view text, int number) {
  for (int line = 1; line < number; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + 1);
  }
  text = text.substr(0, text.find('\n'));
  if (text.ends_with('\r')) text.remove_suffix(1);
  return std::string(text);
}

/// What `8k`, `8,192`, `5200 ms` and `40 %` are in the column's own unit, which its name says; none where they are
/// nothing else either.
std::optional<std::string> in_unit_of(std::string_view column, const std::string& cell) {
  struct Unit {
    std::string_view ending;
    Dimension dimension;
    double size;
  };
  constexpr Unit kUnits[] = {{"inter_gb_s", Dimension::ByteRate, 1e9},
                             {"tflops_per_gpu", Dimension::FlopRate, 1e12},
                             {"time_s", Dimension::Time, 1},
                             {"memory_gib", Dimension::Bytes, 0x1p30},
                             {"mfu", Dimension::Ratio, 1}};
  const std::string plain = without_separators(cell).value_or(cell);
  if (const std::optional<double> number = parse_number(plain); number && plain != cell) return plain;
  for (const Unit& unit : kUnits)
    if (column.ends_with(unit.ending))
      if (const ParsedQuantity read = parse_quantity(plain, unit.dimension))
        return fmt::format("{:.10g}", read.value / unit.size);
  if (const Result<std::int64_t> count = read_count("", plain, 0, std::int64_t{1} << 40))
    return fmt::format("{}", *count);
  return std::nullopt;
}

/// The column that a word of a header means, as a slip or in another tool's words: `step_time_ms`, `seq_length`. What
/// the header has already is not meant once more.
std::string column_meant(const std::string& word, std::string_view header) {
  std::vector<std::string> columns = run_columns();
  for (const std::string_view given : split(header, ","))
    std::erase(columns, lowered(std::string(trim(given, " \t\""))));
  const auto known = [&](std::string name) {
    std::replace(name.begin(), name.end(), '-', '_');
    return std::find(columns.begin(), columns.end(), name) != columns.end() ? name : std::string();
  };
  if (const std::optional<MeantFlag> meant = meant_flag_or_axis(word, "8")) {
    const std::string_view name = meant->flag == "--layout" ? std::string_view(meant->value) : meant->flag;
    const std::size_t first = std::min(name.find_first_not_of('-'), name.size());
    const std::size_t end = std::min(name.find_first_of("0123456789=", first), name.size());
    if (std::string column = known(std::string(name.substr(first, end - first))); !column.empty()) return column;
  }
  return nearest_name(word, columns);
}

/// A column of tokens a second that does not say of which part of the job: as trackers name it, it is of all of it.
bool of_whole_job(std::string_view word) {
  const std::string low = lowered(std::string(word));
  const auto says = [&](std::string_view part) { return low.find(part) != std::string::npos; };
  const bool of_one = says("gpu") || says("device") || says("chip") || says("rank");
  return !of_one &&
         (says("tokens_per_s") || says("tokens/s") || says("tok_per_s") || low == "throughput" || low == "tps");
}

/// Help that knows other tools' words and units, which the planner's reader does not.
void help_with_words(Error& error) {
  const std::size_t from = static_cast<std::size_t>(std::max(error.place.column - 1, 0));
  if (from >= error.place.text.size()) return;
  const std::size_t quoted = error.place.text[from] == '"' ? 1 : 0;
  const std::string word = error.place.text.substr(from + quoted, static_cast<std::size_t>(error.place.length));
  if (error.code == "unknown_column" && of_whole_job(word)) {
    error.help = {
        "it is of the whole job: divide it by the GPUs, under `tokens_per_s_per_gpu`, or write the seconds of a "
        "step, under `step_time_s`"};
  } else if (error.code == "unknown_column") {
    if (const std::string column = column_meant(word, error.place.text); !column.empty())
      error.help = {fmt::format("write `{}`; the columns are listed in plan-runs(5)", column)};
  } else if (error.code == "bad_cell" && error.message.ends_with("is not a number")) {
    const std::size_t end = error.message.rfind('`'), begin = error.message.rfind('`', end - 1) + 1;
    const std::string column = error.message.substr(begin, end - begin);
    if (const std::optional<std::string> number = in_unit_of(column, word))
      error.help = {fmt::format("write `{}`", *number)};
  }
}

/// A row that is another one letter for letter is that measurement again.
void leave_out_repeats(std::vector<Run>& runs) {
  std::set<std::vector<std::pair<std::string, std::string>>> seen;
  for (Run& run : runs)
    if (!seen.insert(cells_of(run)).second && !run.id.empty()) run.status = "duplicate";
}

/// What has been looked up so far.
struct Seen {
  StoreOptions store;
  std::optional<Cluster> own;
  std::map<std::string, std::optional<Model>, std::less<>> models{};
  std::map<std::pair<std::string, int>, std::optional<Cluster>> clusters{};

  std::optional<Model> model(std::string_view name) {
    if (const auto found = models.find(name); found != models.end()) return found->second;
    Result<Found<Model>> loaded = load_model(name, store);
    return models[std::string(name)] = loaded ? std::optional(std::move(loaded->value)) : std::nullopt;
  }

  std::optional<Cluster> cluster(std::string_view gpu, int per_node) {
    std::pair<std::string, int> key(gpu, per_node);
    if (const auto found = clusters.find(key); found != clusters.end()) return found->second;
    std::optional<Cluster> cluster;
    if (Result<Found<Cluster>> usual = load_cluster_of_gpu(gpu, store)) {
      const bool here = own && own->gpu.name == usual->value.gpu.name;
      cluster = with_node_of(here ? *own : std::move(usual->value), per_node);
    } else if (own && own->gpu.name == gpu) {
      cluster = with_node_of(*own, per_node);
    }
    return clusters[std::move(key)] = std::move(cluster);
  }
};

}  // namespace

Result<std::vector<Run>> read_run_files(const std::vector<std::string>& paths) {
  std::vector<Run> all;
  Errors errors;
  for (const std::string& path : paths) {
    const Result<std::string> text = yaml::read_text(path);
    if (!keep_errors(errors, text)) continue;
    Result<std::vector<Run>> runs = read_runs(*text, path);
    if (runs) {
      all.insert(all.end(), std::make_move_iterator(runs->begin()), std::make_move_iterator(runs->end()));
      continue;
    }
    for (Error& error : runs.error()) {
      error.place.text = line_of(*text, error.place.line);
      help_with_words(error);
      errors.push_back(std::move(error));
    }
  }
  if (!errors.empty()) return fail(std::move(errors));
  leave_out_repeats(all);
  return all;
}

Catalogue preset_catalogue(const StoreOptions& store, std::optional<Cluster> own) {
  const auto seen = std::make_shared<Seen>(Seen{store, std::move(own)});
  seen->store.files = false;
  return {.model = [seen](std::string_view name) { return seen->model(name); },
          .cluster = [seen](std::string_view gpu, int per_node, int) { return seen->cluster(gpu, per_node); },
          .released = stack_of_release};
}

}  // namespace plan
