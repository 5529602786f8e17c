// What files under presets/stacks say of published runs. Tested by tests/presets/stack_runs_test.cpp.
#include "presets/stack_runs.hpp"

#include <fmt/core.h>

#include <charconv>

#include "formulas/names.hpp"
#include "formulas/text.hpp"

namespace plan {
namespace {

constexpr RunFactRow kRows[] = {
    {"zero", RunFactKind::Count},
    {"grad_bytes", RunFactKind::Count},
    {"sequence_parallel", RunFactKind::Boolean},
    {"experts_split_by_tp", RunFactKind::Boolean},
    {"cp_kind", RunFactKind::Cp},
    {"data_outermost", RunFactKind::Boolean},
    {"interleaves", RunFactKind::Boolean},
    {"accumulates", RunFactKind::Boolean},
    {"recomputes", RunFactKind::Modules},
    {"recomputes_fully", RunFactKind::Boolean},
    {"recomputes_to_fit", RunFactKind::Boolean},
    {"offloads_to_fit", RunFactKind::Boolean},
    {"precision", RunFactKind::Precision},
    {"delayed_scaling", RunFactKind::Boolean},
    {"bf16_tail", RunFactKind::Number},
    {"precision_aware", RunFactKind::Boolean},
    {"moment_bytes", RunFactKind::Count},
    {"dropout", RunFactKind::Number},
    {"untied", RunFactKind::Boolean},
    {"extra_vocab", RunFactKind::Count},
    {"packed_length", RunFactKind::Count},
    {"lora_rank", RunFactKind::Count},
    {"lora_ffn", RunFactKind::Boolean},
    {"graph_scopes", RunFactKind::Scopes},
    {"context", RunFactKind::Size},
    {"megatron_flags", RunFactKind::Boolean},
    {"offloaded_layers", RunFactKind::Text},
    {"offloaded_share", RunFactKind::Text},
};

constexpr RunWhenRow kWhenRows[] = {{"recomputes", &RunWhen::recomputes},
                                    {"pipelined", &RunWhen::pipelined},
                                    {"shards", &RunWhen::shards},
                                    {"experts", &RunWhen::experts},
                                    {"latent", &RunWhen::latent}};

/// The two numbers of "2025-04" or "0.8".
std::optional<std::pair<int, int>> two_numbers(std::string_view text, char between) {
  const std::size_t at = text.find(between);
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<int> first = as_number<int>(text.substr(0, at)), second = as_number<int>(text.substr(at + 1));
  return first && second && *first >= 0 && *second >= 0 ? std::optional(std::pair(*first, *second)) : std::nullopt;
}

void bad(yaml::Map& map, std::string_view key, const std::string& text, std::string_view wanted) {
  map.reader().error(*map.get(key), "bad_value", fmt::format("`{}` is no {}", yaml::printable(text), wanted));
}

std::optional<int> read_month(yaml::Map& when) {
  constexpr int kFirstYear = 2015, kLastYear = 2040, kMonths = 12;
  std::string text;
  if (!when.text("since", text, yaml::kOptional)) return std::nullopt;
  const auto date = two_numbers(text, '-');
  if (date && date->first >= kFirstYear && date->first <= kLastYear && date->second >= 1 && date->second <= kMonths)
    return date->first * kMonths + date->second - 1;
  bad(when, "since", text, "month, such as 2025-04");
  return std::nullopt;
}

std::optional<int> read_version(yaml::Map& when) {
  constexpr int kMinors = 1000;
  std::string text;
  if (!when.text("below", text, yaml::kOptional)) return std::nullopt;
  const auto version = two_numbers(text, '.');
  if (version && version->first < kMinors && version->second < kMinors)
    return version->first * kMinors + version->second;
  bad(when, "below", text, "version, such as 0.8");
  return std::nullopt;
}

std::vector<std::string> read_texts(yaml::Map& map, std::string_view key) {
  std::vector<std::string> texts;
  for (const yaml::Node* node : map.list(key, yaml::kOptional)) {
    if (node->kind == yaml::Kind::Scalar && !node->text.empty())
      texts.push_back(node->text);
    else
      map.reader().error(*node, "bad_value", fmt::format("`{}` is a list of words", key));
  }
  return texts;
}

/// The values of a list of words from one of the tables of formulas/names.hpp.
template <class E, std::size_t N>
std::vector<E> read_words(yaml::Map& map, std::string_view key, const Named<E> (&table)[N]) {
  std::vector<E> values;
  for (const yaml::Node* node : map.list(key, yaml::kOptional)) {
    if (const auto value = parse(table, node->text))
      values.push_back(*value);
    else
      map.reader().error(*node, "unknown_word", fmt::format("`{}` is none of `{}`", yaml::printable(node->text), key));
  }
  return values;
}

template <class E, std::size_t N>
double read_bits(yaml::Map& map, std::string_view key, const Named<E> (&table)[N]) {
  unsigned bits = 0;
  for (const E value : read_words(map, key, table)) bits |= static_cast<unsigned>(value);
  return bits;
}

template <class E, std::size_t N>
double read_word(yaml::Map& map, std::string_view key, const Named<E> (&table)[N]) {
  E value{};
  map.word(key, value, table);
  return static_cast<double>(value);
}

RunFact read_fact(yaml::Map& map, const RunFactRow& row) {
  RunFact fact{&row};
  bool truth = false;
  Bytes bytes{};
  switch (row.kind) {
    case RunFactKind::Boolean:
      map.boolean(row.name, truth);
      fact.number = truth ? 1 : 0;
      break;
    case RunFactKind::Count: {
      int count = 0;
      map.integer(row.name, count, yaml::kAnyCount);
      fact.number = count;
      break;
    }
    case RunFactKind::Number: map.number(row.name, fact.number, yaml::kShare); break;
    case RunFactKind::Size:
      map.quantity(row.name, bytes, yaml::kNotNegative);
      fact.number = static_cast<double>(bytes.value);
      break;
    case RunFactKind::Text: map.text(row.name, fact.text); break;
    case RunFactKind::Cp: fact.number = read_word(map, row.name, kCpKindNames); break;
    case RunFactKind::Precision: fact.number = read_word(map, row.name, kPrecisionNames); break;
    case RunFactKind::Modules: fact.number = read_bits(map, row.name, kRecomputeModuleNames); break;
    case RunFactKind::Scopes: fact.number = read_bits(map, row.name, kGraphScopeNames); break;
  }
  return fact;
}

RunWhen read_when(yaml::Map map) {
  RunWhen when;
  when.since = read_month(map);
  when.below = read_version(map);
  when.precision = read_words(map, "precision", kPrecisionNames);
  for (const RunWhenRow& row : kWhenRows) {
    bool truth = false;
    if (map.boolean(row.name, truth, yaml::kOptional)) when.*row.member = truth;
  }
  when.model = read_texts(map, "model");
  when.task = read_texts(map, "task");
  when.says = read_texts(map, "says");
  when.silent = read_texts(map, "silent");
  map.finish();
  return when;
}

}  // namespace

std::span<const RunWhenRow> run_when_rows() { return kWhenRows; }

RunEntry read_run_entry(yaml::Map& entry) {
  RunEntry read;
  entry.text("source", read.source);
  if (entry.has("when")) {
    read.when = read_when(entry.map("when"));
    if (read.when == RunWhen{})
      entry.reader().error(*entry.get("when"), "bad_value", "`when` asks for nothing: leave it out");
  }
  for (const RunFactRow& row : kRows)
    if (entry.has(row.name))
      read.job.push_back(read_fact(entry, row));
    else
      (void)entry.get(row.name, yaml::kOptional);
  return read;
}

}  // namespace plan
