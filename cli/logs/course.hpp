#pragma once

#include <algorithm>
#include <vector>

#include "cli/logs/trace.hpp"
#include "planner/runs/diagnosis.hpp"

namespace plan {

/// What a step does, in `kMoments` pieces of equal length: of each the part that most of it belongs to. Made from
/// intervals that follow each other and take `whole` together.
class Course {
 public:
  explicit Course(Seconds whole) : piece_(whole / kMoments) {}

  void add(Observable part, Seconds time) {
    while (time > Seconds() && at_ < pieces_.size()) {
      const Seconds here = std::min(time, piece_ - filled_);
      pieces_[at_][static_cast<std::size_t>(part)] += here.value;
      filled_ += here, time -= here;
      if (time > Seconds() || filled_ >= piece_) ++at_, filled_ = {};
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
  Seconds piece_;
  Seconds filled_{};
  std::size_t at_ = 0;
};

}  // namespace plan
