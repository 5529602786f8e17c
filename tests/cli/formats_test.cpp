// What a report says to people it says in every format: no row, reason or warning is left out where the page is
// Markdown or HTML instead of a screen.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>
#include <string>
#include <vector>

#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"
#include "cli/report/parts/tables.hpp"
#include "cli/report/plan/report.hpp"
#include "cli/report/runs/diagnosis.hpp"
#include "cli/report/runs/diagnosis_rows.hpp"
#include "oracle/random_problem.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"
#include "planner/rules/frameworks.hpp"
#include "presets/store.hpp"
#include "sample_plan.hpp"

using namespace plan;

namespace {

/// A page as it is read: without tags, marks and line ends, words a blank apart.
std::string as_read(std::string page) {
  const auto all = [&](std::string_view from, std::string_view to) {
    for (std::size_t at = page.find(from); at != std::string::npos; at = page.find(from, at + to.size()))
      page.replace(at, from.size(), to);
  };
  for (const char* tag : {"<b>", "</b>", "<code>", "</code>"}) all(tag, "");
  for (std::size_t at = page.find('<'); at != std::string::npos; at = page.find('<', at)) {
    const std::size_t end = page.find('>', at);
    if (end == std::string::npos) break;
    page.replace(at, end - at + 1, " ");
  }
  all("&lt;", "<"), all("&gt;", ">"), all("&quot;", "\""), all("&amp;", "&");
  all("\\", ""), all("*", ""), all("`", "");
  std::string out;
  for (const char c : page)
    if (c != '\n' && c != ' ')
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  return out;
}

void says(const std::string& page, const std::string& words) {
  CAPTURE(page);
  CAPTURE(words);
  CHECK(page.find(as_read(words)) != std::string::npos);
}

/// Words that no escape of any format touches.
std::string any_words(std::mt19937& random, const char* what) { return fmt::format("{} {}", what, random() % 100000); }

Finding any_finding(std::mt19937& random) {
  const auto text = [&](const char* what) { return any_words(random, what); };
  Finding out{.rule = fmt::format("rule.number{}", random() % 1000),
              .state = static_cast<State>(random() % 3),
              .now = text("now"),
              .limit = text("at most"),
              .margin = text("over by"),
              .change = text("more by")};
  out.verdict = Verdict{};
  out.verdict->limit.since_baseline = random() % 3 == 0;
  out.verdict->now.value = 2e9;
  if (random() % 2 == 0) out.verdict->before = 1e9;
  if (random() % 4 == 0) out.predicted = 3e9;
  out.message = text("needs");
  out.place = {"budget.yaml", static_cast<int>(1 + random() % 90), 3, 11, "  memory"};
  if (random() % 2 == 0) out.facts = {text("fact"), text("fact")};
  if (random() % 2 == 0)
    out.causes = {{.key = "seq", .before = text("from"), .after = text("to"), .where = "a.sh:4", .place = {}}};
  if (random() % 2 == 0) out.help = {text("help")};
  if (random() % 2 == 0) out.allow = text("allow");
  return out;
}

CheckedJob any_job(std::mt19937& random) {
  CheckedJob job{.name = any_words(random, "job"), .title = any_words(random, "model"), .budget = "budget.yaml"};
  if (random() % 2 == 0) job.plan = sample::plan();
  if (random() % 2 == 0) job.baseline = fmt::format("before{}.json", random() % 100);
  for (unsigned i = 0; i < 1 + random() % 3; ++i) job.findings.push_back(any_finding(random));
  job.findings.front().state = State::Fail;  // so that no screen is content with one line
  if (random() % 2 == 0)
    job.suggestions = {
        {.steps = {{.key = "micro_batch", .before = "2", .after = any_words(random, "step"), .place = {}}},
         .peak = Bytes(40'000'000'000),
         .step_time = Seconds(2.5),
         .restores = random() % 2 == 0}};
  job.notes = {{"note", any_words(random, "note")}};
  return job;
}

}  // namespace

TEST_CASE("a check says the same on a screen, in Markdown and in HTML") {
  std::mt19937 random(11);
  Terminal terminal;
  terminal.width = 1000;
  for (int round = 0; round < oracle::rounds(200); ++round) {
    const CheckedJob job = any_job(random);
    const CheckReport report{.budgets = {job.budget}, .jobs = {job}};
    const std::string screen = as_read(check_human(report, terminal)), markdown = as_read(check_markdown(report)),
                      html = as_read(check_html(report));
    for (const std::string& page : {screen, markdown, html}) {
      says(page, summary_text(report));
      says(page, job.title);
      for (const std::string& line : basis_of(job)) says(page, line);
      for (const Note& note : job.notes) says(page, note.text);
      for (const Finding& f : job.findings) {
        for (const std::string& cell : {f.rule, f.now, f.limit, f.margin}) says(page, cell);
        if (f.state == State::Pass) continue;
        says(page, f.message);
        for (const std::string& fact : f.facts) says(page, fact);
        for (const Cause& cause : f.causes) says(page, cause_text(f, cause));
        for (const std::string& help : f.help) says(page, help);
      }
      for (const Suggestion& s : job.suggestions) {
        says(page, steps_text(s, true));
        CHECK((page.find("restores the baseline") != std::string::npos) == s.restores);
      }
      for (const Finding& f : job.findings)
        if (!f.allow.empty()) says(page, f.allow);
      CHECK((page.find("no change that was tried") != std::string::npos) == job.suggestions.empty());
    }
    const CheckTable table = check_table(job);
    for (const CheckRow& row : table.rows)
      for (const std::string& page : {markdown, html}) {
        says(page, row.now), says(page, row.budget);
        if (!table.change.empty()) says(page, row.change);
      }
  }
}

TEST_CASE("a plan says its figures and its rules of thumb in Markdown and in HTML alike") {
  Problem problem;
  problem.model = load_model("8b", StoreOptions{}).value().value;
  problem.cluster = load_cluster("dgx-h100", StoreOptions{}).value().value;
  problem.training.seq = 8192, problem.training.global_batch = 512;
  problem.training.stack = framework_row(Framework::Any).stack;
  problem.gpus = 64;
  problem.fixed.tp = 2, problem.fixed.pp = 2;
  Plan plan = plan_layout(problem, complete_layout(problem)).value();
  plan.notes = {{"note", "what a reader must know"}};
  plan.thumbs = {{.rule = "rule", .text = "a rule that is broken", .why = "and why it holds"}};
  const std::string markdown = as_read(markdown_report(plan, {})), html = as_read(html_report(plan, {}));
  for (const std::string& page : {markdown, html}) {
    says(page, parameters_text(plan.problem.model));
    says(page, batch_text(plan.problem.training));
    for (const Headline& one : headlines(plan, {})) {
      says(page, one.value);
      says(page, one.more);
    }
    says(page, "a rule that is broken; and why it holds");
    for (const Note& note : plan.notes) says(page, note.text);
  }
}

TEST_CASE("a diagnosis says the same on a screen, in Markdown and in HTML") {
  const Fault fault{.code = "slow",
                    .what = "a network that gives less",
                    .look = "its cables",
                    .confirm = "a measurement",
                    .least = 0.1,
                    .possible = nullptr,
                    .parts = nullptr};
  std::mt19937 random(12);
  Terminal terminal;
  terminal.width = 1000;
  for (int round = 0; round < oracle::rounds(60); ++round) {
    DiagnosisReport report;
    report.plan = sample::plan();
    const auto seconds = [&] { return 0.1 + static_cast<double>(random() % 1000) / 1e2; };
    for (const Observable part : {Observable::Step, Observable::Compute, Observable::Tp})
      report.diagnosis.parts.push_back({part, seconds(), seconds(), seconds() / 50});
    if (random() % 4 != 0) report.diagnosis.worst = Observable::Tp;
    for (unsigned i = 0; report.diagnosis.worst && i < random() % 7; ++i) {
      Suspect suspect{};
      suspect.fault = &fault;
      suspect.share = static_cast<double>(random() % 100) / 100;
      suspect.besides = i > 0 && random() % 2 == 0;
      suspect.evidence = {{.fault = "slow", .speaks_for = random() % 2 == 0, .text = any_words(random, "evidence")}};
      report.diagnosis.suspects.push_back(suspect);
    }
    report.memory = {{"reserved",
                      RealBytes(4e10 + static_cast<double>(random() % 1000) * 1e8),
                      RealBytes(5e10),
                      {any_words(random, "it is")}}};
    for (unsigned rank = 0; rank < random() % 3; ++rank) {
      TraceTimes times{};
      times.steps = 3;
      times.families[0] = seconds(), times.gaps = seconds();
      times.parts[static_cast<std::size_t>(Observable::Step)] = seconds() + 20;
      times.parts[static_cast<std::size_t>(Observable::Compute)] = seconds();
      report.traces.push_back(times);
      report.trace_files.push_back(fmt::format("rank{}.json", rank));
    }
    report.notes = {{"note", any_words(random, "note")}};
    const std::string pages[] = {as_read(diagnosis_text(report, terminal)), as_read(diagnosis_markdown(report)),
                                 as_read(diagnosis_html(report))};
    for (const std::string& page : pages) {
      for (const ComparedRow& row : compared_rows(report))
        for (const std::string& cell : {row.part, row.measured, row.predicted, row.off, row.interval}) says(page, cell);
      CHECK((page.find("Nothing stands out") == std::string::npos) == report.diagnosis.worst.has_value());
      for (const SuspectRow& row : suspect_rows(report)) {
        says(page, row.share), says(page, row.fault);
        for (const std::string& seen : row.evidence) says(page, seen);
      }
      for (const TraceRow& row : kernel_rows(report)) says(page, row.what), says(page, row.time);
      for (const RankRow& row : rank_rows(report)) says(page, row.file), says(page, row.communication);
      for (const std::string& line : memory_lines(report)) says(page, line.substr(line.find_first_not_of(' ')));
      for (const Note& note : report.notes) says(page, note.text);
    }
  }
}
