// Frames, payloads and proofs of the ranks' control connections. Tested by tests/hwprobe/wire_test.cpp.
#include "hwprobe/ranks/wire.hpp"

#include <sys/random.h>

#include <bit>
#include <cstring>

#include "formulas/digest.hpp"

namespace plan {
namespace {

constexpr std::uint32_t kMagic = 0x504c5052;  // "RPLP" on the wire
constexpr std::uint16_t kVersion = 1;
constexpr std::size_t kHeader = 16;

template <class T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>((value >> (8 * i)) & 0xff);
}

template <class T>
T get(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value = static_cast<T>(value | static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i)));
  return value;
}

std::string bytes_of_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return out;
}

}  // namespace

std::string encode(const Frame& frame) {
  std::string out;
  put<std::uint32_t>(out, kMagic);
  put<std::uint16_t>(out, kVersion);
  put<std::uint16_t>(out, static_cast<std::uint16_t>(frame.type));
  put<std::uint32_t>(out, static_cast<std::uint32_t>(frame.payload.size()));
  put<std::uint32_t>(out, 0);
  return out + frame.payload;
}

std::optional<Frame> FrameReader::next() {
  if (broken_ || buffer_.size() < kHeader) return std::nullopt;
  const std::string_view head(buffer_);
  const auto type = get<std::uint16_t>(head.substr(6));
  const auto length = get<std::uint32_t>(head.substr(8));
  if (get<std::uint32_t>(head) != kMagic || get<std::uint16_t>(head.substr(4)) != kVersion || length > kMostPayload ||
      type < 1 || type > static_cast<std::uint16_t>(MessageType::Stop) || get<std::uint32_t>(head.substr(12)) != 0) {
    broken_ = true;
    return std::nullopt;
  }
  if (buffer_.size() < kHeader + length) return std::nullopt;
  Frame frame{static_cast<MessageType>(type), buffer_.substr(kHeader, length)};
  buffer_.erase(0, kHeader + length);
  return frame;
}

Packer& Packer::number(std::int64_t value) {
  put<std::uint64_t>(out_, static_cast<std::uint64_t>(value));
  return *this;
}

Packer& Packer::real(double value) {
  put<std::uint64_t>(out_, std::bit_cast<std::uint64_t>(value));
  return *this;
}

Packer& Packer::text(std::string_view value) {
  put<std::uint32_t>(out_, static_cast<std::uint32_t>(value.size()));
  out_ += value;
  return *this;
}

std::int64_t Unpacker::number() {
  if (failed_ || rest_.size() < 8) {
    failed_ = true;
    return 0;
  }
  const auto value = get<std::uint64_t>(rest_);
  rest_.remove_prefix(8);
  return static_cast<std::int64_t>(value);
}

std::int64_t Unpacker::number_between(std::int64_t least, std::int64_t most) {
  const std::int64_t value = number();
  if (value >= least && value <= most) return value;
  failed_ = true;
  return least;
}

double Unpacker::real() { return std::bit_cast<double>(number()); }

std::string Unpacker::text() {
  if (failed_ || rest_.size() < 4 || rest_.size() - 4 < get<std::uint32_t>(rest_)) {
    failed_ = true;
    return {};
  }
  const auto length = get<std::uint32_t>(rest_);
  std::string value(rest_.substr(4, length));
  rest_.remove_prefix(4 + length);
  return value;
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  constexpr std::size_t kBlock = 64;
  std::string block(key.size() > kBlock ? bytes_of_hex(sha256(key)) : std::string(key));
  block.resize(kBlock, '\0');
  std::string inner = block, outer = block;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  return sha256(outer + bytes_of_hex(sha256(inner + std::string(text))));
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned different = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
    different |= static_cast<unsigned>(static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]));
  return different == 0;
}

std::string random_hex(std::size_t bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    while (getrandom(&byte, 1, 0) != 1) {}
    out += "0123456789abcdef"[byte >> 4];
    out += "0123456789abcdef"[byte & 15];
  }
  return out;
}

}  // namespace plan
