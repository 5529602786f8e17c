#pragma once

#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "hwprobe/start/launcher.hpp"

namespace plan {

/// How ranks find rank 0 and prove that they belong to its job.
struct Meeting {
  enum class Method { Address, File } method = Method::Address;
  std::string host{};                    ///< of rank 0; Address only
  std::vector<int> ports{};              ///< tried in this order; Address only
  std::vector<std::string> addresses{};  ///< of rank 0 besides; File only
  std::string path{};                    ///< of the rendezvous file; File only
  std::string token{};                   ///< shared secret; File: rank 0 makes it
  bool authenticated = true;             ///< false: the token follows from the job's number, which others may guess
  std::string words{};                   ///< for messages: "gpu03, port 24117"
};

/// What was asked for, and what the environment offers.
struct MeetingRequest {
  Identity identity{};
  std::string rendezvous{};  ///< --rendezvous: HOST:PORT or file:FOLDER; empty: by launcher
  std::string secret{};      ///< PLAN_PROBE_TOKEN
  std::string folder{"."};   ///< of the output: where a file is put when nothing else is known
};

/// Chooses the way to meet. Sixteen ports follow from the job's key, so that jobs on one host do not collide.
[[nodiscard]] Result<Meeting> plan_meeting(const MeetingRequest& request);

/// A listening socket of rank 0.
struct Listener {
  int descriptor = -1;
  int port = 0;
};
/// Binds one of the meeting's ports on one interface, or any port where the meeting is by file, which it writes.
[[nodiscard]] Result<Listener> open_listener(Meeting& meeting, const Identity& identity);

/// Connects to rank 0 and does not return before the proof both ways: another service on the port, a stale file and
/// a rank 0 that is not there yet are tried again until `seconds` are over. `hello` is what this rank says of itself.
[[nodiscard]] Result<int> connect_to_coordinator(Meeting meeting, int rank, const std::string& hello, double seconds,
                                                 std::string& early_bytes);

/// Removes the rendezvous file, if there is one.
void clean_up(const Meeting& meeting);

/// Proofs of the handshake: HMAC of both nonces under the token, different for each side.
[[nodiscard]] std::string coordinator_proof(const std::string& token, const std::string& member_nonce,
                                            const std::string& coordinator_nonce);
[[nodiscard]] std::string member_proof(const std::string& token, const std::string& member_nonce,
                                       const std::string& coordinator_nonce, int rank);

/// Sends all bytes; false when the peer is gone.
[[nodiscard]] bool send_all(int descriptor, std::string_view bytes);

}  // namespace plan
