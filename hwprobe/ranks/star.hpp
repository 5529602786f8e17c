#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "formulas/result.hpp"
#include "hwprobe/ranks/rendezvous.hpp"
#include "hwprobe/ranks/worker.hpp"

namespace plan {

/// How long ranks may be silent and how long they may take to join.
struct StarTimes {
  double silence_s = 10;
  double join_s = 120;
  std::function<bool()> interrupted{};  ///< asked while waiting: has this process been asked to end?
};

/// Why an answer is that of a rank that failed; empty if it is not.
using Complaint = std::function<std::string(const std::string& answer)>;

/// Rank 0: hears every other rank, hands out tasks, and names the rank that does not answer.
class Coordinator {
 public:
  /// Waits until all ranks of the job are connected. `where` of a rank, for messages, is the text that its hello holds.
  [[nodiscard]] static Result<Coordinator> gather(const Meeting& meeting, Listener listener, const Identity& identity,
                                                  const std::string& own_hello, StarTimes times);
  Coordinator(Coordinator&&) noexcept;
  Coordinator& operator=(Coordinator&&) noexcept;
  ~Coordinator();

  /// What each rank said of itself.
  [[nodiscard]] const std::vector<std::string>& hellos() const;

  /// Gives every rank the task and returns their results by rank. A rank that ends, falls silent, or needs longer than
  /// `deadline_s` is an error that names it by `names`; the others are asked to stop. Where some have answered by then,
  /// `complaint` says of an answer why that rank failed, empty if it did not: it, not who waits for it, is to blame.
  [[nodiscard]] Result<std::vector<std::string>> round(const std::string& task, const std::string& title,
                                                       double deadline_s, const OwnWork& own,
                                                       const std::vector<std::string>& names,
                                                       const Complaint& complaint = {});

  /// Tells everyone that it is over; an empty reason is a good end.
  void stop(const std::string& reason);

 private:
  struct State;
  explicit Coordinator(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Another rank: does what rank 0 says until it says stop. The result is the reason of the stop, empty if all went
/// well; a rank 0 that ends or falls silent is an error.
[[nodiscard]] Result<std::string> serve(int descriptor, const std::string& early_bytes, const OwnWork& own,
                                        StarTimes times);

}  // namespace plan
