// What every preset begins with: its kind, its name and its other names. Tested by tests/presets/header_test.cpp.
#include "presets/header.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "formulas/text.hpp"

namespace plan {

bool read_name(yaml::Map& root, std::string_view key, std::string& name, yaml::Need need) {
  if (!root.text(key, name, need)) return false;
  const bool word = !name.empty() && name.size() <= 100 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_';
  });
  if (!word)
    root.reader().error(*root.get(key), "bad_value",
                        fmt::format("`{}` is not one word of letters, digits, - . _", key));
  return word;
}

namespace {

/// Where a file of another kind goes that begins with `preset: KIND`; what to write if there is no such kind.
std::string meant_kind(std::string_view written, std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
      {"model/1", "--model"}, {"gpu/1", "--gpu"}, {"cluster/1", "--cluster"}};
  for (const auto& [known, flag] : kFlags)
    if (known == written) return fmt::format("that is a file for `{}`", flag);
  return fmt::format("write `preset: {}`", kind);
}

/// A file without its first line is of another kind, or nobody knows of which: what else it has or lacks is no mistake.
void no_preset(yaml::Map& root, std::string_view kind) {
  if (root.node().kind != yaml::Kind::Map) return;  // which is said already
  const auto wrong = [&](std::string_view key, std::string message, std::string help) {
    const yaml::Node* at = key.empty() ? nullptr : root.get(key);
    root.reader().error(at == nullptr ? root.node() : *at, "wrong_preset", std::move(message), {std::move(help)});
  };
  if (root.has("budget"))
    return wrong("budget", "`budget` begins a file that is no preset",
                 "that is a budget: `plan check --budget FILE` holds its jobs to their limits");
  for (const char* key : {"limits", "since_baseline", "jobs"})
    if (root.has(key))
      return wrong(key, fmt::format("`{}` is a key of budgets, and `preset` is missing", key),
                   "`plan check --budget FILE` holds its jobs to their limits, where `budget: 1` begins it");
  wrong("", "`preset` is missing", fmt::format("write `preset: {}`, the first line of such a file", kind));
}

}  // namespace

void read_header(yaml::Map& root, std::string_view kind, std::string& name) {
  if (!root.has("preset")) return no_preset(root, kind);
  std::string preset;
  if (root.text("preset", preset) && preset != kind)
    root.reader().error(*root.get("preset"), "wrong_preset",
                        fmt::format("`preset` is `{}`, not `{}`", yaml::printable(preset), kind),
                        {meant_kind(preset, kind)});
  read_name(root, "name", name);
  for (const yaml::Node* alias : root.list("aliases", yaml::kOptional))
    if (alias->kind != yaml::Kind::Scalar) root.reader().error(*alias, "bad_value", "`aliases` is not a list of names");
}

std::vector<std::string> scan_list(std::string_view text, std::string_view key) {
  const std::string head = fmt::format("\n{}:", key);
  std::size_t at = text.starts_with(head.substr(1)) ? 0 : text.find(head);
  if (at == std::string_view::npos) return {};
  const std::size_t open = text.find('[', at), close = text.find(']', open);
  if (close == std::string_view::npos) return {};
  constexpr std::string_view kAround = " \n\"'";
  std::vector<std::string> words;
  for (at = open + 1; at <= close;) {
    const std::size_t end = text.find_first_of(",]", at);
    const std::string_view word = text.substr(at, end - at);
    const std::size_t first = word.find_first_not_of(kAround);
    if (first != std::string_view::npos)
      words.emplace_back(word.substr(first, word.find_last_not_of(kAround) + 1 - first));
    at = end + 1;
  }
  return words;
}

namespace {

/// A line without its comment and the blanks at its end, and by how many brackets it ends deeper; quoted words hold
/// neither comments nor brackets.
struct BareLine {
  std::string_view text;
  int deeper = 0;
};

BareLine bare_line(std::string_view line) {
  BareLine out;
  char quote = 0;
  std::size_t end = line.size();
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i], before = i == 0 ? ' ' : line[i - 1];
    const bool starts = std::string_view(" \t[{,").find(before) != std::string_view::npos;
    if (quote != 0) {
      if (c == '\\' && quote == '"')
        ++i;
      else if (c == quote)
        quote = 0;
    } else if ((c == '"' || c == '\'') && starts) {
      quote = c;
    } else if (c == '#' && (before == ' ' || before == '\t')) {
      end = i;
      break;
    } else {
      out.deeper += static_cast<int>(c == '[') - static_cast<int>(c == ']');
    }
  }
  line = line.substr(0, end);
  out.text = line.substr(0, line.find_last_not_of(kWhiteSpace) + 1);
  return out;
}

}  // namespace

std::string priced_text(std::string_view text) {
  if (text.find_first_not_of(kWhiteSpace) == text.find('{')) return std::string(text);  // JSON has neither
  std::string out;
  bool names = false;
  int depth = 0;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const BareLine line = bare_line(text.substr(begin, end - begin));
    const bool inside = depth > 0 || line.text.empty() || line.text.front() == ' ' || line.text.front() == '-';
    if (!inside)
      names = line.text.starts_with("aliases:") || line.text.starts_with("devices:") ||
              line.text.starts_with("other_devices:");
    depth += line.deeper;
    if (!names && !line.text.empty()) (out += line.text) += '\n';
  }
  return out;
}

}  // namespace plan
