// Who is let in among the ranks of a job, and who is shown the door: sockets that speak the handshake of
// plan-measuring(7) 3.4 well, badly, too late or not at all.
#include "hwprobe/ranks/gathering.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <string>

using namespace plan;

namespace {

/// A job of `world` ranks on this host, and rank 0's door.
struct Door {
  Identity rank0{};
  Meeting meeting{};
  Listener listener{};

  explicit Door(int world) {
    rank0 = {.launcher = Launcher::OpenMpi, .rank = 0, .world = world, .local_world = world};
    rank0.job_key = "door" + std::to_string(getpid());
    meeting = plan_meeting({.identity = rank0, .folder = std::filesystem::temp_directory_path().string()}).value();
    listener = open_listener(meeting, rank0).value();
  }
  ~Door() {
    close(listener.descriptor);
    clean_up(meeting);
  }
};

/// The other end of a connection, which a test speaks for.
class Guest {
 public:
  explicit Guest(const Door& door) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(door.listener.port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  ~Guest() { close(fd_); }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  void say(const std::string& bytes) const { CHECK(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0); }
  void say(MessageType type, std::string payload) const { say(encode({type, std::move(payload)})); }
  /// Turns the gathering until a frame comes or the connection is closed, for `turns` turns at most.
  std::optional<Frame> hear(Gathering& gathering, int turns = 200) {
    for (; turns > 0 && !gone_; --turns) {
      if (std::optional<Frame> frame = reader_.next()) return frame;
      gathering.turn(10, 1e9);
      listen();
    }
    return reader_.next();
  }
  bool gone() const { return gone_; }

 private:
  void listen() {
    pollfd wait{fd_, POLLIN, 0};
    char bytes[4096];
    if (poll(&wait, 1, 0) != 1) return;
    const ssize_t got = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0)
      gone_ = true;
    else
      reader_.feed({bytes, static_cast<std::size_t>(got)});
  }
  int fd_;
  bool gone_ = false;
  FrameReader reader_{};
};

MessageType kind(const std::optional<Frame>& frame) {
  REQUIRE(frame.has_value());
  return frame->type;
}

/// The whole handshake of `rank`; the answer to its hello.
std::optional<Frame> join(Guest& guest, Gathering& gathering, const std::string& token, int rank) {
  guest.say(MessageType::Open, Packer().text("nonce").take());
  const std::optional<Frame> challenge = guest.hear(gathering);
  REQUIRE(challenge.has_value());
  CHECK(challenge->type == MessageType::Challenge);
  Unpacker in(challenge->payload);
  const std::string nonce = in.text(), proof = in.text();
  CHECK(in.complete());
  CHECK((proof == coordinator_proof(token, "nonce", nonce)) == (token != "wrong"));
  guest.say(MessageType::Hello, Packer()
                                    .number(rank)
                                    .text(member_proof(token, "nonce", nonce, rank))
                                    .text("hello of " + std::to_string(rank))
                                    .take());
  return guest.hear(gathering);
}

std::string refusal(const std::optional<Frame>& answer) {
  REQUIRE(answer.has_value());
  CHECK(answer->type == MessageType::Refuse);
  return Unpacker(answer->payload).text();
}

}  // namespace

TEST_CASE("ranks that know the token are let in, each once; others are told why not and shown the door") {
  const Door door(4);
  Gathering gathering(door.meeting, door.listener.descriptor, 4);
  CHECK(gathering.missing() == std::vector<int>{1, 2, 3});
  Guest second(door), stranger(door), again(door), beyond(door), zeroth(door), third(door);
  CHECK(kind(join(second, gathering, door.meeting.token, 2)) == MessageType::Welcome);
  CHECK(gathering.missing() == std::vector<int>{1, 3});
  CHECK(gathering.strangers() == 0);
  CHECK(refusal(join(stranger, gathering, "wrong", 1)).find("does not know this job's token") != std::string::npos);
  CHECK(gathering.strangers() == 1);
  CHECK(refusal(join(again, gathering, door.meeting.token, 2)).find("rank 2 has joined already") != std::string::npos);
  CHECK(refusal(join(beyond, gathering, door.meeting.token, 4)).find("ranks 1 to 3") != std::string::npos);
  CHECK(refusal(join(zeroth, gathering, door.meeting.token, 0)).find("ranks 1 to 3") != std::string::npos);
  CHECK(kind(join(third, gathering, door.meeting.token, 3)) == MessageType::Welcome);
  for (Guest* guest : {&stranger, &again, &beyond, &zeroth}) {
    static_cast<void>(guest->hear(gathering));
    CHECK(guest->gone());
  }
  CHECK(gathering.missing() == std::vector<int>{1});
  const std::vector<std::string> hellos = gathering.take_hellos();
  CHECK(hellos == std::vector<std::string>{"", "", "hello of 2", "hello of 3"});
  const std::vector<Peer> peers = gathering.take_peers();
  for (const Peer& peer : peers)
    if (peer.fd >= 0) close(peer.fd);
  CHECK_FALSE(second.gone());
}

TEST_CASE("a connection that talks nonsense is closed at once, and a silent one after five seconds, not before") {
  const Door door(2);
  Gathering gathering(door.meeting, door.listener.descriptor, 2);
  const SteadyClock::time_point begin = SteadyClock::now();
  Guest silent(door), nonsense(door), early(door), twice(door), halfway(door);
  nonsense.say(std::string(200, '\xff'));
  CHECK_FALSE(nonsense.hear(gathering).has_value());
  CHECK(nonsense.gone());
  early.say(MessageType::Hello, Packer().number(1).text("proof").text("hello").take());  // before it was challenged
  CHECK_FALSE(early.hear(gathering).has_value());
  CHECK(early.gone());
  twice.say(MessageType::Open, Packer().text("nonce").take());
  CHECK(kind(twice.hear(gathering)) == MessageType::Challenge);
  twice.say(MessageType::Open, Packer().text("nonce").take());
  CHECK_FALSE(twice.hear(gathering).has_value());
  CHECK(twice.gone());
  halfway.say(MessageType::Open, Packer().text("nonce").take());
  CHECK(kind(halfway.hear(gathering)) == MessageType::Challenge);
  while (since(begin) < 3) static_cast<void>(silent.hear(gathering, 1));
  const bool gone = silent.gone() || halfway.gone();
  if (since(begin) < 4.5) CHECK_FALSE(gone);  // a busy machine may be later
  while (since(begin) < 30 && !(silent.gone() && halfway.gone())) {
    static_cast<void>(silent.hear(gathering, 1));
    static_cast<void>(halfway.hear(gathering, 1));
  }
  CHECK(silent.gone());
  CHECK(halfway.gone());
  CHECK(gathering.strangers() == 0);
  CHECK(gathering.missing() == std::vector<int>{1});
}

TEST_CASE("whoever is in hears from rank 0 as often as was said while the others are waited for") {
  const Door door(3);
  Gathering gathering(door.meeting, door.listener.descriptor, 3);
  Guest first(door);
  CHECK(kind(join(first, gathering, door.meeting.token, 1)) == MessageType::Welcome);
  CHECK_FALSE(first.hear(gathering, 5).has_value());  // a turn of `hear` beats hardly ever
  gathering.turn(1, 0);
  CHECK(kind(first.hear(gathering)) == MessageType::Heartbeat);
  const std::vector<Peer> peers = gathering.take_peers();
  for (const Peer& peer : peers)
    if (peer.fd >= 0) close(peer.fd);
}
