// A libnccl whose ranks are processes of this machine. They meet in a file that all of them map: when each rank's
// stream reaches an operation, and what small data it brings. An operation begins when the last rank has arrived, and
// takes the time that the laws say. Communicators do not block, as from release 2.25 on: every group end starts a
// thread, and the communicator is in progress until that has run; a call before then is a mistake of the caller.
#include <nccl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "operation.hpp"
#include "room.hpp"
#include "streams.hpp"
#include "truth.hpp"

using namespace answering;

struct ncclComm {
  std::string name{};
  Room* room = nullptr;
  int rank = 0, size = 1, nodes = 1, splits = 0;
  std::uint64_t device_calls = 0, host_calls = 0;
  std::set<std::string> used{};
  double taken = 0;
  double busy_until = -1;
  bool aborted = false;
  std::atomic<int> inside{0};         ///< calls that some thread is in
  std::function<bool()> beginning{};  ///< until it says that all are there
  std::function<void()> launching{};  ///< what the group's thread has yet to launch
};

namespace {

/// A thread in a call of a communicator: who ends it meanwhile takes away what the call works on.
struct Inside {
  ncclComm_t comm;
  explicit Inside(ncclComm_t of) : comm(of) { ++comm->inside; }
  ~Inside() { --comm->inside; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

std::recursive_mutex lock;
int depth = 0;
std::map<ncclComm_t, Call>& grouped() {
  static auto* const all = new std::map<ncclComm_t, Call>;
  return *all;
}

void log(const char* format, const std::string& words, std::size_t bytes) {
  const char* path = std::getenv("NCCL_DEBUG_FILE");
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, format, words.c_str(), bytes);
    std::fclose(file);
  }
}

ncclResult_t begin_call(ncclComm_t comm, const Call& call) {
  if (truth::of_rank("die", own_rank()) == call.op) _exit(9);
  if (comm->aborted) return note("a call on a communicator that is no more"), ncclInvalidUsage;
  if (call.op == "all_reduce" && call.in == call.out) note("a sum in place, which grows without end");
  if (comm->beginning || comm->launching) {
    note("a call on a communicator that is in progress");
    return ncclInvalidUsage;
  }
  const std::uint64_t number = ++comm->device_calls;
  if (comm->used.insert(call.op).second) {
    const double bytes = truth::first_use_bytes(call.op, comm->size);
    if (comm->used.size() == 1 || call.op == "all_to_all") {
      if (!take_memory(bytes)) return ncclUnhandledCudaError;
      comm->taken += bytes;
    }
  }
  Operation operation{Unit::Communicate,
                      truth::collective_seconds(call.op, comm->size, comm->nodes, static_cast<double>(call.bytes))};
  operation.owner = comm;
  auto data = std::make_shared<std::vector<std::string>>();
  auto published = std::make_shared<bool>(false);
  const bool lost = truth::of_rank("hang", own_rank()) == call.op;
  operation.arrive = [=](double begin, double& start) {
    if (lost) return false;
    Arrival* const slot = comm->room->device[number % kSlots];
    if (!*published) publish(slot[comm->rank], begin, brought(call), number);
    *published = true;
    double last = 0;
    if (!all_there(slot, comm->size, number, last)) return false;
    for (int r = 0; r < comm->size; ++r) data->emplace_back(slot[r].data, slot[r].bytes);
    start = std::max(begin, last);
    return true;
  };
  operation.effect = [=] { finish(call, *data, comm->rank); };
  const bool ring = call.bytes < (2 << 20);
  if (call.op == "all_reduce" || call.op == "all_gather" || call.op == "reduce_scatter") {
    const std::string word = call.op == "all_reduce"   ? "AllReduce"
                             : call.op == "all_gather" ? "AllGather"
                                                       : "ReduceScatter";
    log(ring ? "h:1:2 [0] NCCL INFO %s: %zu Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}\n"
             : "h:1:2 [0] NCCL INFO %s: %zu Bytes -> Algo NVLS proto SIMPLE channel{Lo..Hi}={0..15}\n",
        word, call.bytes);
  }
  // The thread of the group launches it in a moment: what the caller queues before then runs before it.
  comm->busy_until = host_now() + 25e-6 + oversleep();
  host_pass(5e-6);
  comm->launching = [stream = call.stream, operation] { enqueue(stream, operation); };
  return ncclInProgress;
}

ncclResult_t submit(ncclComm_t comm, Call call) {
  const std::lock_guard hold(lock);
  if (depth == 0) return begin_call(comm, call);
  Call& all = grouped()[comm];
  all.stream = call.stream;
  for (const Send& send : call.sends) all.sends.push_back(send), all.bytes += send.bytes;
  for (const Receive& receive : call.receives) all.receives.push_back(receive);
  return ncclSuccess;
}

std::size_t width(ncclDataType_t type) { return type == ncclFloat32 ? 4 : 2; }

/// An operation on `bytes` of every rank.
Call whole(const char* op, const void* in, void* out, std::size_t bytes, ncclDataType_t type, cudaStream_t stream,
           bool largest) {
  Call call{op, static_cast<const char*>(in), static_cast<char*>(out), bytes, 0, type};
  call.stream = stream;
  call.largest = largest;
  return call;
}
/// One on `share` bytes for each.
Call shared(const char* op, const void* in, void* out, std::size_t share, ncclDataType_t type, ncclComm_t comm,
            cudaStream_t stream) {
  Call call = whole(op, in, out, share * static_cast<std::size_t>(comm->size), type, stream, false);
  call.share = share;
  return call;
}

/// NVLink domains among the ranks, from what each says of itself.
int domains(const Arrival* arrivals, int size) {
  std::set<std::string> names;
  for (int r = 0; r < size; ++r) names.emplace(arrivals[r].data + 8, arrivals[r].bytes - 8);
  return static_cast<int>(names.size());
}

/// This rank's colour or key, and its NVLink domain.
std::string introduction(std::int64_t colour) {
  const char* host = std::getenv("NCCL_HOSTID");
  const std::string clique = truth::setting("clique");
  return std::string(reinterpret_cast<const char*>(&colour), 8) + (!clique.empty()   ? clique
                                                                   : host == nullptr ? ""
                                                                                     : host);
}

void take_communicator(ncclComm_t comm) {
  if (take_memory(truth::communicator_bytes())) comm->taken += truth::communicator_bytes();
  log("h:1:2 [0] NCCL INFO 16 coll channels, 16 collnet channels, 16 nvls channels, 32 p2p channels, %s%zu p2p "
      "channels "
      "per peer\n",
      "", 2);
}

}  // namespace

extern "C" {
ncclResult_t ncclGetVersion(int* version) { return *version = 22809, ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t r) {
  return r == ncclInvalidUsage ? "invalid usage" : r == ncclUnhandledCudaError ? "unhandled cuda error" : "an error";
}
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::memset(id, 0, sizeof *id);
  static int made = 0;
  std::snprintf(id->internal, sizeof id->internal, "%d-%d", getpid(), ++made);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (config == nullptr || config->blocking != 0) note("a communicator that blocks");
  auto* comm = new ncclComm{id.internal};
  comm->rank = rank, comm->size = size;
  comm->room = enter(comm->name);
  if (comm->room == nullptr) return ncclSystemError;
  publish(comm->room->host[1 % kSlots][rank], 0, introduction(0), comm->host_calls = 1);
  comm->beginning = [comm] {
    double last = 0;
    if (!all_there(comm->room->host[1 % kSlots], comm->size, 1, last)) return false;
    comm->nodes = domains(comm->room->host[1 % kSlots], comm->size);
    take_communicator(comm);
    return true;
  };
  *out = comm;
  return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t parent, int colour, int, ncclComm_t* out, ncclConfig_t*) {
  const std::lock_guard hold(lock);
  if (parent->beginning || parent->launching) return ncclInvalidUsage;
  if (truth::of_rank("die", own_rank()) == "split") _exit(9);
  const std::uint64_t number = ++parent->host_calls;
  Arrival* const slot = parent->room->host[number % kSlots];
  publish(slot[parent->rank], 0, introduction(colour), number);
  const int split = ++parent->splits;
  parent->beginning = [=] {
    double last = 0;
    if (!all_there(slot, parent->size, number, last)) return false;
    *out = nullptr;
    if (colour == NCCL_SPLIT_NOCOLOR) return true;
    auto* comm = new ncclComm{parent->name + "." + std::to_string(split) + "." + std::to_string(colour)};
    comm->size = 0;
    std::set<std::string> names;
    for (int r = 0; r < parent->size; ++r) {
      std::int64_t theirs = 0;
      std::memcpy(&theirs, slot[r].data, 8);
      if (theirs != colour) continue;
      if (r == parent->rank) comm->rank = comm->size;
      ++comm->size;
      names.emplace(slot[r].data + 8, slot[r].bytes - 8);
    }
    comm->nodes = static_cast<int>(names.size());
    comm->room = enter(comm->name);
    take_communicator(comm);
    *out = comm;
    return true;
  };
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  host_pass(0.3e-6);
  *state = ncclSuccess;
  if (comm->aborted) return note("a call on a communicator that is no more"), *state = ncclRemoteError, ncclSuccess;
  const Inside here(comm);
  std::function<bool()> beginning;
  {
    const std::lock_guard hold(lock);
    beginning = comm->beginning;
  }
  if (beginning) {
    *state = ncclInProgress;
    if (!beginning()) {
      usleep(200);  // another process is on its way
      host_pass(2e-4);
      return ncclSuccess;
    }
    const std::lock_guard hold(lock);
    comm->beginning = {};
    comm->busy_until = host_now() + 100e-6 + oversleep();
    return ncclSuccess;
  }
  const std::lock_guard hold(lock);
  if (host_now() < comm->busy_until) return *state = ncclInProgress, ncclSuccess;
  if (comm->launching) comm->launching();
  comm->launching = {};
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!truth::of_rank("abort_hangs", own_rank()).empty() && comm->name.find('.') == std::string::npos) {
    note("an abort hangs");
    std::this_thread::sleep_for(std::chrono::hours(1));
  }
  if (comm->inside > 0) note("a communicator was ended under a thread that is in a call of it");
  const std::lock_guard hold(lock);
  drop(comm);
  give_memory(comm->taken);
  comm->taken = 0;
  comm->aborted = true;
  return ncclSuccess;
}
ncclResult_t ncclCommDestroy(ncclComm_t comm) { return ncclCommAbort(comm); }
ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclSuccess; }

ncclResult_t ncclGroupStart() {
  const std::lock_guard hold(lock);
  return ++depth, ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  const std::lock_guard hold(lock);
  if (--depth > 0) return ncclSuccess;
  ncclResult_t result = ncclSuccess;
  for (auto& [comm, call] : grouped()) {
    call.op = static_cast<int>(call.sends.size()) == comm->size && comm->size > 1 ? "all_to_all" : "send_recv";
    result = begin_call(comm, call);
  }
  grouped().clear();
  return result;
}

ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t how,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, whole("all_reduce", in, out, count * width(type), type, stream, how == ncclMax));
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, shared("all_gather", in, out, count * width(type), type, comm, stream));
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, shared("reduce_scatter", in, out, count * width(type), type, comm, stream));
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type, int, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(comm, whole("broadcast", in, out, count * width(type), type, stream, false));
}
ncclResult_t ncclSend(const void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Call call;
  call.stream = stream;
  call.sends.push_back({peer, static_cast<const char*>(data), count * width(type)});
  return submit(comm, std::move(call));
}
ncclResult_t ncclRecv(void* data, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  Call call;
  call.stream = stream;
  call.receives.push_back({peer, static_cast<char*>(data), count * width(type)});
  return submit(comm, std::move(call));
}
}
