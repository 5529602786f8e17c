// The simulation behind the device that answers. Streams advance to the host's clock and never beyond it, because the
// host may still queue something that runs beside.
#include "streams.hpp"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "room.hpp"
#include "simulation.hpp"
#include "truth.hpp"

namespace answering {
namespace {

constexpr double kGateLimit = 1.1;  // seconds after which the gate opens by itself, in the plugin's cycles
constexpr double kPatience = 1e-3;  // of real time, for another rank, before the caller may look elsewhere

/// The host's clock, in a file that says how late it is when the process has ended, however it ends.
std::atomic<std::int64_t>& nanoseconds() {
  static auto* const own = [] {
    void* at = mapped("clock-" + std::to_string(own_rank()), sizeof(std::atomic<std::int64_t>));
    if (at == nullptr) return new std::atomic<std::int64_t>(0);
    auto* const clock = static_cast<std::atomic<std::int64_t>*>(at);
    clock->store(0);  // every process begins at midnight, as the ranks that it meets do
    return clock;
  }();
  return *own;
}

double real_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// How many times as long an operation takes beside the others.
double slowdown(Unit own, const std::vector<Stream*>& others) {
  double factor = 1;
  for (const Stream* other : others) {
    const Unit unit = other->queue.front().operation.unit;
    if (own == Unit::Compute && unit == Unit::Communicate) factor = std::max(factor, truth::kComputeBesideComm);
    if (own == Unit::Communicate && unit == Unit::Compute) factor = std::max(factor, truth::kCommBesideCompute);
    if ((own == Unit::ToDevice && unit == Unit::ToHost) || (own == Unit::ToHost && unit == Unit::ToDevice))
      factor = std::max(factor, 1 / truth::kBothWays);
  }
  return factor;
}

}  // namespace

double host_now() { return 1e-9 * static_cast<double>(nanoseconds().load()); }
void host_pass(double seconds) { nanoseconds() += static_cast<std::int64_t>(seconds * 1e9); }

int own_rank() {
  const char* rank = std::getenv("PLAN_RANK");
  return rank == nullptr ? 0 : std::atoi(rank);
}

double oversleep() {
  static std::mutex lock;
  static std::mt19937_64 random(static_cast<unsigned>(7 + own_rank()));
  const std::lock_guard hold(lock);
  return std::exponential_distribution<double>(1 / truth::number("jitter", 60e-6))(random);
}

void note(const std::string& what) {
  const char* path = std::getenv("DEVICE_LEDGER");
  if (path == nullptr) return;
  if (std::FILE* file = std::fopen(path, "a")) {
    std::fprintf(file, "rank %d: %s\n", own_rank(), what.c_str());
    std::fclose(file);
  }
}

Simulation& simulation() {
  static auto* const all = new Simulation;  // outlives threads that hang in it
  return *all;
}

Stream* Simulation::make_stream() {
  streams.emplace_back(std::make_unique<Stream>());
  return streams.back().get();
}

/// Begins what is first in a stream, or ends it at once where it takes no time; false if it has to wait.
bool Simulation::begin(Stream& stream, bool& peers_missing) {
  Queued& head = stream.queue.front();
  if (head.running) return false;
  const double begin = std::max(stream.time, head.enqueued);
  if (begin > host_now()) return false;
  double start = begin;
  if (head.record) {
    head.record->time = begin;
    --head.record->pending;
  } else if (head.wait) {
    if (head.wait->pending > 0) return false;
    start = std::max(begin, head.wait->time);
  } else if (head.operation.gate != nullptr) {
    const bool given_up = begin + kGateLimit <= host_now();
    if (*head.operation.gate == 0 && !given_up) return false;
    if (*head.operation.gate == 0) note("a gate gave up");
    start = given_up && *head.operation.gate == 0 ? begin + kGateLimit : host_now();
  } else {
    if (head.operation.arrive && !head.operation.arrive(begin, start)) return peers_missing = true, false;
    head.running = true;
    head.at = start;
    head.left = head.operation.seconds;
    return true;
  }
  stream.time = std::max(begin, start);
  stream.queue.pop_front();
  return true;
}

/// One step of what runs, to the next beginning or end, or to the host's clock; false if there is none before it.
bool Simulation::step() {
  const double limit = host_now();
  double now = limit, next = limit;
  for (const auto& stream : streams)
    if (!stream->queue.empty() && stream->queue.front().running) now = std::min(now, stream->queue.front().at);
  std::vector<Stream*> active;
  for (const auto& stream : streams) {
    if (stream->queue.empty() || !stream->queue.front().running) continue;
    if (stream->queue.front().at <= now)
      active.push_back(stream.get());
    else
      next = std::min(next, stream->queue.front().at);
  }
  if (active.empty()) return false;
  std::vector<double> factors;
  for (Stream* stream : active) {
    factors.push_back(slowdown(stream->queue.front().operation.unit, active));
    next = std::min(next, now + stream->queue.front().left * factors.back());
  }
  if (next <= now && now >= limit) return false;
  for (std::size_t i = 0; i < active.size(); ++i) {
    Queued& head = active[i]->queue.front();
    head.left -= (next - now) / factors[i];
    head.at = next;
    if (head.left > 1e-13) continue;
    if (head.operation.effect) head.operation.effect();
    active[i]->time = next;
    active[i]->queue.pop_front();
  }
  return true;
}

/// Everything up to the host's clock. With a rank that has not arrived nothing moves, because its operation may begin
/// before what already waits.
void Simulation::advance() {
  for (bool moved = true; moved;) {
    moved = false;
    peers_missing = false;
    for (const auto& stream : streams)
      while (!stream->queue.empty() && begin(*stream, peers_missing)) moved = true;
    if (!peers_missing && step()) moved = true;
  }
}

bool Simulation::done(const Stream* only) const {
  for (const auto& stream : streams)
    if ((only == nullptr || stream.get() == only) && !stream->queue.empty()) return false;
  return true;
}

bool Simulation::query(const Stream* only) {
  {
    const std::lock_guard hold(lock);
    advance();
    if (done(only)) return true;
    if (!peers_missing) return false;
  }
  const double begin = real_now();  // another process is on its way
  while (real_now() - begin < kPatience) {
    const timespec pause{0, 30000};
    nanosleep(&pause, nullptr);
    const std::lock_guard hold(lock);
    advance();
    if (done(only)) return true;
    if (!peers_missing) return false;
  }
  host_pass(real_now() - begin);
  return false;
}

void Simulation::drain() {
  while (!query(nullptr)) host_pass(20e-6);
}

void enqueue(void* stream, Operation operation) {
  Simulation& s = simulation();
  const std::lock_guard hold(s.lock);
  s.advance();
  Queued queued{std::move(operation), host_now()};
  static_cast<Stream*>(stream)->queue.push_back(std::move(queued));
}

void drop(const void* owner) {
  Simulation& s = simulation();
  const std::lock_guard hold(s.lock);
  for (const auto& stream : s.streams)
    for (auto i = stream->queue.begin(); i != stream->queue.end();)
      i = i->operation.owner == owner ? stream->queue.erase(i) : i + 1;
}

void load_lazily() {
  Simulation& s = simulation();
  const auto busy = [&] {
    const std::lock_guard hold(s.lock);
    s.advance();
    return !s.done(nullptr);
  };
  if (!busy()) return;
  note("a kernel was loaded while others ran");
  while (busy()) host_pass(1e-3);
}

bool in_cache(const void* at, double bytes) {
  static std::mutex lock;
  static std::map<const void*, double> touched;  // bytes that had been touched before, by address
  static double all = 0;
  const std::lock_guard hold(lock);
  const auto last = touched.find(at);
  const bool found = last != touched.end() && all - last->second <= truth::kCacheBytes;
  touched[at] = all;
  all += bytes;
  return found;
}

int sticky_error() { return simulation().error; }
void break_device(int error) { simulation().error = error; }

bool take_memory(double bytes) {
  Simulation& s = simulation();
  const std::lock_guard hold(s.lock);
  const std::string small = truth::of_rank("small", own_rank());
  const double total = small.empty() ? truth::kTotalBytes : std::atof(small.c_str());
  if (s.used + bytes > total) return false;
  s.used += bytes;
  return true;
}

void give_memory(double bytes) {
  Simulation& s = simulation();
  const std::lock_guard hold(s.lock);
  s.used -= bytes;
}

}  // namespace answering
