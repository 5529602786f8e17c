// Earlier reports to compare with: `plan --json` of one job, or `plan check --json` of many. Tested by
// tests/cli/check_test.cpp and tests/golden/check-baseline*.
#include <fmt/core.h>

#include <algorithm>

#include "cli/check/check.hpp"
#include "cli/request/sources/json_source.hpp"
#include "presets/yaml.hpp"

namespace plan {

Result<Baselines::Loaded> Baselines::load(const std::string& file, const Place& asked) const {
  Result<std::string> text = yaml::read_text(file);
  if (!text) {
    Errors errors = text.error();
    for (Error& error : errors) {
      error.code = "no_baseline";
      error.message = fmt::format("the baseline cannot be read: {}", error.message);
      error.help = {"make one where the limits held: `plan check --budget FILE --baseline none --json -o main.json`",
                    "to check without one, give `--baseline none`"};
      if (asked.line > 0) error.place = asked;
    }
    return fail(std::move(errors));
  }
  const Result<JsonSource> source = parse_json_source(std::move(*text), file);
  if (!source) return fail(source.error());
  Errors errors;
  const JsonFields root(*source, errors);
  Loaded loaded;
  loaded.many = source->root.contains("schema") && source->root["schema"].is_string() &&
                source->root["schema"].get_ref<const std::string&>().starts_with("plan-check/");
  if (const Result<bool> right = check_schema(*source, loaded.many ? "plan-check/1" : "plan/1"); !right)
    return fail(right.error());
  if (!loaded.many) {
    loaded.plans.emplace_back("", read_plan_fields(root));
  } else {
    for (const JsonFields& job : root.objects("jobs"))
      if (job.has("plan")) loaded.plans.emplace_back(job.text("name"), read_plan_fields(job.object("plan")));
  }
  if (!errors.empty()) return fail(std::move(errors));
  for (auto& [name, plan] : loaded.plans) plan.file = file;
  return loaded;
}

Result<const EarlierPlan*> Baselines::of(const std::string& file, const std::string& job, const Place& asked) {
  auto found = std::find_if(loaded_.begin(), loaded_.end(), [&](const auto& one) { return one.first == file; });
  if (found == loaded_.end()) {
    Result<Loaded> loaded = load(file, asked);
    if (!loaded) return fail(loaded.error());
    found = loaded_.insert(loaded_.end(), {file, std::move(*loaded)});
  }
  for (const auto& [name, plan] : found->second.plans)
    if (!found->second.many || name == job) return &plan;
  return nullptr;
}

std::vector<std::string> Baselines::names(const std::string& file) const {
  std::vector<std::string> out;
  for (const auto& [known, loaded] : loaded_)
    if (known == file && loaded.many)
      for (const auto& [name, plan] : loaded.plans) out.push_back(name);
  return out;
}

}  // namespace plan
