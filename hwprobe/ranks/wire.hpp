#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plan {

/// Messages between the ranks of a probe. A frame is a header of 16 bytes (magic, version, type, length, 0) and a
/// payload of at most 64 KiB, numbers little-endian.
enum class MessageType : std::uint16_t {
  Open = 1,   ///< member: its nonce
  Challenge,  ///< coordinator: its nonce, and proof that it knows the token
  Hello,      ///< member: proof, and who it is
  Welcome,    ///< coordinator: joined
  Refuse,     ///< coordinator: why not
  Task,       ///< coordinator: do this
  Result,     ///< member: what came of it
  Heartbeat,  ///< either way, once a second
  Stop,       ///< coordinator: all is done, or why not
};

struct Frame {
  MessageType type = MessageType::Heartbeat;
  std::string payload{};
  bool operator==(const Frame&) const = default;
};

inline constexpr std::size_t kMostPayload = 64 * 1024;

[[nodiscard]] std::string encode(const Frame& frame);

/// Cuts frames out of bytes as they arrive.
class FrameReader {
 public:
  void feed(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole frame; nullopt when more bytes are needed. Bytes that are no frame break the reader for good.
  [[nodiscard]] std::optional<Frame> next();
  [[nodiscard]] bool broken() const { return broken_; }

 private:
  std::string buffer_{};
  bool broken_ = false;
};

/// Writes the numbers and texts of a payload.
class Packer {
 public:
  Packer& number(std::int64_t value);
  Packer& real(double value);
  Packer& text(std::string_view value);
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_{};
};

/// Reads them back; anything short or absurd makes it failed, and the values that follow 0 or empty.
class Unpacker {
 public:
  explicit Unpacker(std::string_view payload) : rest_(payload) {}
  [[nodiscard]] std::int64_t number();
  [[nodiscard]] std::int64_t number_between(std::int64_t least, std::int64_t most);
  [[nodiscard]] double real();
  [[nodiscard]] std::string text();
  /// Everything read, nothing left, nothing wrong.
  [[nodiscard]] bool complete() const { return !failed_ && rest_.empty(); }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::string_view rest_;
  bool failed_ = false;
};

/// HMAC-SHA256 (RFC 2104) in hexadecimal.
[[nodiscard]] std::string hmac_sha256(std::string_view key, std::string_view text);

/// Compares in a time that does not depend on where the texts differ.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b);

/// `bytes` random bytes in hexadecimal, from the kernel.
[[nodiscard]] std::string random_hex(std::size_t bytes);

}  // namespace plan
