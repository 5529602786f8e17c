// GitHub Actions' workflow commands. Messages escape %, CR and LF, properties also : and , as actions/toolkit does.
// Tested by tests/cli/check_formats_test.cpp.
#include <fmt/core.h>

#include "cli/report/check/check.hpp"
#include "cli/report/check/check_text.hpp"

namespace plan {
namespace {

std::string escaped(std::string_view text, bool property) {
  std::string out;
  for (const char c : clean_text(text)) switch (c) {
      case '%': out += "%25"; break;
      case '\r': out += "%0D"; break;
      case '\n': out += "%0A"; break;
      case ':': out += property ? "%3A" : ":"; break;
      case ',': out += property ? "%2C" : ","; break;
      default: out += c;
    }
  return out;
}

std::string title_of(const std::string& what, const CheckedJob& job) {
  return job.name.empty() ? what : fmt::format("{} ({})", what, job.name);
}

/// What the verdict rests on, where a reader of annotations sees it.
std::string notices(const CheckedJob& job) {
  std::string out;
  for (const Note& note : job.notes)
    out += fmt::format("::notice file={},title={}::{}\n", escaped(job.budget, true),
                       escaped(title_of("plan check", job), true), escaped(note.text, false));
  return out;
}

std::string annotation(const Broken& broken, bool warn_only) {
  const Finding& finding = *broken.finding;
  const Place& place = first_place(finding);
  const std::string title = title_of(finding.rule, *broken.job);
  std::string out = fmt::format("::{} file={}", finding.state == State::Fail && !warn_only ? "error" : "warning",
                                escaped(place.file, true));
  if (place.line > 0) out += fmt::format(",line={}", place.line);
  return out + fmt::format(",title={}::{}\n", escaped(title, true), escaped(sentence(*broken.job, finding), false));
}

}  // namespace

std::string check_github(const CheckReport& report) {
  std::string out = "::group::plan check\n";
  for (const Broken& broken : broken_limits(report)) out += annotation(broken, report.warn_only);
  for (const CheckedJob& job : report.jobs) out += notices(job);
  return out + "::endgroup::\n" + "plan check: " + summary_text(report) + "\n";
}

}  // namespace plan
