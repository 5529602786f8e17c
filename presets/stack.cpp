// What a framework's software does since which release. Tested by tests/presets/stack_test.cpp.
#include "presets/stack.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "presets/embedded.hpp"
#include "presets/header.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Switches that a history may turn.
struct Fact {
  std::string_view name;
  bool Stack::*member;
};
constexpr Fact kFacts[] = {{"dedup_dispatch", &Stack::dedup_dispatch},
                           {"ep_overlap", &Stack::ep_overlap},
                           {"fp8_dispatch", &Stack::fp8_dispatch},
                           {"fp8_param_gather", &Stack::fp8_param_gather},
                           {"fused_biased_experts", &Stack::fused_biased_experts},
                           {"fused_sinks", &Stack::fused_sinks},
                           {"tp_overlap", &Stack::tp_overlap}};

constexpr int kFirstYear = 20, kLastYear = 40;

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Runs of digits of a word, with what stands before each of them.
struct Number {
  char before = 0;
  std::size_t digits = 0;
  int value = 0;
};

std::vector<Number> numbers_of(std::string_view word) {
  std::vector<Number> numbers;
  for (std::size_t at = 0; at < word.size();) {
    if (!digit(word[at])) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < word.size() && digit(word[end])) ++end;
    Number number{at > 0 ? word[at - 1] : '\0', end - at, 0};
    if (number.digits <= 4) std::from_chars(word.data() + at, word.data() + end, number.value);
    numbers.push_back(number);
    at = end;
  }
  return numbers;
}

void read_change(yaml::Map change, StackHistory& history) {
  std::string since, source;
  change.text("since", since);
  change.text("source", source);
  const std::optional<StackRelease> release = read_stack_release(since);
  if (change.has("since") && !release)
    change.reader().error(*change.get("since"), "bad_value",
                          fmt::format("`{}` is no release, such as 26.04", yaml::printable(since)));
  if (release && !history.changes.empty() && *release < history.changes.back().since)
    change.reader().error(*change.get("since"), "bad_value", "releases stand from the oldest to the newest");
  for (const Fact& fact : kFacts) {
    bool on = false;
    if (change.boolean(fact.name, on, yaml::kOptional) && release)
      history.changes.push_back({*release, fact.member, std::string(fact.name), on, source});
  }
  change.finish();
}

}  // namespace

std::optional<StackRelease> read_stack_release(std::string_view word) {
  const std::vector<Number> numbers = numbers_of(word);
  for (std::size_t i = 0; i + 1 < numbers.size(); ++i) {
    const Number &year = numbers[i], &month = numbers[i + 1];
    const bool date = year.digits == 4 && month.before == '-', container = year.digits == 2 && month.before == '.';
    if ((!date && !container) || year.before == '.' || month.digits != 2) continue;
    const int short_year = date ? year.value - 2000 : year.value;
    if (short_year < kFirstYear || short_year > kLastYear || month.value < 1 || month.value > 12) continue;
    const bool patch = i + 2 < numbers.size() && numbers[i + 2].before == '.' && container;
    return StackRelease{short_year, month.value, patch ? numbers[i + 2].value : 0};
  }
  return std::nullopt;
}

std::string stack_release_text(const StackRelease& release) {
  const std::string month = fmt::format("{}.{:02}", release.year, release.month);
  return release.patch > 0 ? fmt::format("{}.{:02}", month, release.patch) : month;
}

Stack StackHistory::at(const StackRelease& release, Stack stack) const {
  for (const StackChange& change : changes) stack.*change.fact = false;
  for (const StackChange& change : changes)
    if (change.since <= release) stack.*change.fact = change.on;
  return stack;
}

Result<StackHistory> read_stack(std::string text, std::string file) {
  const Result<yaml::Document> document = yaml::parse(std::move(text), std::move(file));
  if (!document) return tl::unexpected<Errors>(document.error());
  yaml::Reader reader(*document);
  yaml::Map root = reader.root();
  StackHistory history;
  read_header(root, "stack/1", history.name);
  std::string newest;
  if (root.text("newest", newest)) {
    if (const auto release = read_stack_release(newest))
      history.newest = *release;
    else
      reader.error(*root.get("newest"), "bad_value", fmt::format("`{}` is no release", yaml::printable(newest)));
  }
  int index = 0;
  for (const yaml::Node* change : root.list("changes"))
    read_change(reader.map(*change, fmt::format("changes[{}]", index++)), history);
  root.finish();
  if (reader.failed()) return fail(reader.take());
  return history;
}

std::optional<StackHistory> load_stack(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.folder == "stacks" && file.name == name)
      if (Result<StackHistory> history = read_stack(std::string(file.text), fmt::format("stacks/{}.yaml", name)))
        return *std::move(history);
  return std::nullopt;
}

bool matters(const StackChange& change, const Model& model, const Training& training) {
  const auto any = [&](const auto& has) { return std::any_of(model.kinds.begin(), model.kinds.end(), has); };
  if (change.fact == &Stack::fused_sinks)
    return any([](const Layer& kind) { return kind.mixer == Mixer::Attention && kind.attention.sinks; });
  if (change.fact == &Stack::fused_biased_experts)
    return training.precision == Precision::Mxfp8 &&
           any([](const Layer& kind) { return kind.ffn == Ffn::Moe && kind.moe.expert_bias; });
  if (change.fact == &Stack::fp8_param_gather) return is_fp8(training.precision);
  return change.fact == &Stack::tp_overlap || model.moe();
}

Stack stack_of_release(std::string_view word, Stack stack) {
  const std::optional<StackRelease> release = read_stack_release(word);
  const std::optional<StackHistory> history = load_stack(stack.framework);
  return release && history ? history->at(*release, std::move(stack)) : stack;
}

}  // namespace plan
