// The control connections of a probe: a star around rank 0, with heartbeats and deadlines; hwprobe.md 3.2 and 3.3.
// Tested by tests/hwprobe/star_test.cpp and tests/hwprobe/probe_ranks_test.cpp.
#include "hwprobe/star.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <optional>
#include <thread>

#include "hwprobe/wire.hpp"

namespace plan {
namespace {

using Clock = std::chrono::steady_clock;
constexpr double kHandshakeSeconds = 5;
constexpr std::size_t kMostPending = 4096;

double since(Clock::time_point then) { return std::chrono::duration<double>(Clock::now() - then).count(); }

/// A thread that runs one task after the other; a task that never returns is left behind.
class Worker {
 public:
  explicit Worker(OwnWork work) : shared_(std::make_shared<Shared>()) {
    shared_->work = std::move(work);
    shared_->done = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  int descriptor() const { return shared_->done; }
  void start(const std::string& task) {
    shared_->finished = false;
    std::thread([shared = shared_, task] {
      std::string result = shared->work.run(task);
      const std::lock_guard lock(shared->mutex);
      shared->result = std::move(result);
      shared->finished = true;
      const std::uint64_t one = 1;
      static_cast<void>(!write(shared->done, &one, sizeof one));
    }).detach();
  }
  bool finished() const { return shared_->finished; }
  std::string take() {
    const std::lock_guard lock(shared_->mutex);
    std::uint64_t count = 0;
    static_cast<void>(!read(shared_->done, &count, sizeof count));
    return std::move(shared_->result);
  }
  /// Asks the task to return and waits a little.
  void abort(double seconds) {
    if (shared_->work.abort) shared_->work.abort();
    const auto begin = Clock::now();
    while (!finished() && since(begin) < seconds) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

 private:
  struct Shared {
    OwnWork work;
    std::mutex mutex;
    std::string result;
    std::atomic<bool> finished{true};
    int done = -1;
    ~Shared() {
      if (done >= 0) close(done);
    }
  };
  std::shared_ptr<Shared> shared_;
};

/// A connection and what is known of its other end.
struct Peer {
  int fd = -1;
  FrameReader reader{};
  Clock::time_point heard = Clock::now();
  std::optional<std::string> result{};
  std::string member_nonce{}, own_nonce{};  ///< of a handshake under way
};

/// Reads what has arrived; false when the other end is gone or talks nonsense.
bool drain(Peer& peer) {
  char bytes[65536];
  const ssize_t got = recv(peer.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  peer.heard = Clock::now();
  peer.reader.feed({bytes, static_cast<std::size_t>(got)});
  return true;
}

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

/// Lets members in until all are there.
class Gathering {
 public:
  Gathering(const Meeting& meeting, int listener, int world)
      : meeting_(meeting),
        listener_(listener),
        joined_(static_cast<std::size_t>(world)),
        hellos_(static_cast<std::size_t>(world)) {}

  /// One turn of waiting for at most `milliseconds`. Who is in already hears from us meanwhile.
  void turn(int milliseconds, double beat_s) {
    if (since(beat_) > beat_s) {
      beat_ = Clock::now();
      const std::string frame = encode({Message::Heartbeat, {}});
      for (const Peer& peer : joined_)
        if (peer.fd >= 0) static_cast<void>(send(peer.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    std::vector<pollfd> waits{{listener_, POLLIN, 0}};
    for (const Peer& peer : pending_) waits.push_back({peer.fd, POLLIN, 0});
    if (poll(waits.data(), waits.size(), milliseconds) < 0) return;
    for (std::size_t i = pending_.size(); i-- > 0;) {
      Peer& peer = pending_[i];
      const bool readable = (waits[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
      if ((!readable || (drain(peer) && advance(peer))) && since(peer.heard) < kHandshakeSeconds &&
          !peer.reader.broken())
        continue;
      if (peer.fd >= 0) close(peer.fd);
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if ((waits[0].revents & POLLIN) != 0) accept_one();
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t r = 1; r < joined_.size(); ++r)
      if (joined_[r].fd < 0) ranks.push_back(static_cast<int>(r));
    return ranks;
  }
  int strangers() const { return strangers_; }
  std::vector<Peer> take_peers() { return std::move(joined_); }
  std::vector<std::string> take_hellos() { return std::move(hellos_); }

  ~Gathering() {
    for (const Peer& peer : pending_)
      if (peer.fd >= 0) close(peer.fd);
  }
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

 private:
  void accept_one() {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    if (pending_.size() >= kMostPending) {
      close(fd);
      return;
    }
    const int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pending_.push_back({.fd = fd});
  }

  /// Handles what a newcomer has sent; false to drop it. A newcomer that is let in moves on with `fd` -1 left here.
  bool advance(Peer& peer) {
    while (const std::optional<Frame> frame = peer.reader.next()) {
      Unpacker in(frame->payload);
      if (frame->type == Message::Open && peer.own_nonce.empty()) {
        peer.member_nonce = in.text();
        peer.own_nonce = random_hex(16);
        const std::string proof = coordinator_proof(meeting_.token, peer.member_nonce, peer.own_nonce);
        if (!in.complete() ||
            !send_all(peer.fd, encode({Message::Challenge, Packer().text(peer.own_nonce).text(proof).take()})))
          return false;
        continue;
      }
      if (frame->type != Message::Hello || peer.own_nonce.empty()) return false;
      const auto rank = static_cast<int>(in.number_between(0, 1'000'000));
      const std::string proof = in.text(), hello = in.text();
      if (!in.complete()) return false;
      if (!same_secret(proof, member_proof(meeting_.token, peer.member_nonce, peer.own_nonce, rank))) {
        ++strangers_;
        return refuse(peer, "it does not know this job's token");
      }
      return let_in(peer, rank, hello);
    }
    return true;
  }

  bool let_in(Peer& peer, int rank, const std::string& hello) {
    const auto r = static_cast<std::size_t>(rank);
    if (r == 0 || r >= joined_.size())
      return refuse(peer, fmt::format("this job has ranks 1 to {} beside rank 0", joined_.size() - 1));
    if (joined_[r].fd >= 0) return refuse(peer, fmt::format("rank {} has joined already", rank));
    if (!send_all(peer.fd, encode({Message::Welcome, {}}))) return false;
    hellos_[r] = hello;
    joined_[r] = std::move(peer);
    joined_[r].heard = Clock::now();
    peer.fd = -1;
    return false;  // no longer pending
  }

  static bool refuse(const Peer& peer, const std::string& reason) {
    static_cast<void>(send_all(peer.fd, encode({Message::Refuse, Packer().text(reason).take()})));
    return false;
  }

  const Meeting& meeting_;
  int listener_;
  std::vector<Peer> pending_{}, joined_;
  std::vector<std::string> hellos_;
  int strangers_ = 0;
  Clock::time_point beat_ = Clock::now();
};

}  // namespace

struct Coordinator::State {
  std::vector<Peer> peers{};  ///< by rank; the first is this process
  std::vector<std::string> hellos{};
  StarTimes times{};
  Clock::time_point beat = Clock::now();

  ~State() {
    for (const Peer& peer : peers)
      if (peer.fd >= 0) close(peer.fd);
  }

  /// Keeps the members' own watch quiet.
  void heartbeat() {
    if (since(beat) < std::min(1.0, times.silence_s / 5)) return;
    beat = Clock::now();
    const std::string frame = encode({Message::Heartbeat, {}});
    for (const Peer& peer : peers)
      if (peer.fd >= 0) static_cast<void>(send(peer.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
  }

  /// What is wrong with rank `r`, empty if nothing.
  std::string trouble(std::size_t r, bool readable) {
    Peer& peer = peers[r];
    if (readable && !drain(peer)) return "ended";
    while (std::optional<Frame> frame = peer.reader.next())
      if (frame->type == Message::Result) peer.result = std::move(frame->payload);
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
                       const std::vector<std::string>& names) {
    const auto begin = Clock::now();
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
  const auto begin = Clock::now();
  while (!gathering.missing().empty() && since(begin) < times.join_s)
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
                                                    const std::vector<std::string>& names) {
  State& state = *state_;
  Worker worker(own);
  const std::string frame = encode({Message::Task, task});
  for (std::size_t r = 1; r < state.peers.size(); ++r) {
    state.peers[r].result.reset();
    static_cast<void>(send_all(state.peers[r].fd, frame));  // a rank that is gone shows when its answer is awaited
  }
  worker.start(task);
  if (const Result<bool> done = state.collect(worker, title, deadline_s, names); !done) {
    stop(done.error()[0].message);
    worker.abort(std::min(2.0, state.times.silence_s));
    return tl::unexpected(done.error());
  }
  std::vector<std::string> results{worker.take()};
  for (std::size_t r = 1; r < state.peers.size(); ++r) results.push_back(*std::move(state.peers[r].result));
  return results;
}

void Coordinator::stop(const std::string& reason) {
  const std::string frame = encode({Message::Stop, Packer().text(reason).take()});
  for (Peer& peer : state_->peers)
    if (peer.fd >= 0) static_cast<void>(send(peer.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

Result<std::string> serve(int descriptor, const std::string& early_bytes, const OwnWork& own, StarTimes times) {
  Peer boss{.fd = descriptor};
  boss.reader.feed(early_bytes);
  Worker worker(own);
  bool busy = false;
  auto beat = Clock::now();
  const auto end = [&](Result<std::string> result) {
    if (busy && !worker.finished()) worker.abort(std::min(2.0, times.silence_s));
    close(descriptor);
    return result;
  };
  while (true) {
    while (std::optional<Frame> frame = boss.reader.next()) {
      if (frame->type == Message::Stop) return end(Unpacker(frame->payload).text());
      if (frame->type != Message::Task || busy) continue;
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
      if (!send_all(descriptor, encode({Message::Result, worker.take()})))
        return end(fail(Error{"coordinator_lost", "rank 0 ended"}));
    }
    if (since(beat) > std::min(1.0, times.silence_s / 5)) {
      beat = Clock::now();
      const std::string frame = encode({Message::Heartbeat, {}});
      static_cast<void>(send(descriptor, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
    }
    if (since(boss.heard) > times.silence_s)
      return end(
          fail(Error{"coordinator_lost", fmt::format("rank 0 has not answered for {:.0f} s", since(boss.heard))}));
  }
}

}  // namespace plan
