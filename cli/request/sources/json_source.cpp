// Reading JSON that `plan` wrote earlier. nlohmann-json keeps no places and lets a later duplicate key win, so keys are
// checked while it parses, and the place of a mistake is found by reading the text again as YAML, of which JSON is a
// part. Tested by tests/cli/plan_json_read_test.cpp.
#include "cli/request/sources/json_source.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "presets/json_syntax.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

constexpr std::size_t kMostBytes = 64u << 20;
constexpr int kMostDepth = 24;
constexpr std::size_t kMostErrors = 20;
constexpr std::size_t kMostKeysOfOne = 4096;  ///< of one object, whose keys ordered_json looks through one by one

Error whole_file(const std::string& file, std::string code, std::string message) {
  return {std::move(code), std::move(message), {}, {}, {file, 0, 0, 1, {}}};
}

/// Thrown through the parser by the guard below; caught in parse_json_source().
struct Refused {
  std::string code, message;
};

/// Called for every value: refuses duplicate keys and deep nesting.
class Guard {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kMostDepth) throw Refused{"json_refused", "the file is nested too deeply"};
    if (event == Json::parse_event_t::object_start) {
      keys_.resize(static_cast<std::size_t>(depth) + 2);
      keys_[static_cast<std::size_t>(depth) + 1].clear();
    }
    if (event == Json::parse_event_t::key) {
      std::set<std::string>& keys = keys_[static_cast<std::size_t>(depth)];
      const std::string& key = value.get_ref<const std::string&>();
      if (!keys.insert(key).second)
        throw Refused{"duplicate_key", fmt::format("key `{}` is given twice", yaml::printable(key))};
      if (keys.size() > kMostKeysOfOne)
        throw Refused{"json_refused", fmt::format("an object has more than {} keys", kMostKeysOfOne)};
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_ = std::vector<std::set<std::string>>(1);
};

const yaml::Node* child(const yaml::Node& node, const std::string& step, bool value) {
  if (node.kind == yaml::Kind::Sequence) {
    for (std::size_t i = 0; i < node.items.size(); ++i)
      if (std::to_string(i) == step) return &node.items[i];
    return nullptr;
  }
  for (std::size_t i = 0; node.kind == yaml::Kind::Map && i + 1 < node.items.size(); i += 2)
    if (node.items[i].text == step) return &node.items[value ? i + 1 : i];
  return nullptr;
}

/// Where the value at `path` is written, or the innermost object around it that does.
Place place_of(const JsonSource& source, const std::vector<std::string>& path) {
  const Result<yaml::Document> document = yaml::parse(source.text, source.file);
  if (!document) return {source.file, 0, 0, 1, {}};
  yaml::Reader places(*document);
  const yaml::Node* node = &document->root;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const yaml::Node* next = child(*node, path[i], true);
    if (next == nullptr) break;
    node = next;
  }
  return places.place(*node);
}

}  // namespace

Result<JsonSource> parse_json_source(std::string text, std::string file) {
  if (text.size() > kMostBytes)
    return fail(whole_file(file, "too_large", fmt::format("the file is larger than {} MiB", kMostBytes >> 20)));
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    return fail(whole_file(file, "json_syntax", "the file is empty"));
  JsonSource source{std::move(file), std::move(text), {}};
  try {
    Guard guard;
    source.root = Json::parse(source.text, [&guard](int depth, Json::parse_event_t event, Json& value) {
      return guard(depth, event, value);
    });
  } catch (const Refused& refused) {
    return fail(whole_file(source.file, refused.code, refused.message));
  } catch (const nlohmann::json::parse_error& e) {
    return fail(json_syntax_error(e, source.text, source.file));
  } catch (const nlohmann::json::exception&) { return fail(whole_file(source.file, "json_syntax", "not valid JSON")); }
  if (!source.root.is_object()) return fail(whole_file(source.file, "bad_value", "the file is not one JSON object"));
  return source;
}

JsonFields::JsonFields(const JsonSource& source, Errors& errors, const Json* object, std::vector<std::string> path)
    : source_(&source), errors_(&errors), object_(object), path_(std::move(path)) {
  static const Json kEmpty = Json::object();
  if (object_ != nullptr && object_->is_object()) return;
  object_ = &kEmpty, present_ = false;
}

const Json* JsonFields::find(std::string_view key) const {
  const auto found = object_->find(std::string(key));
  return found == object_->end() ? nullptr : &*found;
}

std::string JsonFields::path_of(std::string_view key) const {
  std::string out;
  for (const std::string& step : path_) {
    const bool index = !step.empty() && step.find_first_not_of("0123456789") == std::string::npos;
    out += index ? fmt::format("[{}]", step) : fmt::format("{}{}", out.empty() ? "" : ".", step);
  }
  if (key.empty()) return out;
  return fmt::format("{}{}{}", out, out.empty() ? "" : ".", key);
}

void JsonFields::error(std::string_view key, std::string code, std::string message,
                       std::vector<std::string> help) const {
  if (errors_->size() >= kMostErrors) return;
  std::vector<std::string> path = path_;
  if (!key.empty()) path.emplace_back(key);
  Error made{std::move(code), std::move(message), {}, std::move(help), place_of(*source_, path)};
  if (std::find(errors_->begin(), errors_->end(), made) == errors_->end()) errors_->push_back(std::move(made));
}

void JsonFields::lacks(std::string_view key) const {
  constexpr std::string_view kOne = " is missing", kSeveral = " are missing";
  const std::string path = fmt::format("`{}`", path_of(key)), here = fmt::format("`{}", path_of(""));
  for (Error& made : *errors_) {
    const std::size_t end = made.message.find('`', 1), dot = made.message.rfind('.', end);
    const std::string_view parent =
        std::string_view(made.message).substr(0, dot < end ? dot : 1);  // of the first key that it names
    if (made.code != "missing_key" || parent != here) continue;
    if (made.message.find(path) != std::string::npos ||
        made.message.find(fmt::format("`{}`", key)) != std::string::npos)
      return;
    const std::string_view all = made.message;
    const std::string_view named = all.substr(0, all.size() - (all.ends_with(kOne) ? kOne : kSeveral).size());
    made.message = fmt::format("{}, `{}`{}", named, key, kSeveral);
    return;
  }
  error("", "missing_key", fmt::format("{}{}", path, kOne));
}

const Json* JsonFields::need(std::string_view key, std::string_view wanted, bool (Json::*is)() const noexcept) const {
  const Json* value = find(key);
  if (!present_) return nullptr;  // the object itself is a mistake already
  if (value == nullptr) {
    lacks(key);
    return nullptr;
  }
  if ((value->*is)()) return value;
  error(key, "bad_value", fmt::format("`{}` is not {}", path_of(key), wanted));
  return nullptr;
}

JsonFields JsonFields::object(std::string_view key) const {
  std::vector<std::string> path = path_;
  path.emplace_back(key);
  return {*source_, *errors_, need(key, "an object", &Json::is_object), std::move(path)};
}

std::vector<JsonFields> JsonFields::objects(std::string_view key) const {
  std::vector<JsonFields> out;
  const Json* list = need(key, "a list", &Json::is_array);
  for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
    std::vector<std::string> path = path_;
    path.emplace_back(key), path.push_back(std::to_string(i));
    out.push_back({*source_, *errors_, &(*list)[i], std::move(path)});
    if (!out.back().present())
      out.back().error("", "bad_value", fmt::format("`{}` is not an object", out.back().path_of("")));
  }
  return out;
}

std::vector<int> JsonFields::integers(std::string_view key) const {
  std::vector<int> out;
  const Json* list = need(key, "a list", &Json::is_array);
  if (list == nullptr) return out;
  for (const Json& item : *list) {
    const bool right =
        item.is_number_integer() && item.get<std::int64_t>() >= 0 && item.get<std::int64_t>() < (1 << 30);
    if (!right) {
      error(key, "bad_value", fmt::format("`{}` is not a list of whole numbers", path_of(key)));
      return {};
    }
    out.push_back(item.get<int>());
  }
  return out;
}

std::vector<std::string> JsonFields::texts(std::string_view key) const {
  std::vector<std::string> out;
  const Json* list = need(key, "a list", &Json::is_array);
  if (list == nullptr) return out;
  for (const Json& item : *list) {
    if (!item.is_string()) {
      error(key, "bad_value", fmt::format("`{}` is not a list of texts", path_of(key)));
      return {};
    }
    out.push_back(item.get<std::string>());
  }
  return out;
}

std::vector<std::pair<std::string, JsonFields>> JsonFields::members() const {
  std::vector<std::pair<std::string, JsonFields>> out;
  for (const auto& [key, value] : object_->items()) out.emplace_back(key, object(key));
  return out;
}

std::string JsonFields::text(std::string_view key) const {
  const Json* value = need(key, "a text", &Json::is_string);
  return value == nullptr ? std::string() : value->get<std::string>();
}

bool JsonFields::boolean(std::string_view key) const {
  const Json* value = need(key, "true or false", &Json::is_boolean);
  return value != nullptr && value->get<bool>();
}

double JsonFields::number(std::string_view key, double least) const {
  const Json* value = need(key, "a number", &Json::is_number);
  if (value == nullptr) return 0;
  const double number = value->get<double>();
  if (std::isfinite(number) && number >= least) return number;
  error(key, "out_of_range", fmt::format("`{}` is out of range", path_of(key)));
  return 0;
}

std::int64_t JsonFields::whole(std::string_view key, std::int64_t least, std::int64_t most) const {
  const Json* value = need(key, "a whole number", &Json::is_number_integer);
  if (value == nullptr) return least;
  const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > (std::uint64_t{1} << 62);
  const std::int64_t number = huge ? 0 : value->get<std::int64_t>();
  if (!huge && number >= least && number <= most) return number;
  error(key, "out_of_range", fmt::format("`{}` is out of range: {} to {} make sense", path_of(key), least, most));
  return least;
}

std::string JsonFields::word(std::string_view key) const {
  const Json* value = find(key);
  if (value != nullptr && value->is_string()) return value->get<std::string>();
  if (value != nullptr && value->is_number_integer()) return fmt::format("{}", value->get<std::int64_t>());
  if (value != nullptr && value->is_number()) return fmt::format("{}", value->get<double>());
  if (value != nullptr && value->is_boolean()) return value->get<bool>() ? "true" : "false";
  if (present_ && value == nullptr)
    lacks(key);
  else if (present_)
    error(key, "bad_value", fmt::format("`{}` is neither a number nor a text", path_of(key)));
  return {};
}

}  // namespace plan
