// `plan show KIND NAME`: one preset or formula whole. Tested by tests/cli/golden_test.cpp.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

#include "cli/commands/commands.hpp"
#include "cli/report/plan/json.hpp"
#include "cli/request/formula_lookup.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/words/gpu_words.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/words.hpp"
#include "formulas/parameters.hpp"
#include "presets/quantity.hpp"
#include "presets/reader.hpp"
#include "presets/shell_quoted.hpp"
#include "presets/store.hpp"
#include "presets/suggest.hpp"

namespace plan {
namespace {

/// What one kind of thing answers: a JSON object, and text for people.
struct Shown {
  Json json = Json::object();
  std::string text;
};

Json head(std::string_view kind, const std::string& name) {
  return {{"schema", "plan-show/1"}, {"kind", kind}, {"name", name}};
}

/// "llama3-405b  405 853 388 800 parameters (sha256:...)" above the preset.
std::string title(const std::string& name, const std::string& facts, const std::string& origin) {
  std::string out = fmt::format("# {}{}\n", name, facts.empty() ? "" : ": " + facts);
  if (origin != "embedded") out += fmt::format("# from {}\n", origin);
  return out;
}

Result<Shown> show_model(const std::string& name) {
  const Result<Found<Model>> found = load_model(name, StoreOptions::from_environment());
  if (!found) return fail(found.error());
  const ModelParameters parameters = model_parameters(found->value);
  std::string facts = fmt::format("{} parameters", grouped(parameters.total));
  if (found->value.moe()) facts += fmt::format(", {} active", grouped(parameters.active));
  Json json = head("model", found->value.name);
  json["parameters"] = parameters.total;
  json["active_parameters"] = parameters.active;
  json["digest"] = "sha256:" + found->digest;
  json["preset"] = write_model(found->value);
  return Shown{json, title(found->value.name, facts, found->origin) + write_model(found->value)};
}

Result<Shown> show_gpu(const std::string& name) {
  const StoreOptions store = StoreOptions::from_environment();
  const Result<Found<Gpu>> found = load_gpu(name, store);
  if (const auto counted = found ? std::nullopt : counted_gpus(name, store))
    return fail({"unknown_gpu",
                 fmt::format("`{}` is {} GPUs of one kind", name, counted->gpus),
                 {},
                 {fmt::format("write `plan show gpu {}`", counted->kind)}});
  if (!found) return fail(found.error());
  Json json = head("gpu", found->value.name);
  json["digest"] = "sha256:" + found->digest;
  json["preset"] = write_gpu(found->value);
  const double link = found->value.scale_up.value;
  const std::string facts =
      link == 0 ? ""
                : fmt::format("bandwidths are per direction; data sheets of scale-up links add both, {} here",
                              format_quantity(2 * link, Dimension::ByteRate));
  return Shown{json, title(found->value.name, facts, found->origin) + write_gpu(found->value)};
}

/// A cluster of several kinds of GPU.
Shown show_pools(const Found<PooledCluster>& found) {
  Json json = head("cluster", found.value.name);
  json["digest"] = "sha256:" + found.digest;
  json["preset"] = write_pooled_cluster(found.value);
  return {json, title(found.value.name, fmt::format("{} GPUs", found.value.gpus()), found.origin) +
                    write_pooled_cluster(found.value)};
}

Result<Shown> show_cluster(const std::string& name) {
  const Result<std::optional<Found<PooledCluster>>> pools = load_pools(name, StoreOptions::from_environment());
  if (!pools) return fail(pools.error());
  if (*pools) return show_pools(**pools);
  const Result<Found<Cluster>> found = load_cluster(name, StoreOptions::from_environment());
  if (!found) return fail(found.error());
  Json json = head("cluster", found->value.name);
  json["digest"] = "sha256:" + found->digest;
  json["preset"] = write_cluster(found->value);
  return Shown{json, title(found->value.name, "", found->origin) + write_cluster(found->value)};
}

constexpr int kColumns = 80;

std::string symbol_lines(const CatalogEntry& entry) {
  std::size_t names = 1;
  for (const Symbol& symbol : entry.symbols) names = std::max(names, symbol.name.size());
  std::string out;
  for (const Symbol& symbol : entry.symbols) {
    std::string meaning(symbol.meaning);
    if (!symbol.unit.empty()) meaning += fmt::format(", {}", symbol.unit);
    if (!symbol.required()) meaning += fmt::format(" (usually {})", number_text(symbol.typical));
    out += fmt::format("  {:<{}}  {}\n", symbol.name, names, wrap(meaning, kColumns, static_cast<int>(names) + 4));
  }
  return out;
}

Result<Shown> show_formula(const std::string& name) {
  const Result<const CatalogEntry*> entry = lookup_formula(name);
  if (!entry) return fail(entry.error());
  const Formula& formula = (*entry)->formula;
  Json json = head("formula", std::string(formula.name));
  json["title"] = formula.title;
  json["equation"] = formula.equation;
  json["unit"] = formula.unit;
  json["source"] = formula.source;
  json["symbols"] = Json::array();
  for (const Symbol& symbol : (*entry)->symbols) {
    Json row = {{"name", symbol.name}, {"meaning", symbol.meaning}, {"unit", symbol.unit}};
    if (!symbol.required()) row["usual"] = symbol.typical;
    json["symbols"].push_back(std::move(row));
  }
  const std::string erratum = erratum_note(**entry);
  if (!formula.note.empty()) json["note"] = formula.note;
  if (!erratum.empty()) json["erratum"] = erratum;
  const std::string equation = fmt::format("{} = {}{}", formula.name, formula.equation,
                                           formula.unit.empty() ? "" : fmt::format("  [{}]", formula.unit));
  std::string text =
      fmt::format("{}\n\n  {}\n\n{}\nsource  {}\n", wrap(formula.title, kColumns, 0), wrap(equation, kColumns, 6, 2),
                  symbol_lines(**entry), wrap(formula.source, kColumns, 8));
  if (!formula.note.empty()) text += fmt::format("note    {}\n", wrap(formula.note, kColumns, 8));
  if (!erratum.empty()) text += fmt::format("note    {}\n", wrap(erratum, kColumns, 8));
  return Shown{json, text};
}

struct Kind {
  std::string_view name;
  Result<Shown> (*show)(const std::string& name);
};
constexpr Kind kKinds[] = {
    {"model", show_model}, {"gpu", show_gpu}, {"cluster", show_cluster}, {"formula", show_formula}};

/// Nouns of `plan list` that are shown elsewhere.
constexpr std::pair<std::string_view, std::string_view> kKindsElsewhere[] = {
    {"framework", "write `plan list frameworks`"},
    {"rule", "`plan list rules` prints each whole"},
    {"limit", "`plan list limits` prints each whole"},
    {"term", "terms are explained: `plan explain mfu --model 8b --gpus 8`"}};

Error unknown_kind(const Args& args) {
  std::vector<std::string_view> names;
  for (const Kind& kind : kKinds) names.push_back(kind.name);
  const std::string help = fmt::format("write `plan show KIND NAME`; kinds are {}", fmt::join(names, ", "));
  if (args.words.empty()) return {"missing_word", "`plan show` needs a kind and a name", {}, {help}};
  Error error{"unknown_kind", fmt::format("nothing to show of kind `{}`", args.words[0]), {}, {}};
  for (const Kind& kind : kKinds)
    if (kind.show(args.words[0]))
      error.help.push_back(fmt::format("write `plan show {} {}`", kind.name, shell_quoted(args.words[0])));
  if (!error.help.empty()) return error;
  for (const auto& [noun, place] : kKindsElsewhere)
    if (same_noun(folded(args.words[0]), noun)) {
      error.help.emplace_back(place);
      return error;
    }
  suggest(error, args.words[0], names);
  error.help.push_back(help);
  return error;
}

}  // namespace

int run_show(const Args& args, Streams& streams) {
  const auto kind = std::find_if(std::begin(kKinds), std::end(kKinds), [&](const Kind& row) {
    return !args.words.empty() && same_noun(folded(args.words[0]), row.name);
  });
  if (kind == std::end(kKinds)) return report_errors({unknown_kind(args)}, streams);
  if (args.words.size() < 2)
    return report_errors({{"missing_word",
                           fmt::format("`plan show {}` needs a name", kind->name),
                           {},
                           {fmt::format("list all with `plan list {}s`", kind->name)}}},
                         streams);
  const Result<Shown> shown = kind->show(args.words[1]);
  if (!shown) return report_errors(shown.error(), streams);
  streams.out = wants_json(args) ? dump(shown->json) : shown->text;
  return kYes;
}

}  // namespace plan
