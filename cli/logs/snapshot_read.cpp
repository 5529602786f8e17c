// PyTorch's memory snapshots: a pickle of plain dictionaries, `segments` with their `blocks`, and `device_traces` with
// what was allocated and freed in order (torch/cuda/memory.py: _snapshot). Tested by tests/logs/snapshot_test.cpp.
#include "cli/logs/snapshot_read.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "cli/logs/pickle.hpp"

namespace plan {
namespace {

constexpr std::uintmax_t kMostBytes = std::uintmax_t{1} << 30;

Result<std::string> read_bytes(const std::string& path) {
  const Place place{path, 0, 0, 1, {}};
  std::error_code status;
  const std::uintmax_t size = std::filesystem::file_size(path, status);
  std::ifstream in(path, std::ios::binary);
  if (status || !in) return fail({"cannot_read", path + " cannot be opened", {}, {}, place});
  if (size > kMostBytes) return fail({"too_large", path + ": the file is larger than 1 GiB", {}, {}, place});
  std::string bytes(size, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  return bytes;
}

RealBytes bytes_of(const PickleValue& value, std::string_view key) {
  const PickleValue* found = value.find(key);
  return RealBytes(found == nullptr ? 0 : found->number());
}

void take_segment(const PickleValue& segment, MemorySnapshot& snapshot) {
  snapshot.reserved += bytes_of(segment, "total_size");
  const PickleValue* blocks = segment.find("blocks");
  if (blocks == nullptr) return;
  for (const PickleValue& block : blocks->elements()) {
    const PickleValue* state = block.find("state");
    const RealBytes size = bytes_of(block, "size");
    if (state != nullptr && state->text().starts_with("active"))
      snapshot.allocated += size;
    else
      snapshot.largest_free = std::max(snapshot.largest_free, size);
  }
}

/// The history ends in the snapshot, so it is followed backwards from what is allocated there.
RealBytes peak_of(const PickleValue& history, RealBytes at_end) {
  RealBytes now = at_end, peak = at_end;
  const auto& events = history.elements();
  for (auto event = events.rbegin(); event != events.rend(); ++event) {
    const PickleValue* action = event->find("action");
    if (action == nullptr) continue;
    if (action->text() == "alloc") now -= bytes_of(*event, "size");
    if (action->text() == "free_completed") now += bytes_of(*event, "size");
    peak = std::max(peak, now);
  }
  return peak;
}

}  // namespace

Result<MemorySnapshot> read_snapshot(const std::string& path) {
  const Result<std::string> bytes = read_bytes(path);
  if (!bytes) return fail(bytes.error());
  const Result<PickleDocument> document = read_pickle(*bytes, path);
  if (!document) return fail(document.error());
  const PickleValue& root = document->root;
  const PickleValue* segments = root.find("segments");
  if (segments == nullptr)
    return fail({"bad_snapshot",
                 path + ": no memory snapshot: it has no `segments`",
                 {},
                 {"write it with torch.cuda.memory._dump_snapshot(\"memory.pickle\")"},
                 {path, 0, 0, 1, {}}});
  MemorySnapshot snapshot;
  for (const PickleValue& segment : segments->elements()) take_segment(segment, snapshot);
  snapshot.peak_allocated = snapshot.allocated;
  if (const PickleValue* traces = root.find("device_traces"))
    for (const PickleValue& history : traces->elements())
      if (!history.elements().empty())
        snapshot.peak_allocated = std::max(snapshot.peak_allocated, peak_of(history, snapshot.allocated));
  return snapshot;
}

}  // namespace plan
