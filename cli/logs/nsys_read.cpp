// Exports of Nsight Systems (`nsys export --type sqlite`): a table of kernels with times in nanoseconds, names in a
// table of strings, and NVTX ranges, of which those named "iteration" or "step" mark steps.
// Tested by tests/logs/trace_test.cpp.
#include <sqlite3.h>

#include <memory>

#include "cli/logs/trace.hpp"
#include "formulas/units.hpp"

namespace plan {
namespace {

using Database = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;
using Statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

Statement prepare(sqlite3* database, const char* text) {
  sqlite3_stmt* statement = nullptr;
  sqlite3_prepare_v2(database, text, -1, &statement, nullptr);
  return {statement, sqlite3_finalize};
}

std::string_view column(sqlite3_stmt* statement, int i) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
  return text == nullptr ? std::string_view() : std::string_view(text);
}

constexpr double kNano = 1e-9;

}  // namespace

Result<Trace> read_nsys(const std::string& path) {
  const Place place{path, 0, 0, 1, {}};
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const Database database(raw, sqlite3_close);
  if (opened != SQLITE_OK) return fail({"cannot_read", path + " cannot be opened as an SQLite file", {}, {}, place});
  Trace trace;
  trace.file = path;
  const Statement kernels =
      prepare(raw,
              "SELECT k.start, k.end, s.value FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = "
              "k.shortName ORDER BY k.start");
  if (!kernels)
    return fail({"bad_trace",
                 path + ": no table of kernels in it",
                 {},
                 {"make it with `nsys profile --trace cuda,nvtx` and `nsys export --type sqlite`"},
                 place});
  while (sqlite3_step(kernels.get()) == SQLITE_ROW) {
    const std::string_view name = column(kernels.get(), 2);
    TraceKernel kernel{sqlite3_column_double(kernels.get(), 0) * kNano, sqlite3_column_double(kernels.get(), 1) * kNano,
                       family_of(name)};
    if (kernel.family == KernelFamily::Communication) kernel.group = group_index(trace, name, {});
    trace.kernels.push_back(kernel);
  }
  if (trace.kernels.empty()) return fail({"no_kernels", path + ": no kernel of a GPU in it", {}, {}, place});
  const Statement marks = prepare(
      raw, "SELECT start, end, text FROM NVTX_EVENTS WHERE end IS NOT NULL AND text IS NOT NULL ORDER BY start");
  while (marks && sqlite3_step(marks.get()) == SQLITE_ROW) {
    const std::string_view text = column(marks.get(), 2);
    if (text.starts_with("iteration") || text.starts_with("step") || text.starts_with("ProfilerStep#"))
      trace.steps.emplace_back(sqlite3_column_double(marks.get(), 0) * kNano,
                               sqlite3_column_double(marks.get(), 1) * kNano);
  }
  return trace;
}

}  // namespace plan
