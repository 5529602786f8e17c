// How the ranks of a job find each other; plan-measuring(7) 3.2 and 3.4. Tested by tests/hwprobe/wire_test.cpp and
// tests/hwprobe/probe_ranks_test.cpp.
#include "hwprobe/ranks/rendezvous.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "formulas/digest.hpp"
#include "hwprobe/clock.hpp"
#include "hwprobe/ranks/wire.hpp"
#include "hwprobe/text.hpp"

namespace plan {
namespace {

constexpr int kCandidates = 16;
constexpr int kMostAddresses = 8;
constexpr int kFirstPort = 20000, kLastPort = 60999;
constexpr double kHandshakeSeconds = 5;

std::vector<int> ports_of(const std::string& job_key) {
  const std::string digest = sha256(job_key);
  std::vector<int> ports;
  for (std::size_t i = 0; i < kCandidates; ++i) {
    const unsigned long part = std::stoul(digest.substr(4 * i, 4), nullptr, 16);
    ports.push_back(kFirstPort + static_cast<int>((part * 31 + i * 977) % (kLastPort - kFirstPort + 1)));
  }
  return ports;
}

struct Addresses {
  addrinfo* list = nullptr;
  Addresses(const std::string& host, int port, bool passive) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
    if (getaddrinfo(host.empty() ? nullptr : host.c_str(), std::to_string(port).c_str(), &hints, &list) != 0)
      list = nullptr;
  }
  ~Addresses() {
    if (list != nullptr) freeaddrinfo(list);
  }
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
};

/// Why the last attempt failed goes to `problem`.
int bind_and_listen(const std::string& host, int port, int& problem) {
  const Addresses addresses(host, port, true);
  problem = EADDRNOTAVAIL;
  for (const addrinfo* a = addresses.list; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) continue;
    const int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0) return fd;
    problem = errno;
    close(fd);
  }
  return -1;
}

int port_of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
}

std::string own_host() {
  char host[256] = {};
  return gethostname(host, sizeof host - 1) == 0 ? host : "localhost";
}

/// Where other hosts may reach this one if its name leads them nowhere, each behind a blank.
std::string own_addresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  std::string all;
  int count = 0;
  for (const ifaddrs* i = list; i != nullptr && count < kMostAddresses; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) != 0 ||
        (i->ifa_flags & IFF_UP) == 0)
      continue;
    char text[64] = {};
    if (getnameinfo(i->ifa_addr, sizeof(sockaddr_in), text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) continue;
    all += std::string(" ") + text;
    ++count;
  }
  freeifaddrs(list);
  return all;
}

Result<bool> write_meeting_file(const Meeting& meeting, int port) {
  const std::string temporary = fmt::format("{}.{}", meeting.path, getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const std::string text =
      fmt::format("{} {} {}{}\n", meeting.host, port, meeting.token, meeting.host == own_host() ? own_addresses() : "");
  const bool written = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  if (written && rename(temporary.c_str(), meeting.path.c_str()) == 0) return true;
  const int problem = errno;
  unlink(temporary.c_str());
  return fail(Error{"no_rendezvous",
                    fmt::format("cannot write the rendezvous file `{}`: {}", meeting.path, std::strerror(problem)),
                    {},
                    {"name a folder that every rank can reach: --rendezvous file:FOLDER"}});
}

/// Host, port and token of a rendezvous file; false while there is none.
bool read_meeting_file(Meeting& meeting) {
  struct stat facts {};
  if (stat(meeting.path.c_str(), &facts) != 0 || facts.st_uid != geteuid()) return false;
  std::ifstream file(meeting.path);
  std::string line;
  std::getline(file, line);
  const std::vector<std::string_view> words = words_of_line(line);
  if (words.size() < 3) return false;
  const double port = number_in(words[1]).value_or(0);
  if (port < 1 || port > 65535) return false;
  meeting.host = std::string(words[0]);
  meeting.ports = {static_cast<int>(port)};
  meeting.token = std::string(words[2]);
  meeting.addresses.assign(words.begin() + 3, words.end());
  return true;
}

/// A connection within `seconds`; -1 if nobody answers.
int connect_once(const std::string& host, int port, double seconds) {
  const Addresses addresses(host, port, false);
  for (const addrinfo* a = addresses.list; a != nullptr; a = a->ai_next) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) continue;
    int problem = connect(fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (problem == EINPROGRESS) {
      pollfd wait{fd, POLLOUT, 0};
      socklen_t size = sizeof problem;
      if (poll(&wait, 1, static_cast<int>(seconds * 1000)) == 1) getsockopt(fd, SOL_SOCKET, SO_ERROR, &problem, &size);
    }
    if (problem == 0) {
      fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
      const int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      return fd;
    }
    close(fd);
  }
  return -1;
}

/// The next frame before `until`; nullopt when the peer speaks otherwise or not at all.
std::optional<Frame> next_frame(int fd, FrameReader& reader, SteadyClock::time_point until) {
  while (true) {
    if (std::optional<Frame> frame = reader.next()) return frame;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - SteadyClock::now()).count();
    pollfd wait{fd, POLLIN, 0};
    if (reader.broken() || left <= 0 || poll(&wait, 1, static_cast<int>(left)) != 1) return std::nullopt;
    char bytes[4096];
    const ssize_t got = recv(fd, bytes, sizeof bytes, 0);
    if (got <= 0) return std::nullopt;
    reader.feed({bytes, static_cast<std::size_t>(got)});
  }
}

struct Handshake {
  bool joined = false;
  std::string refused{};
  bool final = false;  ///< refused by this job's own rank 0: trying again changes nothing
};

Handshake shake_hands(int fd, const Meeting& meeting, int rank, const std::string& hello, FrameReader& reader) {
  const auto until = SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(
                                              std::chrono::duration<double>(kHandshakeSeconds));
  const std::string nonce = random_hex(16);
  if (!send_all(fd, encode({MessageType::Open, Packer().text(nonce).take()}))) return {};
  const std::optional<Frame> challenge = next_frame(fd, reader, until);
  if (!challenge || challenge->type != MessageType::Challenge) return {};
  Unpacker in(challenge->payload);
  const std::string theirs = in.text(), proof = in.text();
  if (!in.complete()) return {};
  if (!same_secret(proof, coordinator_proof(meeting.token, nonce, theirs)))
    return {false, "what answers there does not know this job's token"};
  const std::string own = member_proof(meeting.token, nonce, theirs, rank);
  if (!send_all(fd, encode({MessageType::Hello, Packer().number(rank).text(own).text(hello).take()}))) return {};
  const std::optional<Frame> answer = next_frame(fd, reader, until);
  if (!answer) return {};
  if (answer->type == MessageType::Welcome) return {true, {}};
  if (answer->type != MessageType::Refuse) return {};
  return {false, Unpacker(answer->payload).text(), true};
}

}  // namespace

std::string coordinator_proof(const std::string& token, const std::string& member_nonce,
                              const std::string& coordinator_nonce) {
  return hmac_sha256(token, "coordinator:" + member_nonce + ":" + coordinator_nonce);
}

std::string member_proof(const std::string& token, const std::string& member_nonce,
                         const std::string& coordinator_nonce, int rank) {
  return hmac_sha256(token, fmt::format("member:{}:{}:{}", rank, member_nonce, coordinator_nonce));
}

bool send_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) {
      pollfd wait{descriptor, POLLOUT, 0};
      if (errno == EAGAIN && poll(&wait, 1, 1000) != 1) return false;
      continue;
    }
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

Result<Meeting> plan_meeting(const MeetingRequest& request) {
  const Identity& id = request.identity;
  Meeting meeting{.token = request.secret, .authenticated = !request.secret.empty()};
  const std::string& asked = request.rendezvous;
  const bool by_file = asked.starts_with("file:") || (asked.empty() && id.address.empty());
  if (by_file) {
    const std::string folder = asked.empty() ? request.folder : asked.substr(5);
    meeting.method = Meeting::Method::File;
    meeting.authenticated = true;
    const std::string key = id.job_key.empty() ? fmt::format("world-{}", id.world) : id.job_key;
    meeting.path =
        (std::filesystem::path(folder.empty() ? "." : folder) / (".plan-rendezvous-" + sha256(key).substr(0, 16)))
            .string();
    meeting.words = "the file " + meeting.path;
    return meeting;
  }
  const std::string key = id.job_key.empty() ? asked : id.job_key;
  if (meeting.token.empty()) meeting.token = sha256("plan-probe:" + key);
  if (asked.empty()) {
    meeting.host = id.hosts.size() == 1 ? "127.0.0.1" : id.address;
    meeting.ports = ports_of(key);
    meeting.words = fmt::format("{}, ports {} and {} others", meeting.host, meeting.ports[0], kCandidates - 1);
    return meeting;
  }
  const std::size_t colon = asked.rfind(':');
  const double port = colon == std::string::npos ? 0 : number_in(std::string_view(asked).substr(colon + 1)).value_or(0);
  if (colon == 0 || port < 1 || port > 65535 || port != std::floor(port))
    return fail(Error{"bad_address",
                      fmt::format("`{}` is no address for `--rendezvous`", asked.substr(0, 80)),
                      {},
                      {"write HOST:PORT, or file:FOLDER"}});
  meeting.host = asked.substr(0, colon);
  meeting.ports = {static_cast<int>(port)};
  meeting.words = asked;
  return meeting;
}

Result<Listener> open_listener(Meeting& meeting, const Identity& identity) {
  int problem = 0;
  if (meeting.method == Meeting::Method::File) {
    // A job of several hosts is met on every interface: what this host calls itself is often its loopback alone, and
    // the token tells who belongs here.
    const bool alone = identity.local_world >= identity.world;
    meeting.host = alone ? "127.0.0.1" : own_host();
    if (meeting.token.empty()) meeting.token = random_hex(16);
    const int fd = bind_and_listen(alone ? meeting.host : std::string(), 0, problem);
    if (fd < 0)
      return fail(
          Error{"no_rendezvous", fmt::format("rank 0 cannot listen on {}: {}", meeting.host, std::strerror(problem))});
    if (const Result<bool> written = write_meeting_file(meeting, port_of(fd)); !written) {
      close(fd);
      return tl::unexpected(written.error());
    }
    return Listener{fd, port_of(fd)};
  }
  for (const int port : meeting.ports) {
    int fd = bind_and_listen(meeting.host, port, problem);  // proves that the name is this host's
    if (fd < 0) continue;
    const bool loopback = meeting.host == "localhost" || meeting.host.starts_with("127.");  // asked for as such
    if (identity.local_world < identity.world && !loopback) {
      close(fd);
      fd = bind_and_listen(std::string(), port, problem);
      if (fd < 0) continue;
    }
    return Listener{fd, port_of(fd)};
  }
  const bool taken = problem == EADDRINUSE;
  return fail(
      Error{"no_rendezvous",
            taken ? fmt::format("rank 0 finds every port of {} taken", meeting.words)
                  : fmt::format("rank 0 cannot listen on {}: {}", meeting.words, std::strerror(problem)),
            {},
            {taken ? "another job may use it: give a free port with --rendezvous HOST:PORT, or --rendezvous file:FOLDER"
                   : "that host is not where rank 0 runs: --rendezvous file:FOLDER finds it through a shared folder"}});
}

Result<int> connect_to_coordinator(Meeting meeting, int rank, const std::string& hello, double seconds,
                                   std::string& early_bytes) {
  const auto until =
      SteadyClock::now() + std::chrono::duration_cast<SteadyClock::duration>(std::chrono::duration<double>(seconds));
  std::string refused;
  bool final = false;
  auto pause = std::chrono::milliseconds(20);
  while (SteadyClock::now() < until) {
    const bool known = meeting.method == Meeting::Method::Address || read_meeting_file(meeting);
    for (const int port : known ? meeting.ports : std::vector<int>{}) {
      int fd = connect_once(meeting.host, port, std::min(seconds, kHandshakeSeconds));
      for (std::size_t i = 0; i < meeting.addresses.size() && fd < 0; ++i)
        fd = connect_once(meeting.addresses[i], port, std::min(seconds, kHandshakeSeconds));
      if (fd < 0) continue;
      FrameReader reader;
      const Handshake done = shake_hands(fd, meeting, rank, hello, reader);
      if (done.joined) {
        while (std::optional<Frame> frame = reader.next()) early_bytes += encode(*frame);
        return fd;
      }
      close(fd);
      if (!done.refused.empty()) refused = done.refused;
      final = final || done.final;
    }
    if (final) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(500));
  }
  if (!refused.empty()) return fail(Error{"refused", fmt::format("rank {} was not let in: {}", rank, refused)});
  return fail(Error{"no_rendezvous",
                    fmt::format("rank {} did not find rank 0 at {} within {:.0f} s", rank, meeting.words, seconds),
                    {},
                    {"rank 0 may have failed first, or run elsewhere: --rendezvous file:FOLDER with a shared folder"}});
}

void clean_up(const Meeting& meeting) {
  if (meeting.method == Meeting::Method::File) unlink(meeting.path.c_str());
}

}  // namespace plan
