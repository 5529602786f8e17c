// The measuring side of `plan probe`. Tested by tests/hwprobe/probe_ranks_test.cpp, which runs the program.
#include "cli/commands/probe_run.hpp"

#include <fmt/core.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "cli/report/plan/json.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/format.hpp"
#include "cli/terminal/interrupts.hpp"
#include "cli/terminal/output.hpp"
#include "cli/terminal/terminal.hpp"
#include "hwprobe/node/libraries.hpp"
#include "hwprobe/node/visible.hpp"
#include "presets/hardware.hpp"

namespace plan {
namespace {

constexpr double kJoinOverSilence = 12;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string date_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string folder_of(const Args& args) {
  const std::string folder = args.output ? std::filesystem::path(*args.output).parent_path().string() : std::string();
  return folder.empty() ? "." : folder;
}

/// One line that is written over on a terminal; without one, as under a batch system, a line a section.
ShowProgress progress_on(const Streams& streams) {
  if (streams.quiet) return {};
  if (!streams.err_terminal.tty)
    return [last = std::string()](const SessionProgress& p) mutable {
      if (p.section == last) return;
      last = p.section;
      static_cast<void>(
          write_all(STDERR_FILENO, fmt::format("probe: {}, from point {} of {}, {:.0f} s left\n", p.section, p.done + 1,
                                               p.all, std::max(0.0, p.seconds_left))));
    };
  return [&terminal = streams.err_terminal](const SessionProgress& p) {
    const double share = p.all > 0 ? static_cast<double>(p.done) / static_cast<double>(p.all) : 0;
    const std::string done = bar(terminal, 10 * share);
    const std::string line = fmt::format("probe {}/{}  {:<34.34}  {:<10}  {:.0f} s left", p.done + 1, p.all, p.what,
                                         done, std::max(0.0, p.seconds_left));
    static_cast<void>(write_all(STDERR_FILENO, progress_line(line)));
  };
}

/// GPUs that others use give figures that mean little.
Errors busy_ranks(const std::vector<RankHello>& ranks) {
  for (const RankHello& rank : ranks)
    if (!rank.busy.empty())
      return {{"busy",
               fmt::format("the GPU of {} is in use: {}", rank.where(), rank.busy),
               {},
               {"wait for them to end, or measure anyway with --allow-busy"}}};
  return {};
}

JobFacts facts_of(const SessionOptions& session, const Machine& machine, const std::vector<plan_probe_device>& devices,
                  const Session& job, const Cluster& expected) {
  const std::vector<RankHello>& ranks = job.ranks();
  JobFacts facts;
  facts.name = machine.host;
  const plan_probe_device& d = devices.front();
  facts.gpu = {.model = d.name,
               .preset = preset_of_device(d.name, static_cast<double>(d.total_bytes) / kGiB),
               .compute_capability = d.capability,
               .sm_count = d.sm_count};
  facts.gpu.l2_mib = static_cast<double>(d.l2_bytes) / kMiB;
  facts.memory = {.total_gib = static_cast<double>(d.total_bytes) / kGiB,
                  .usable_gib = 0,
                  .context_gib = 0,
                  .cublas_workspace_gib = 0,
                  .prov = "m1"};
  facts.ranks = static_cast<int>(ranks.size());
  facts.ranks_per_node = job.placement().per_domain;
  facts.nodes = job.placement().domains;
  facts.host_gpus = machine.host_gpus;
  facts.host_memory_gib = machine.host_memory_gib;
  facts.expected = expected;
  facts.source = {.id = "m1",
                  .tool = "plan " PLAN_VERSION,
                  .date_utc = date_utc(),
                  .driver = machine.driver,
                  .cuda_runtime = d.runtime,
                  .nccl = d.nccl,
                  .launcher = std::string(name(session.identity.launcher)),
                  .nccl_env = ranks.front().environment,
                  .host_count = job.placement().hosts,
                  .gpu_count = facts.ranks};
  if (!machine.gpus.empty()) {
    const GpuFacts& gpu = machine.gpus.front();
    facts.gpu.pci_device_id = gpu.pci_device_id;
    facts.host_link = {.kind = gpu.pcie_gen_max > 0 ? "pcie" : "", .gen = gpu.pcie_gen, .width = gpu.pcie_width};
  }
  for (const RankHello& rank : ranks) facts.where.push_back(rank.where());
  return facts;
}

/// Why no point could be measured, if none was: of a GPU for which the plugin holds no code, the driver's words.
Errors nothing_measured(const SessionOutcome& measured) {
  for (const Observation& o : measured.observations)
    if (o.planned.point.kind != PLAN_PROBE_MEMORY && o.planned.point.kind != PLAN_PROBE_NCCL_MEMORY) return {};
  for (const ProfileSkip& skip : measured.skipped)
    if (skip.reason != "budget")
      return {{"nothing_measured", fmt::format("no point could be measured; `{}`: {}", skip.what, skip.reason)}};
  return {};
}

/// Several ranks on one GPU happen in tests of the probe itself; the planner refuses what they measured.
bool shared_gpu(const std::vector<plan_probe_device>& devices) {
  for (std::size_t a = 0; a < devices.size(); ++a)
    for (std::size_t b = a + 1; b < devices.size(); ++b)
      if (*devices[a].uuid != 0 && std::string_view(devices[a].uuid) == devices[b].uuid) return true;
  return false;
}

}  // namespace

SessionOptions session_options(const Args& args, const ProbeOptions& options, const Identity& identity,
                               const Machine& machine, const std::string& plugin) {
  SessionOptions session{.identity = identity};
  session.rendezvous = args.rendezvous.value_or(variable("PLAN_RENDEZVOUS"));
  session.secret = variable("PLAN_PROBE_TOKEN");
  session.folder = folder_of(args);
  session.times = {options.timeout_s, kJoinOverSilence * options.timeout_s, [] { return SignalWatch::interrupted(); }};
  session.different_gpus = args.allow_different;
  session.plugin = plugin;
  const int gpus = static_cast<int>(machine.gpus.size());
  const int gpu = gpus > 0 ? identity.local_rank % gpus : -1;  // of those that this process sees
  session.setup = {.device = std::max(0, gpu),
                   .rank = identity.rank,
                   .world = identity.world,
                   .local_rank = identity.local_rank,
                   .local_world = identity.local_world};
  const Variables variables = process_variables();
  session.setup.nccl_library = find_library(Vendor::Nccl, args.nccl_lib.value_or(""), variables, machine.maker);
  if (machine.maker == Maker::Nvidia)
    session.setup.cudnn_library = find_library(Vendor::Cudnn, args.cudnn_lib.value_or(""), variables);
  session.setup.cublas_library = find_library(Vendor::CublasLt, args.cublas_lib.value_or(""), variables, machine.maker);
  session.setup.timeout_s = options.timeout_s;
  session.hello = {.version = PLAN_VERSION,
                   .host = variable("NCCL_HOSTID").empty() ? machine.host : variable("NCCL_HOSTID"),  // as NCCL does
                   .gpu = gpu,
                   .local_rank = identity.local_rank,
                   .driver = machine.driver,
                   .environment = network_environment()};
  if (gpu >= 0 && !args.transport_check) {
    const GpuFacts& own = machine.gpus[static_cast<std::size_t>(gpu)];
    session.hello.gpu = own.index;
    session.hello.gpu_name = own.name;
    session.hello.clique = own.clique;
    session.hello.busy = busy_with(own);
    session.processors = processors_beside(own);
    session.hello.processors = static_cast<int>(session.processors.size());
    if (variable("NCCL_MULTI_RANK_GPU_ENABLE").empty() && variable("NCCL_HOSTID").empty())
      session.hello.gpu_uuid = own.uuid;
  }
  return session;
}

namespace {

/// A rank and NCCL's threads share the fewest cores of a rank.
void warn_of_few_cores(const std::vector<RankHello>& ranks, std::vector<ProfileWarning>& warnings) {
  const auto fewest = std::min_element(ranks.begin(), ranks.end(),
                                       [](const auto& x, const auto& y) { return x.processors < y.processors; });
  if (ranks.size() > 1 && fewest->processors < kFewProcessors)
    warnings.push_back({"FEW_CORES", fewest->where(),
                        fmt::format("{} core{} for this rank and NCCL's threads: --cpus-per-task={}, --cpu-bind=none",
                                    fewest->processors, fewest->processors == 1 ? "" : "s", kFewProcessors)});
}

/// Whether all of `points` were measured, and else why not.
void conclude(const SessionOutcome& measured, std::size_t points, ProbeOutcome& outcome) {
  outcome.interrupted = measured.interrupted;
  outcome.profile.partial = outcome.interrupted || !outcome.failure.empty();
  if (outcome.profile.partial)
    outcome.profile.stopped = outcome.interrupted ? "interrupted" : outcome.failure[0].message;
  if (!outcome.failure.empty())
    outcome.failure[0].facts.push_back(
        fmt::format("{} of {} points were measured until then", measured.observations.size(), points));
}

/// What the sweep, the ranks beside each other and the machine warn of.
void add_warnings(const SessionOutcome& measured, const Session& session, const Machine& machine,
                  std::vector<ProfileWarning>& warnings) {
  warnings.insert(warnings.end(), measured.warnings.begin(), measured.warnings.end());
  for (const std::string& text : differences(session.ranks())) warnings.push_back({"DIFFERENT", "job", text});
  warn_of_few_cores(session.ranks(), warnings);
  for (const MachineFinding& f : findings(machine)) warnings.push_back({f.code, f.where, f.text});
}

/// Why ranks cannot send to each other, and nothing where they can; an error where a rank is lost.
Result<std::string> why_no_nccl(Session& session) {
  const Result<void> joined = session.join_nccl();
  if (joined) return std::string();
  if (joined.error()[0].code == "rank_failed") return tl::unexpected(joined.error());
  return joined.error()[0].message;
}

/// The facts of the job with what only the measurement shows.
JobFacts measured_facts(JobFacts facts, const SessionOutcome& measured, double budget_s,
                        const std::optional<HardwareProfile>& earlier) {
  // Links of idle GPUs fall back to an older generation: what counts is seen while they still are warm.
  const Machine after = discover();
  if (!after.gpus.empty()) facts.host_link.gen = std::max(facts.host_link.gen, after.gpus.front().pcie_gen);
  facts.source.budget_s = budget_s;
  if (earlier) facts.source.id = fmt::format("m{}", earlier->provenance.size() + 1);
  facts.conditions = measured.conditions;
  return facts;
}

}  // namespace

Result<ProbeOutcome> run_measurement(const Args& args, const ProbeOptions& options,
                                     const SessionOptions& session_options, const Machine& machine, Streams& streams) {
  const SignalWatch watch;
  streams.leave_at_once = true;  // drivers and NCCL's threads may hang in a way that no orderly end survives
  Result<Session> session = Session::begin(session_options);
  if (!session) return tl::unexpected(session.error());
  if (!session->note().empty() && !streams.quiet)
    streams.err += "note: " + wrap(session->note(), streams.err_terminal.width, 6) + "\n";
  if (Errors busy = busy_ranks(session->ranks()); !busy.empty() && !args.allow_busy) {
    session->stop(busy[0].message);
    return fail(std::move(busy));
  }
  const auto devices = session->open_devices();
  if (!devices) return tl::unexpected(devices.error());
  const plan_probe_device& d = devices->front();
  const Result<Cluster> expected =
      expected_cluster(options, d.name, static_cast<double>(d.total_bytes) / kGiB, StoreOptions::from_environment());
  if (!expected) return tl::unexpected(expected.error());
  const JobFacts plain = facts_of(session_options, machine, *devices, *session, *expected);
  const Result<std::string> no_nccl = why_no_nccl(*session);
  if (!no_nccl) return tl::unexpected(no_nccl.error());
  SweepRequest request = sweep_request(options, *expected, no_nccl->empty() ? plain.ranks : 1,
                                       no_nccl->empty() ? plain.ranks_per_node : 1);
  request.nccl = no_nccl->empty();
  std::optional<HardwareProfile> earlier;
  if (args.resume) {
    Result<HardwareProfile> read = read_profile_file(*args.resume);
    if (!read) return tl::unexpected(read.error());
    earlier = *std::move(read);
    request.done = measured_points(*earlier);
  }
  const Sweep sweep = plan_sweep(request);
  SessionOutcome measured =
      session->measure(sweep, request.budget_s, progress_on(streams), [] { return SignalWatch::interrupted(); });
  if (streams.err_terminal.tty && !streams.quiet) static_cast<void>(write_all(STDERR_FILENO, progress_line("")));
  ProbeOutcome outcome;
  outcome.profile = assemble(measured_facts(plain, measured, request.budget_s, earlier), measured.observations);
  outcome.profile.skipped = measured.skipped;
  add_warnings(measured, *session, machine, outcome.profile.warnings);
  if (!no_nccl->empty()) outcome.profile.skipped.push_back({"collectives", *no_nccl});
  outcome.profile.synthetic = shared_gpu(*devices);
  if (earlier) merge_profile(outcome.profile, *earlier);
  outcome.failure = measured.failure.empty() && !measured.interrupted && !earlier ? nothing_measured(measured)
                                                                                  : std::move(measured.failure);
  conclude(measured, sweep.points.size(), outcome);
  return outcome;
}

int run_transport_check(const Args& args, SessionOptions options, Streams& streams) {
  constexpr int kNumbers = 4000, kRepetitions = 20;
  const int world = options.identity.world;
  Result<Session> session = Session::begin(std::move(options));
  if (session && !session->note().empty() && !streams.quiet)
    streams.err += "note: " + wrap(session->note(), streams.err_terminal.width, 6) + "\n";
  const Result<std::vector<double>> seconds =
      session ? session->check_transport(kNumbers, kRepetitions) : tl::unexpected(session.error());
  if (!seconds) {
    report_errors(seconds.error(), streams);
    return kNotMeasured;
  }
  const Summary s = summarise(*seconds);
  std::vector<std::string> hosts;
  for (const RankHello& rank : session->ranks())
    if (std::find(hosts.begin(), hosts.end(), rank.host) == hosts.end()) hosts.push_back(rank.host);
  if (wants_json(args)) {
    streams.out = dump({{"schema", "plan-probe-transport/1"},
                        {"ranks", world},
                        {"hosts", hosts.size()},
                        {"numbers", kNumbers},
                        {"sums_right", true},
                        {"median_s", s.median},
                        {"spread_ratio", s.spread}});
    return kYes;
  }
  streams.out = fmt::format("{} rank{} on {} host{} met and reduced {} numbers {} times: {} each, every sum right\n",
                            world, world == 1 ? "" : "s", hosts.size(), hosts.size() == 1 ? "" : "s", kNumbers,
                            kRepetitions, seconds_text(Seconds(s.median)));
  return kYes;
}

int run_member(const SessionOptions& session, Streams& streams) {
  const SignalWatch watch;  // rank 0 hears of an interrupt too, and ends the probe for all
  streams.leave_at_once = true;
  const Result<std::string> reason = serve_session(session);
  if (SignalWatch::interrupted()) return kInterrupted;
  if (reason) return reason->empty() ? kYes : kNotMeasured;
  if (session.identity.launcher != Launcher::Self) report_errors(reason.error(), streams);  // else rank 0 speaks
  return kNotMeasured;
}

}  // namespace plan
