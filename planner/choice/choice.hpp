#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/answer/plan.hpp"
#include "planner/choice/searches.hpp"
#include "planner/search/search.hpp"

namespace plan {

/// How near an answer is to one that can be started: a framework runs it, and it fits for certain.
enum class Ready { Nothing, PaperAtRisk, Paper, AtRisk, Yes };

/// A search, and the problem that it answers: of `--framework any` the one of the framework that was found.
struct RunnableSearch {
  Problem problem{};
  SearchResult result{};
  bool nothing_runs = false;  ///< no framework runs any layout that fits: the result is on paper alone
  std::int64_t judged = 0;    ///< families that all searches together looked into
  /// Of the fastest step that leaves nothing to the hosts, if this does; 0: nothing fits for certain without.
  Seconds without_hosts{};
  Seconds all_gpus{};            ///< of the fastest step on all GPUs, if `problem` has fewer; 0: nothing fits them
  Ready all_ready = Ready::Yes;  ///< what that was, if `problem` has fewer
};

[[nodiscard]] Ready ready(const RunnableSearch& found);

/// Step of the first of the ranking, which must not be empty.
[[nodiscard]] Seconds fastest_step(const RunnableSearch& found);

/// The job with all that it holds left on the GPUs.
[[nodiscard]] Problem on_gpus(const Problem& problem);

/// MFU below which more memory, or another number of GPUs, may make a job much faster.
inline constexpr double kHardlyBusy = 0.2;
/// Does what fits for certain leave less than half of the GPUs' memory?
[[nodiscard]] bool fills_memory(const RunnableSearch& found);
/// Does it pay for that, with so much work done twice or shared among ranks, or so little of it done at all, that
/// leaving some of it to the host may be worth it?
[[nodiscard]] bool short_of_memory(const RunnableSearch& found);

/// Searches. Each of the frameworks whose software the figures are not of is asked with its own, and the best answer
/// counts if it is better by more than kPriceOfPlainness, or if those run no layout that fits for certain: faster, or
/// smaller where the least memory is wanted. Last comes what nothing runs. What leaves states or activations to the
/// hosts counts where nothing else fits for certain, or where all else is short of memory and takes
/// worth_the_host() times as long. `extent` is of each search.
[[nodiscard]] RunnableSearch find_runnable(const Problem& problem, const Extent& extent = {});
/// The same among other searches of the job.
[[nodiscard]] RunnableSearch find_runnable(const Problem& problem, const Extent& extent, Searches& searches);

/// How many times as fast what leaves something to the hosts has to be than what fits the GPUs.
[[nodiscard]] double worth_the_host(const Problem& problem);

/// The job with what it holds left in host memory, if something fits for certain then and takes `slowest` at most.
[[nodiscard]] RunnableSearch find_offloaded(const Problem& problem, Extent extent, Seconds slowest, Searches& searches);

/// The fastest layout of find_runnable() alone that leaves nothing to the host, if it is no slower than `slowest`
/// seconds and fits for certain; an empty result if not. Of `families` at most.
[[nodiscard]] RunnableSearch find_faster(const Problem& problem, Seconds slowest,
                                         std::int64_t families = Extent{}.families);
[[nodiscard]] RunnableSearch find_faster(const Problem& problem, Seconds slowest, std::int64_t families,
                                         Searches& searches);

/// find_runnable(), on fewer GPUs where those train faster by more than kPriceOfPlainness, where what is recommended
/// for them takes less time than the fastest on all of them, or where all of them have no answer that can be started
/// and fewer have. Nor does what is recommended for all of them take longer than that. Asked for the number that it
/// uses it answers the same.
[[nodiscard]] RunnableSearch find_on_at_most(const Problem& problem);

/// Frameworks of the whole list that run a layout: their rules hold, and under their own software it fits.
[[nodiscard]] std::vector<RunsOn> frameworks_that_run(const Problem& problem, const Layout& layout);

/// What keeps the frameworks that the problem wants from running a layout: the first rule of each that it breaks.
/// Empty if one runs it.
[[nodiscard]] std::string what_it_lacks(const Problem& problem, const Layout& layout);

}  // namespace plan
