#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hwprobe/node/discover.hpp"
#include "hwprobe/ranks/star.hpp"
#include "hwprobe/session/placement.hpp"
#include "hwprobe/session/rank_work.hpp"
#include "hwprobe/session/run_points.hpp"
#include "hwprobe/start/self_launch.hpp"

namespace plan {

/// A job of ranks, seen from one of them.
struct SessionOptions {
  Identity identity{};
  std::string rendezvous{}, secret{}, folder{"."};
  StarTimes times{};
  std::string plugin{};
  DeviceSetup setup{};
  RankHello hello{};
  std::vector<int> processors{};  ///< that this process is bound to once it has started the others
  bool different_gpus = false;    ///< measured together all the same
  bool look = false;              ///< nothing is to be measured: obstacles are listed, not failures
};

/// Rank 0 of a job whose ranks have all joined.
class Session {
 public:
  /// Meets the other ranks, starting them where no launcher did (`world` of `options.identity` above 1 without one).
  [[nodiscard]] static Result<Session> begin(SessionOptions options);

  /// In the order in which collectives number them, as are the answers of all ranks.
  [[nodiscard]] const std::vector<RankHello>& ranks() const { return hellos_; }
  [[nodiscard]] const RankPlacement& placement() const { return placement_; }
  [[nodiscard]] const std::string& note() const { return note_; }
  /// What keeps these ranks from measuring together, where `look` let them meet all the same.
  [[nodiscard]] const Errors& obstacles() const { return obstacles_; }

  /// Opens every rank's device. The error names the rank that cannot.
  [[nodiscard]] Result<std::vector<plan_probe_device>> open_devices();
  /// Makes one NCCL world of them; false with the reason where there is no NCCL.
  [[nodiscard]] Result<void> join_nccl();
  [[nodiscard]] SessionOutcome measure(const Sweep& sweep, double budget_s, const ShowProgress& show,
                                       const Interrupted& interrupted);

  /// Host buffers reduced over the control connections: seconds of each repetition of `count` numbers.
  [[nodiscard]] Result<std::vector<double>> check_transport(int count, int repetitions);

  void stop(const std::string& reason) { coordinator_->stop(reason); }

 private:
  Session() = default;
  [[nodiscard]] Result<std::vector<std::string>> round(const std::string& task, const std::string& title,
                                                       double deadline_s);
  [[nodiscard]] std::vector<std::string> names() const;
  /// What is listed by rank of the launcher, by rank of the collectives.
  template <class T>
  std::vector<T> in_order(std::vector<T> by_rank) const {
    std::vector<T> all;
    for (const int rank : placement_.order) all.push_back(std::move(by_rank[static_cast<std::size_t>(rank)]));
    return all;
  }

  SessionOptions options_{};
  std::shared_ptr<RankWork> work_{};
  std::optional<Children> children_{};
  std::optional<Coordinator> coordinator_{};
  std::vector<RankHello> hellos_{};
  RankPlacement placement_{};
  std::string note_{};
  Errors obstacles_{};
};

/// Another rank than 0: finds rank 0 and serves it. The result is why it was asked to stop, empty if all went well.
[[nodiscard]] Result<std::string> serve_session(const SessionOptions& options);

}  // namespace plan
