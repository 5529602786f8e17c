// JUnit XML as GitLab and Jenkins read it. Tested by tests/cli/check_formats_test.cpp and tests/validators.
#include <fmt/core.h>

#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"

namespace plan {
namespace {

std::string xml(std::string_view text) {
  std::string out;
  for (const char c : clean_text(text)) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\n': out += "&#10;"; break;
      case '\t': out += "&#9;"; break;
      default: out += c;
    }
  return out;
}

std::string body(const CheckedJob& job, const Finding& f) {
  std::string out = fmt::format("{}\n{}: {}, {}", f.message, f.now, f.limit, f.margin);
  for (const std::string& fact : f.facts) out += "\n" + fact;
  for (const Cause& cause : f.causes) out += "\ncause: " + cause_text(f, cause);
  for (const Suggestion& s : job.suggestions) out += fmt::format("\ntry: {} ({})", steps_text(s, true), price_text(s));
  for (const std::string& help : f.help) out += "\n" + help;
  return out;
}

std::string testcase(const CheckedJob& job, const Finding& f, const std::string& suite, bool warn_only) {
  const Place& place = first_place(f);
  std::string out = fmt::format("    <testcase classname=\"{}\" name=\"{}\" file=\"{}\" line=\"{}\" time=\"0\"",
                                xml(suite), xml(f.rule), xml(place.file), place.line);
  if (f.state == State::Pass) return out + "/>\n";
  out += ">\n";
  if (f.state == State::Fail && !warn_only)
    out += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n", xml(f.rule), xml(f.message),
                       xml(body(job, f)));
  else
    out += fmt::format("      <system-out>warning: {}</system-out>\n", xml(body(job, f)));
  return out + "    </testcase>\n";
}

int failures(const CheckedJob& job, bool warn_only) {
  int sum = 0;
  for (const Finding& f : job.findings) sum += f.state == State::Fail && !warn_only ? 1 : 0;
  return sum;
}

}  // namespace

std::string check_junit(const CheckReport& report) {
  std::string out = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  out += fmt::format("<testsuites name=\"plan check\" tests=\"{}\" failures=\"{}\" errors=\"0\" time=\"0\">\n",
                     report.total(), report.warn_only ? 0 : report.count(State::Fail));
  for (const CheckedJob& job : report.jobs) {
    const std::string suite = job.name.empty() ? job.budget : fmt::format("{}: {}", job.budget, job.name);
    out += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"0\" time=\"0\">\n",
                       xml(suite), job.findings.size(), failures(job, report.warn_only));
    for (const Finding& f : job.findings) out += testcase(job, f, suite, report.warn_only);
    std::string notes;
    for (const Note& note : job.notes) notes += (notes.empty() ? "" : "\n") + note.text;
    if (!notes.empty()) out += fmt::format("    <system-out>{}</system-out>\n", xml(notes));
    out += "  </testsuite>\n";
  }
  return out + "</testsuites>\n";
}

}  // namespace plan
