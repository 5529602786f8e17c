#include "cli/report/runs/validation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/commands/commands.hpp"
#include "cli/request/run_files.hpp"
#include "contents.hpp"
#include "temporary_folder.hpp"

using namespace plan;
using Json = nlohmann::ordered_json;

namespace {

const std::string kPublished = PLAN_SOURCE_DIR "/tests/published/";

std::vector<std::string> published_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(kPublished + "runs"))
    if (entry.path().extension() == ".csv") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

/// Every published run, predicted with the presets of the program alone.
const Validation& published() {
  static const Validation result = [] {
    const auto runs = read_run_files(published_files());
    REQUIRE(runs.has_value());
    return validate(*runs, preset_catalogue({}));
  }();
  return result;
}

/// Numbers chosen by hand, so that the screens do not move with the predictions.
Validation validation_sample() {
  Validation v;
  ScoredRun good;
  good.run.id = "a<1>", good.run.suite = "mine", good.run.quality = "A";
  good.run.model = "m, \"x\"", good.run.gpu = "h100-sxm";
  good.run.gpus = 8;
  good.step_time = Compared{2.0, 2.1, 1.9, 2.3};
  good.memory = Compared{8 * kGiB, 7 * kGiB, 6 * kGiB, 9 * kGiB};
  good.run.memory_kind = "reserved";
  good.fits = true, good.fitted = true;
  ScoredRun other = good;
  other.run.id = "b", other.step_time = Compared{4.0, 3.0, 2.7, 3.3}, other.memory.reset();
  ScoredRun missed;
  missed.run.id = "c", missed.run.suite = "mine", missed.reason = "no preset is called `gpt-9`";
  ScoredRun missed_too = missed;
  missed_too.run.id = "d", missed_too.reason = "no preset is called `gpt-10`";
  v.runs = {good, other, missed, missed_too};
  v.scored = 2;
  SuiteScore score;
  score.step_time = {2, 0.15, 0.15, 0.23, -0.1};
  score.memory["reserved"] = {1, 0.125, 0.125, 0.125, -0.125};
  score.fit = {2, 1, 0.5};
  score.ranking = {1, 0, 0, 1};
  score.coverage = {0.5, 1, 2, 1};
  v.suites["mine"] = score;
  v.overall = score;
  return v;
}

}  // namespace

TEST_CASE("the screen of a validation") {
  const std::string expected = R"(4 runs, 2 scored in 1 suite

Step time                n   median     mean      p90      bias  inside
  mine                   2   15.0 %   15.0 %   23.0 %   -10.0 %    50 %

Memory               kind                   n   median      p90     bias  inside
  mine               reserved               1   12.5 %   12.5 %  -12.5 %   100 %

Fits or not              n  correct  balanced
  mine                   2        1    50.0 %

Choosing a layout   groups  median regret  p90 regret  Kendall tau
  mine                   1          0.0 %       0.0 %         1.00

Not scored
     2  no preset is called `gpt-9`, or the like
        each by name: --rows FILE or --json

Errors are |predicted / measured - 1|; bias is their signed mean, inside the
share of measurements within the printed interval. Overall weighs every suite
the same.
)";
  CHECK(validation_text(validation_sample(), Terminal{}) == expected);
}

TEST_CASE("every line of the published validation fits 80 columns") {
  std::istringstream lines(validation_text(published(), Terminal{}));
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(display_width(line) <= 80);
    CHECK_FALSE(line.ends_with(' '));
  }
}

TEST_CASE("JSON has the documented keys, null where there is nothing") {
  const Json json = Json::parse(validation_json(validation_sample()));
  CHECK(json.begin().key() == "schema");
  CHECK(json["schema"] == "plan-validate/1");
  CHECK(json["rows"] == 4);
  CHECK(json["scored"] == 2);
  CHECK(json["skipped"][0] == Json{{"id", "c"}, {"reason", "no preset is called `gpt-9`"}});
  const Json expected = Json::parse(R"({
    "step_time": {"n": 2, "median_ape": 0.15, "mape": 0.15, "p90_ape": 0.23, "bias": -0.1},
    "memory": {"reserved": {"n": 1, "median_ape": 0.125, "p90_ape": 0.125, "bias": -0.125}},
    "fit": {"n": 2, "correct": 1, "balanced_accuracy": 0.5},
    "ranking": {"groups": 1, "median_regret": 0.0, "p90_regret": 0.0, "kendall_tau": 1.0},
    "coverage": {"step_time": 0.5, "memory": 1.0}})");
  CHECK(json["suites"]["mine"] == expected);
  CHECK(json["overall"] == expected);
  const Json nothing = Json::parse(validation_json({}));
  CHECK(nothing["overall"]["step_time"]["n"] == 0);
  for (const char* statistic : {"/step_time/median_ape", "/step_time/mape", "/step_time/p90_ape", "/step_time/bias",
                                "/fit/balanced_accuracy", "/ranking/median_regret", "/ranking/p90_regret",
                                "/ranking/kendall_tau", "/coverage/step_time", "/coverage/memory"}) {
    CAPTURE(statistic);
    CHECK(nothing["overall"].at(Json::json_pointer(statistic)).is_null());
  }
  CHECK(nothing["suites"].is_object());
}

TEST_CASE("of one run every statistic is known, and all but its sign are the same") {
  Validation one;
  one.suites["mine"].step_time = score_errors({Compared{2.0, 2.2, 2.0, 2.4}});
  const Json score = Json::parse(validation_json(one))["suites"]["mine"]["step_time"];
  CHECK(score["n"] == 1);
  for (const char* key : {"median_ape", "mape", "p90_ape", "bias"}) {
    CAPTURE(std::string(key));
    REQUIRE(score[key].is_number());
    CHECK(score[key].get<double>() == doctest::Approx(0.1));
  }
}

TEST_CASE("every format of a validation has the same runs, and each is its own format") {
  const std::string file = kPublished + "runs/" + std::filesystem::path(published_files().front()).filename().string();
  const auto printed = [&](std::vector<std::string> words) {
    Streams streams;
    words.insert(words.begin(), {"validate", file});
    CHECK(run_command_line(words, streams) == 0);
    CAPTURE(streams.err);
    return streams.out;
  };
  const std::string json = printed({"--format", "json"}), page = printed({"--format", "html"}), screen = printed({});
  CHECK(printed({"--json"}) == json);
  CHECK(Json::parse(json)["schema"] == "plan-validate/1");
  CHECK(page.find("<html") != std::string::npos);
  CHECK(screen.find('<' + std::string("html")) == std::string::npos);
  CHECK(screen.find("\"schema\"") == std::string::npos);
  CHECK(printed({"--format", "human"}) == screen);
}

TEST_CASE("one CSV line a run, quoted, in the order of the files") {
  std::istringstream lines(validation_rows(validation_sample()));
  std::string header, first, second, third;
  std::getline(lines, header), std::getline(lines, first), std::getline(lines, second), std::getline(lines, third);
  CHECK(first ==
        "a<1>,mine,A,\"m, \"\"x\"\"\",h100-sxm,8,2,2.1,0.05000,1.9,2.3,reserved,8589934592,7516192768,-0.12500,"
        "6442450944,9663676416,yes,yes,,");
  CHECK(second.ends_with(",4,3,-0.25000,2.7,3.3,,,,,,,yes,yes,,"));
  CHECK(third == "c,mine,,,,,,,,,,,,,,,,,,no preset is called `gpt-9`,");
  CHECK(std::count(header.begin(), header.end(), ',') == std::count(third.begin(), third.end(), ','));
}

TEST_CASE("the page is well-formed, has every point and no script") {
  for (const std::string& page :
       {validation_html(validation_sample()), validation_html({}), validation_html(published())}) {
    std::vector<std::string> open;
    for (std::size_t at = page.find('<', 1); at != std::string::npos; at = page.find('<', at + 1)) {
      const std::size_t end = page.find('>', at);
      REQUIRE(end != std::string::npos);
      const std::string tag = page.substr(at + 1, end - at - 1);
      if (tag.ends_with('/') || tag.starts_with("meta")) continue;
      if (!tag.starts_with('/')) {
        open.push_back(tag.substr(0, tag.find(' ')));
        continue;
      }
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == tag.substr(1));
      open.pop_back();
    }
    CHECK(open.empty());
    CHECK(page.find("<script") == std::string::npos);
    CHECK(page.find("http") == std::string::npos);
    CHECK(page.size() < 200'000);
  }
  const std::string page = validation_html(validation_sample());
  CHECK(page.find("<title>a&lt;1&gt; 2 +5.0 %</title>") != std::string::npos);
  const auto count = [&](std::string_view what) {
    int n = 0;
    for (std::size_t at = page.find(what); at != std::string::npos; at = page.find(what, at + 1)) ++n;
    return n;
  };
  CHECK(count("<circle cx") == 3);
  CHECK(count("nan") == 0);
}

TEST_CASE("mistakes of all files come with the line they stand in") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  const std::string path = folder + "/plan_runs_test.csv";
  std::ofstream(path) << "id,gpus\r\na,8\r\nb,many\r\n";
  const auto runs = read_run_files({path, folder + "/no_such_file.csv"});
  std::filesystem::remove(path);
  REQUIRE_FALSE(runs.has_value());
  REQUIRE(runs.error().size() == 2);
  CHECK(runs.error()[0].place.line == 3);
  CHECK(runs.error()[0].place.column == 3);
  CHECK(runs.error()[0].place.text == "b,many");
  CHECK(runs.error()[1].code == "unreadable_file");
}

TEST_CASE("a slip in the name of a column is answered with the one that the header lacks") {
  const TemporaryFolder folder;
  const std::vector<std::string> columns = run_columns();
  int answered = 0;
  for (const std::string& column : columns)
    for (std::size_t at = 0; at < column.size(); ++at) {
      std::string slip = column;
      if (at + 1 < column.size())
        std::swap(slip[at], slip[at + 1]);
      else
        slip.pop_back();
      if (slip.empty() || std::find(columns.begin(), columns.end(), slip) != columns.end()) continue;
      std::string header;
      for (const std::string& one : columns) header += (header.empty() ? "" : ",") + (one == column ? slip : one);
      CAPTURE(header);
      const auto runs = read_run_files({folder.write("r.csv", header + "\n")});
      REQUIRE_FALSE(runs.has_value());
      REQUIRE(runs.error().size() == 1);
      const std::string& help = runs.error().front().help.front();
      const bool named = help.find("write `") != std::string::npos;
      CHECK(named == (help.find("write `" + column + "`") != std::string::npos));
      answered += named ? 1 : 0;
    }
  CHECK(answered > 100);
}

TEST_CASE("a word of a file of runs that is none comes with the word or the number to write") {
  const std::pair<const char*, const char*> cases[] = {{"step_time_ms\nx,1\n", "`step_time_s`"},
                                                       {"seq_length\nx,1\n", "`seq`"},
                                                       {"tensor-model-parallel-size\nx,1\n", "`tp`"},
                                                       {"global_batch_size\nx,1\n", "`global_batch`"},
                                                       {"step_time_s\nx,5200 ms\n", "`5.2`"},
                                                       {"seq\nx,8k\n", "`8192`"},
                                                       {"seq\nx,\"8,192\"\n", "`8192`"},
                                                       {"peak_memory_gib\nx,40960 MiB\n", "`40`"},
                                                       {"inter_gb_s\nx,400 Gb/s\n", "`50`"},
                                                       {"mfu\nx,38 %\n", "`0.38`"},
                                                       {"mfu\nx,38\n", "0.38"},
                                                       {"tflops_per_gpu\nx,0.4 PFLOP/s\n", "`400`"}};
  const TemporaryFolder folder;
  for (const auto& one : cases) {
    CAPTURE(one.first);
    const auto runs = read_run_files({folder.write("r.csv", std::string("id,") + one.first)});
    REQUIRE_FALSE(runs.has_value());
    REQUIRE(runs.error().size() == 1);
    CHECK(runs.error().front().help.front().find(one.second) != std::string::npos);
  }
  const std::string row = "a,64\n";
  const std::string file = folder.write("twice.csv", "id,gpus\n" + row + row);
  CHECK(read_run_files({file})->back().status == "duplicate");
  CHECK(read_run_files({file})->front().status.empty());
}

TEST_CASE("a run names presets, never files, and may have a cluster of its own") {
  const Catalogue catalogue = preset_catalogue({});
  CHECK(catalogue.model("Llama 3.1 70B").has_value());
  CHECK_FALSE(catalogue.model(PLAN_SOURCE_DIR "/presets/models/llama3-70b.yaml").has_value());
  CHECK_FALSE(catalogue.cluster("h101", 8, 8).has_value());
  const Cluster four = catalogue.cluster("h100-sxm", 4, 16).value();
  CHECK(four.gpus_per_node == 4);
  CHECK(four.tiers.front().size == 4);
  Cluster own = catalogue.cluster("h100-sxm", 8, 16).value();
  own.calibration.gemm = 0.5;
  const Catalogue mine = preset_catalogue({}, own);
  CHECK(mine.cluster("h100-sxm", 8, 16)->calibration.gemm == 0.5);
  CHECK(mine.cluster("a100-sxm-80gb", 8, 16)->calibration.gemm != 0.5);
}

TEST_CASE("plan-runs(5) documents every column, plan-json(5) every key") {
  const std::string page = contents_of(PLAN_SOURCE_DIR "/man/plan-runs.5");
  std::ifstream file(kPublished + "runs/bloom.csv");
  std::string header;
  file >> header;  // one word, whatever ends the line
  std::istringstream names(header);
  int columns = 0;
  for (std::string name; std::getline(names, name, ','); ++columns) {
    CAPTURE(name);
    CHECK((page.find("Ic " + name) != std::string::npos || page.find(", " + name) != std::string::npos));
  }
  CHECK(columns > 40);
  const std::string json = contents_of(PLAN_SOURCE_DIR "/man/plan-json.5");
  for (const char* key :
       {"rows",   "scored",        "skipped",    "reason",      "suites",  "overall", "step_time",         "median_ape",
        "mape",   "p90_ape",       "bias",       "memory",      "fit",     "correct", "balanced_accuracy", "ranking",
        "groups", "median_regret", "p90_regret", "kendall_tau", "coverage"}) {
    CAPTURE(key);
    CHECK(json.find(key) != std::string::npos);
  }
}

namespace {

/// One line of the table: the error of a suite's step time, or of one kind of its memory figures.
struct TableRow {
  int n = 0;
  double median = 0, p90 = 0;  ///< percent
};
using Table = std::map<std::string, TableRow>;

Table table_of(const Validation& validation) {
  Table table;
  const auto add = [&](const std::string& suite, const SuiteScore& score) {
    const auto row = [](const ErrorScore& e) { return TableRow{e.n, 100 * e.median_ape, 100 * e.p90_ape}; };
    if (score.step_time.n > 0) table[suite + " step_time"] = row(score.step_time);
    for (const auto& [kind, e] : score.memory) table[suite + " " + kind] = row(e);
  };
  for (const auto& [name, score] : validation.suites) add(name, score);
  add("overall", validation.overall);
  return table;
}

Table read_table(const std::string& path) {
  Table table;
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);  // heading
  for (std::string suite, what; file >> suite >> what;) {
    TableRow& row = table[suite + " " + what];
    file >> row.n >> row.median >> row.p90;
  }
  return table;
}

void write_table(const std::string& path, const Table& table) {
  std::ofstream file(path);
  file << "suite quantity n median_percent p90_percent\n";
  for (const auto& [name, row] : table) {
    char text[64];
    std::snprintf(text, sizeof text, " %d %.2f %.2f\n", row.n, row.median, row.p90);
    file << name << text;
  }
}

}  // namespace

// `tests/tools/renew.sh errors` rewrites the table, for a change that improves on it, and prints what moved. A run
// that renews compares nothing: it would compare the table with itself.
TEST_CASE("no suite's error grows by more than a fiftieth, neither in the middle nor at the end") {
  constexpr double kGrowth = 1.02;
  constexpr double kRounding = 0.02;  // percent: the table has two decimals
  const std::string path = kPublished + "validation_table.txt";
  const Table now = table_of(published());
  if (std::getenv("PLAN_UPDATE_GOLDEN") != nullptr) return write_table(path, now);
  const Table before = read_table(path);
  CHECK(before.size() > 20);
  for (const auto& entry : before) {
    const std::string& name = entry.first;
    const auto& row = entry.second;
    CAPTURE(name);
    REQUIRE(now.count(name) == 1);
    CHECK(now.at(name).median <= kGrowth * row.median + kRounding);
    CHECK(now.at(name).p90 <= kGrowth * row.p90 + kRounding);
    CHECK(now.at(name).n >= row.n);  // an error that shrinks because runs are left out is none
  }
  MESSAGE(validation_text(published(), Terminal{}));
}
