#pragma once

#include <string>
#include <string_view>

#include "planner/estimate/budget.hpp"

namespace plan {

/// Why a text is no limit: the predicate of a message, the part of the text that it is about, and what to write.
struct LimitMistake {
  std::string code{};
  std::string problem{};
  std::size_t offset = 0, length = 0;
  std::string help{};
  std::string meant{};  ///< what the part may stand for with the words of its bound; empty if nothing is near
};

/// "at most 60 GiB", "at least 40 %, warn at least 42 %", "warn at most 6 s"; against a baseline "at most +2 %" or
/// "at most +1 GiB" ("points" for shares). Sets `fail` and `warn` of the limit, or says why not.
[[nodiscard]] tl::expected<Limit, LimitMistake> read_limit(std::string_view text, Metric metric, bool since_baseline);

/// A limit of this metric that a text in other words is meant as: `>= 38%`, `max 60 GiB`, `30 seconds`. Empty where it
/// is none, else one that read_limit() takes.
[[nodiscard]] std::string meant_limit(std::string_view text, Metric metric, bool since_baseline);

/// A figure as people read it, in the metric's unit: "63.0 GiB", "6.31 s", "41.4 %".
[[nodiscard]] std::string figure_text(MetricUnit unit, double value);
/// A difference with its sign: "+8.5 GiB", "-0.18 s", "+1.4 points"; `=` if there is none.
[[nodiscard]] std::string change_text(MetricUnit unit, double change);
/// `a` and `b` as texts that differ if the values do: in full where rounding would hide it.
struct Texts {
  std::string a, b;
};
[[nodiscard]] Texts distinct_texts(MetricUnit unit, double a, double b);

}  // namespace plan
