// A rank that serves another end whose words, or silence, a test gives: what it answers, and when it gives up.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "hwprobe/ranks/peer.hpp"
#include "hwprobe/ranks/star.hpp"
#include "hwprobe/ranks/wire.hpp"
#include "hwprobe/session/session.hpp"

using namespace plan;

namespace {

/// The end of rank 0, and a rank on a thread of its own that serves it.
class Boss {
 public:
  explicit Boss(StarTimes times, const OwnWork& own = {[](const std::string& task) { return task + " done"; }, [] {}}) {
    int ends[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    fd_ = ends[0];
    rank_ = std::async(std::launch::async, [=, end = ends[1]] { return serve(end, "", own, times); });
  }
  ~Boss() {
    leave();
    if (rank_.valid()) rank_.wait();
  }
  Boss(const Boss&) = delete;
  Boss& operator=(const Boss&) = delete;

  void say(MessageType type, std::string payload = {}) const {
    const std::string bytes = encode({type, std::move(payload)});
    CHECK(send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0);
  }
  void leave() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  /// The next frame of this kind within so many seconds.
  std::optional<Frame> hear(MessageType type, double seconds) {
    for (const SteadyClock::time_point begin = SteadyClock::now(); since(begin) < seconds;) {
      while (std::optional<Frame> frame = reader_.next())
        if (frame->type == type) return frame;
      pollfd wait{fd_, POLLIN, 0};
      char bytes[4096];
      if (poll(&wait, 1, 10) != 1) continue;
      const ssize_t got = recv(fd_, bytes, sizeof bytes, MSG_DONTWAIT);
      if (got <= 0) break;
      reader_.feed({bytes, static_cast<std::size_t>(got)});
    }
    return std::nullopt;
  }
  bool over(double seconds) const {
    return rank_.wait_for(std::chrono::duration<double>(seconds)) == std::future_status::ready;
  }
  Result<std::string> end() { return rank_.get(); }

 private:
  int fd_ = -1;
  std::future<Result<std::string>> rank_{};
  FrameReader reader_{};
};

}  // namespace

TEST_CASE("a rank does one task after another, says that it is there meanwhile, and ends with rank 0's reason") {
  Boss boss({.silence_s = 20});
  for (const std::string task : {"first", "second"}) {
    boss.say(MessageType::Task, task);
    const std::optional<Frame> result = boss.hear(MessageType::Result, 20);
    REQUIRE(result.has_value());
    CHECK(result->payload == task + " done");
  }
  CHECK(boss.hear(MessageType::Heartbeat, 20).has_value());
  CHECK_FALSE(boss.over(0));
  boss.say(MessageType::Stop, Packer().text("that is all").take());
  REQUIRE(boss.over(20));
  const Result<std::string> reason = boss.end();
  REQUIRE(reason.has_value());
  CHECK(*reason == "that is all");
}

TEST_CASE("a rank whose rank 0 is silent, talks nonsense or ends gives up with what it saw") {
  const auto message = [](Boss& boss) {
    REQUIRE(boss.over(30));
    const Result<std::string> result = boss.end();
    REQUIRE_FALSE(result.has_value());
    CHECK(result.error()[0].code == "coordinator_lost");
    return result.error()[0].message;
  };
  const SteadyClock::time_point begin = SteadyClock::now();
  Boss silent({.silence_s = 1});
  CHECK(message(silent).find("rank 0 has not answered for 1 s") == 0);
  CHECK(since(begin) >= 1);
  Boss gone({.silence_s = 60});
  gone.leave();
  CHECK(message(gone) == "rank 0 ended");
}

TEST_CASE("an interrupted rank gives rank 0 ten seconds and twice its silence to end the probe, and then ends itself") {
  std::atomic<bool> interrupted{false};
  Boss boss({.silence_s = 1, .interrupted = [&] { return interrupted.load(); }});
  std::optional<SteadyClock::time_point> begin;
  for (int i = 0; i < 300 && !boss.over(0.1); ++i) {
    boss.say(MessageType::Heartbeat);
    if (i == 2) interrupted = true, begin = SteadyClock::now();
  }
  REQUIRE(boss.over(0));
  const Result<std::string> result = boss.end();
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error()[0].code == "interrupted");
  REQUIRE(begin.has_value());
  CHECK(since(*begin) > 2 * 1 + 10);
}

TEST_CASE("a transport check takes as many rounds as it was asked for, each of them some time, and ends the session") {
  for (const int rounds : {1, 3, 20}) {
    SessionOptions options;
    options.identity = {.launcher = Launcher::None, .rank = 0, .world = 1, .local_world = 1};
    Result<Session> session = Session::begin(std::move(options));
    REQUIRE(session.has_value());
    CHECK(session->ranks().size() == 1);
    const Result<std::vector<double>> seconds = session->check_transport(100, rounds);
    REQUIRE(seconds.has_value());
    CHECK(seconds->size() == static_cast<std::size_t>(rounds));
    for (const double one : *seconds) CHECK(one > 0);
  }
}
