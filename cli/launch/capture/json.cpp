// job.json: what `plan capture` keeps, and the script that readers of launch files take in its place.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/launch/capture/capture.hpp"
#include "cli/launch/start/launcher.hpp"

namespace plan {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::string_view kSchema = "plan-capture/1";

using Files = std::map<std::string, std::string, std::less<>>;

/// A recorded file by the name that `base` has for it: beside `base`, or in a folder above.
std::optional<LaunchSource> recorded(const std::shared_ptr<const Files>& files, const std::string& base,
                                     std::string_view name) {
  for (fs::path folder = fs::path(base);; folder = folder.parent_path()) {
    const auto found = files->find((folder / name).lexically_normal().string());
    if (found != files->end()) {
      LaunchSource source{found->first, found->second, {}, {}, {}, {}};
      source.open = [files, from = fs::path(found->first).parent_path().string()](std::string_view next) {
        return recorded(files, from, next);
      };
      return source;
    }
    if (folder == folder.parent_path()) return std::nullopt;
  }
}

bool is_texts(const Json& list) {
  return list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& item) { return item.is_string(); });
}

bool is_call(const Json& call) {
  return call.is_object() && call.contains("words") && is_texts(call["words"]) && !call["words"].empty() &&
         call.contains("environment") && call["environment"].is_object() &&
         std::all_of(call["environment"].begin(), call["environment"].end(),
                     [](const Json& v) { return v.is_string(); }) &&
         call.contains("folder") && call["folder"].is_string() && call.contains("launcher") &&
         is_texts(call["launcher"]) && (!call.contains("resolved") || call["resolved"].is_string());
}

bool is_whole(const Json& json) {
  if (!json.is_object()) return false;
  for (const char* key : {"started", "files"})
    if (!json.contains(key) || !json[key].is_array()) return false;
  for (const char* key : {"slurm", "notes"})
    if (!json.contains(key) || !is_texts(json[key])) return false;
  return std::all_of(json["started"].begin(), json["started"].end(), is_call) &&
         std::all_of(json["files"].begin(), json["files"].end(), [](const Json& file) {
           return file.is_object() && file.contains("name") && file["name"].is_string() && file.contains("text") &&
                  file["text"].is_string();
         });
}

/// Lines are distinguished by writing into the line that is wanted, never into an earlier one.
struct Lines {
  std::string text{};
  int line = 1;
  void go_to(int wanted) {
    for (; line < wanted; ++line) text += " \\\n";
  }
  void add(const std::string& words) {
    text += words;
    line += static_cast<int>(std::count(words.begin(), words.end(), '\n'));
  }
};

/// The line that holds `value` from `at` on, as JSON; `at` moves behind it.
int line_of(const std::string& text, const std::string& value, std::size_t& at) {
  const std::string quoted = Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::size_t found = text.find(quoted, at);
  if (found != std::string::npos) at = found + quoted.size();
  return 1 + static_cast<int>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(at, text.size())), '\n'));
}

std::string script_of(const Json& json, const std::string& text) {
  Lines lines;
  lines.add("#!/bin/bash\n");
  // Of one option the last counts: what srun or mpirun says of the last program comes after sbatch's.
  for (const Json& option : json["slurm"]) lines.add("#SBATCH " + option.get<std::string>() + "\n");
  for (const Json& option : json["started"].back()["launcher"])
    lines.add("#SBATCH " + option.get<std::string>() + "\n");
  std::size_t at = text.find("\"started\"");
  for (const Json& call : json["started"]) {
    std::string environment;
    for (const auto& [name, value] : call["environment"].items())
      environment += name + "=" + shell_quoted(value.get<std::string>()) + " ";
    bool first = true;
    for (const Json& word : call["words"]) {
      const std::string value = word.get<std::string>();
      const int line = line_of(text, value, at);
      if (first)
        while (lines.line < line) lines.add("\n");
      lines.go_to(line);
      lines.add((first ? environment : std::string(" ")) + shell_quoted(value));
      first = false;
    }
    lines.add("\n");
  }
  return lines.text;
}

}  // namespace

std::string capture_json(const Capture& capture) {
  Json json = {{"schema", kSchema}, {"command", capture.command}, {"status", capture.status}, {"slurm", capture.slurm}};
  json["started"] = Json::array();
  for (const CapturedCall& call : capture.calls) {
    Json environment = Json::object();
    for (const auto& [name, value] : call.environment) environment[name] = value;
    json["started"].push_back(
        {{"words", call.words}, {"environment", environment}, {"folder", call.folder}, {"launcher", call.launcher}});
    if (!call.resolved.empty()) json["started"].back()["resolved"] = call.resolved;
  }
  json["files"] = Json::array();
  for (const CapturedFile& file : capture.files) json["files"].push_back({{"name", file.name}, {"text", file.text}});
  json["notes"] = capture.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool is_capture(std::string_view text) {
  const std::string_view head = text.substr(0, 200);
  return head.find('{') != std::string_view::npos && head.find("\"schema\"") != std::string_view::npos &&
         head.find("\"plan-capture/") != std::string_view::npos;
}

Result<LaunchSource> read_capture(const std::string& path, const std::string& text, Recognises* is_read) {
  const Json json = Json::parse(text, nullptr, false);
  const bool right = json.is_object() && json.contains("schema") && json["schema"] == kSchema && is_whole(json);
  if (!right)
    return fail({"bad_capture",
                 fmt::format("{}: not a whole record of schema {}", path, kSchema),
                 {},
                 {"write it again with `plan capture`"}});
  if (json["started"].empty()) return fail({"bad_capture", fmt::format("{}: it records no program", path)});
  auto files = std::make_shared<Files>();
  for (const Json& file : json["files"]) (*files)[file["name"].get<std::string>()] = file["text"].get<std::string>();
  LaunchSource source{path, script_of(json, text), {}, {}, {}, {}};
  // What the program's own parser made of the words goes before the words, where a reader knows it.
  if (const Json& last = json["started"].back(); last.contains("resolved")) {
    const LaunchSource whole{path + " (resolved)", last["resolved"].get<std::string>(), {}, {}, {}, {}};
    if (is_read(whole)) source = whole;
  }
  const std::string folder = json["started"].back()["folder"].get<std::string>();
  source.open = [files = std::shared_ptr<const Files>(std::move(files)), folder](std::string_view name) {
    return recorded(files, folder, name);
  };
  for (const Json& note : json["notes"]) source.notes.push_back(note.get<std::string>());
  return source;
}

}  // namespace plan
