// A probe from the first connection to the last point. Tested by tests/hwprobe/probe_ranks_test.cpp.
#include "hwprobe/session/session.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "formulas/keep_errors.hpp"
#include "formulas/names.hpp"
#include "hwprobe/clock.hpp"
#include "hwprobe/fits/fit.hpp"
#include "hwprobe/node/visible.hpp"
#include "hwprobe/ranks/wire.hpp"

namespace plan {
namespace {

constexpr double kOpenSeconds = 60, kLeastPoint = 5;

MeetingRequest request_of(const SessionOptions& options) {
  return {options.identity, options.rendezvous, options.secret, options.folder};
}

}  // namespace

Result<Session> Session::begin(SessionOptions options) {
  Session session;
  Identity& id = options.identity;
  const bool own_children = id.launcher == Launcher::None && id.world > 1;
  Meeting meeting;
  Listener listener;
  if (own_children) {
    id.job_key = "self:" + random_hex(8);
    meeting = {.host = "127.0.0.1", .ports = {0}, .token = random_hex(16), .words = "127.0.0.1"};
  } else if (id.world > 1) {
    Result<Meeting> planned = plan_meeting(request_of(options));
    if (!planned) return tl::unexpected(planned.error());
    meeting = *std::move(planned);
    if (!meeting.authenticated)
      session.note_ =
          "unauthenticated rendezvous (a job-private network is assumed); --rendezvous file:FOLDER or PLAN_PROBE_TOKEN "
          "authenticate";
  }
  if (id.world > 1) {
    Result<Listener> opened = open_listener(meeting, id);
    if (!opened) return tl::unexpected(opened.error());
    listener = *opened;
  }
  if (own_children) {
    Result<Children> children =
        Children::start(id.world, fmt::format("127.0.0.1:{}", listener.port), meeting.token, id.job_key);
    if (!children) return tl::unexpected(children.error());
    session.children_ = *std::move(children);
  }
  bind_to(options.processors);
  Result<Coordinator> gathered = Coordinator::gather(meeting, listener, id, pack_hello(options.hello), options.times);
  clean_up(meeting);
  if (!gathered) return tl::unexpected(gathered.error());
  session.coordinator_ = *std::move(gathered);
  for (const std::string& payload : session.coordinator_->hellos()) {
    Result<RankHello> hello = unpack_hello(payload);
    if (!hello) return tl::unexpected(hello.error());
    session.hellos_.push_back(*std::move(hello));
  }
  Errors errors = inconsistencies(session.hellos_, options.different_gpus);
  Result<RankPlacement> placed = place_ranks(session.hellos_);
  keep_errors(errors, placed);
  if (!errors.empty() && !options.look) {
    session.coordinator_->stop(errors[0].message);
    return fail(std::move(errors));
  }
  session.obstacles_ = std::move(errors);
  if (placed) session.placement_ = *std::move(placed);
  if (!placed) {  // in the launcher's order
    session.placement_.order.resize(session.hellos_.size());
    std::iota(session.placement_.order.begin(), session.placement_.order.end(), 0);
  }
  session.hellos_ = session.in_order(std::move(session.hellos_));
  session.work_ = std::make_shared<RankWork>(options.plugin, options.setup);
  session.options_ = std::move(options);
  return session;
}

std::vector<std::string> Session::names() const {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < hellos_.size(); ++i)
    all.push_back(fmt::format("rank {} ({})", placement_.order[i], hellos_[i].where()));
  return all;
}

Result<std::vector<std::string>> Session::round(const std::string& task, const std::string& title, double deadline_s) {
  std::vector<std::string> by_rank(hellos_.size());
  const std::vector<std::string> placed = names();
  for (std::size_t i = 0; i < placed.size(); ++i) by_rank[static_cast<std::size_t>(placement_.order[i])] = placed[i];
  const auto complaint = [](const std::string& answer) {
    const Result<RankResult> result = unpack_result(answer);
    return result && result->status != PLAN_PROBE_OK ? result->error : std::string();
  };
  auto answers = coordinator_->round(task, title, deadline_s, own_work(work_), by_rank, complaint);
  if (!answers) return tl::unexpected(answers.error());
  return in_order(*std::move(answers));
}

Result<std::vector<plan_probe_device>> Session::open_devices() {
  std::vector<int> place(placement_.order.size());
  for (std::size_t i = 0; i < place.size(); ++i)
    place[static_cast<std::size_t>(placement_.order[i])] = static_cast<int>(i);
  const auto payloads = round(open_task(place), "opening the GPU", kOpenSeconds + options_.times.silence_s);
  if (!payloads) return tl::unexpected(payloads.error());
  std::vector<plan_probe_device> devices;
  for (std::size_t r = 0; r < payloads->size(); ++r) {
    const Result<plan_probe_device> device = unpack_device((*payloads)[r]);
    if (!device) {
      Error error = device.error()[0];
      error.message = fmt::format("{}: {}", names()[r], error.message);
      coordinator_->stop(error.message);
      return fail(std::move(error));
    }
    devices.push_back(*device);
  }
  return devices;
}

Result<void> Session::join_nccl() {
  const std::shared_ptr<Device> device = work_->device();
  const Result<std::string> id = device ? device->unique_id() : fail(Error{"no_nccl", "no device is open"});
  if (!id) return tl::unexpected(id.error());
  const auto payloads = round(join_task(*id), "making the NCCL communicator",
                              60 + 0.1 * options_.identity.world + options_.times.silence_s);
  if (!payloads) return tl::unexpected(payloads.error());
  for (std::size_t r = 0; r < payloads->size(); ++r) {
    const Result<RankResult> result = unpack_result((*payloads)[r]);
    if (!result) return tl::unexpected(result.error());
    if (result->status != PLAN_PROBE_OK)
      return fail(Error{"no_nccl", fmt::format("{}: {}", names()[r], result->error)});
  }
  return {};
}

SessionOutcome Session::measure(const Sweep& sweep, double budget_s, const ShowProgress& show,
                                const Interrupted& interrupted) {
  const auto ask = [this](const SweepPoint& point) {
    return round(measure_task(point.point), point.id,
                 std::max(kLeastPoint, 10 * point.cost_s) + options_.times.silence_s);
  };
  SessionOutcome outcome = run_points(sweep, budget_s, {ask, names(), show, interrupted});
  coordinator_->stop(outcome.failure.empty() ? "" : outcome.failure[0].message);
  return outcome;
}

Result<std::vector<double>> Session::check_transport(int count, int repetitions) {
  std::vector<double> seconds, sum;
  for (int i = 0; i < repetitions; ++i) {
    const auto begin = SteadyClock::now();
    const auto payloads = round(transport_task(count, sum), "transport check", options_.times.silence_s + kLeastPoint);
    if (!payloads) return tl::unexpected(payloads.error());
    seconds.push_back(since(begin));
    sum.assign(static_cast<std::size_t>(count), 0);
    for (std::size_t r = 0; r < payloads->size(); ++r) {
      const std::vector<double> numbers = unpack_numbers((*payloads)[r]);
      if (numbers.size() != sum.size()) {
        Error error{"wrong_sum", fmt::format("{} received a wrong sum: bytes change on the way", names()[r])};
        coordinator_->stop(error.message);
        return fail(std::move(error));
      }
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += numbers[k];
    }
  }
  coordinator_->stop("");
  return seconds;
}

Result<std::string> serve_session(const SessionOptions& options) {
  Result<Meeting> meeting = plan_meeting(request_of(options));
  if (!meeting) return tl::unexpected(meeting.error());
  bind_to(options.processors);
  std::string early;
  const Result<int> descriptor =
      connect_to_coordinator(*meeting, options.identity.rank, pack_hello(options.hello), options.times.join_s, early);
  if (!descriptor) return tl::unexpected(descriptor.error());
  return serve(*descriptor, early, own_work(std::make_shared<RankWork>(options.plugin, options.setup)), options.times);
}

}  // namespace plan
