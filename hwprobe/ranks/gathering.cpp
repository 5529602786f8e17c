// The handshake of a probe's ranks; plan-measuring(7) 3.4. Tested by tests/hwprobe/gathering_test.cpp and
// probe_ranks_test.cpp.
#include "hwprobe/ranks/gathering.hpp"

#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace plan {
namespace {

constexpr double kHandshakeSeconds = 5;
constexpr std::size_t kMostPending = 4096;

}  // namespace

void send_heartbeat(std::span<const Peer> peers) {
  const std::string frame = encode({MessageType::Heartbeat, {}});
  for (const Peer& peer : peers)
    if (peer.fd >= 0) static_cast<void>(send(peer.fd, frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

bool drain(Peer& peer) {
  char bytes[65536];
  const ssize_t got = recv(peer.fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  peer.heard = SteadyClock::now();
  peer.reader.feed({bytes, static_cast<std::size_t>(got)});
  return true;
}

Gathering::Gathering(const Meeting& meeting, int listener, int world)
    : meeting_(meeting),
      listener_(listener),
      joined_(static_cast<std::size_t>(world)),
      hellos_(static_cast<std::size_t>(world)) {}

Gathering::~Gathering() {
  for (const Peer& peer : pending_)
    if (peer.fd >= 0) close(peer.fd);
}

void Gathering::beat(double beat_s) {
  if (since(beat_) <= beat_s) return;
  beat_ = SteadyClock::now();
  send_heartbeat(joined_);
}

void Gathering::turn(int milliseconds, double beat_s) {
  beat(beat_s);
  std::vector<pollfd> waits{{listener_, POLLIN, 0}};
  for (const Peer& peer : pending_) waits.push_back({peer.fd, POLLIN, 0});
  if (poll(waits.data(), waits.size(), milliseconds) < 0) return;
  for (std::size_t i = pending_.size(); i-- > 0;) {
    Peer& peer = pending_[i];
    const bool readable = (waits[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    if ((!readable || (drain(peer) && advance(peer))) && since(peer.heard) < kHandshakeSeconds && !peer.reader.broken())
      continue;
    if (peer.fd >= 0) close(peer.fd);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  if ((waits[0].revents & POLLIN) != 0) accept_one();
}

std::vector<int> Gathering::missing() const {
  std::vector<int> ranks;
  for (std::size_t r = 1; r < joined_.size(); ++r)
    if (joined_[r].fd < 0) ranks.push_back(static_cast<int>(r));
  return ranks;
}

void Gathering::accept_one() {
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

bool Gathering::advance(Peer& peer) {
  while (const std::optional<Frame> frame = peer.reader.next()) {
    Unpacker in(frame->payload);
    if (frame->type == MessageType::Open && peer.own_nonce.empty()) {
      peer.member_nonce = in.text();
      peer.own_nonce = random_hex(16);
      const std::string proof = coordinator_proof(meeting_.token, peer.member_nonce, peer.own_nonce);
      if (!in.complete() ||
          !send_all(peer.fd, encode({MessageType::Challenge, Packer().text(peer.own_nonce).text(proof).take()})))
        return false;
      continue;
    }
    if (frame->type != MessageType::Hello || peer.own_nonce.empty()) return false;
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

bool Gathering::let_in(Peer& peer, int rank, const std::string& hello) {
  const auto r = static_cast<std::size_t>(rank);
  if (r == 0 || r >= joined_.size())
    return refuse(peer, fmt::format("this job has ranks 1 to {} beside rank 0", joined_.size() - 1));
  if (joined_[r].fd >= 0) return refuse(peer, fmt::format("rank {} has joined already", rank));
  if (!send_all(peer.fd, encode({MessageType::Welcome, {}}))) return false;
  hellos_[r] = hello;
  joined_[r] = std::exchange(peer, Peer{});
  joined_[r].heard = SteadyClock::now();
  return false;  // no longer pending
}

bool Gathering::refuse(const Peer& peer, const std::string& reason) {
  static_cast<void>(send_all(peer.fd, encode({MessageType::Refuse, Packer().text(reason).take()})));
  return false;
}

}  // namespace plan
