#pragma once

#include <string>
#include <tl/expected.hpp>  // std::expected for C++20; swap when g++ 12 is no longer the floor
#include <utility>
#include <vector>

namespace plan {

/// Where in a file a mistake is. `line` and `column` count from 1; 0 means the whole file.
struct Place {
  std::string file;
  int line = 0;
  int column = 0;
  int length = 1;
  std::string text;  ///< the line as written, for the caret underneath
  bool operator==(const Place&) const = default;
};

/// What went wrong. `message` states the fact, `help` alone suggests, `code` is stable for scripts.
/// A computed change that works: what to type, and what then comes out.
struct Change {
  std::string flags{};   ///< --gpus 16
  std::string layout{};  ///< tp 8  cp 1  pp 2  dp 1
  std::string memory{};  ///< 71.2 of 79.6 GiB
  bool operator==(const Change&) const = default;
};

struct Error {
  std::string code;
  std::string message;
  std::vector<std::string> facts{};  ///< further `=` lines: what led to it
  std::vector<std::string> help{};   ///< each one a change that works
  Place place{};
  bool of_launch_file = false;    ///< its words are a launch file's own, however they look
  std::vector<Change> changes{};  ///< help that was computed, the smallest first
  bool operator==(const Error&) const = default;
};

/// All mistakes of one input, so that a user mends them in one go. Never empty in a failed Result.
using Errors = std::vector<Error>;

template <class T>
using Result = tl::expected<T, Errors>;

inline tl::unexpected<Errors> fail(Error error) { return tl::unexpected<Errors>(Errors{std::move(error)}); }
inline tl::unexpected<Errors> fail(Errors errors) { return tl::unexpected<Errors>(std::move(errors)); }

}  // namespace plan
