// Budget files, man/plan-budget.5. Tested by tests/cli/budget_file_test.cpp.
#include "cli/check/budget_file.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "cli/check/budget_keys.hpp"
#include "cli/check/limit_text.hpp"
#include "cli/terminal/numbers.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/text.hpp"
#include "presets/suggest.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostJobs = 10'000;

/// What a relative name in a budget means: from the budget's own folder.
std::string beside(const std::string& budget, const std::string& name) {
  if (name.empty() || name.front() == '/') return name;
  return (fs::path(budget).parent_path() / name).lexically_normal().string();
}

/// What others call the figures that limits are about, between commas.
constexpr std::pair<std::string_view, std::string_view> kMetricsElsewhere[] = {
    {"tokens_per_s", "throughput,tokens_per_second,tokens/s,tps"},
    {"memory.peak", "memory,peak_memory,peak_memory_bytes,max_memory,gpu_memory,vram"},
    {"memory.host", "host_memory,cpu_memory,ram,node_memory"},
    {"memory.activations", "activations"},
    {"step_time", "time,step_time_s,iteration_time"},
    {"mfu", "mfu_ratio,utilization,utilisation"},
    {"gpus", "num_gpus,world_size"},
    {"cost", "usd,dollars"},
    {"gpu_hours", "gpu_h"}};

std::vector<std::string> help_for_metric(std::string_view name) {
  for (const auto& [metric, words] : kMetricsElsewhere)
    for (const std::string_view word : split(words, ","))
      if (same_but_for_case(word, name)) return {fmt::format("write `{}`", metric)};
  std::vector<std::string_view> names;
  for (const MetricRow& known : metrics())
    if (known.metric != Metric::MemoryFit) names.push_back(known.name);
  const std::string near = nearest_name(name, names);
  return {near.empty() ? fmt::format("limits: {}", fmt::join(names, ", "))
                       : fmt::format("a limit with a similar name exists: `{}`", near)};
}

/// A limit in signs, `mfu: >= 38%`, is no YAML: what it is meant as, in the place of the parser's complaint.
Errors limits_in_signs(Errors errors) {
  for (Error& error : errors) {
    const std::string_view line = trim(error.place.text);
    const std::size_t colon = line.find(':');
    const MetricRow* row = colon == std::string_view::npos ? nullptr : find_metric(line.substr(0, colon));
    if (error.code != "yaml_syntax" || row == nullptr) continue;
    for (const bool since_baseline : {false, true}) {
      const std::string meant = meant_limit(trim(line.substr(colon + 1)), row->metric, since_baseline);
      if (meant.empty()) continue;
      error.message = fmt::format("`{}` says neither `at most` nor `at least`", row->name);
      error.code = "bad_limit", error.help = {fmt::format("write `{}: {}`", row->name, meant)};
      break;
    }
  }
  return errors;
}

/// The column of a value's first character: quotes are not part of its text.
int text_column(const Place& place) {
  const auto at = static_cast<std::size_t>(std::max(1, place.column) - 1);
  const bool quoted = at < place.text.size() && (place.text[at] == '"' || place.text[at] == '\'');
  return place.column + (quoted ? 1 : 0);
}

class BudgetReader {
 public:
  BudgetReader(yaml::Reader& reader, std::string file) : reader_(reader), file_(std::move(file)) {}

  Errors errors{};  ///< those whose place is inside a value

  BudgetJob job(yaml::Map& map, BudgetJob start);
  std::vector<BudgetJob> jobs(yaml::Map& root, const BudgetJob& defaults);
  /// One job, or one for each file that its `each` matches.
  void expand(BudgetJob job, std::vector<BudgetJob>& out);
  /// What keys that no budget has mean in it.
  yaml::Map::Meaning meanings(const yaml::Map& map, const BudgetJob& job) const;

 private:
  void words(yaml::Map& map, BudgetJob& job);
  void files(yaml::Map& map, BudgetJob& job);
  void limits(yaml::Map map, bool since_baseline, BudgetJob& job);
  void limit(const yaml::Node& key, const yaml::Node& value, bool since_baseline, BudgetJob& job);
  void amounts(BudgetJob& job);
  void needs_tokens(const BudgetJob& job);
  Word placed(const yaml::Node& node) const { return {node.text, reader_.place(node)}; }
  void bad(const Place& place, std::string code, std::string message, std::vector<std::string> help = {}) {
    errors.push_back({std::move(code), std::move(message), {}, std::move(help), place});
  }

  yaml::Reader& reader_;
  std::string file_;
};

void BudgetReader::words(yaml::Map& map, BudgetJob& job) {
  for (const std::string_view key : budget_words()) {
    std::string text;
    if (!map.text(key, text, yaml::kOptional)) continue;
    job.words[std::string(key)] = placed(*map.get(key));
  }
  for (const char* key : {"profile", "baseline", "model", "cluster", "gpu"}) {
    const auto found = job.words.find(key);
    if (found == job.words.end() || found->second.place.file != file_) continue;
    std::string& text = found->second.text;
    const bool file = std::string_view(key) == "profile" || std::string_view(key) == "baseline" ||
                      text.find('/') != std::string::npos || text.ends_with(".yaml") || text.ends_with(".json");
    if (file && map.has(key) && text != "none") text = beside(file_, text);
  }
}

void BudgetReader::files(yaml::Map& map, BudgetJob& job) {
  if (map.has("from") && map.has("each"))
    bad(reader_.place(*map.get("each")), "conflicting_keys", "`from` and `each` both name launch files",
        {"`from` names the files of one job, `each` files that are a job each"});
  if (map.has("from")) job.from.clear();
  for (const yaml::Node* node : map.list("from", yaml::kOptional)) {
    const std::vector<std::string> found = matching_files(node->text, fs::path(file_).parent_path().string());
    if (node->kind != yaml::Kind::Scalar)
      reader_.error(*node, "bad_value", "`from` is not a list of files");
    else if (found.empty())
      bad(reader_.place(*node), "no_such_file", fmt::format("no file `{}`", yaml::printable(beside(file_, node->text))),
          {fmt::format("files are named from the folder of `{}`", file_)});
    for (const std::string& file : found) job.from.push_back({file, reader_.place(*node)});
  }
}

void BudgetReader::limit(const yaml::Node& key, const yaml::Node& value, bool since_baseline, BudgetJob& job) {
  const std::string section = since_baseline ? "since_baseline" : "limits";
  const MetricRow* row = find_metric(key.text);
  if (row == nullptr) {
    reader_.error(key, "unknown_limit", fmt::format("unknown limit `{}`", yaml::printable(key.text)),
                  help_for_metric(key.text));
    return;
  }
  if (value.kind != yaml::Kind::Scalar) {
    reader_.error(value.kind == yaml::Kind::Null ? key : value, "bad_limit",
                  fmt::format("`{}.{}` is no limit", section, key.text), {"write `at most` or `at least` and a value"});
    return;
  }
  tl::expected<Limit, LimitMistake> limit = read_limit(value.text, row->metric, since_baseline);
  if (!limit) {
    Place place = reader_.place(value);
    place.column = text_column(place) + static_cast<int>(limit.error().offset);
    place.length = std::max(1, static_cast<int>(limit.error().length));
    bad(place, limit.error().code, fmt::format("`{}.{}` {}", section, key.text, limit.error().problem),
        {limit.error().help});
    return;
  }
  limit->place = reader_.place(key);
  std::erase_if(job.budget.limits, [&](const Limit& other) {
    return other.metric == limit->metric && other.since_baseline == since_baseline;
  });
  job.budget.limits.push_back(std::move(*limit));
}

void BudgetReader::limits(yaml::Map map, bool since_baseline, BudgetJob& job) {
  for (const auto& [key, value] : map.entries()) limit(*key, *value, since_baseline, job);
}

/// tokens, price and risk, which belong to the budget and not to the job.
void BudgetReader::amounts(BudgetJob& job) {
  const auto amount = [&](const char* key, std::string_view unit, double most, const char* example, double& out) {
    const auto found = job.words.find(key);
    if (found == job.words.end()) return;
    std::string_view text = found->second.text;
    if (text.ends_with(unit)) text.remove_suffix(unit.size());
    while (text.ends_with(' ')) text.remove_suffix(1);
    const Result<double> value = read_amount(key, text, most, example);
    if (value)
      out = *value;
    else
      for (const Error& error : value.error()) bad(found->second.place, error.code, error.message, error.help);
  };
  amount("tokens", "tokens", kMostTrainedTokens, "15.6T", job.budget.run.tokens);
  amount("price", "USD/h", kMostPrice, "2.5", job.budget.run.price);
  if (const auto found = job.words.find("risk"); found != job.words.end()) {
    if (found->second.text != "yes" && found->second.text != "at-risk")
      bad(found->second.place, "unknown_word", fmt::format("unknown `risk` `{}`", yaml::printable(found->second.text)),
          {"one of: yes, at-risk"});
    job.budget.risk = found->second.text == "at-risk" ? Risk::AtRisk : Risk::Yes;
  }
  needs_tokens(job);
}

/// One error for all limits of a whole run; none where another value is mistaken.
void BudgetReader::needs_tokens(const BudgetJob& job) {
  std::vector<std::string> names;
  std::optional<Place> first;
  for (const Limit& limit : job.budget.limits)
    if (limit.metric == Metric::GpuHours || limit.metric == Metric::Cost) {
      names.push_back(fmt::format("`{}`", metric_row(limit.metric).name));
      if (!first) first = limit.place;
    }
  if (names.empty() || job.words.contains("tokens") || reader_.failed()) return;
  bad(*first, "missing_key",
      fmt::format("{} {} the tokens of the whole run", fmt::join(names, " and "), names.size() == 1 ? "needs" : "need"),
      {"write `tokens: 15T` beside `limits`"});
}

BudgetJob BudgetReader::job(yaml::Map& map, BudgetJob start) {
  BudgetJob job = std::move(start);
  job.place = reader_.place(map.node());
  words(map, job);
  files(map, job);
  std::string pattern;
  if (map.text("each", pattern, yaml::kOptional)) job.words["each"] = placed(*map.get("each"));
  limits(map.map("limits", yaml::kOptional), false, job);
  limits(map.map("since_baseline", yaml::kOptional), true, job);
  return job;
}

void BudgetReader::expand(BudgetJob job, std::vector<BudgetJob>& out) {
  amounts(job);
  const auto each = job.words.find("each");
  if (each == job.words.end()) return out.push_back(std::move(job));
  const Word pattern = each->second;
  job.words.erase(each);
  const std::vector<std::string> found = matching_files(pattern.text, fs::path(file_).parent_path().string());
  if (found.empty())
    bad(pattern.place, "no_such_file",
        fmt::format("no file matches `{}`", yaml::printable(beside(file_, pattern.text))),
        {fmt::format("files are named from the folder of `{}`", file_)});
  for (const std::string& file : found) {
    BudgetJob one = job;
    one.name = job.name.empty() ? file : fmt::format("{} {}", job.name, file);
    one.from = {{file, pattern.place}};
    out.push_back(std::move(one));
  }
}

yaml::Map::Meaning BudgetReader::meanings(const yaml::Map& map, const BudgetJob& job) const {
  return [&map, &job](const std::string& key) {
    const auto layout = job.words.find("layout");
    return meant_keys(key, map.node().items, layout == job.words.end() ? "" : layout->second.text);
  };
}

std::vector<BudgetJob> BudgetReader::jobs(yaml::Map& root, const BudgetJob& defaults) {
  std::vector<BudgetJob> out;
  const std::vector<const yaml::Node*> items = root.list("jobs");
  if (const yaml::Node* list = root.get("jobs"); items.empty() && list != nullptr && list->kind == yaml::Kind::Sequence)
    reader_.error(*list, "bad_value", "`jobs` is empty");
  for (std::size_t i = 0; i < items.size() && i < kMostJobs; ++i) {
    yaml::Map map = reader_.map(*items[i], fmt::format("jobs[{}]", i));
    BudgetJob start = defaults;
    start.name.clear();
    std::string name;
    const bool named = map.text("name", name);
    BudgetJob one = job(map, std::move(start));
    map.finish(meanings(map, one));
    one.name = name;
    if (named && std::any_of(out.begin(), out.end(), [&](const BudgetJob& o) { return o.name == name; }))
      reader_.error(*map.get("name"), "given_twice", fmt::format("two jobs are named `{}`", yaml::printable(name)));
    expand(std::move(one), out);
  }
  return out;
}

}  // namespace

const std::vector<std::string_view>& budget_words() {
  static const std::vector<std::string_view> kWords = [] {
    std::vector<std::string_view> words = job_words();
    words.insert(words.end(), {"tokens", "price", "baseline", "risk"});
    return words;
  }();
  return kWords;
}

std::vector<std::string> matching_files(const std::string& pattern, const std::string& base) {
  const bool absolute = pattern.empty() || pattern.front() == '/';
  const std::string whole = absolute ? pattern : (fs::path(base) / pattern).lexically_normal().string();
  std::vector<std::string> out;
  glob_t found{};
  if (::glob(whole.c_str(), GLOB_NOSORT, nullptr, &found) == 0)
    for (std::size_t i = 0; i < found.gl_pathc; ++i) out.emplace_back(found.gl_pathv[i]);
  ::globfree(&found);
  std::sort(out.begin(), out.end());
  return out;
}

Result<BudgetFile> read_budget_file(const std::string& path) {
  Result<std::string> text = yaml::read_text(path);
  if (!text) return fail(text.error());
  return read_budget_text(std::move(*text), path);
}

Result<BudgetFile> read_budget_text(std::string text, const std::string& path) {
  Result<yaml::Document> document = yaml::parse(std::move(text), path);
  if (!document) return fail(limits_in_signs(document.error()));
  yaml::Reader reader(*document);
  BudgetReader budget(reader, path);
  yaml::Map root = reader.root();
  const yaml::Node* version = root.get("budget", yaml::kOptional);
  if (version == nullptr && root.has("preset"))
    reader.error(*root.get("preset"), "wrong_preset", "`preset` begins a file that is no budget",
                 {"write `budget: 1`, and the limits under `limits`: plan-budget(5)"});
  if (version == nullptr && root.has("schema"))
    reader.error(document->root, "wrong_preset", "`schema` begins a report, and a budget begins with `budget: 1`",
                 {"compare with a report as `--baseline FILE`; in a budget write `budget: 1` instead"});
  if (document->root.kind != yaml::Kind::Map || (version == nullptr && (root.has("preset") || root.has("schema"))))
    return fail(reader.take());
  const bool without_value = version == nullptr && root.has("budget");  // which is said already
  if (!without_value && (version == nullptr || version->text != "1"))
    reader.error(version != nullptr ? *version : document->root, version != nullptr ? "bad_value" : "missing_key",
                 version != nullptr ? "`budget` is the version of the format, 1" : "`budget` is missing",
                 {"write `budget: 1`, and the limits under `limits`"});
  BudgetJob only = budget.job(root, {});
  only.budget.limits.insert(only.budget.limits.begin(), {.metric = Metric::MemoryFit, .fail = Bound{}});
  root.text("name", only.name, yaml::kOptional);
  BudgetFile file{path, {}};
  if (root.get("jobs", yaml::kOptional) != nullptr)
    file.jobs = budget.jobs(root, only);
  else
    budget.expand(only, file.jobs);
  root.finish(budget.meanings(root, only));
  Errors errors = reader.take();
  const auto stranger = [](const Error& error) { return error.code == "unknown_key"; };
  if (std::any_of(errors.begin(), errors.end(), stranger))  // which may be the key that is missed
    std::erase_if(budget.errors, [](const Error& error) { return error.code == "missing_key"; });
  errors.insert(errors.end(), budget.errors.begin(), budget.errors.end());
  std::stable_sort(errors.begin(), errors.end(),
                   [](const Error& a, const Error& b) { return a.place.line < b.place.line; });
  errors.erase(std::unique(errors.begin(), errors.end()), errors.end());
  if (!errors.empty()) return fail(std::move(errors));
  return file;
}

}  // namespace plan
