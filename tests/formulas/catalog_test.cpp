#include "formulas/textbook/catalog.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

namespace plan {
namespace {

using doctest::Approx;

// What `entry` asks of every formula and the type that its function returns.
static_assert(answers_in<Seconds>("seconds") && answers_in<RealBytes>("bytes") && answers_in<double>("ratio"));
static_assert(!answers_in<RealBytes>("seconds") && !answers_in<RealBytes>("ratio") && !answers_in<double>("bytes"));
static_assert(!answers_in<Quantity<double, struct UnknownTag>>(""));

double value(const char* name, std::vector<NamedValue> given) {
  const CatalogEntry* entry = find_formula(name);
  REQUIRE(entry);
  const auto values = bind_symbols(*entry, given);
  REQUIRE(values.has_value());
  return entry->evaluate(*values);
}

std::vector<std::string> error_codes(const char* name, std::vector<NamedValue> given) {
  const auto values = bind_symbols(*find_formula(name), given);
  REQUIRE_FALSE(values.has_value());
  std::vector<std::string> codes;
  for (const Error& error : values.error()) codes.push_back(error.code);
  return codes;
}

TEST_CASE("formulas are found by name and take named values") {
  CHECK(value("activation", {{"s", 2048}, {"b", 1}, {"h", 12288}, {"a", 96}, {"t", 8}}) == 578813952);
  CHECK(value("activation", {{"a", 96}, {"h", 12288}, {"s", 2048}}) == 2868903936);  // b and t are 1 unless set
  CHECK(value("bubble-fraction", {{"p", 16}, {"m", 16}}) == Approx(15.0 / 31));
  CHECK(find_formula("no-such-formula") == nullptr);
}

TEST_CASE("all that the course notes name can be asked for") {
  for (const char* name : {"states",
                           "states-12",
                           "zero1",
                           "zero2",
                           "zero3",
                           "ddp-elements",
                           "zero1-elements",
                           "zero2-elements",
                           "zero3-elements",
                           "activation",
                           "activation-sp",
                           "activation-selective",
                           "activation-sp-selective",
                           "activation-scores",
                           "bubble-ratio",
                           "bubble-fraction",
                           "tp-traffic",
                           "tp-sp-traffic",
                           "pp-traffic",
                           "table-dp",
                           "table-fsdp",
                           "table-mp",
                           "table-fsdp-mp",
                           "table-compute",
                           "hsdp-intra-traffic",
                           "hsdp-inter-traffic",
                           "mfu",
                           "recompute-work",
                           "recompute-overhead",
                           "transfer-time",
                           "naive-pipeline-utilisation",
                           "world-size",
                           "cluster-memory",
                           "ddp-traffic",
                           "zero1-traffic",
                           "zero3-traffic",
                           "tp-output"}) {
    CAPTURE(std::string(name));
    CHECK(find_formula(name) != nullptr);
  }
}

TEST_CASE("where the notes err both numbers are given") {
  struct Row {
    const char* name;
    std::vector<NamedValue> given;
    double right, course;
  };
  // plan-formulas(7) I
  const Row rows[] = {
      {"bubble-fraction", {{"p", 16}, {"m", 16}}, 15.0 / 31, 15.0 / 16},
      {"zero1-weights-traffic", {{"P", 1e9}, {"n", 8}}, 1.75e9, 0},
      {"zero1-saving", {{"d", 4}}, 1 - 7.0 / 16, 0.75},
      {"zero1-factor", {{"d", 4}}, 16.0 / 7, 4},
      {"zero2-factor", {{"d", 7}}, 4, 8},
      {"megatron-saving", {{"d", 6}}, 1 - 8.0 / 18, 0.75},
      {"activation-scores", {{"s", 32768}, {"a", 32}}, 171798691840.0, 343597383680.0},
      {"tp-sp-traffic", {{"b", 1}, {"s", 8}, {"h", 8}, {"t", 2}}, 320, 256},
      {"zero3-traffic", {{"P", 8}, {"n", 8}, {"g", 2}, {"m", 4}}, 168, 42},
      {"table-fsdp-mp", {{"B", 10}, {"D", 10}, {"F", 10}, {"X", 1}, {"Y", 1}}, 2000, 2400},
      {"tp-output", {{"N", 100}, {"D", 10}}, 1000, 100},
      {"recompute-work", {{"L", 64}}, 64, 512},
      {"cluster-memory", {{"n", 24576}, {"M", 80}}, 1.96608, 1.875},
      {"hsdp-inter-traffic", {{"P", 64}, {"K", 8}, {"M", 2}, {"g", 2}}, 16, 128},
      {"ring-buffers", {{"N", 8}, {"kv", 1}, {"c", 16}}, 512, 64},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.name));
    const CatalogEntry& entry = *find_formula(row.name);
    REQUIRE(static_cast<bool>(entry.erratum));
    const auto values = bind_symbols(entry, row.given);
    REQUIRE(values.has_value());
    CHECK(entry.evaluate(*values) == Approx(row.right));
    CHECK(entry.erratum.evaluate(*values) == Approx(row.course));
  }
}

TEST_CASE("bad symbols are all reported at once") {
  using Codes = std::vector<std::string>;
  CHECK(error_codes("bubble-fraction", {{"p", 16}}) == Codes{"missing_symbol"});
  CHECK(error_codes("bubble-fraction", {{"p", 16}, {"m", 4}, {"q", 1}}) == Codes{"unknown_symbol"});
  CHECK(error_codes("bubble-fraction", {{"p", 16}, {"p", 8}, {"m", 4}}) == Codes{"doubled_symbol"});
  CHECK(error_codes("bubble-fraction", {{"p", 0}, {"m", 1.5}}) == Codes{"bad_symbol_value", "bad_symbol_value"});
  CHECK(error_codes("energy", {{"H", 1}, {"P_gpu", -1}, {"u", 2}}) == Codes{"bad_symbol_value", "bad_symbol_value"});
  CHECK(error_codes("bubble-fraction", {{"x", 1}}) == Codes{"unknown_symbol"});  // meant as one of the others
  const auto not_a_number = error_codes("energy", {{"H", std::numeric_limits<double>::quiet_NaN()}, {"P_gpu", 700}});
  CHECK(not_a_number == Codes{"bad_symbol_value"});
}

TEST_CASE("groups hold the whole catalog, typical values lie in their domains") {
  std::size_t entries = 0;
  for (const CatalogGroup& group : catalog_groups()) {
    CHECK_FALSE(group.entries.empty());
    entries += group.entries.size();
  }
  CHECK(entries == catalog().size());
  for (const CatalogEntry& entry : catalog()) {
    CAPTURE(std::string(entry.formula.name));
    for (const Symbol& symbol : entry.symbols) {
      if (symbol.required()) continue;
      const NamedValue typical{symbol.name, symbol.typical};
      const auto bound = bind_symbols(entry, std::span(&typical, 1));
      const bool rejected = !bound && std::any_of(bound.error().begin(), bound.error().end(),
                                                  [](const Error& error) { return error.code == "bad_symbol_value"; });
      CHECK_FALSE(rejected);
    }
  }
}

}  // namespace
}  // namespace plan
