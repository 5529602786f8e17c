#pragma once

#include <deque>
#include <map>
#include <vector>

#include "streams.hpp"

namespace answering {

struct Event {
  int pending = 0;  ///< records that no stream has reached
  double time = 0;
  bool recorded = false;
};

struct Queued {
  Operation operation{};
  double enqueued = 0;
  std::shared_ptr<Event> record{}, wait{};
  bool running = false;
  double at = 0, left = 0;  ///< progress is known up to here; work that is left then
};

struct Stream {
  std::deque<Queued> queue{};
  double time = 0;  ///< of the last end
};

struct Simulation {
  std::recursive_mutex lock{};
  std::vector<std::unique_ptr<Stream>> streams{};
  double used = 0;  ///< bytes
  std::atomic<int> error{0};
  bool peers_missing = false;

  Stream* make_stream();
  void advance();
  bool done(const Stream* only) const;
  /// Whether a stream is done (null: all); waits a moment of real time for other ranks.
  bool query(const Stream* only);
  void drain();

 private:
  bool begin(Stream& stream, bool& missing);
  bool step();
};
Simulation& simulation();

}  // namespace answering
