// The control connections of a probe: a star around rank 0, with heartbeats and deadlines; plan-measuring(7) 3.2
// and 3.3. Tested by tests/hwprobe/wire_test.cpp and tests/hwprobe/probe_ranks_test.cpp.
#include "hwprobe/ranks/star.hpp"

#include <fmt/core.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "hwprobe/ranks/gathering.hpp"
#include "hwprobe/ranks/worker.hpp"

namespace plan {
namespace {

constexpr double kFarewell = 10;  // seconds that rank 0 has, after an interrupt, to end what is being measured

void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

std::string list_of(const std::vector<int>& ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < 8; ++i) text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i]);
  return ranks.size() > 8 ? fmt::format("{} and {} more", text, ranks.size() - 8) : text;
}

}  // namespace

struct Coordinator::State {
  std::vector<Peer> peers{};  ///< by rank; the first is this process
  std::vector<std::string> hellos{};
  StarTimes times{};
  SteadyClock::time_point beat = SteadyClock::now();

  ~State() {
    for (const Peer& peer : peers)
      if (peer.fd >= 0) close(peer.fd);
  }

  /// Keeps the members' own watch quiet.
  void heartbeat() {
    if (since(beat) < std::min(1.0, times.silence_s / 5)) return;
    beat = SteadyClock::now();
    send_heartbeat(peers);
  }

  /// What is wrong with rank `r`, empty if nothing.
  std::string trouble(std::size_t r, bool readable) {
    Peer& peer = peers[r];
    if (readable && !drain(peer)) return "ended";
    while (std::optional<Frame> frame = peer.reader.next())
      if (frame->type == MessageType::Result) peer.result = std::move(frame->payload);
    if (peer.reader.broken()) return "sent something that is no message of this program";
    const double silent = since(peer.heard);
    return silent > times.silence_s ? fmt::format("has not answered for {:.0f} s", silent) : std::string();
  }

  bool all_there(const Worker& worker) const {
    for (std::size_t r = 1; r < peers.size(); ++r)
      if (!peers[r].result) return false;
    return worker.finished();
  }

  /// Waits for every result; the error names the first rank in trouble.
  Result<bool> collect(Worker& worker, const std::string& title, double deadline_s,
                       const std::vector<std::string>& names, const Complaint& complaint) {
    const auto begin = SteadyClock::now();
    const auto name_of = [&](std::size_t r) { return r < names.size() ? names[r] : fmt::format("rank {}", r); };
    while (!all_there(worker)) {
      std::vector<pollfd> waits{{worker.descriptor(), POLLIN, 0}};
      for (std::size_t r = 1; r < peers.size(); ++r) waits.push_back({peers[r].fd, POLLIN, 0});
      static_cast<void>(poll(waits.data(), waits.size(), worker.finished() ? 20 : 50));
      for (std::size_t r = 1; r < peers.size(); ++r)
        if (const std::string what = trouble(r, (waits[r].revents & (POLLIN | POLLHUP | POLLERR)) != 0); !what.empty())
          return fail(Error{"rank_failed", fmt::format("{} {} during `{}`", name_of(r), what, title)});
      if (worker.finished() && (waits[0].revents & POLLIN) != 0) waits[0].fd = -1;
      heartbeat();
      if (since(begin) <= deadline_s) continue;
      for (std::size_t r = 0; r < peers.size() && complaint; ++r) {
        const std::string answer = r == 0 ? worker.finished() ? worker.take() : "" : peers[r].result.value_or("");
        if (const std::string words = answer.empty() ? "" : complaint(answer); !words.empty())
          return fail(Error{"rank_failed",
                            fmt::format("{} failed during `{}`: {}; others wait for it", name_of(r), title, words)});
      }
      std::vector<int> late;
      if (!worker.finished()) late.push_back(0);
      for (std::size_t r = 1; r < peers.size(); ++r)
        if (!peers[r].result) late.push_back(static_cast<int>(r));
      return fail(Error{"rank_failed", fmt::format("{} {} not done with `{}` after {:.0f} s",
                                                   late.size() == 1 ? name_of(static_cast<std::size_t>(late[0]))
                                                                    : "ranks " + list_of(late),
                                                   late.size() == 1 ? "is" : "are", title, since(begin))});
    }
    return true;
  }
};

Coordinator::Coordinator(std::unique_ptr<State> state) : state_(std::move(state)) {}
Coordinator::Coordinator(Coordinator&&) noexcept = default;
Coordinator& Coordinator::operator=(Coordinator&&) noexcept = default;
Coordinator::~Coordinator() = default;

const std::vector<std::string>& Coordinator::hellos() const { return state_->hellos; }

Result<Coordinator> Coordinator::gather(const Meeting& meeting, Listener listener, const Identity& identity,
                                        const std::string& own_hello, StarTimes times) {
  raise_descriptor_limit();
  auto state = std::make_unique<State>();
  state->times = times;
  Gathering gathering(meeting, listener.descriptor, identity.world);
  const auto begin = SteadyClock::now();
  const auto interrupted = [&] { return times.interrupted && times.interrupted(); };
  while (!gathering.missing().empty() && since(begin) < times.join_s && !interrupted())
    gathering.turn(50, std::min(1.0, times.silence_s / 5));
  if (listener.descriptor >= 0) close(listener.descriptor);
  const std::vector<int> missing = gathering.missing();
  state->peers = gathering.take_peers();
  state->hellos = gathering.take_hellos();
  state->hellos[0] = own_hello;
  Coordinator coordinator(std::move(state));
  if (missing.empty()) return coordinator;
  const std::string who =
      missing.size() == 1 ? fmt::format("rank {} has", missing[0]) : fmt::format("ranks {} have", list_of(missing));
  if (interrupted()) {
    coordinator.stop("interrupted");
    return fail(Error{"interrupted", "interrupted before all ranks had joined"});
  }
  coordinator.stop(who + " not joined");
  Error error{"rank_missing", fmt::format("{} of {} ranks joined within {:.0f} s; {} not",
                                          static_cast<std::size_t>(identity.world) - missing.size(), identity.world,
                                          times.join_s, who)};
  error.facts.push_back("they were awaited at " + meeting.words);
  if (gathering.strangers() > 0)
    error.facts.push_back(fmt::format("{} connection{} did not know this job's token", gathering.strangers(),
                                      gathering.strangers() == 1 ? "" : "s"));
  error.help.emplace_back("a longer wait: --timeout 60s; another way to meet: --rendezvous file:FOLDER");
  return fail(std::move(error));
}

Result<std::vector<std::string>> Coordinator::round(const std::string& task, const std::string& title,
                                                    double deadline_s, const OwnWork& own,
                                                    const std::vector<std::string>& names, const Complaint& complaint) {
  State& state = *state_;
  Worker worker(own);
  const std::string frame = encode({MessageType::Task, task});
  for (std::size_t r = 1; r < state.peers.size(); ++r) {
    state.peers[r].result.reset();
    static_cast<void>(send_all(state.peers[r].fd, frame));  // a rank that is gone shows when its answer is awaited
  }
  worker.start(task);
  if (const Result<bool> done = state.collect(worker, title, deadline_s, names, complaint); !done) {
    stop(done.error()[0].message);
    worker.abort(std::min(2.0, state.times.silence_s));
    return tl::unexpected(done.error());
  }
  std::vector<std::string> results{worker.take()};
  for (std::size_t r = 1; r < state.peers.size(); ++r) results.push_back(*std::move(state.peers[r].result));
  return results;
}

void Coordinator::stop(const std::string& reason) {
  const std::string frame = encode({MessageType::Stop, Packer().text(reason).take()});
  for (Peer& peer : state_->peers)
    if (peer.fd >= 0) static_cast<void>(send(peer.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Result<std::string> serve(int descriptor, const std::string& early_bytes, const OwnWork& own, StarTimes times) {
  Peer boss{.fd = descriptor};
  boss.reader.feed(early_bytes);
  Worker worker(own);
  bool busy = false;
  auto beat = SteadyClock::now();
  std::optional<SteadyClock::time_point> interrupted_at;
  const auto end = [&](Result<std::string> result) {
    if (busy && !worker.finished()) worker.abort(std::min(2.0, times.silence_s));
    close(descriptor);
    return result;
  };
  while (true) {
    while (std::optional<Frame> frame = boss.reader.next()) {
      if (frame->type == MessageType::Stop) return end(Unpacker(frame->payload).text());
      if (frame->type != MessageType::Task || busy) continue;
      busy = true;
      worker.start(frame->payload);
    }
    if (boss.reader.broken())
      return end(fail(Error{"coordinator_lost", "rank 0 sent something that is no message of this program"}));
    pollfd waits[] = {{descriptor, POLLIN, 0}, {worker.descriptor(), POLLIN, 0}};
    static_cast<void>(poll(waits, 2, 100));
    if ((waits[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && !drain(boss))
      return end(fail(Error{"coordinator_lost", "rank 0 ended"}));
    if (busy && worker.finished()) {
      busy = false;
      if (!send_all(descriptor, encode({MessageType::Result, worker.take()})))
        return end(fail(Error{"coordinator_lost", "rank 0 ended"}));
    }
    if (since(beat) > std::min(1.0, times.silence_s / 5)) {
      beat = SteadyClock::now();
      const std::string frame = encode({MessageType::Heartbeat, {}});
      static_cast<void>(send(descriptor, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    // An interrupt reaches every rank; rank 0 ends the point and says stop. It gets a while to do so.
    if (!interrupted_at && times.interrupted && times.interrupted()) interrupted_at = SteadyClock::now();
    if (interrupted_at && since(*interrupted_at) > 2 * times.silence_s + kFarewell)
      return end(fail(Error{"interrupted", "interrupted, and rank 0 did not end the probe"}));
    if (since(boss.heard) > times.silence_s)
      return end(
          fail(Error{"coordinator_lost", fmt::format("rank 0 has not answered for {:.0f} s", since(boss.heard))}));
  }
}

}  // namespace plan
