// Exports of Nsight Systems (`nsys export --type sqlite`): a table of kernels with times in nanoseconds, names in a
// table of strings, and NVTX ranges, of which those named "iteration" or "step" mark steps. One export holds every
// process of a node; older ones, and those of other tools, lack columns, and then all kernels are one rank's. Process
// groups have no names there; each has a stream of its own, as PyTorch gives every communicator one.
// Tested by tests/logs/nsys_test.cpp.
#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "cli/logs/trace.hpp"
#include "formulas/units.hpp"

namespace plan {
namespace {

using Database = std::unique_ptr<sqlite3, int (*)(sqlite3*)>;
using Statement = std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)>;

constexpr double kNano = 1e-9;

std::string_view column(sqlite3_stmt* statement, int i) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
  return text == nullptr ? std::string_view() : std::string_view(text);
}

/// Which rank a row belongs to: a process, and its GPU, since one process may drive several.
struct RankKey {
  std::int64_t process = 0, device = 0;
  auto operator<=>(const RankKey&) const = default;
};

/// The ranks of one export.
class Export {
 public:
  Export(sqlite3* database, std::string path) : database_(database), path_(std::move(path)) {}

  /// Nothing where there is no table of kernels.
  bool read() {
    if (!kernels()) return false;
    copies();
    steps();
    calls();
    return true;
  }

  std::vector<Trace> ranks() && {
    std::vector<Trace> out;
    for (auto& [key, trace] : ranks_) {
      std::stable_sort(trace.kernels.begin(), trace.kernels.end(),
                       [](const TraceKernel& a, const TraceKernel& b) { return a.start < b.start; });
      std::sort(trace.steps.begin(), trace.steps.end());
      if (ranks_.size() > 1) trace.file += " (rank " + std::to_string(out.size()) + ")";
      out.push_back(std::move(trace));
    }
    return out;
  }

 private:
  static constexpr std::size_t kMostRanks = 1024;

  Statement prepare(const char* text) const {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v2(database_, text, -1, &statement, nullptr);
    return {statement, sqlite3_finalize};
  }

  /// The first of the queries whose tables and columns the export has.
  Statement first_of(std::initializer_list<const char*> queries) const {
    for (const char* query : queries)
      if (Statement statement = prepare(query)) return statement;
    return {nullptr, sqlite3_finalize};
  }

  Trace* rank(std::int64_t process, std::int64_t device) {
    const RankKey key{process, device};
    if (!ranks_.contains(key) && ranks_.size() >= kMostRanks) return nullptr;
    Trace& trace = ranks_[key];
    if (trace.file.empty()) trace.file = path_;
    return &trace;
  }

  bool kernels() {
    const Statement rows = first_of({
        "SELECT k.start, k.end, s.value, k.globalPid / 16777216, k.deviceId, k.streamId, d.value FROM "
        "CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.shortName LEFT JOIN StringIds d ON d.id = "
        "k.demangledName ORDER BY k.start",
        "SELECT k.start, k.end, s.value, 0, 0, k.streamId, '' FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON "
        "s.id = k.shortName ORDER BY k.start",
        "SELECT k.start, k.end, s.value, 0, 0, -1, '' FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = "
        "k.shortName ORDER BY k.start",
    });
    if (!rows) return false;
    while (sqlite3_step(rows.get()) == SQLITE_ROW) {
      Trace* trace = rank(sqlite3_column_int64(rows.get(), 3), sqlite3_column_int64(rows.get(), 4));
      if (trace == nullptr) continue;
      const std::string_view name = column(rows.get(), 2), whole = column(rows.get(), 6);
      TraceKernel kernel{sqlite3_column_double(rows.get(), 0) * kNano, sqlite3_column_double(rows.get(), 1) * kNano};
      kind(std::string(name), std::string(whole), kernel);
      if (kernel.family == KernelFamily::Communication)
        kernel.group = group_index(*trace, name, {{}, {}, 0, 0, sqlite3_column_int(rows.get(), 5)});
      trace->kernels.push_back(kernel);
    }
    return true;
  }

  /// The short name has no template arguments, in which FlashAttention's and ATen's kernels differ.
  void kind(const std::string& name, const std::string& whole, TraceKernel& kernel) {
    const std::string& full_name = whole.empty() ? name : whole;
    const auto [at, is_new] = kinds_.try_emplace(full_name);
    if (is_new) {
      const KernelFamily family = family_of(name) != KernelFamily::Other ? family_of(name) : family_of(full_name);
      at->second = {family, sign_of(full_name, family)};
    }
    kernel.family = at->second.first, kernel.sign = at->second.second;
  }

  void copies() {
    for (const char* query : {"SELECT start, end, globalPid / 16777216, deviceId FROM CUPTI_ACTIVITY_KIND_MEMCPY",
                              "SELECT start, end, globalPid / 16777216, deviceId FROM CUPTI_ACTIVITY_KIND_MEMSET"}) {
      const Statement rows = prepare(query);
      while (rows && sqlite3_step(rows.get()) == SQLITE_ROW)
        if (const auto at = ranks_.find({sqlite3_column_int64(rows.get(), 2), sqlite3_column_int64(rows.get(), 3)});
            at != ranks_.end())
          at->second.kernels.push_back({sqlite3_column_double(rows.get(), 0) * kNano,
                                        sqlite3_column_double(rows.get(), 1) * kNano, KernelFamily::Copy,
                                        KernelSign::None, -1});
    }
  }

  /// The ranks of a process; all where the export does not say whose a row is.
  template <class Use>
  void of_process(std::int64_t process, const Use& use) {
    for (auto& [key, trace] : ranks_)
      if (process == 0 || key.process == 0 || key.process == process) use(trace);
  }

  void steps() {
    const Statement rows = first_of({
        "SELECT n.start, n.end, COALESCE(n.text, s.value), n.globalTid / 16777216 FROM NVTX_EVENTS n LEFT JOIN "
        "StringIds s ON s.id = n.textId WHERE n.end IS NOT NULL ORDER BY n.start",
        "SELECT start, end, text, 0 FROM NVTX_EVENTS WHERE end IS NOT NULL AND text IS NOT NULL ORDER BY start",
    });
    while (rows && sqlite3_step(rows.get()) == SQLITE_ROW) {
      const std::string_view text = column(rows.get(), 2);
      const double start = sqlite3_column_double(rows.get(), 0) * kNano,
                   end = sqlite3_column_double(rows.get(), 1) * kNano;
      const bool data = waits_for_batch(text);
      if (!data && !text.starts_with("iteration") && !text.starts_with("step") && !text.starts_with("ProfilerStep#"))
        continue;
      of_process(sqlite3_column_int64(rows.get(), 3), [&](Trace& trace) {
        if (data)
          add_call(trace, {start, end, HostWork::Data});
        else
          trace.steps.emplace_back(start, end);
      });
    }
  }

  void calls() {
    const Statement rows = prepare(
        "SELECT r.start, r.end, r.globalTid / 16777216 FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = "
        "r.nameId WHERE s.value LIKE 'cudaMalloc\\_v%' ESCAPE '\\' OR s.value LIKE 'cudaFree\\_v%' ESCAPE '\\'");
    while (rows && sqlite3_step(rows.get()) == SQLITE_ROW)
      of_process(sqlite3_column_int64(rows.get(), 2), [&](Trace& trace) {
        add_call(trace, {sqlite3_column_double(rows.get(), 0) * kNano, sqlite3_column_double(rows.get(), 1) * kNano,
                         HostWork::Memory});
      });
  }

  static void add_call(Trace& trace, const HostCall& call) {
    constexpr std::size_t kMostCalls = 1'000'000;
    if (trace.calls.size() < kMostCalls) trace.calls.push_back(call);
  }

  sqlite3* database_;
  std::string path_;
  std::map<RankKey, Trace> ranks_{};
  std::unordered_map<std::string, std::pair<KernelFamily, KernelSign>> kinds_{};
};

}  // namespace

Result<std::vector<Trace>> read_nsys(const std::string& path) {
  const Place place{path, 0, 0, 1, {}};
  sqlite3* raw = nullptr;
  const int opened = sqlite3_open_v2(path.c_str(), &raw, SQLITE_OPEN_READONLY, nullptr);
  const Database database(raw, sqlite3_close);
  if (opened != SQLITE_OK) return fail({"cannot_read", path + " cannot be opened as an SQLite file", {}, {}, place});
  Export rows(raw, path);
  if (!rows.read())
    return fail({"bad_trace",
                 path + ": no table of kernels in it",
                 {},
                 {"make it with `nsys profile --trace cuda,nvtx` and `nsys export --type sqlite`"},
                 place});
  std::vector<Trace> ranks = std::move(rows).ranks();
  if (ranks.empty()) return fail({"no_kernels", path + ": no kernel of a GPU in it", {}, {}, place});
  return ranks;
}

}  // namespace plan
