#pragma once

#include <zlib.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace plan {

/// Tokens of a JSON file of any length, also compressed, a value at a time: what nobody asks for is skipped without
/// being looked at. Lenient in what it skips; every call returns false at the first mistake, or at the end of a file
/// that was cut, and `error` then says where.
class JsonStream {
 public:
  explicit JsonStream(const std::string& path) : file_(gzopen(path.c_str(), "rb"), gzclose) {}
  [[nodiscard]] bool open() const { return file_ != nullptr; }
  [[nodiscard]] const std::string& error() const { return error_; }

  /// The first character of the next value, blanks passed over; 0 at the end.
  [[nodiscard]] char peek();
  /// Takes that character if it is `wanted`.
  [[nodiscard]] bool take(char wanted);
  /// A text, cut to `most` bytes. Escapes of letters outside ASCII become `?`.
  [[nodiscard]] bool text(std::string& out, std::size_t most = 4096);
  [[nodiscard]] bool number(double& out);
  [[nodiscard]] bool skip();

  /// Calls `member(key)` for each member of an object, which takes or skips the value and returns whether it could.
  template <class Member>
  [[nodiscard]] bool object(const Member& member) {
    if (!take('{')) return wrong();
    if (peek() == '}') return take('}');
    std::string key;
    do {
      if (!text(key) || !take(':') || !member(std::string_view(key))) return wrong();
    } while (take(','));
    return take('}') || wrong();
  }
  /// Calls `element()` for each element of an array, likewise.
  template <class Element>
  [[nodiscard]] bool array(const Element& element) {
    if (!take('[')) return wrong();
    if (peek() == ']') return take(']');
    do {
      if (!element()) return wrong();
    } while (take(','));
    return take(']') || wrong();
  }

 private:
  [[nodiscard]] bool fill();
  [[nodiscard]] bool skip_text();
  [[nodiscard]] bool wrong(std::string_view what = "not JSON here, or cut");

  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::string error_{};
  std::array<char, 1 << 18> buffer_{};
  std::size_t at_ = 0, end_ = 0;
  std::int64_t before_ = 0;  ///< bytes of the file before the buffer
};

}  // namespace plan
