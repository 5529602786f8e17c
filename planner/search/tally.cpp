// Layouts that rules reject, counted by rule. Tested by tests/planner/search_test.cpp.
#include "planner/search/enumerate.hpp"

#include <algorithm>

#include "planner/rules/rules.hpp"

namespace plan {

void Tally::reject(int rule, std::int64_t layouts) {
  const auto found = std::find_if(by_rule_.begin(), by_rule_.end(), [&](const auto& row) { return row.first == rule; });
  if (found != by_rule_.end())
    found->second += layouts;
  else
    by_rule_.emplace_back(rule, layouts);
}

void Tally::merge(const Tally& other, std::int64_t times) {
  for (const auto& [rule, layouts] : other.by_rule_) reject(rule, times * layouts);
}

std::int64_t Tally::total() const {
  std::int64_t sum = 0;
  for (const auto& row : by_rule_) sum += row.second;
  return sum;
}

std::vector<Rejected> Tally::rows() const {
  auto sorted = by_rule_;
  std::sort(sorted.begin(), sorted.end());
  std::vector<Rejected> rows;
  for (const auto& [rule, layouts] : sorted)
    if (layouts > 0) rows.push_back({std::string(rules()[static_cast<std::size_t>(rule)].code), layouts});
  return rows;
}

}  // namespace plan
