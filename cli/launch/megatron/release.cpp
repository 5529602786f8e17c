// What differs between releases of Megatron core, and arguments written for one of them. The flags' own releases are
// in megatron_flags.cpp. Tested by tests/launch/megatron_release_test.cpp.
#include <fmt/core.h>

#include <algorithm>
#include <charconv>

#include "cli/launch/megatron/flags.hpp"
#include "cli/launch/megatron/megatron.hpp"

namespace plan {
namespace {

/// A flag's earlier name, which took no value.
struct Renamed {
  std::string_view flag, earlier;
};
constexpr Renamed kRenamed[] = {
    {"use-megatron-fsdp", "use-custom-fsdp"},
    {"moe-flex-dispatcher-backend", "moe-enable-deepep"},
};

/// Values that not every release takes of a flag that it has: choices of the parsers, and what
/// TransformerConfig.__post_init__ (recompute modules) and validate_args (fused cross entropy) allow.
struct DatedValue {
  std::string_view flag, value;
  int since, until = kNewestMegatron;
  std::string_view instead = {};  ///< what other releases take for the same
};
constexpr DatedValue kDatedValues[] = {
    {"ckpt-format", "fsdp_dtensor", 14, kNewestMegatron, "torch_dist"},
    {"cross-entropy-fusion-impl", "te", 12, 17},
    {"exp-avg-dtype", "bf16", 13},
    {"exp-avg-sq-dtype", "bf16", 13},
    {"fp8-recipe", "blockwise", 13},
    {"optimizer", "muon", 16},
    {"recompute-modules", "shared_experts", 14},
};

/// A switch that releases up to `until` demand of some plans: their validate_args refuses it otherwise.
struct Demand {
  int until;
  bool (*made)(const Plan&);
  void (*met)(Stack&);
};
constexpr Demand kDemands[] = {
    {13, [](const Plan& plan) { return plan.best.layout.zero >= 2; },
     [](Stack& stack) { stack.gradient_fusion = false; }},
    {17, [](const Plan& plan) { return plan.problem.training.optimizer == Optimizer::Muon; },
     [](Stack& stack) { stack.overlap_grad_reduce = stack.overlap_param_gather = false; }},
};

const DatedValue* dated(std::string_view flag, std::string_view value) {
  const auto* found = std::find_if(std::begin(kDatedValues), std::end(kDatedValues),
                                   [&](const DatedValue& row) { return row.flag == flag && row.value == value; });
  return found == std::end(kDatedValues) ? nullptr : found;
}

MegatronReleases releases_of_flag(std::string_view name) {
  const MegatronFlag* flag = find_megatron_flag(name);
  return flag == nullptr ? MegatronReleases{kOldestMegatron, kNewestMegatron}
                         : MegatronReleases{flag->since, flag->until};
}

bool within(int release, MegatronReleases span) { return release >= span.first && release <= span.last; }

MegatronReleases narrowed(MegatronReleases a, MegatronReleases b) {
  return {std::max(a.first, b.first), std::min(a.last, b.last)};
}

MegatronReleases releases_of(const MegatronSetting& setting) {
  MegatronReleases span = narrowed({kOldestMegatron, kNewestMegatron}, releases_of_flag(setting.flag));
  for (const std::string& value : setting.values)
    if (const DatedValue* row = dated(setting.flag, value)) span = narrowed(span, {row->since, row->until});
  return span;
}

/// The setting in the words of an earlier release, where it has any.
void translate(MegatronSetting& setting, int release) {
  for (const Renamed& row : kRenamed)
    if (row.flag == setting.flag && !within(release, releases_of_flag(row.flag)) &&
        within(release, releases_of_flag(row.earlier)))
      setting = {std::string(row.earlier), {}};
  for (std::string& value : setting.values)
    if (const DatedValue* row = dated(setting.flag, value);
        row != nullptr && !row->instead.empty() && !within(release, {row->since, row->until}))
      value = row->instead;
}

Error needs(const MegatronSetting& setting, MegatronReleases span, int release) {
  std::string words = "--" + setting.flag;
  for (const std::string& value : setting.values) words += " " + value;
  return {"megatron_version",
          fmt::format("Megatron core 0.{} cannot run this plan: `{}` needs {}", release, words, releases_text(span)),
          {},
          {fmt::format("write for a release that has it: `--megatron-version 0.{}`",
                       release < span.first ? span.first : span.last)}};
}

}  // namespace

namespace {

/// What may follow the minor number: nothing, `.1`, `.0rc2`.
bool is_patch(std::string_view text) {
  const auto skip = [&](std::string_view letters) {
    const std::size_t end = std::min(text.find_first_not_of(letters), text.size());
    text.remove_prefix(end);
    return end > 0;
  };
  if (text.empty()) return true;
  if (text[0] != '.') return false;
  text.remove_prefix(1);
  if (!skip("0123456789")) return false;
  return text.empty() || (skip("abcdefghijklmnopqrstuvwxyz") && skip("0123456789") && text.empty());
}

}  // namespace

Result<int> read_megatron_release(std::string_view word) {
  if (word.empty()) return kNewestMegatron;
  std::string_view rest = word;
  const bool name = rest.starts_with("core_");  // of a tag, core_v0.14.0, or a branch, core_r0.14.0
  if (name) rest.remove_prefix(5);
  if (rest.starts_with("v") || (name && rest.starts_with("r"))) rest.remove_prefix(1);
  int minor = 0;
  const bool zero = rest.starts_with("0.");
  if (zero) rest.remove_prefix(2);
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), minor);
  const bool read = zero && error == std::errc{} && is_patch(rest.substr(static_cast<std::size_t>(end - rest.data())));
  if (read && minor >= kOldestMegatron && minor <= kNewestMegatron) return minor;
  return fail({"unknown_release",
               fmt::format("`--megatron-version {}` is no release of Megatron core that is known", word),
               {},
               {fmt::format("known are 0.{} to 0.{}; without the flag the newest is written for", kOldestMegatron,
                            kNewestMegatron)}});
}

Plan with_demands_of(Plan plan, int release) {
  for (const Demand& demand : kDemands)
    if (release <= demand.until && demand.made(plan)) demand.met(plan.problem.training.stack);
  return plan;
}

Result<std::vector<MegatronGroup>> for_megatron_release(std::vector<MegatronGroup> groups, int release) {
  Errors errors;
  for (MegatronGroup& group : groups)
    for (MegatronSetting& setting : group.settings) {
      translate(setting, release);
      if (const MegatronReleases span = releases_of(setting); !within(release, span))
        errors.push_back(needs(setting, span, release));
    }
  if (!errors.empty()) return fail(std::move(errors));
  return groups;
}

MegatronReleases megatron_releases(const std::vector<MegatronGroup>& groups) {
  MegatronReleases span{kOldestMegatron, kNewestMegatron};
  for (const MegatronGroup& group : groups)
    for (const MegatronSetting& setting : group.settings) span = narrowed(span, releases_of(setting));
  return span;
}

std::string releases_text(MegatronReleases releases) {
  if (releases.last >= kNewestMegatron) return fmt::format("0.{} or newer", releases.first);
  if (releases.first == releases.last) return fmt::format("0.{}", releases.first);
  return fmt::format("0.{} to 0.{}", releases.first, releases.last);
}

}  // namespace plan
