// What a framework's software does since which release. Tested by tests/presets/stack_test.cpp.
#include "presets/stack.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <utility>

#include "formulas/enum_rows.hpp"
#include "formulas/text.hpp"
#include "presets/embedded.hpp"
#include "presets/header.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr Named<StateLayout> kStateLayoutNames[] = {{StateLayout::Megatron, "megatron"},
                                                    {StateLayout::Fsdp2, "fsdp2"},
                                                    {StateLayout::DeepSpeed, "deepspeed"},
                                                    {StateLayout::MegatronFsdp, "megatron-fsdp"}};
constexpr Named<CrossEntropy> kCrossEntropyNames[] = {
    {CrossEntropy::Unfused, "unfused"},      {CrossEntropy::Eager, "eager"},
    {CrossEntropy::Compiled, "compiled"},    {CrossEntropy::FusedInPlace, "fused_in_place"},
    {CrossEntropy::FusedFp32, "fused_fp32"}, {CrossEntropy::Chunked, "chunked"}};
constexpr Named<AttentionKernel> kAttentionKernelNames[] = {{AttentionKernel::Vendor, "vendor"},
                                                            {AttentionKernel::Flash2, "flash2"},
                                                            {AttentionKernel::Flash1, "flash1"},
                                                            {AttentionKernel::Triton, "triton"}};

static_assert(kRowForEach<StateLayout, std::size(kStateLayoutNames)>);
static_assert(kRowForEach<CrossEntropy, std::size(kCrossEntropyNames)>);
static_assert(kRowForEach<AttentionKernel, std::size(kAttentionKernelNames)>);

constexpr int kMostLikes = 8;  ///< stacks that are like one another, one behind the other
constexpr int kFirstYear = 20, kLastYear = 40;

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Runs of digits of a word, with what precedes each of them.
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

/// Reads one value of a fact, whatever its type.
struct FactReader {
  yaml::Map& map;
  std::string_view key;

  std::optional<int> operator()(bool Stack::*) const {
    bool value = false;
    return map.boolean(key, value, yaml::kOptional) ? std::optional<int>(value) : std::nullopt;
  }
  std::optional<int> operator()(int Stack::*) const {
    int value = 0;
    return map.integer(key, value, yaml::kAnyCount, yaml::kOptional) ? std::optional(value) : std::nullopt;
  }
  std::optional<int> operator()(StateLayout Stack::*) const { return word(kStateLayoutNames); }
  std::optional<int> operator()(CrossEntropy Stack::*) const { return word(kCrossEntropyNames); }
  std::optional<int> operator()(AttentionKernel Stack::*) const { return word(kAttentionKernelNames); }

  template <class E, std::size_t N>
  std::optional<int> word(const Named<E> (&table)[N]) const {
    E value{};
    return map.word(key, value, table, yaml::kOptional) ? std::optional(static_cast<int>(value)) : std::nullopt;
  }
};

/// The facts of one entry, which has one source.
std::vector<StackFact> read_facts(yaml::Map& entry, bool of_releases) {
  std::string source;
  entry.text("source", source);
  std::vector<StackFact> facts;
  std::vector<std::string_view> others;
  for (const StackFactRow& row : stack_fact_rows()) {
    if (of_releases && row.matters == nullptr) continue;
    if (!entry.has(row.name))
      others.push_back(row.name);
    else if (const std::optional<int> value = std::visit(FactReader{entry, row.name}, row.member))
      facts.push_back({&row, *value, source});
  }
  // A key that is none is reported with what could be written there; an entry without one need not ask for all of it.
  const std::size_t read = facts.size() + 1 + (of_releases && entry.has("since") ? 1 : 0);
  if (source.empty() || entry.node().items.size() / 2 > read)
    for (const std::string_view name : others) (void)entry.get(name, yaml::kOptional);
  return facts;
}

void read_entry(yaml::Map entry, StackPreset& preset) {
  for (StackFact& fact : read_facts(entry, false)) {
    const bool again = std::any_of(preset.facts.begin(), preset.facts.end(),
                                   [&](const StackFact& before) { return before.row == fact.row; });
    if (again)
      entry.reader().error(*entry.get(fact.row->name), "duplicate_key",
                           fmt::format("`{}` is stated in an entry above", fact.row->name));
    preset.facts.push_back(std::move(fact));
  }
  entry.finish();
}

void read_change(yaml::Map change, StackHistory& history) {
  std::string since;
  change.text("since", since);
  const std::optional<StackRelease> release = read_stack_release(since);
  if (change.has("since") && !release)
    change.reader().error(*change.get("since"), "bad_value",
                          fmt::format("`{}` is no release, such as 26.04", yaml::printable(since)));
  if (release && !history.changes.empty() && *release < history.changes.back().since)
    change.reader().error(*change.get("since"), "bad_value", "releases stand from the oldest to the newest");
  for (StackFact& fact : read_facts(change, true))
    if (release) history.changes.push_back({*release, std::move(fact)});
  change.finish();
}

void read_newest(yaml::Map& root, StackHistory& history) {
  std::string newest;
  if (!root.text("newest", newest)) return;
  if (const auto release = read_stack_release(newest))
    history.newest = *release;
  else
    root.reader().error(*root.get("newest"), "bad_value", fmt::format("`{}` is no release", yaml::printable(newest)));
}

bool has_name(const std::vector<std::string>& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& known) { return same_but_for_case(known, name); });
}

std::vector<std::string> read_names(yaml::Map& root, std::string_view key) {
  std::vector<std::string> names;
  for (const yaml::Node* name : root.list(key, yaml::kOptional)) {
    if (name->kind != yaml::Kind::Scalar)
      root.reader().error(*name, "bad_value", "a name is a text");
    else if (has_name(names, name->text))
      root.reader().error(*name, "duplicate_key", fmt::format("`{}` is given twice", yaml::printable(name->text)));
    else
      names.push_back(name->text);
  }
  return names;
}

/// `general` lists names of the file, or says `all`.
void read_all_names(yaml::Map& root, StackPreset& preset) {
  preset.names = read_names(root, "names");
  preset.makers = read_names(root, "makers");
  preset.general = read_names(root, "general");
  if (preset.general == std::vector<std::string>{"all"}) preset.general = preset.names;
  for (const std::string& name : preset.general)
    if (!has_name(preset.names, name))
      root.reader().error(*root.get("general"), "unknown_name",
                          fmt::format("`{}` is none of `names`, and not `all`", yaml::printable(name)));
}

void read_run(yaml::Map map, StackPreset& preset) {
  RunEntry entry = read_run_entry(map);
  for (const StackFactRow& row : stack_fact_rows()) {
    if (!map.has(row.name))
      (void)map.get(row.name, yaml::kOptional);
    else if (const std::optional<int> value = std::visit(FactReader{map, row.name}, row.member))
      entry.stack.push_back({&row, *value, entry.source});
  }
  map.finish();
  if (entry.stack.empty() && entry.job.empty() && !map.reader().failed())
    map.reader().error(map.node(), "bad_value", "an entry of `runs` that states no fact");
  preset.runs.push_back(std::move(entry));
}

Result<Stack> default_stack(std::string_view name, int likes) {
  const std::optional<Result<StackPreset>> preset = load_stack_preset(name);
  if (!preset) return fail({"unknown_stack", fmt::format("no file of presets/stacks is named `{}`", name), {}, {}});
  if (!*preset) return fail(preset->error());
  if (likes > kMostLikes)
    return fail(
        {"bad_value", fmt::format("`{}` is like itself, or too far from a stack that is like none", name), {}, {}});
  Stack stack;
  if (const StackPreset& own = **preset; !own.like.empty()) {
    Result<Stack> other = default_stack(own.like, likes + 1);
    if (!other) return other;
    stack = *std::move(other);
  }
  for (const StackFact& fact : (*preset)->facts) set_fact(*fact.row, fact.value, stack);
  stack.framework = (*preset)->releases.empty() ? std::string(name) : (*preset)->releases;
  return stack;
}

}  // namespace

std::optional<Result<StackPreset>> load_stack_preset(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.folder == "stacks" && file.name == name)
      return read_stack(std::string(file.text), fmt::format("stacks/{}.yaml", name));
  return std::nullopt;
}

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
  for (const StackChange& change : changes) set_fact(*change.fact.row, 0, stack);
  for (const StackChange& change : changes)
    if (change.since <= release) set_fact(*change.fact.row, change.fact.value, stack);
  return stack;
}

Result<StackPreset> read_stack(std::string text, std::string file) {
  return yaml::read_document<StackPreset>(std::move(text), std::move(file), [&](yaml::Map& root, StackPreset& preset) {
    yaml::Reader& reader = root.reader();
    read_header(root, "stack/1", preset.history.name);
    root.text("like", preset.like, yaml::kOptional);
    root.text("releases", preset.releases, yaml::kOptional);
    int index = 0;
    for (const yaml::Node* entry : root.list("facts", yaml::kOptional))
      read_entry(reader.map(*entry, fmt::format("facts[{}]", index++)), preset);
    index = 0;
    for (const yaml::Node* change : root.list("changes", yaml::kOptional))
      read_change(reader.map(*change, fmt::format("changes[{}]", index++)), preset.history);
    read_all_names(root, preset);
    index = 0;
    for (const yaml::Node* entry : root.list("runs", yaml::kOptional))
      read_run(reader.map(*entry, fmt::format("runs[{}]", index++)), preset);
    if (root.has("changes") || root.has("newest")) read_newest(root, preset.history);
    root.finish();
  });
}

Result<Stack> load_default_stack(std::string_view name) { return default_stack(name, 0); }

std::vector<std::string> stack_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& file : embedded_files())
    if (file.folder == "stacks") names.emplace_back(file.name);
  return names;
}

std::optional<StackHistory> load_stack(std::string_view name) {
  std::optional<Result<StackPreset>> preset = load_stack_preset(name);
  if (!preset || !*preset || (*preset)->history.changes.empty()) return std::nullopt;
  return std::move((**preset).history);
}

bool matters(const StackChange& change, const Model& model, const Training& training) {
  return change.fact.row->matters(model, training);
}

Stack stack_of_release(std::string_view word, Stack stack) {
  const std::optional<StackRelease> release = read_stack_release(word);
  const std::optional<StackHistory> history = load_stack(stack.framework);
  return release && history ? history->at(*release, std::move(stack)) : stack;
}

}  // namespace plan
