// SARIF against the parts of the 2.1.0 specification (OASIS, sections named below) that `plan check` uses: the objects'
// properties, which of them must be there, and what their values may be. The published schema itself is asked in
// tests/validators where it can be fetched; this runs everywhere.
#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <set>

#include "check_files.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

enum class Type { Text, Number, Truth, Object, List };

struct Property {
  const char* name;
  Type type;
  bool required = false;
  const char* object = "";  ///< name of the object that it is or lists
};

using Objects = std::map<std::string, std::vector<Property>>;

const Objects& objects() {
  static const Objects kObjects = {
      {"sarifLog",  // 3.13
       {{"$schema", Type::Text}, {"version", Type::Text, true}, {"runs", Type::List, true, "run"}}},
      {"run",  // 3.14
       {{"tool", Type::Object, true, "tool"},
        {"columnKind", Type::Text},
        {"invocations", Type::List, false, "invocation"},
        {"results", Type::List, false, "result"}}},
      {"invocation",  // 3.20
       {{"executionSuccessful", Type::Truth, true}, {"toolExecutionNotifications", Type::List, false, "notification"}}},
      {"notification",  // 3.58
       {{"descriptor", Type::Object, false, "reportingDescriptorReference"},
        {"level", Type::Text},
        {"message", Type::Object, true, "message"},
        {"locations", Type::List, false, "location"}}},
      {"reportingDescriptorReference", {{"id", Type::Text}}},       // 3.52
      {"tool", {{"driver", Type::Object, true, "toolComponent"}}},  // 3.18
      {"toolComponent",                                             // 3.19
       {{"name", Type::Text, true},
        {"version", Type::Text},
        {"semanticVersion", Type::Text},
        {"informationUri", Type::Text},
        {"rules", Type::List, false, "reportingDescriptor"}}},
      {"reportingDescriptor",  // 3.49
       {{"id", Type::Text, true},
        {"name", Type::Text},
        {"shortDescription", Type::Object, false, "message"},
        {"helpUri", Type::Text}}},
      {"message", {{"text", Type::Text, true}}},  // 3.11, 3.12
      {"result",                                  // 3.27
       {{"ruleId", Type::Text, true},
        {"ruleIndex", Type::Number, true},
        {"level", Type::Text, true},
        {"message", Type::Object, true, "message"},
        {"locations", Type::List, true, "location"},
        {"relatedLocations", Type::List, false, "location"},
        {"partialFingerprints", Type::Object, true, "*"}}},
      {"location",  // 3.28
       {{"physicalLocation", Type::Object, true, "physicalLocation"}, {"message", Type::Object, false, "message"}}},
      {"physicalLocation",  // 3.29
       {{"artifactLocation", Type::Object, true, "artifactLocation"}, {"region", Type::Object, false, "region"}}},
      {"artifactLocation", {{"uri", Type::Text, true}}},                                       // 3.4
      {"region", {{"startLine", Type::Number, true}, {"startColumn", Type::Number, false}}}};  // 3.30
  return kObjects;
}

bool is(Type type, const Json& value) {
  switch (type) {
    case Type::Text: return value.is_string();
    case Type::Number: return value.is_number_integer();
    case Type::Truth: return value.is_boolean();
    case Type::Object: return value.is_object();
    case Type::List: break;
  }
  return value.is_array();
}

/// Mistakes of an object and of all within, each with its path.
std::vector<std::string> mistakes(const Json& value, const std::string& object, const std::string& path) {
  std::vector<std::string> out;
  if (object == "*") return out;  // names of its own choosing
  const std::vector<Property>& known = objects().at(object);
  for (const Property& property : known)
    if (property.required && !value.contains(property.name)) out.push_back(path + ": no " + property.name);
  for (const auto& item : value.items()) {
    const std::string& name = item.key();
    const auto& inner = item.value();
    const std::string where = path + "/" + name;
    const auto found = std::find_if(known.begin(), known.end(), [&](const Property& p) { return name == p.name; });
    if (found == known.end()) {
      out.push_back(where + ": not in the specification");
      continue;
    }
    if (!is(found->type, inner)) {
      out.push_back(where + ": of the wrong type");
      continue;
    }
    const bool lists = inner.is_array();
    for (std::size_t i = 0; i < (lists ? inner.size() : found->type == Type::Object ? 1 : 0); ++i) {
      const std::vector<std::string> deeper =
          mistakes(lists ? inner[i] : inner, found->object, lists ? where + "/" + std::to_string(i) : where);
      out.insert(out.end(), deeper.begin(), deeper.end());
    }
  }
  return out;
}

/// A relative reference of RFC 3986: no scheme, no drive, nothing that needs an escape and has none.
bool relative_reference(const std::string& uri) {
  if (uri.empty() || uri.front() == '/') return false;
  for (std::size_t i = 0; i < uri.size(); ++i) {
    if (uri[i] == '%') {
      if (i + 2 >= uri.size() || std::isxdigit(static_cast<unsigned char>(uri[i + 1])) == 0 ||
          std::isxdigit(static_cast<unsigned char>(uri[i + 2])) == 0)
        return false;
      i += 2;
    } else if (std::isalnum(static_cast<unsigned char>(uri[i])) == 0 &&
               std::string("/-._~").find(uri[i]) == std::string::npos) {
      return false;
    }
  }
  return true;
}

void check_document(const Json& sarif) {
  CHECK(mistakes(sarif, "sarifLog", "") == std::vector<std::string>{});
  CHECK(sarif["version"] == "2.1.0");
  CHECK(sarif["$schema"].get<std::string>().ends_with("/sarif-schema-2.1.0.json"));
  for (const Json& run : sarif["runs"]) {
    CHECK(run["columnKind"] == "utf16CodeUnits");
    for (const Json& invocation : run["invocations"]) CHECK(invocation["executionSuccessful"] == true);
    const Json& rules = run["tool"]["driver"]["rules"];
    std::set<std::string> ids, fingerprints;
    for (const Json& rule : rules) CHECK(ids.insert(rule["id"]).second);
    for (const Json& result : run["results"]) {
      const std::size_t index = result["ruleIndex"];
      REQUIRE(index < rules.size());
      CHECK(rules[index]["id"] == result["ruleId"]);
      CHECK(std::set<std::string>{"none", "note", "warning", "error"}.contains(result["level"]));
      CHECK(!result["message"]["text"].get<std::string>().empty());
      CHECK(result["locations"].size() == 1);
      Json places = result["locations"];
      if (result.contains("relatedLocations"))
        for (const Json& place : result["relatedLocations"]) places.push_back(place);
      for (const Json& place : places) {
        const Json& physical = place["physicalLocation"];
        CHECK(relative_reference(physical["artifactLocation"]["uri"]));
        if (physical.contains("region")) CHECK(physical["region"]["startLine"] >= 1);
        if (physical.contains("region")) CHECK(physical["region"].value("startColumn", 1) >= 1);
      }
      for (const auto& [name, text] : result["partialFingerprints"].items()) {
        CHECK(text.is_string());
        CHECK(fingerprints.insert(name + "=" + text.get<std::string>()).second);
      }
    }
  }
}

}  // namespace

TEST_CASE("SARIF of failures, warnings and impossible layouts keeps to the specification") {
  const Folder folder;
  folder.write("bü dget %,1.yaml",
               "budget: 1\nmodel: llama3-8b\ngpus: 8 x h100-sxm\njobs:\n"
               "  - {name: 'a: 50 % sûr', layout: 'tp1,zero1,mb4', limits: {memory.peak: at most 40 GiB, step_time: at "
               "most 1 s, mfu: at least 90 %}}\n"
               "  - {name: b, layout: 'tp8,dp3', limits: {memory.peak: at most 70 GiB}}\n"
               "  - {name: c, layout: 'tp8,zero1', limits: {memory.peak: at most 70 GiB}}\n");
  for (const char* risk : {"yes", "at-risk"}) {
    const Ran ran = run({"check", "--budget", "bü dget %,1.yaml", "--format", "sarif", "--risk", risk});
    CHECK(ran.status == 1);
    const Json sarif = Json::parse(ran.out);
    check_document(sarif);
    CHECK(sarif["runs"][0]["results"].size() >= 4);
  }
  const Json lenient =
      Json::parse(run({"check", "--budget", "bü dget %,1.yaml", "--format", "sarif", "--warn-only"}).out);
  check_document(lenient);
  for (const Json& result : lenient["runs"][0]["results"]) CHECK(result["level"] == "warning");
}

// RFC 3986, 2.3: letters, digits and -._~ stand for themselves; 2.1: of the rest each byte is % and two hex digits.
TEST_CASE("the name of a file is a reference that leads back to it, and plain where it may be") {
  const Folder folder;
  std::string odd;
  for (char c = ' '; c < 127; ++c)
    if (c != '/') odd += c;
  for (const std::string& name : {std::string("AZaz09-._~.yaml"), odd + ".yaml",
                                  std::string("gr\xc3\xb6\xc3\x9f"
                                              "er.yaml")}) {
    folder.write(name, "budget: 1\nmodel: 8b\ngpus: 8\nlayout: tp1,zero1,mb4\nlimits: {memory.peak: at most 40 GiB}\n");
    const Json sarif = Json::parse(run({"check", "--budget", "./" + name, "--format", "sarif"}).out);
    const Json& at = sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"];
    std::string back;
    const auto text = at["uri"].get<std::string>();
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '%')
        back += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)), i += 2;
      else
        back += text[i];
    CHECK(back.substr(back.rfind('/') + 1) == name);
    std::size_t escapes = 0;
    for (const char c : name)
      escapes += std::isalnum(static_cast<unsigned char>(c)) == 0 && std::string("-._~").find(c) == std::string::npos;
    CHECK(static_cast<std::size_t>(std::count(text.begin(), text.end(), '%')) == escapes);
  }
}

TEST_CASE("the specification's rules notice what breaks them") {
  const Folder folder;
  folder.write("b.yaml",
               "budget: 1\nmodel: 8b\ngpus: 8\nlayout: tp1,zero1,mb4\nlimits: {memory.peak: at most 40 GiB}\n");
  const Json sarif = Json::parse(run({"check", "--budget", "b.yaml", "--format", "sarif"}).out);
  CHECK(mistakes(sarif, "sarifLog", "").empty());
  Json broken = sarif;
  broken["runs"][0].erase("tool");
  CHECK(mistakes(broken, "sarifLog", "").size() == 1);
  broken = sarif;
  broken["runs"][0]["results"][0]["severity"] = "high";
  CHECK(mistakes(broken, "sarifLog", "").front() == "/runs/0/results/0/severity: not in the specification");
  broken = sarif;
  broken["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = "9";
  CHECK(mistakes(broken, "sarifLog", "").size() == 1);
  CHECK(!relative_reference("/tmp/a.yaml"));
  CHECK(!relative_reference("a b.yaml"));
  CHECK(!relative_reference("a%2.yaml"));
}
