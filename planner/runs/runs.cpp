// Reader of measured runs. Tested by tests/planner/runs_test.cpp.
#include "planner/runs/runs.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include "formulas/text.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostErrors = 20;
constexpr std::int64_t kMostCount = 1'000'000'000'000;
constexpr double kMostValue = 1e15;
/// Shares above 1 may be sound: of the peak in 16 bits, where products are in fewer. A percentage is larger.
constexpr double kMostShare = 8;

struct CsvCell {
  std::string text;
  int line = 1;
  int column = 1;
};

/// Splits CSV into rows of cells, keeping where each cell began.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view file) : text_(text), file_(file) {}

  /// Reads one row; false at the end of the file.
  bool row(std::vector<CsvCell>& cells, Errors& errors) {
    cells.clear();
    if (at_ >= text_.size()) return false;
    for (;;) {
      cells.push_back(cell(errors));
      if (at_ >= text_.size()) return true;
      const char end = text_[at_++];
      if (end == ',') {
        ++column_;
        continue;
      }
      if (end == '\r' && at_ < text_.size() && text_[at_] == '\n') ++at_;
      ++line_, column_ = 1;
      return true;
    }
  }

 private:
  CsvCell cell(Errors& errors) {
    CsvCell cell{{}, line_, column_};
    if (at_ < text_.size() && text_[at_] == '"') return quoted(std::move(cell), errors);
    while (at_ < text_.size() && text_[at_] != ',' && text_[at_] != '\n' && text_[at_] != '\r') {
      cell.text += text_[at_++];
      ++column_;
    }
    const std::string_view word = trim(cell.text);  // blanks around it stand there for the eye
    cell.column += word.empty() ? 0 : static_cast<int>(word.data() - cell.text.data());
    cell.text = std::string(word);
    return cell;
  }

  CsvCell quoted(CsvCell cell, Errors& errors) {
    for (++at_, ++column_; at_ < text_.size(); ++at_, ++column_) {
      if (text_[at_] == '\n') ++line_, column_ = 0;
      if (text_[at_] != '"') {
        cell.text += text_[at_];
      } else if (at_ + 1 < text_.size() && text_[at_ + 1] == '"') {
        cell.text += '"';
        ++at_, ++column_;
      } else {
        ++at_, ++column_;
        end_of_quoted(errors);
        return cell;
      }
    }
    errors.push_back({.code = "unclosed_quote",
                      .message = "a quoted cell is never closed",
                      .help = {"end the cell with `\"`, and write a quote inside it twice"},
                      .place = {std::string(file_), cell.line, cell.column, 1, {}}});
    return cell;
  }

  /// Goes to the end of the cell, in which nothing but blanks may follow the quote.
  void end_of_quoted(Errors& errors) {
    const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
    const std::string_view behind = text_.substr(at_, end - at_);
    if (const std::size_t blanks = behind.find_first_not_of(" \t"); blanks != std::string_view::npos)
      errors.push_back({.code = "text_after_quote",
                        .message = "text follows the end of a quoted cell",
                        .help = {"write a quote inside the cell twice, or put all of the cell inside the quotes"},
                        .place = {std::string(file_), line_, column_ + static_cast<int>(blanks), 1, {}}});
    column_ += static_cast<int>(behind.size()), at_ = end;
  }

  std::string_view text_, file_;
  std::size_t at_ = 0;
  int line_ = 1, column_ = 1;
};

struct Parse {
  const CsvCell& cell;
  std::string_view column;
  std::string_view file;
  Errors& errors;

  void refuse(std::string message, std::string help) const {
    errors.push_back({.code = "bad_cell",
                      .message = std::move(message),
                      .help = {std::move(help)},
                      .place = {std::string(file), cell.line, cell.column, static_cast<int>(cell.text.size()), {}}});
  }

  template <class T>
  std::optional<T> number(std::string_view text) const {
    const std::optional<T> value = as_number<T>(text);
    if (!value)
      refuse(fmt::format("`{}` in column `{}` is not a number", cell.text.substr(0, 40), column),
             "leave the cell empty if the source does not say");
    return value;
  }

  void operator()(std::string& field) const { field = cell.text; }
  void operator()(std::optional<std::int64_t>& field) const {
    if (cell.text.empty()) return;
    // A count may carry a word before it, as sources print it: "intermediate 2048".
    std::string_view text = cell.text;
    if (const std::size_t space = text.rfind(' '); space != std::string_view::npos) text.remove_prefix(space + 1);
    field = number<std::int64_t>(text);
    if (field && column == "zero" && *field > 3) {
      refuse(fmt::format("`{}` in column `zero` is out of range", cell.text), "ZeRO stages are 0 to 3");
      field.reset();
    } else if (field && column == "sequence_parallel" && *field > 1) {
      refuse(fmt::format("`{}` in column `sequence_parallel` is out of range", cell.text), "it is 1 or 0");
      field.reset();
    } else if (field && *field == 0 && is_degree(column)) {
      refuse(fmt::format("`{}` in column `{}` is out of range", cell.text, column),
             "degrees and micro-batches are 1 or more; leave the cell empty if the source does not say");
      field.reset();
    } else if (field && (*field < 0 || *field > kMostCount)) {
      refuse(fmt::format("`{}` in column `{}` is out of range", cell.text, column), "counts lie between 0 and 10^12");
      field.reset();
    }
  }
  void operator()(std::optional<double>& field) const {
    if (cell.text.empty()) return;
    field = number<double>(cell.text);
    if (field && !(*field >= 0 && *field <= kMostValue)) {
      refuse(fmt::format("`{}` in column `{}` is out of range", cell.text, column), "values lie between 0 and 10^15");
      field.reset();
    } else if (field && column == "mfu" && *field > kMostShare) {
      refuse(fmt::format("`{}` in column `mfu` is out of range", cell.text),
             *field <= 100 ? fmt::format("it is a ratio: write {:.6g} for {} %", *field / 100, cell.text)
                           : std::string("it is a ratio of FLOP/s to the peak"));
      field.reset();
    }
  }

 private:
  static bool is_degree(std::string_view column) {
    constexpr std::string_view kDegrees[] = {"micro_batch", "tp", "cp", "pp", "vp", "ep", "etp", "dp"};
    return std::find(std::begin(kDegrees), std::end(kDegrees), column) != std::end(kDegrees);
  }
};

/// Hands every column of the schema to `visit(name, member)`, in the order of the schema.
template <class RunT, class Visit>
void columns(RunT& r, const Visit& visit) {
  visit("id", r.id), visit("suite", r.suite), visit("source", r.source), visit("quality", r.quality);
  visit("status", r.status), visit("task", r.task), visit("model", r.model), visit("params_b", r.params_b);
  visit("layers", r.layers), visit("hidden", r.hidden), visit("ffn", r.ffn), visit("mlp", r.mlp);
  visit("heads", r.heads), visit("kv_heads", r.kv_heads), visit("head_dim", r.head_dim), visit("vocab", r.vocab);
  visit("experts", r.experts), visit("top_k", r.top_k), visit("expert_ffn", r.expert_ffn);
  visit("shared_ffn", r.shared_ffn), visit("gpu", r.gpu), visit("gpus", r.gpus);
  visit("gpus_per_node", r.gpus_per_node), visit("interconnect", r.interconnect), visit("inter_gb_s", r.inter_gb_s);
  visit("seq", r.seq), visit("global_batch", r.global_batch), visit("micro_batch", r.micro_batch), visit("tp", r.tp);
  visit("cp", r.cp), visit("pp", r.pp), visit("vp", r.vp), visit("ep", r.ep), visit("etp", r.etp), visit("dp", r.dp);
  visit("zero", r.zero), visit("shard", r.shard), visit("sequence_parallel", r.sequence_parallel);
  visit("schedule", r.schedule), visit("recompute", r.recompute), visit("precision", r.precision);
  visit("attention", r.attention), visit("optimizer", r.optimizer), visit("framework", r.framework);
  visit("step_time_s", r.step_time_s), visit("time_from", r.time_from);
  visit("tokens_per_s_per_gpu", r.tokens_per_s_per_gpu), visit("tflops_per_gpu", r.tflops_per_gpu);
  visit("flops_convention", r.flops_convention), visit("mfu", r.mfu), visit("peak_memory_gib", r.peak_memory_gib);
  visit("memory_kind", r.memory_kind), visit("notes", r.notes);
}

/// Column of the file by name; checks the header.
std::vector<std::string> read_header(const std::vector<CsvCell>& cells, std::string_view file, Errors& errors) {
  std::vector<std::string_view> known;
  Run empty;
  columns(empty, [&](std::string_view name, auto&) { known.push_back(name); });
  std::vector<std::string> names;
  if (const std::size_t other = cells.front().text.find_first_of(";\t|");
      cells.size() == 1 && other != std::string::npos) {
    errors.push_back({.code = "other_separator",
                      .message = "the cells of the header are not separated by commas",
                      .help = {"write the file with `,` between cells, and `.` in front of decimals"},
                      .place = {std::string(file), cells.front().line, static_cast<int>(other) + 1, 1, {}}});
    return names;
  }
  const auto names_column = [&](const CsvCell& cell) {
    return std::find(known.begin(), known.end(), lowered(cell.text)) != known.end();
  };
  if (std::none_of(cells.begin(), cells.end(), names_column)) {
    const CsvCell& first = cells.front();
    errors.push_back({.code = "no_columns",
                      .message = "the first line names no column of runs",
                      .help = {"write the names of the columns there, `model,gpu,gpus,...`: plan-runs(5) lists them"},
                      .place = {std::string(file), first.line, first.column, static_cast<int>(first.text.size()), {}}});
    return names;
  }
  for (const CsvCell& written : cells) {
    const CsvCell cell{lowered(written.text), written.line, written.column};
    const Place place{std::string(file), cell.line, cell.column, static_cast<int>(cell.text.size()), {}};
    if (std::find(known.begin(), known.end(), cell.text) == known.end())
      errors.push_back({.code = "unknown_column",
                        .message = fmt::format("unknown column `{}`", written.text.substr(0, 40)),
                        .help = {"the columns are listed in plan-runs(5)"},
                        .place = place});
    else if (std::find(names.begin(), names.end(), cell.text) != names.end())
      errors.push_back({.code = "repeated_column",
                        .message = fmt::format("column `{}` is given twice", cell.text),
                        .help = {"delete one of them"},
                        .place = place});
    names.push_back(cell.text);
  }
  return names;
}

/// The facts of "{key=value key=value} text". Notes are free text: what has another form holds none.
void read_facts(Run& run) {
  const std::string_view notes = run.notes;
  const std::size_t end = notes.find('}');
  if (!notes.starts_with('{') || end == std::string_view::npos) return;
  for (std::size_t at = 1; at < end;) {
    const std::size_t stop = std::min(notes.find(' ', at), end), equals = notes.find('=', at);
    if (equals < stop)
      run.facts[std::string(notes.substr(at, equals - at))] = notes.substr(equals + 1, stop - equals - 1);
    at = stop + 1;
  }
}

Run read_row(const std::vector<CsvCell>& cells, const std::vector<std::string>& names, std::string_view file,
             Errors& errors) {
  Run run;
  run.line = cells.front().line;
  columns(run, [&](std::string_view name, auto& field) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found != names.end()) Parse{cells[static_cast<std::size_t>(found - names.begin())], name, file, errors}(field);
  });
  for (std::string* word : {&run.status, &run.mlp, &run.shard, &run.schedule, &run.recompute, &run.precision,
                            &run.attention, &run.flops_convention, &run.memory_kind})
    *word = lowered(std::move(*word));
  run.quality = capitals(std::move(run.quality));
  read_facts(run);
  return run;
}

}  // namespace

Result<std::vector<Run>> read_runs(std::string_view text, std::string_view file) {
  Errors errors;
  std::vector<Run> runs;
  constexpr std::string_view kMark = "\xEF\xBB\xBF";  // spreadsheets begin UTF-8 with it
  if (text.starts_with(kMark)) text.remove_prefix(kMark.size());
  if (text.find('\0') != std::string_view::npos)
    return fail({.code = "not_text",
                 .message = "the file is not UTF-8 text",
                 .help = {"save it as CSV in UTF-8"},
                 .place = {std::string(file), 0, 0, 1, {}}});
  CsvReader reader(text, file);
  std::vector<CsvCell> cells;
  if (!reader.row(cells, errors))
    return fail({.code = "empty_file",
                 .message = "no header line",
                 .help = {"the columns are listed in plan-runs(5)"},
                 .place = {std::string(file), 1, 1, 1, {}}});
  const std::vector<std::string> names = read_header(cells, file, errors);
  if (names.empty()) return fail(std::move(errors));
  while (errors.size() < kMostErrors && reader.row(cells, errors)) {
    if (cells.size() == 1 && cells.front().text.empty()) continue;  // a blank line
    if (cells.size() != names.size()) {
      errors.push_back({.code = "row_width",
                        .message = fmt::format("this row has {} cells, the header {}", cells.size(), names.size()),
                        .help = {"quote cells that hold commas"},
                        .place = {std::string(file), cells.front().line, 1, 1, {}}});
      continue;
    }
    runs.push_back(read_row(cells, names, file, errors));
  }
  if (!errors.empty()) return fail(std::move(errors));
  return runs;
}

namespace {

std::string text_of(const std::string& value) { return value; }
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? fmt::format("{}", *value) : std::string();
}

}  // namespace

std::vector<std::pair<std::string, std::string>> cells_of(const Run& run) {
  std::vector<std::pair<std::string, std::string>> cells;
  columns(run, [&](std::string_view name, const auto& field) { cells.emplace_back(name, text_of(field)); });
  return cells;
}

std::vector<std::string> run_columns() {
  std::vector<std::string> names;
  for (const auto& [name, text] : cells_of(Run{})) names.push_back(name);
  return names;
}

}  // namespace plan
