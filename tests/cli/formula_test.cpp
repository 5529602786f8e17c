// Looking formulas up: every one of the catalog shows whole, and nothing is said that tells nothing.
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <regex>
#include <set>

#include "check_files.hpp"
#include "formulas/textbook/catalog.hpp"
#include "planner/estimate/budget.hpp"
#include "planner/rules/frameworks.hpp"

using namespace plan;
using namespace plan::checks;

namespace {

/// Words of a text, whatever lines it is broken into.
std::string flowed(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

bool holds(const std::string& text, std::string_view part) {
  return flowed(text).find(flowed(std::string(part))) != std::string::npos;
}

/// What the help of a refusal says to write, from one of its words on.
std::vector<std::string> written(const std::string& err, const std::string& start) {
  static const std::regex quoted("`([^`]*)`");
  const std::string text = flowed(err);
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), quoted), end; at != end; ++at)
    if ((*at)[1].str().starts_with(start)) found.push_back((*at)[1].str().substr(start.size()));
  return found;
}

/// Values that every domain takes.
std::string settings(const CatalogEntry& entry) {
  std::string out;
  for (const Symbol& symbol : entry.symbols) {
    const char* value = symbol.domain == Domain::Share ? "0.5" : "3";
    out += (out.empty() ? "" : ",") + std::string(symbol.name) + "=" + value;
  }
  return out;
}

}  // namespace

TEST_CASE("plan show formula shows each whole: equation, symbols with units, source, note, what a source gets wrong") {
  CHECK(catalog().size() > 195);
  for (const CatalogEntry& entry : catalog()) {
    const std::string name(entry.formula.name);
    CAPTURE(name);
    const Ran shown = run({"show", "formula", name});
    REQUIRE(shown.status == 0);
    CHECK(shown.err.empty());
    for (const std::string_view part :
         {entry.formula.title, entry.formula.equation, entry.formula.unit, entry.formula.source, entry.formula.note,
          entry.erratum.where, entry.erratum.equation, entry.erratum.why})
      CHECK_MESSAGE(holds(shown.out, part), part);
    for (const Symbol& symbol : entry.symbols)
      CHECK(holds(shown.out, std::string(symbol.name) + " " + std::string(symbol.meaning)));
    for (const Symbol& symbol : entry.symbols) CHECK(holds(shown.out, symbol.unit));
    const Json json = run_json({"show", "formula", name});
    CHECK(json["equation"] == entry.formula.equation);
    CHECK(json["symbols"].size() == entry.symbols.size());
    CHECK(json.contains("erratum") == static_cast<bool>(entry.erratum));
    CHECK(json.contains("note") == !entry.formula.note.empty());
  }
}

TEST_CASE("plan formula evaluates each, and no note says that a number is itself") {
  for (const CatalogEntry& entry : catalog()) {
    const std::string name(entry.formula.name);
    CAPTURE(name);
    const Ran ran = run({"formula", name, "--set", settings(entry)});
    REQUIRE_MESSAGE(ran.status == 0, ran.err);
    const std::string text = flowed(ran.out);
    const std::size_t equals = text.find(" = ", text.find("note")), has = text.rfind(" has ", equals);
    if (has != std::string::npos && equals != std::string::npos) {
      const std::string before = text.substr(has + 5, equals - has - 5);
      CHECK_MESSAGE(text.compare(equals + 3, before.size() + 1, before + " ") != 0, text);
    }
    if (entry.erratum) CHECK(holds(ran.out, entry.erratum.why));
  }
  const Ran factor = run({"formula", "zero1-factor", "--set", "d=4"});
  CHECK(holds(factor.out, "has 4 instead: The limit for many ranks."));
  const Ran fraction = run({"formula", "bubble-fraction", "--set", "p=16,m=16"});
  CHECK(holds(fraction.out, "(p - 1)/m = 0.9375 instead"));
}

TEST_CASE("plan list prints every framework and every limit with what it is") {
  const std::string known = run({"list", "frameworks"}).out, json = run({"list", "frameworks", "--json"}).out;
  for (const FrameworkRow& row : frameworks()) {
    CHECK(holds(known, std::string(row.name) + " " + std::string(row.help)));
    CHECK(json.find("\"" + std::string(row.name) + "\"") != std::string::npos);
    CHECK(json.find("\"" + std::string(row.help) + "\"") != std::string::npos);
  }
  const std::string limits = run({"list", "limits"}).out;
  for (const MetricRow& row : metrics()) CHECK(holds(limits, std::string(row.name) + " " + std::string(row.help)));
  CHECK(std::count(limits.begin(), limits.end(), '\n') == static_cast<int>(metrics().size()));
}

TEST_CASE("a word after a verb is the verb's own, though it names another verb") {
  CHECK(run({"show", "formula", "mfu"}).out.find("Model FLOPs utilisation") != std::string::npos);
  CHECK(run({"show", "plan"}).err.find("nothing to show of kind `plan`") != std::string::npos);
  CHECK(run({"list", "check"}).err.find("nothing to list by the name `check`") != std::string::npos);
  CHECK(run({"explain", "memory", "sweep", "--model", "8b", "--gpus", "8"}).err.find("`sweep`") != std::string::npos);
  CHECK(run({"--json", "show", "formula", "mfu"}).out.find("plan-show/1") != std::string::npos);
}

TEST_CASE("a noun is taken in the singular, in the plural and in capitals, and one of elsewhere says what to list") {
  for (const std::string noun : {"model", "gpu", "cluster", "framework", "formula", "rule", "term", "limit"}) {
    const Ran known = run({"list", noun + "s"});
    REQUIRE(known.status == 0);
    for (std::string typed : {noun, noun + "s"}) {
      CHECK(run({"list", typed}).out == known.out);
      typed.front() = static_cast<char>(std::toupper(typed.front()));
      CHECK(run({"list", typed}).out == known.out);
      CHECK(run({"--list", typed}).out == known.out);
    }
  }
  for (const auto& [noun, name] :
       {std::pair{"model", "8b"}, {"gpu", "h100"}, {"cluster", "dgx-h100"}, {"formula", "mfu"}}) {
    const Ran known = run({"show", noun, name});
    REQUIRE(known.status == 0);
    CHECK(run({"show", std::string(noun) + "s", name}).out == known.out);
  }
  std::size_t followed = 0;
  for (const char* noun : {"hardware", "accelerators", "chip", "tpus", "nodes", "presets", "metrics", "equation"}) {
    CAPTURE(std::string(noun));
    const Ran refused = run({"list", noun});
    CHECK(refused.status == 2);
    for (const std::string& list : written(refused.err, "plan list ")) {
      CHECK(run({"list", list}).status == 0);
      ++followed;
    }
  }
  CHECK(followed >= 8);
  for (const char* noun : {"optimizers", "precision", "schedules", "axes", "flags", "emitters"}) {
    CAPTURE(std::string(noun));
    CHECK(flowed(run({"list", noun}).err).find("help: `") != std::string::npos);
  }
}

TEST_CASE("B, G and T behind a value are powers of 1000; K and M are asked about with both that they may be") {
  std::mt19937 random(5);
  const auto value_of = [](const std::string& set) {
    const Json json = run_json({"formula", "zero1", "--set", set});
    return json.contains("symbols") ? json["symbols"][0]["value"].get<double>() : std::nan("");
  };
  const std::string symbol = "P";
  for (int round = 0; round < 20; ++round) {
    const double number = std::uniform_int_distribution<int>(1, 4000)(random) / 4.0;
    for (const auto& [letter, size] : {std::pair{"B", 1e9}, {"G", 1e9}, {"T", 1e12}})
      CHECK(value_of(fmt::format("{}={}{}", symbol, number, letter)) == doctest::Approx(number * size));
    for (const auto& [letter, power] : {std::pair{"k", 1}, {"K", 1}, {"m", 2}, {"M", 2}}) {
      const std::string set = fmt::format("{}={}{}", symbol, number, letter);
      CAPTURE(set);
      const Ran refused = run({"formula", "zero1", "--set", set});
      CHECK(refused.status == 2);
      const std::vector<std::string> meant = written(refused.err, "--set ");
      REQUIRE(meant.size() == 2);
      CHECK(value_of(meant[0]) == doctest::Approx(number * std::pow(1024, power)));
      CHECK(value_of(meant[1]) == doctest::Approx(number * std::pow(1000, power)));
    }
  }
  for (const auto& [typed, number] :
       {std::pair{"=70 billion", 70e9}, {":7", 7.0}, {"7", 7.0}, {"=1,024", 1024.0}, {"=5 %", 0.05}}) {
    const std::string shown = typed;
    CAPTURE(shown);
    const std::vector<std::string> meant = written(run({"formula", "zero1", "--set", symbol + typed}).err, "--set ");
    REQUIRE(meant.size() == 1);
    CHECK(value_of(meant[0]) == doctest::Approx(number));
  }
}
