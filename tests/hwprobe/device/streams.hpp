#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

/// Streams, events and a clock of a GPU that is none. The host's clock is virtual, too: calls, sleeps and waits move
/// it, so that a probe of minutes takes seconds and its times do not depend on how busy this machine is. Only waiting
/// for another rank's process takes real time.
namespace answering {

/// Seconds since this process began, on its own clock.
double host_now();
void host_pass(double seconds);
/// What a sleep of the host takes longer than asked: random with this mean, different on every rank.
double oversleep();

/// This process among its job's, from PLAN_RANK.
int own_rank();
/// A line into the file that DEVICE_LEDGER names: what a driver would not have liked.
void note(const std::string& what);

/// What works at once with what: computation and communication slow each other down, and so do both ways of a link.
enum class Unit { Compute, Communicate, ToDevice, ToHost, Free };

/// Whether every rank has arrived, and when the last did; for operations of several ranks.
using Arrive = std::function<bool(double begin, double& start)>;

struct Operation {
  Unit unit = Unit::Free;
  double seconds = 0;                  ///< alone
  std::function<void()> effect{};      ///< on data, when it ends
  const volatile int* gate = nullptr;  ///< ends when the host writes here
  Arrive arrive{};                     ///< may begin when this says so
  const void* owner = nullptr;         ///< communicator, for an abort
};

/// Every function below is safe from any thread.
void enqueue(void* stream, Operation operation);
/// Takes back what a communicator has in any stream: its kernels end at once.
void drop(const void* owner);
/// Whether a gate is closed somewhere: loading a kernel lazily then waits until it gives up.
void load_lazily();
/// An error that stays, as an illegal access does; 0 none.
int sticky_error();
void break_device(int error);

/// Whether data of an operation is still in the cache: what was touched since leaves room for it. It then comes at
/// three times the rate. Remembers this touch.
bool in_cache(const void* at, double bytes);

/// Device memory, by account alone: true if there was enough.
bool take_memory(double bytes);
void give_memory(double bytes);

}  // namespace answering
