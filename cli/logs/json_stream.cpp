// A reader of JSON for traces, which are mostly arguments of kernels that nobody asks for: parsing them into values, as
// libraries do, takes several times as long as finding their end. Tested by
// tests/logs/trace_test.cpp.
#include "cli/logs/json_stream.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

namespace plan {
namespace {

constexpr int kDeepest = 64;

bool blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

bool JsonStream::fill() {
  before_ += static_cast<std::int64_t>(end_);
  const int n = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
  at_ = 0, end_ = n > 0 ? static_cast<std::size_t>(n) : 0;
  return end_ > 0;
}

bool JsonStream::wrong(std::string_view what) {
  if (error_.empty())
    error_ = "byte " + std::to_string(before_ + static_cast<std::int64_t>(at_)) + ": " + std::string(what);
  return false;
}

char JsonStream::peek() {
  for (;;) {
    while (at_ < end_ && blank(buffer_[at_])) ++at_;
    if (at_ < end_) return buffer_[at_];
    if (!fill()) return 0;
  }
}

bool JsonStream::take(char wanted) {
  if (peek() != wanted) return false;
  ++at_;
  return true;
}

bool JsonStream::text(std::string& out, std::size_t most) {
  out.clear();
  if (!take('"')) return wrong();
  for (;;) {
    std::size_t stop = at_;
    while (stop < end_ && buffer_[stop] != '"' && buffer_[stop] != '\\') ++stop;
    out.append(buffer_.data() + at_, std::min(stop - at_, most - std::min(most, out.size())));
    at_ = stop;
    if (at_ == end_) {
      if (!fill()) return wrong();
      continue;
    }
    if (buffer_[at_++] == '"') return true;
    if (at_ == end_ && !fill()) return wrong();
    const char escaped = buffer_[at_++];
    if (out.size() < most) out += std::strchr("\"\\/", escaped) != nullptr && escaped != 0 ? escaped : '?';
  }
}

bool JsonStream::skip_text() {
  if (!take('"')) return wrong();
  for (;;) {
    while (at_ < end_ && buffer_[at_] != '"' && buffer_[at_] != '\\') ++at_;
    if (at_ == end_) {
      if (!fill()) return wrong();
      continue;
    }
    if (buffer_[at_++] == '"') return true;
    if (at_ == end_ && !fill()) return wrong();
    ++at_;
  }
}

bool JsonStream::number(double& out) {
  std::array<char, 64> digits{};
  std::size_t size = 0;
  static_cast<void>(peek());
  for (;;) {
    while (at_ < end_ && size < digits.size() && std::strchr("+-.eE0123456789", buffer_[at_]) != nullptr &&
           buffer_[at_] != 0)
      digits[size++] = buffer_[at_++];
    if (at_ < end_ || size == digits.size() || !fill()) break;
  }
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + size, out);
  return (error == std::errc() && stop == digits.data() + size) || wrong("not a number");
}

bool JsonStream::skip() {
  int depth = 0;
  for (;;) {
    const char c = peek();
    if (c == '"') {
      if (!skip_text()) return false;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return wrong("nested too deeply");
      ++at_;
    } else if (c == '}' || c == ']') {
      if (--depth < 0) return wrong();
      ++at_;
    } else if (c == ',' || c == ':') {
      if (depth == 0) return wrong();
      ++at_;
      continue;
    } else if (c == 0) {
      return wrong();
    } else {  // a number, true, false, null
      while (at_ < end_ && std::strchr(",:]}[{\" \n\r\t", buffer_[at_]) == nullptr) ++at_;
      while (at_ == end_ && fill())
        while (at_ < end_ && std::strchr(",:]}[{\" \n\r\t", buffer_[at_]) == nullptr) ++at_;
    }
    if (depth == 0) return true;
  }
}

}  // namespace plan
