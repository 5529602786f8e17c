// `plan validate FILE...`: predicted against measured. Tested by tests/cli/validation_test.cpp and
// tests/golden/validate*.
#include <fmt/core.h>

#include "cli/commands/commands.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/report/runs/validation.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/run_files.hpp"
#include "cli/terminal/diagnostic.hpp"

namespace plan {
namespace {

/// The cluster of --profile, for runs on its GPU.
Result<std::optional<Cluster>> own_cluster(const Args& args, const StoreOptions& store) {
  if (!args.profile) return std::optional<Cluster>();
  Result<Found<Cluster>> found = load_cluster(*args.profile, store);
  if (!found) return fail(found.error());
  return std::optional(std::move(found->value));
}

}  // namespace

int run_validate(const Args& args, Streams& streams) {
  if (args.words.empty())
    return report_errors({{"missing_word",
                           "`plan validate` needs a file of measured runs",
                           {},
                           {"write `plan validate runs.csv`; its columns are listed in plan-runs(5)"}}},
                         streams);
  const StoreOptions store = StoreOptions::from_environment();
  const Result<std::vector<Run>> runs = read_run_files(args.words);
  if (!runs) return report_errors(runs.error(), streams);
  const Result<std::optional<Cluster>> own = own_cluster(args, store);
  if (!own) return report_errors(own.error(), streams);

  const Validation validation = validate(*runs, preset_catalogue(store, *own), {.rough = args.rough});
  if (args.rows)
    if (const Result<bool> written = write_outputs(args, {{*args.rows, validation_rows(validation)}}); !written)
      return report_errors(written.error(), streams);
  if (wants_json(args))
    streams.out = validation_json(validation);
  else if (args.format == "html")
    streams.out = validation_html(validation);
  else
    streams.out = validation_text(validation, streams.out_terminal);
  return kYes;
}

}  // namespace plan
