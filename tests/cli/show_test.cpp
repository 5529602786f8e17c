// `plan show` and `plan list`: what is printed for people and what for programs is one thing, for everything that has a
// name.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "check_files.hpp"
#include "formulas/names.hpp"
#include "formulas/parameters.hpp"
#include "formulas/units.hpp"
#include "planner/rules/words.hpp"
#include "presets/store.hpp"

using namespace plan;
using checks::Json;

namespace {

std::vector<std::string> names_of(const std::string& what) {
  std::vector<std::string> out;
  std::istringstream in(checks::run({"list", what, "--names"}).out);
  for (std::string name; std::getline(in, name);) out.push_back(name);
  return out;
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '\n'; });
  return text;
}

/// The first line's comment.
std::string title_of(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

TEST_CASE("every model is shown with its parameters, active ones where experts rest, and its whole preset") {
  const std::vector<std::string> names = names_of("models");
  CHECK(names.size() > 50);
  for (const std::string& name : names) {
    CAPTURE(name);
    const std::string text = checks::run({"show", "model", name}).out;
    const Json json = checks::run_json({"show", "model", name});
    CHECK(json["schema"] == "plan-show/1");
    CHECK(json["kind"] == "model");
    CHECK(json["name"] == name);
    CHECK(text.ends_with(json["preset"].get<std::string>()));
    const Model model = load_model(name, StoreOptions{}).value().value;
    const std::string title = without_blanks(title_of(text));
    CHECK(title.starts_with(fmt::format("#{}:{}parameters", name, json["parameters"].get<std::int64_t>())));
    const std::string active = fmt::format(",{}active", json["active_parameters"].get<std::int64_t>());
    CHECK(title.ends_with(active) == model.moe());
    CHECK((json["parameters"] == json["active_parameters"]) == !model.moe());
    CHECK(text.find("# from ") == std::string::npos);  // built in
  }
}

TEST_CASE("every GPU is shown with its whole preset, and with what a data sheet calls its links: both directions") {
  for (const std::string& name : names_of("gpus")) {
    CAPTURE(name);
    const std::string text = checks::run({"show", "gpu", name}).out;
    const Json json = checks::run_json({"show", "gpu", name});
    CHECK(json["kind"] == "gpu");
    CHECK(json["name"] == name);
    CHECK(text.ends_with(json["preset"].get<std::string>()));
    const double link = load_gpu(name, StoreOptions{}).value().value.scale_up.value;
    const std::string title = title_of(text);
    CHECK((title.find("add both") != std::string::npos) == (link > 0));
    if (!(link > 0)) continue;
    std::string figure = title.substr(title.find("add both, ") + 10);  // "900 GB/s here"
    std::size_t end = 0;
    const double shown = std::stod(figure, &end);
    const char unit = figure.substr(figure.find_first_not_of(' ', end))[0];
    CHECK(shown * (unit == 'T' ? 1e12 : unit == 'G' ? 1e9 : 1) == doctest::Approx(2 * link).epsilon(0.002));
  }
}

TEST_CASE("every cluster is shown with its whole preset, and one of several kinds with its GPUs") {
  for (const std::string& name : names_of("clusters")) {
    CAPTURE(name);
    const std::string text = checks::run({"show", "cluster", name}).out;
    const Json json = checks::run_json({"show", "cluster", name});
    CHECK(json["kind"] == "cluster");
    CHECK(json["name"] == name);
    CHECK(text.ends_with(json["preset"].get<std::string>()));
    CHECK(title_of(text).starts_with("# " + name));
  }
}

TEST_CASE("every formula is shown with all that its JSON has") {
  for (const std::string& name : names_of("formulas")) {
    CAPTURE(name);
    const std::string text = without_blanks(checks::run({"show", "formula", name}).out);
    const Json json = checks::run_json({"show", "formula", name});
    const auto says = [&](const std::string& part) {
      CAPTURE(part);
      CHECK(text.find(without_blanks(part)) != std::string::npos);
    };
    says(json["title"]), says(json["source"]);
    const std::string unit = json["unit"];
    says(name + " = " + json["equation"].get<std::string>() + (unit.empty() ? "" : "  [" + unit + "]"));
    for (const Json& symbol : json["symbols"]) {
      const std::string of = symbol["unit"];
      std::string line = symbol["name"].get<std::string>() + symbol["meaning"].get<std::string>();
      says(line + (of.empty() ? "" : "," + of));
      if (symbol.contains("usual")) CHECK(text.find("(usually") != std::string::npos);
    }
    for (const char* key : {"note", "erratum"})
      if (json.contains(key)) says("note" + json[key].get<std::string>());
  }
}

TEST_CASE("a name without its kind is told with the kind, whatever it names") {
  for (const char* kind : {"model", "gpu", "cluster", "formula"})
    for (const std::string& name : names_of(std::string(kind) + "s")) {
      CAPTURE(name);
      const checks::Ran ran = checks::run({"show", name});
      CHECK(ran.status == kError);
      CHECK(ran.err.find(fmt::format("`plan show {} {}`", kind, name)) != std::string::npos);
    }
  for (const char* noun : {"framework", "rule", "limit", "term"})
    CHECK(checks::run({"show", noun}).err.find("plan ") != std::string::npos);
  for (const char* kind : {"model", "gpu", "cluster", "formula"})
    CHECK(checks::run({"show", kind}).err.find(fmt::format("`plan list {}s`", kind)) != std::string::npos);
}

TEST_CASE("what a list says of a model, a GPU and a cluster is what its preset says") {
  const auto rows = [](const char* what) { return Json::parse(checks::run({"list", what, "--json"}).out)[what]; };
  const auto number_behind = [](const std::string& text, const std::string& word) {
    const std::size_t at = text.find(word);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + word.size()));
  };
  for (const Json& row : rows("gpus")) {
    const Gpu gpu = load_gpu(row["name"].get<std::string>(), {}).value().value;
    const std::string about = row["about"];
    CAPTURE(gpu.name);
    CAPTURE(about);
    CHECK(std::stod(about) == doctest::Approx(static_cast<double>(gpu.memory.value) / kGiB).epsilon(0.01));
    const DType sixteen = multiplies(gpu, Precision::Bf16) ? DType::Bf16 : DType::Fp16;
    const double peak = gpu.peak[static_cast<std::size_t>(sixteen)].value / 1e12;
    CHECK(number_behind(about, "GiB, ") == doctest::Approx(peak).epsilon(0.5 / peak + 1e-9));
    CHECK(about.find(fmt::format(" TFLOP/s {}", name(sixteen))) != std::string::npos);
  }
  for (const Json& row : rows("clusters")) {
    const Cluster cluster = load_cluster(row["name"].get<std::string>(), {}).value().value;
    const std::string about = row["about"];
    CAPTURE(cluster.name);
    CAPTURE(about);
    CHECK(about.starts_with(fmt::format("{} x {} a node, ", cluster.gpus_per_node, cluster.gpu.name)));
    for (const Tier& tier : cluster.tiers)
      CHECK(number_behind(about, ", " + tier.name + " ") == doctest::Approx(tier.bandwidth.value / 1e9).epsilon(1e-3));
  }
  for (const Json& row : rows("models")) {
    const Model model = load_model(row["name"].get<std::string>(), {}).value().value;
    const ModelParameters parameters = model_parameters(model);
    const std::string about = row["about"];
    CAPTURE(model.name);
    CAPTURE(about);
    const auto read = [](const std::string& text) {
      std::size_t end = 0;
      const double value = std::stod(text, &end);
      const char unit = text[std::min(text.find_first_not_of(' ', end), text.size() - 1)];
      return value * (unit == 'T' ? 1e12 : unit == 'B' ? 1e9 : unit == 'M' ? 1e6 : 1);
    };
    CHECK(read(about) == doctest::Approx(static_cast<double>(parameters.total)).epsilon(0.006));
    const std::size_t active = about.find(" active");
    CHECK((active != std::string::npos) == model.moe());
    if (active != std::string::npos)
      CHECK(read(about.substr(about.find(", ") + 2)) ==
            doctest::Approx(static_cast<double>(parameters.active)).epsilon(0.006));
  }
}

TEST_CASE("a list has the same names for people and for programs, each once") {
  for (const char* what : {"models", "gpus", "clusters", "frameworks", "formulas", "rules", "terms", "limits"}) {
    CAPTURE(what);
    const std::vector<std::string> names = names_of(what);
    CHECK(std::set<std::string>(names.begin(), names.end()).size() == names.size());
    CHECK(names.size() > 3);
    const std::string text = checks::run({"list", what}).out, json = checks::run({"list", what, "--json"}).out;
    for (const std::string& name : names) {
      CAPTURE(name);
      CHECK(text.find(name) != std::string::npos);
      CHECK(json.find("\"" + name + "\"") != std::string::npos);
    }
  }
}
