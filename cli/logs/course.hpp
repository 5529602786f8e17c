#pragma once

#include <algorithm>
#include <vector>

#include "cli/logs/trace.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// What a step does, in `kMoments` pieces of equal length: of each the part that most of it belongs to. Made from
/// intervals that follow each other and are `whole` seconds together.
class Course {
 public:
  explicit Course(double whole) : piece_(whole / kMoments) {}

  void add(Observable part, double seconds) {
    while (seconds > 0 && at_ < pieces_.size()) {
      const double here = std::min(seconds, piece_ - filled_);
      pieces_[at_][static_cast<std::size_t>(part)] += here;
      filled_ += here, seconds -= here;
      if (seconds > 0 || filled_ >= piece_) ++at_, filled_ = 0;
    }
  }

  [[nodiscard]] std::vector<Observable> parts() const {
    std::vector<Observable> out;
    for (const StepParts& piece : pieces_)
      out.push_back(static_cast<Observable>(std::max_element(piece.begin() + 1, piece.end()) - piece.begin()));
    return out;
  }

 private:
  std::vector<StepParts> pieces_ = std::vector<StepParts>(kMoments);
  double piece_;
  double filled_ = 0;
  std::size_t at_ = 0;
};

}  // namespace plan
