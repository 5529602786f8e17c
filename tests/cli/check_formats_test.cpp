// Formats that other programs read, on names that need escaping. The published SARIF schema and a JUnit reader are
// tried in tests/validators.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <set>

#include "check_files.hpp"
#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

CheckReport awkward() {
  CheckedJob job{.name = "50 %: a, b\nsûr|`<x>&\"'\x01\xff", .title = "m|x on 8 x gpu", .budget = "bü dget:1,%.yaml"};
  Finding fail{.rule = "memory.peak",
               .state = State::Fail,
               .now = "63.0 GiB",
               .limit = "at most 60 GiB",
               .margin = "over by 3.0 GiB"};
  fail.message = "needs 50 %, or\r\nmore: ::error::";
  fail.place = {"bü dget:1,%.yaml", 9, 3, 11, "  memory.peak: at most 60 GiB"};
  fail.causes = {{.key = "seq", .before = "1", .after = "2", .where = "a b.sh:4", .place = {"a b.sh", 4, 1, 1, ""}}};
  Finding warn = fail;
  warn.rule = "mfu", warn.state = State::Warn, warn.causes.clear();
  Finding pass = fail;
  pass.rule = "gpus", pass.state = State::Pass;
  job.findings = {warn, pass, fail};
  return {.budgets = {job.budget}, .jobs = {job}};
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("GitHub: one annotation for each broken limit, failures first, escaped") {
  const std::vector<std::string> rows = lines(check_github(awkward()));
  REQUIRE(rows.size() == 5);
  CHECK(rows[0] == "::group::plan check");
  CHECK(rows[1].find("::error file=a b.sh,line=4,title=memory.peak (50 %25%3A a%2C b%0Asûr|`<x>&\"'") == 0);
  CHECK(rows[1].find("::needs 50 %25, or%0D%0Amore: ::error::; seq 1 -> 2 (a b.sh:4)") ==
        std::string::npos);  // \r is no text
  CHECK(rows[1].find("%0Amore: ::error::; seq 1 -> 2 (a b.sh:4)") != std::string::npos);
  CHECK(rows[2].find("::warning file=bü dget%3A1%2C%25.yaml,line=9,title=mfu") == 0);
  CHECK(rows[3] == "::endgroup::");
  CHECK(rows[4] == "plan check: 1 of 3 limits failed, 1 warning");
  CheckReport lenient = awkward();
  lenient.warn_only = true;
  CHECK(check_github(lenient).find("::error") == check_github(lenient).find("::error::;"));  // in a message alone
}

TEST_CASE("JUnit: escaped, no character that XML refuses") {
  const std::string text = check_junit(awkward());
  CHECK(text.find("tests=\"3\" failures=\"1\"") != std::string::npos);
  CHECK(text.find("&lt;x&gt;&amp;&quot;") != std::string::npos);
  for (const char c : text) CHECK((static_cast<unsigned char>(c) >= 0x20 || c == '\n'));
  CHECK(clean_text(text) == text);
}

TEST_CASE("SARIF: stable rules, places in the launch file and the budget") {
  const Json sarif = Json::parse(check_sarif(awkward()));
  CHECK(sarif["version"] == "2.1.0");
  const Json& run = sarif["runs"][0];
  std::set<std::string> ids;
  for (const Json& rule : run["tool"]["driver"]["rules"]) ids.insert(rule["id"].get<std::string>());
  CHECK(ids.size() == run["tool"]["driver"]["rules"].size());
  for (const char* id :
       {"memory.fit", "memory.peak", "memory.peak.since_baseline", "communication.dp.bytes", "layout", "profile"})
    CHECK(ids.contains(id));
  REQUIRE(run["results"].size() == 2);
  const Json& first = run["results"][0];
  CHECK(first["level"] == "error");
  CHECK(run["tool"]["driver"]["rules"][first["ruleIndex"].get<std::size_t>()]["id"] == first["ruleId"]);
  CHECK(first["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "a%20b.sh");
  CHECK(first["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "b%C3%BC%20dget%3A1%2C%25.yaml");
  CHECK(first["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == 9);
  CHECK(run["results"][1]["level"] == "warning");
  CHECK(!run["results"][1].contains("relatedLocations"));
}

TEST_CASE("Markdown: a table whose cells stay cells") {
  const std::string text = check_markdown(awkward());
  CHECK(text.find("### plan check: 1 of 3 limits failed, 1 warning\n") == 0);
  for (const std::string& row : lines(text))
    if (row.starts_with("| **memory.peak**")) CHECK(std::count(row.begin(), row.end(), '|') == 5);
  CHECK(text.find("<x>") == std::string::npos);
  CHECK(text.find("m\\|x on 8 x gpu") != std::string::npos);
}

TEST_CASE("Markdown: whatever a page or a table would take for its own is written so that it is text") {
  const std::pair<char, std::string> marks[] = {{'<', "&lt;"}, {'>', "&gt;"}, {'&', "&amp;"}, {'\\', "\\\\"},
                                                {'`', "\\`"},  {'*', "\\*"},  {'_', "\\_"},   {'[', "\\["},
                                                {']', "\\]"},  {'|', "\\|"},  {'#', "\\#"},   {'@', "\\@"},
                                                {'\n', " "},   {'\t', " "},   {'x', "x"},     {'(', "("}};
  for (const auto& mark : marks) {
    CheckedJob job{.name = "job", .title = std::string("ti") + mark.first + "tle", .budget = "b.yaml"};
    job.findings = {{.rule = "gpus", .state = State::Pass}};
    CheckReport report;
    report.jobs = {job};
    const std::string text = check_markdown(report);
    CAPTURE(text);
    CHECK(text.find("ti" + mark.second + "tle") != std::string::npos);
  }
}

TEST_CASE("Markdown: jobs that pass are folded away beside others, each job stands once, and a job alone is open") {
  const auto report = [](const std::vector<bool>& passes) {
    CheckReport all;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      CheckedJob job{.name = fmt::format("job{}", i), .title = "m", .budget = "b.yaml"};
      job.findings = {{.rule = "gpus", .state = passes[i] ? State::Pass : State::Fail}};
      all.jobs.push_back(job);
    }
    return check_markdown(all);
  };
  for (const std::vector<bool>& passes :
       {std::vector<bool>{true}, {false}, {true, true}, {true, false}, {false, true, true}, {false, false}}) {
    const std::string text = report(passes);
    CAPTURE(text);
    const std::size_t fold = text.find("<details>"), end = text.find("</details>");
    const bool folds = passes.size() > 1 && std::find(passes.begin(), passes.end(), true) != passes.end();
    CHECK((fold != std::string::npos) == folds);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const std::size_t at = text.find(fmt::format("job{}", i));
      REQUIRE(at != std::string::npos);
      CHECK(text.find(fmt::format("job{}", i), at + 1) == std::string::npos);
      CHECK((folds && fold < at && at < end) == (folds && passes[i]));
    }
  }
}

TEST_CASE("text that is no UTF-8 is mended, all else stays") {
  CHECK(clean_text("a\xff"
                   "b\x01\n\t\xc3\xa9\xed\xa0\x80") ==
        "a\xef\xbf\xbd"
        "b\xef\xbf\xbd\n\t\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  CHECK(clean_text("\xf0\x9f\x98\x80 ok") == "\xf0\x9f\x98\x80 ok");
}
