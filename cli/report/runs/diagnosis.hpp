#pragma once

#include <string>

#include "cli/report/runs/diagnosis_report.hpp"
#include "cli/terminal/terminal.hpp"

namespace plan {

[[nodiscard]] std::string diagnosis_text(const DiagnosisReport& report, const Terminal& terminal);
/// Schema plan-diagnose/1; every key is in man/plan-json.5.
[[nodiscard]] std::string diagnosis_json(const DiagnosisReport& report);
[[nodiscard]] std::string diagnosis_markdown(const DiagnosisReport& report);
[[nodiscard]] std::string diagnosis_html(const DiagnosisReport& report);

}  // namespace plan
