// Looking formulas up: every one of the catalog shows whole, and nothing is said that tells nothing.
#include <set>

#include "check_files.hpp"
#include "formulas/catalog.hpp"
#include "planner/budget.hpp"
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
