// Lines of NCCL's log (src/init.cc, src/enqueue.cc of 2.18 to 2.30). Compiled into the measuring plugin, too, so the
// standard library only. Tested by tests/hwprobe/nccl_log_test.cpp.
#include "hwprobe/nccl_log.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "formulas/text.hpp"

namespace plan {
namespace {

constexpr std::array<std::string_view, 7> kAlgorithms{"TREE",      "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS",
                                                      "NVLS_TREE", "PAT"};
constexpr std::array<std::string_view, 3> kProtocols{"LL", "LL128", "SIMPLE"};

/// The word at the beginning of `text`, which moves behind it and its blanks.
std::string_view take_word(std::string_view& text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

std::optional<std::int64_t> number(std::string_view word) {
  const std::optional<std::int64_t> value = as_number<std::int64_t>(word);
  return value && *value >= 0 ? value : std::nullopt;
}

template <std::size_t N>
std::string named(std::string_view word, const std::array<std::string_view, N>& names) {
  const auto index = number(word);
  return std::string(index && *index < static_cast<std::int64_t>(N) ? names[static_cast<std::size_t>(*index)] : word);
}

/// The number in front of " `what`", 0 if it is not there.
int count_before(std::string_view line, std::string_view what) {
  const std::size_t at = line.find(what);
  if (at == std::string_view::npos || at == 0) return 0;
  const std::size_t begin = line.substr(0, at).find_last_not_of("0123456789");
  const std::size_t first = begin == std::string_view::npos ? 0 : begin + 1;
  return static_cast<int>(number(line.substr(first, at - first)).value_or(0));
}

}  // namespace

std::optional<NcclChoice> read_nccl_choice(std::string_view line) {
  constexpr std::string_view kArrow = " Bytes -> Algo ";
  const std::size_t arrow = line.find(kArrow);
  if (arrow == std::string_view::npos) return std::nullopt;
  const std::size_t colon = line.rfind(": ", arrow);
  if (colon == std::string_view::npos) return std::nullopt;
  const std::size_t before = line.substr(0, colon).find_last_of(' ');
  const auto bytes = number(line.substr(colon + 2, arrow - colon - 2));
  std::string_view rest = line.substr(arrow + kArrow.size());
  const std::string_view algorithm = take_word(rest), word = take_word(rest), protocol = take_word(rest);
  if (!bytes || word != "proto" || protocol.empty()) return std::nullopt;
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return NcclChoice{std::string(line.substr(begin, colon - begin)), *bytes, named(algorithm, kAlgorithms),
                    named(protocol, kProtocols)};
}

std::optional<NcclChannels> read_nccl_channels(std::string_view line) {
  const NcclChannels found{count_before(line, " coll channels"), count_before(line, " nvls channels"),
                           count_before(line, " p2p channels")};
  if (found.collective == 0 && found.p2p == 0) return std::nullopt;
  return found;
}

}  // namespace plan
