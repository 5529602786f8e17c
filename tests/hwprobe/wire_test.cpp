#include "hwprobe/ranks/wire.hpp"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "hwprobe/ranks/rendezvous.hpp"
#include "hwprobe/session/rank_work.hpp"

using namespace plan;

TEST_CASE("HMAC-SHA256 of RFC 4231") {
  CHECK(hmac_sha256(std::string(20, '\x0b'), "Hi There") ==
        "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(hmac_sha256(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("a secret is the same only if every bit of it is") {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    std::string secret(1 + random() % 64, '\0');
    for (char& c : secret) c = static_cast<char>(random());
    CHECK(same_secret(secret, secret));
    CHECK_FALSE(same_secret(secret, secret.substr(1)));
    CHECK_FALSE(same_secret(secret, secret + secret.back()));
    for (std::size_t bit = 0; bit < 8 * secret.size(); ++bit) {
      std::string other = secret;
      other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
      CHECK_FALSE(same_secret(secret, other));
    }
  }
}

TEST_CASE("frames arrive whole however they are cut") {
  std::string bytes;
  std::vector<Frame> sent;
  for (int i = 0; i < 20; ++i) {
    sent.push_back(
        {i % 2 == 0 ? MessageType::Task : MessageType::Heartbeat, std::string(static_cast<std::size_t>(i * 37), 'x')});
    bytes += encode(sent.back());
  }
  for (const std::size_t cut : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{1000}, bytes.size()}) {
    FrameReader reader;
    std::vector<Frame> got;
    for (std::size_t at = 0; at < bytes.size(); at += cut) {
      reader.feed(std::string_view(bytes).substr(at, cut));
      while (const auto frame = reader.next()) got.push_back(*frame);
    }
    CHECK(got == sent);
    CHECK_FALSE(reader.broken());
  }
}

TEST_CASE("every type of message arrives, and what is no type breaks the reader") {
  const std::string sample = encode({MessageType::Open, "x"});
  for (int type = 0; type <= 20; ++type) {
    std::string bytes = sample;
    bytes[6] = static_cast<char>(type);  // behind four bytes of magic and two of version
    FrameReader reader;
    reader.feed(bytes);
    const std::optional<Frame> frame = reader.next();
    CAPTURE(type);
    CHECK(frame.has_value() == (type >= 1 && type <= static_cast<int>(MessageType::Stop)));
    CHECK(reader.broken() == !frame.has_value());
    if (frame) CHECK(frame->type == static_cast<MessageType>(type));
  }
}

TEST_CASE("bytes that are no frame break the reader and nothing else") {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes = encode({MessageType::Result, Packer().number(5).text("hello").take()});
    for (int flips = 0; flips < 3; ++flips) bytes[random() % bytes.size()] = static_cast<char>(random());
    FrameReader reader;
    reader.feed(bytes);
    while (const auto frame = reader.next()) {
      CHECK(frame->payload.size() <= kMostPayload);
      static_cast<void>(unpack_result(frame->payload));
      static_cast<void>(unpack_hello(frame->payload));
      static_cast<void>(unpack_device(frame->payload));
      static_cast<void>(unpack_numbers(frame->payload));
    }
  }
  FrameReader huge;
  std::string header = encode({MessageType::Result, ""});
  header[11] = '\x7f';
  huge.feed(header);
  CHECK_FALSE(huge.next().has_value());
  CHECK(huge.broken());
}

TEST_CASE("results and introductions travel unchanged; absurd ones do not arrive") {
  RankResult r{.status = 0, .error = ""};
  r.data.count = 3;
  r.data.took_part = 1;
  r.data.seconds[0] = 1e-6, r.data.seconds[1] = 2e-6, r.data.seconds[2] = 3e-6;
  r.data.bytes = 4096;
  const RankResult back = unpack_result(pack_result(r)).value();
  CHECK(back.data.count == 3);
  CHECK(back.data.seconds[2] == 3e-6);
  CHECK(back.data.bytes == 4096);
  r.data.seconds[1] = -1;
  CHECK_FALSE(unpack_result(pack_result(r)).has_value());
  const RankHello h{.version = "1",
                    .host = "a",
                    .gpu = 3,
                    .gpu_name = "x",
                    .gpu_uuid = "GPU-1",
                    .driver = "580.1",
                    .environment = "NCCL_DEBUG=INFO"};
  CHECK(unpack_hello(pack_hello(h))->gpu_uuid == "GPU-1");
  CHECK(unpack_hello(pack_hello(h))->where() == "a, GPU 3");
}

TEST_CASE("ranks that do not fit together are named before anything is measured") {
  const RankHello a{.version = "1", .host = "n1", .gpu = 0, .gpu_name = "H100", .gpu_uuid = "GPU-a", .driver = "580.1"};
  RankHello b = a;
  CHECK(inconsistencies({a, b})[0].message == "ranks 0 and 1 have the same GPU: 0 of n1");
  b.gpu_uuid = "GPU-b";
  CHECK(inconsistencies({a, b}).empty());
  b.driver = "570.3";
  b.environment = "NCCL_IB_HCA=mlx5_0";
  b.gpu_name = "A100";
  const Errors errors = inconsistencies({a, b});
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].message.find("the GPU") != std::string::npos);
  CHECK(errors[1].message.find("the driver") != std::string::npos);
  CHECK(inconsistencies({a, b}, true).size() == 1);
  // Variables that differ from rank to rank are usual (an adapter each): worth a word.
  const std::vector<std::string> notes = differences({a, b});
  REQUIRE(notes.size() == 2);
  CHECK(notes[1].find("NCCL_*") != std::string::npos);
  CHECK(differences({a, a}).empty());
}

/// Where a socket listens, in letters.
static std::string listens_at(int descriptor) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  REQUIRE(getsockname(descriptor, reinterpret_cast<sockaddr*>(&own), &size) == 0);
  char text[INET6_ADDRSTRLEN] = {};
  const void* address = own.ss_family == AF_INET6
                            ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in6*>(&own)->sin6_addr)
                            : static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(&own)->sin_addr);
  return inet_ntop(own.ss_family, address, text, sizeof text) == nullptr ? "" : text;
}

TEST_CASE("a job of several hosts is met on every interface, whatever its host calls itself; one host's on its own") {
  const std::string folder = std::filesystem::temp_directory_path().string();
  for (const int local_world : {1, 2}) {
    const Identity mpi{.launcher = Launcher::OpenMpi,
                       .rank = 0,
                       .world = 2,
                       .local_world = local_world,
                       .job_key = "meet" + std::to_string(getpid())};
    Meeting meeting = plan_meeting({.identity = mpi, .folder = folder}).value();
    const Result<Listener> listener = open_listener(meeting, mpi);
    REQUIRE(listener.has_value());
    const std::string at = listens_at(listener->descriptor);
    if (local_world == 2)
      CHECK(at == "127.0.0.1");
    else
      CHECK((at == "0.0.0.0" || at == "::"));
    close(listener->descriptor);
    clean_up(meeting);
  }
}

TEST_CASE("how ranks meet follows from flags and launcher") {
  Identity slurm{.launcher = Launcher::Slurm,
                 .rank = 1,
                 .world = 16,
                 .address = "gpu03",
                 .job_key = "slurm:8.0",
                 .hosts = {"gpu03", "gpu04"}};
  const Meeting a = plan_meeting({.identity = slurm}).value();
  CHECK(a.host == "gpu03");
  CHECK(a.ports.size() == 16);
  CHECK_FALSE(a.authenticated);
  CHECK(plan_meeting({.identity = slurm, .secret = "s"})->authenticated);
  slurm.job_key = "slurm:9.0";
  CHECK(plan_meeting({.identity = slurm})->ports != a.ports);
  CHECK(plan_meeting({.identity = slurm})->token != a.token);
  slurm.hosts = {"gpu03"};
  CHECK(plan_meeting({.identity = slurm})->host == "127.0.0.1");
  const Identity mpi{.launcher = Launcher::OpenMpi, .rank = 0, .world = 2, .job_key = "mpirun:x"};
  CHECK(plan_meeting({.identity = mpi, .folder = "/tmp"})->method == Meeting::Method::File);
  CHECK(plan_meeting({.identity = mpi, .rendezvous = "file:/shared"})->path.starts_with("/shared/"));
  CHECK(plan_meeting({.identity = mpi, .rendezvous = "host:123"})->ports == std::vector<int>{123});
  for (const char* bad : {"host", "host:", ":12", "host:0", "host:70000", "host:1.5"})
    CHECK_FALSE(plan_meeting({.identity = mpi, .rendezvous = bad}).has_value());
}
