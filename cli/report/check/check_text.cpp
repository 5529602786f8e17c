// Sentences that every format of `plan check` shares. Tested by tests/cli/check_formats_test.cpp.
#include "cli/report/check/check_text.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "cli/check/limit_text.hpp"
#include "cli/terminal/format.hpp"
#include "presets/characters.hpp"

namespace plan {
namespace {

std::string at_place(const Place& place) {
  return place.line > 0 ? fmt::format(" ({}:{})", place.file, place.line) : std::string();
}

}  // namespace

std::string_view state_word(State state) {
  switch (state) {
    case State::Pass: return "pass";
    case State::Warn: return "warn";
    case State::Fail: return "FAIL";
  }
  return "";
}

std::string cause_text(const Finding& finding, const Cause& cause) {
  std::string out = fmt::format("{} {} -> {}", cause.key, cause.before.empty() ? "none" : cause.before,
                                cause.after.empty() ? "none" : cause.after);
  if (!cause.where.empty()) out += fmt::format(" ({})", cause.where);
  if (!cause.known) return out;
  const bool memory = finding.unit == MetricUnit::Memory;
  std::string effect = memory ? categories_text(cause.memory) : std::string();
  if (effect.empty())
    effect = fmt::format("{} {}", finding.rule.substr(0, finding.rule.find(".since_")),
                         change_text(finding.unit, cause.effect));
  return out + ": " + effect;
}

std::string steps_text(const Suggestion& suggestion, bool with_places) {
  std::string out;
  for (const Step& step : suggestion.steps)
    out += fmt::format("{}{} {} -> {}{}", out.empty() ? "" : ", ", step.key, step.before.empty() ? "none" : step.before,
                       step.after, with_places ? at_place(step.place) : "");
  return out;
}

std::string price_text(const Suggestion& suggestion) {
  return fmt::format("{}, {}{}", memory_text(suggestion.peak), seconds_text(suggestion.step_time),
                     suggestion.restores ? ", restores the baseline" : "");
}

CheckTable check_table(const CheckedJob& job) {
  CheckTable table;
  const bool baseline = !job.baseline.empty() || job.measured;
  if (baseline) table.change = job.measured ? "predicted" : "change";
  for (const Finding& f : job.findings) {
    const bool since = f.verdict && f.verdict->limit.since_baseline;
    CheckRow row{.state = f.state, .rule = f.rule, .now = f.now, .budget = f.limit, .change = {}, .margin = f.margin};
    if (since) row.budget += " since baseline";
    if (!since) row.change = f.predicted ? figure_text(f.unit, *f.predicted) : f.change;
    if (!since && f.verdict && f.verdict->before) {
      const Texts texts = distinct_texts(f.unit, *f.verdict->before, f.verdict->now.value);
      if (texts.a != texts.b) row.now = fmt::format("{} → {}", texts.a, f.now);
    }
    table.rows.push_back(std::move(row));
  }
  if (baseline && !job.measured) table.now = "before → now";
  return table;
}

std::string title_of(const CheckedJob& job) {
  return job.name.empty() ? job.title : fmt::format("{}: {}", job.name, job.title);
}

std::vector<std::string> basis_of(const CheckedJob& job) {
  std::vector<std::string> out;
  if (job.plan)
    out.push_back(fmt::format("{}{}, {} a step", job.measured ? "predicted " : "", memory_text(job.plan->best.peak),
                              seconds_text(job.plan->best.step_time)));
  if (job.plan && job.measured) out.push_back("measured in " + measured_text(*job.measured));
  if (!job.baseline.empty()) out.push_back("compared with " + job.baseline);
  return out;
}

std::vector<std::string> reasons_of(const Finding& finding) {
  std::vector<std::string> out = finding.facts;
  for (const Cause& cause : finding.causes) out.push_back("cause: " + cause_text(finding, cause));
  out.insert(out.end(), finding.help.begin(), finding.help.end());
  return out;
}

CheckHelp help_for(const CheckedJob& job) {
  CheckHelp out;
  const auto fails = [](const Finding& f) { return f.state == State::Fail; };
  const bool too_small = std::any_of(job.findings.begin(), job.findings.end(),
                                     [&](const Finding& f) { return f.rule == "memory.fit" && fails(f); });
  for (const Finding& f : job.findings)
    if (!too_small && !f.allow.empty()) out.allowed.push_back(fmt::format("in {}: {}", f.place.file, f.allow));
  const bool none = job.suggestions.empty();
  if (!none) out.what = "smallest changes that pass every limit, one at a time";
  if (none && (!out.allowed.empty() || std::any_of(job.findings.begin(), job.findings.end(), fails)))
    out.what = "no change that was tried passes every limit";
  if (!out.allowed.empty()) out.larger = none ? "a larger budget" : "or a larger budget";
  return out;
}

std::string sentence(const CheckedJob& job, const Finding& finding) {
  std::string out = finding.message;
  for (const Cause& cause : finding.causes) out += "; " + cause_text(finding, cause);
  if (finding.state == State::Fail && !job.suggestions.empty() && finding.rule != "profile")
    out +=
        fmt::format(". Try: {} ({})", steps_text(job.suggestions.front(), false), price_text(job.suggestions.front()));
  return out;
}

std::string summary_text(const CheckReport& report) {
  const int failed = report.count(State::Fail), warned = report.count(State::Warn), total = report.total();
  const char* noun = total == 1 ? "limit" : "limits";
  std::string out;
  if (failed > 0)
    out = fmt::format("{} of {} {} failed", failed, total, noun);
  else
    out = total == 1 ? std::string("the limit holds") : fmt::format("all {} {} hold", total, noun);
  if (report.jobs.size() > 1) {
    int jobs = 0;
    for (const CheckedJob& job : report.jobs)
      jobs +=
          std::any_of(job.findings.begin(), job.findings.end(), [](const Finding& f) { return f.state == State::Fail; })
              ? 1
              : 0;
    out += failed > 0 ? fmt::format(", in {} of {} jobs", jobs, report.jobs.size())
                      : fmt::format(", in {} jobs", report.jobs.size());
  }
  if (warned > 0) out += fmt::format(", {} {}", warned, warned == 1 ? "warning" : "warnings");
  if (failed > 0 && report.warn_only) out += " (--warn-only)";
  return out;
}

const Place& first_place(const Finding& finding) {
  for (const Cause& cause : finding.causes)
    if (cause.place.line > 0) return cause.place;
  return finding.place;
}

std::vector<Broken> broken_limits(const CheckReport& report) {
  std::vector<Broken> out;
  for (const State state : {State::Fail, State::Warn})
    for (const CheckedJob& job : report.jobs)
      for (const Finding& finding : job.findings)
        if (finding.state == state) out.push_back({&job, &finding});
  return out;
}

std::string clean_text(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, size] = character_at(text, i);
    const bool control = (code < 0x20 && code != '\n' && code != '\t') || code == 0x7f;
    if (size == 0 || control || code == 0xfffe || code == 0xffff)  // XML has no word for those
      out += "\xef\xbf\xbd";
    else
      out += text.substr(i, size);
    i += std::max<std::size_t>(1, size);
  }
  return out;
}

}  // namespace plan
