// `plan diagnose --follow`: a log that still grows, read as it comes, in bounded memory. Tested by
// tests/cli/follow_test.cpp.
#include <fmt/format.h>
#include <sys/stat.h>

#include <array>
#include <chrono>
#include <fstream>
#include <optional>
#include <thread>

#include "cli/commands/diagnose.hpp"
#include "cli/logs/log_read.hpp"
#include "cli/request/flags/probe_options.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/interrupts.hpp"
#include "cli/terminal/output.hpp"
#include "presets/quantity.hpp"

namespace plan {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause{200};  ///< a step takes longer

/// How long to follow, and how often to speak.
struct Pace {
  double seconds = 0;  ///< 0: until the run ends
  std::int64_t every = 10;
};

Result<Pace> pace_of(const Args& args) {
  Pace pace;
  if (args.duration) {
    const Result<double> seconds = read_duration("--for", *args.duration);
    if (!seconds) return fail(seconds.error());
    pace.seconds = *seconds;
  }
  if (args.every) {
    const std::optional<double> steps = parse_number(*args.every);
    if (!steps || !(*steps >= 1 && *steps <= 1e9))
      return fail(Error{
          "bad_value", fmt::format("`--every {}` is no number of steps", *args.every), {}, {"write `--every 10`"}});
    pace.every = static_cast<std::int64_t>(*steps);
  }
  return pace;
}

/// The bytes that a file gained since it was last looked at. One that became shorter was begun again.
class Tail {
 public:
  explicit Tail(std::string path) : path_(std::move(path)) {}
  [[nodiscard]] bool there() const {
    struct stat facts {};
    return ::stat(path_.c_str(), &facts) == 0;
  }
  /// Hands on all that is new, and says whether anything was.
  template <class Take>
  bool read(const Take& take) {
    struct stat facts {};
    if (::stat(path_.c_str(), &facts) != 0) return false;
    if (!in_.is_open() || facts.st_ino != node_ || (S_ISREG(facts.st_mode) && facts.st_size < at_)) {
      in_ = std::ifstream(path_, std::ios::binary);
      node_ = facts.st_ino, at_ = 0;
    }
    in_.clear();
    bool any = false;
    while (!SignalWatch::interrupted() && (in_.read(buffer_.data(), buffer_.size()) || in_.gcount() > 0)) {
      at_ += in_.gcount(), any = true;
      take(std::string_view(buffer_.data(), static_cast<std::size_t>(in_.gcount())));
    }
    return any;
  }

 private:
  std::string path_;
  std::ifstream in_{};
  ino_t node_ = 0;
  off_t at_ = 0;
  std::array<char, 1 << 16> buffer_{};
};

std::int64_t steps_of(const MeasuredLog& log) {
  std::int64_t most = 0;
  for (const LogFigure figure : {LogFigure::StepTime, LogFigure::TokensPerSecondGpu, LogFigure::TokensPerSecond,
                                 LogFigure::SamplesPerSecond, LogFigure::TokensPerSecondSoFar})
    if (const Series* series = log.find(figure)) most = std::max(most, series->count());
  return most;
}

/// One line of what is known by now: for a file, a pipe, the log of a batch system.
std::string run_line(const DiagnosisReport& report) {
  if (!report.step) return "no step yet\n";
  const Estimate& planned = report.plan.best;
  const double step = report.step->median, slower = step / planned.step_time.value;
  std::string out = fmt::format("{} steps  {} a step ± {:.1f} %  {} of predicted  MFU {:.1f} %",
                                steps_of(report.logs.front()), seconds_text(Seconds(step)), 100 * report.step->spread,
                                signed_percent(slower - 1), 100 * planned.mfu.model_causal / slower);
  for (const MemoryCompared& memory : report.memory)
    out += fmt::format("  {} {}", memory.kind, memory_text(round_bytes(memory.measured)));
  if (const auto skipped = report.logs.front().skipped(); skipped && *skipped > 0)
    out += fmt::format("  {:.0f} skipped", *skipped);
  if (const Series* none = report.logs.front().find(LogFigure::NotNumber); none != nullptr && none->sum() > 0)
    out += fmt::format("  {:.0f} without a number as loss", none->sum());
  if (report.diagnosis.worst)
    out += fmt::format("  {} stands out", kObservableNames[static_cast<std::size_t>(*report.diagnosis.worst)]);
  return out + "\n";
}

/// What one look at the log found out; the job is looked for until the log has said it.
class Follower {
 public:
  Follower(const Args& args, Streams& streams) : args_(args), streams_(streams), reader_(args.log.front()) {}

  void take(std::string_view bytes) { reader_.take_bytes(bytes); }

  /// Errors end the following. `last`: nothing more will come, so the report itself is due.
  Errors speak(std::int64_t every, bool last) {
    MeasuredLog log = reader_.so_far();
    ended_ = log.ended || log.out_of_memory.has_value();
    const std::int64_t steps = steps_of(log);
    if (!last && steps < said_ + every) return {};
    if (!planned_) {
      Result<DiagnosisReport> planned = planned_report(args_);
      if (!planned) return planned.error();
      planned_ = std::move(*planned);
    }
    DiagnosisReport report = *planned_;
    std::vector<MeasuredLog> logs;
    if (steps > 0 || log.out_of_memory) logs.push_back(std::move(log));
    if (Errors errors = measure_report(args_, job_logs(std::move(logs), report.plan.problem), report); !errors.empty())
      return errors;
    said_ = steps;
    if (last)
      streams_.out += diagnosis_in_format(args_, report, streams_.out_terminal);
    else if (for_people_now())
      say(streams_.out_terminal.tty ? "\x1b[H\x1b[2J" + diagnosis_text(report, streams_.out_terminal)
                                    : run_line(report));
    return {};
  }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  /// Other formats are one document, which is due at the end.
  [[nodiscard]] bool for_people_now() const {
    return !args_.quiet && !args_.output && !args_.json && args_.format.value_or("human") == "human";
  }
  void say(const std::string& text) {
    if (streams_.write_now)
      streams_.write_now(text);
    else
      streams_.out += text;
  }

  const Args& args_;
  Streams& streams_;
  LogReader reader_;
  std::optional<DiagnosisReport> planned_{};
  std::int64_t said_ = 0;
  bool ended_ = false;
};

}  // namespace

int follow_log(const Args& args, Streams& streams) {
  const Result<Pace> pace = pace_of(args);
  if (!pace) return report_errors(pace.error(), streams);
  const SignalWatch watch;
  const Clock::time_point begin = Clock::now();
  Tail tail(args.log.front());
  Follower follower(args, streams);
  const auto over = [&] {
    return SignalWatch::interrupted() || follower.ended() ||
           (pace->seconds > 0 && std::chrono::duration<double>(Clock::now() - begin).count() >= pace->seconds);
  };
  for (;;) {
    const bool more = tail.read([&](std::string_view bytes) { follower.take(bytes); });
    if (more)
      if (const Errors errors = follower.speak(pace->every, false); !errors.empty())
        return report_errors(errors, streams);
    if (over()) break;
    if (!more) std::this_thread::sleep_for(kPause);
  }
  if (!tail.there()) return report_errors({{"cannot_read", args.log.front() + " did not appear"}}, streams);
  if (const Errors errors = follower.speak(pace->every, true); !errors.empty()) return report_errors(errors, streams);
  return SignalWatch::interrupted() ? kInterrupted : kYes;
}

}  // namespace plan
