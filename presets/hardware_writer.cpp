// Writes a measured profile as hardware_reader.cpp reads it. Tested by tests/presets/hardware_profile_test.cpp.
#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "presets/hardware.hpp"
#include "presets/hardware_fields.hpp"

namespace plan {
namespace {

constexpr std::size_t kWidth = 118;

/// YAML to be: a scalar, a map in order, or a list.
struct Out {
  enum class Kind { Scalar, Map, List } kind = Kind::Scalar;
  std::string text{};
  std::vector<std::pair<std::string, Out>> map{};
  std::vector<Out> list{};
};

Out scalar(std::string text) { return {.kind = Out::Kind::Scalar, .text = std::move(text)}; }

bool whole(double value) { return value == std::floor(value) && std::abs(value) < 1e15; }

/// Whole numbers in full, others to six digits; what these leave whole in full too, so that it reads back as it stands.
std::string number_of(double value) {
  if (whole(value)) return fmt::format("{:.0f}", value);
  const std::string six = fmt::format("{:.6g}", value);
  double rounded = value;
  std::from_chars(six.data(), six.data() + six.size(), rounded);
  return whole(rounded) ? fmt::format("{:.0f}", rounded) : six;
}

bool plain(const std::string& text) {
  if (text.empty() || std::isalpha(static_cast<unsigned char>(text[0])) == 0) return false;
  for (const char c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != '-' && c != '.' && c != '/') return false;
  return true;
}

std::string yaml_word(const std::string& text) {
  if (plain(text)) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

/// Builds the tree from the fields that hardware_fields.hpp lists.
class TreeWriter {
 public:
  Out out{.kind = Out::Kind::Map};

  void number(const char* key, double& value, double = 0, double = 0) {
    if (value != 0) put(key, scalar(number_of(value)));
  }
  void integer(const char* key, int& value, int = 0) {
    if (value != 0) put(key, scalar(std::to_string(value)));
  }
  void index(const char* key, int& value) { put(key, scalar(std::to_string(value))); }
  void text(const char* key, std::string& value) {
    if (!value.empty()) put(key, scalar(yaml_word(value)));
  }
  void flag(const char* key, bool& value) {
    if (value) put(key, scalar("yes"));
  }
  template <class E, std::size_t N>
  void word(const char* key, E& value, const Named<E> (&table)[N]) {
    put(key, scalar(std::string(detail::name_in(table, value))));
  }
  void measured(const std::string& key, Measured& value) {
    if (!value.known()) return;
    put(key, scalar(number_of(value.value)));
    if (value.spread > 0) put(key.substr(0, key.find("_gb_s")) + "_spread", scalar(number_of(value.spread)));
  }
  void words(const char* key, std::vector<std::string>& values) {
    Out all{.kind = Out::Kind::List};
    for (const std::string& value : values) all.list.push_back(scalar(yaml_word(value)));
    if (!values.empty()) put(key, std::move(all));
  }
  template <class Fill>
  void section(const char* key, Fill fill) {
    TreeWriter inner;
    fill(inner);
    if (!inner.out.map.empty()) put(key, std::move(inner.out));
  }
  template <class T>
  void group(const char* key, T& value) {
    section(key, [&](TreeWriter& inner) { hardware::fields(inner, value); });
  }
  template <class T>
  void list(const char* key, std::vector<T>& values) {
    Out all{.kind = Out::Kind::List};
    for (T& value : values) {
      TreeWriter inner;
      hardware::fields(inner, value);
      all.list.push_back(std::move(inner.out));
    }
    if (!values.empty()) put(key, std::move(all));
  }
  template <class T>
  void rows(const char* key, std::vector<T>& values) {
    Out all{.kind = Out::Kind::List};
    for (T& value : values) {
      Out row{.kind = Out::Kind::List};
      for (const double* column : hardware::columns(value)) row.list.push_back(scalar(number_of(*column)));
      all.list.push_back(std::move(row));
    }
    if (!values.empty()) put(key, std::move(all));
  }
  void sources(const char* key, std::vector<ProfileSource>& values) {
    Out all{.kind = Out::Kind::Map};
    for (ProfileSource& value : values) {
      TreeWriter inner;
      hardware::fields(inner, value);
      all.map.emplace_back(yaml_word(value.id), std::move(inner.out));
    }
    if (!values.empty()) put(key, std::move(all));
  }

 private:
  void put(std::string key, Out value) { out.map.emplace_back(std::move(key), std::move(value)); }
};

std::string flow(const Out& out) {
  if (out.kind == Out::Kind::Scalar) return out.text;
  std::string text;
  for (const auto& [key, value] : out.map) text += (text.empty() ? "" : ", ") + key + ": " + flow(value);
  for (const Out& value : out.list) text += (text.empty() ? "" : ", ") + flow(value);
  return out.kind == Out::Kind::Map ? "{" + text + "}" : "[" + text + "]";
}

/// Lists of several things are written one a line; small maps in one line.
bool fits(const Out& out, std::size_t used) {
  if (out.kind == Out::Kind::List && !out.list.empty() && out.list[0].kind != Out::Kind::Scalar) return false;
  for (const auto& [key, value] : out.map)
    if (!fits(value, 0)) return false;
  return used + flow(out).size() <= kWidth;
}

void block(const Out& out, std::size_t indent, std::string& text);

/// `value` behind a key or a dash of which `used` columns are already taken.
void behind(const Out& value, std::size_t used, std::size_t indent, std::string& text) {
  if (value.kind == Out::Kind::Scalar || fits(value, used)) {
    text += " " + flow(value) + "\n";
    return;
  }
  text += "\n";
  block(value, indent, text);
}

void block(const Out& out, std::size_t indent, std::string& text) {
  const std::string space(indent, ' ');
  for (const auto& [key, value] : out.map) {
    text += space + key + ":";
    behind(value, indent + key.size() + 2, indent + 2, text);
  }
  for (const Out& value : out.list) {
    if (value.kind == Out::Kind::Scalar || fits(value, indent + 2)) {
      text += space + "- " + flow(value) + "\n";
      continue;
    }
    std::string inner;
    block(value, indent + 2, inner);
    inner.replace(indent, 1, "-");  // the first key follows the dash
    text += inner;
  }
}

}  // namespace

std::string write_hardware(const HardwareProfile& profile) {
  HardwareProfile copy = profile;
  TreeWriter writer;
  hardware::fields(writer, copy);
  std::string text = "schema: plan.hardware/1\n";
  block(writer.out, 0, text);
  return text;
}

}  // namespace plan
