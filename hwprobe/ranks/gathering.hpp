#pragma once

#include <string>
#include <vector>

#include "hwprobe/ranks/peer.hpp"
#include "hwprobe/ranks/rendezvous.hpp"

namespace plan {

/// Lets the ranks of one job in, by its token, until all are there.
class Gathering {
 public:
  Gathering(const Meeting& meeting, int listener, int world);
  ~Gathering();
  Gathering(const Gathering&) = delete;
  Gathering& operator=(const Gathering&) = delete;

  /// One turn of waiting for at most `milliseconds`. Who is in already hears from us meanwhile.
  void turn(int milliseconds, double beat_s);

  [[nodiscard]] std::vector<int> missing() const;
  /// Connections that did not know the token.
  int strangers() const { return strangers_; }
  std::vector<Peer> take_peers() { return std::move(joined_); }
  std::vector<std::string> take_hellos() { return std::move(hellos_); }

 private:
  void beat(double beat_s);
  void accept_one();
  /// Handles what a newcomer has sent; false to drop it. A newcomer that is let in moves on with `fd` -1 left here.
  bool advance(Peer& peer);
  bool let_in(Peer& peer, int rank, const std::string& hello);
  static bool refuse(const Peer& peer, const std::string& reason);

  const Meeting& meeting_;
  int listener_;
  std::vector<Peer> pending_{}, joined_;
  std::vector<std::string> hellos_;
  int strangers_ = 0;
  SteadyClock::time_point beat_ = SteadyClock::now();
};

}  // namespace plan
