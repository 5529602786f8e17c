// Layouts that rules reject, counted by rule. Tested by tests/planner/search_test.cpp.
#include "planner/search/enumerate.hpp"

#include "planner/rules/rules.hpp"

namespace plan {

void Tally::reject(int rule, std::int64_t layouts) {
  if (by_rule_.empty()) by_rule_.resize(rules().size());
  by_rule_[static_cast<std::size_t>(rule)] += layouts;
}

void Tally::merge(const Tally& other) {
  if (other.by_rule_.empty()) return;
  if (by_rule_.empty()) by_rule_.resize(rules().size());
  for (std::size_t i = 0; i < other.by_rule_.size(); ++i) by_rule_[i] += other.by_rule_[i];
}

std::int64_t Tally::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : by_rule_) sum += count;
  return sum;
}

std::vector<Rejected> Tally::rows() const {
  std::vector<Rejected> rows;
  for (std::size_t i = 0; i < by_rule_.size(); ++i)
    if (by_rule_[i] > 0) rows.push_back({std::string(rules()[i].code), by_rule_[i]});
  return rows;
}

}  // namespace plan
