// `plan probe`: measure this node or job, or take what other tools measured. Tested by tests/cli/probe_test.cpp and
// tests/golden/probe-*.
#include <fmt/core.h>

#include "cli/commands/commands.hpp"
#include "cli/commands/probe_run.hpp"
#include "cli/commands/write_output.hpp"
#include "cli/report/probe/probe.hpp"
#include "cli/request/flags/probe_options.hpp"
#include "cli/request/resolve.hpp"
#include "cli/terminal/diagnostic.hpp"
#include "cli/terminal/terminal.hpp"
#include "formulas/keep_errors.hpp"
#include "formulas/words.hpp"
#include "hwprobe/import/import.hpp"
#include "hwprobe/node/visible.hpp"
#include "hwprobe/start/launcher.hpp"
#include "presets/hardware.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

/// Errors that end a probe: the answer is neither yes nor no.
int not_measured(const Errors& errors, Streams& streams) {
  report_errors(errors, streams);
  return kNotMeasured;
}

/// What the profile is compared with; a GPU that no preset knows is compared with nothing.
Result<Cluster> expectation(const ProbeOptions& options, const HardwareProfile& profile) {
  const StoreOptions store = StoreOptions::from_environment();
  if (options.expected || profile.gpu.preset.empty())
    return expected_cluster(options, profile.gpu.model, profile.memory.total_gib, store);
  Result<Found<Cluster>> found = load_cluster_of_gpu(profile.gpu.preset, store);
  if (!found) return tl::unexpected(found.error());
  return std::move(found->value);
}

/// Says which rates are beyond what the GPU and its links can do by far: most often the results are of another GPU or
/// operation, or in bits.
void question_rates(HardwareProfile& profile, const Cluster& expected) {
  constexpr double kQuestioned = 1.25;  // of what is expected; cards clock higher, and links have a little to spare
  for (const FigureChange& figure : common_figures(expected_profile(profile, expected), profile))
    if (figure.unit == "GB/s" && figure.before > 0 && figure.now > kQuestioned * figure.before)
      profile.warnings.push_back({"BEYOND", figure.what,
                                  fmt::format("{:.0f} GB/s, and {} gives about {:.0f}: are the GPU, the operation "
                                              "and the unit right?",
                                              figure.now, expected.gpu.name, figure.before)});
}

/// Prints a profile, writes it where asked, and compares it where asked. `taken` is what came from which file.
int finish(const Args& args, const ProbeOptions& options, HardwareProfile profile, Streams& streams,
           const std::vector<TakenResult>& taken = {}) {
  const Result<Cluster> expected = expectation(options, profile);
  if (!expected) return report_errors(expected.error(), streams);
  if (profile.gpu.preset.empty()) profile.gpu.preset = preset_of_device(profile.gpu.model, profile.memory.total_gib);
  question_rates(profile, *expected);
  if (args.output)
    if (const Result<bool> written = write_outputs(args, {{*args.output, write_hardware(profile)}}); !written)
      return report_errors(written.error(), streams);
  if (wants_json(args)) {
    streams.out = probe_json(profile, *expected, taken);
    return kYes;
  }
  streams.out = taken_text(taken, streams.out_terminal) + probe_text(profile, *expected, streams.out_terminal);
  if (args.output)
    streams.out += fmt::format("wrote {0}\nuse it: plan --model 405b --gpus 16384 --profile {0}\n", *args.output);
  return kYes;
}

int import_results(const Args& args, const ProbeOptions& options, Streams& streams) {
  HardwareProfile profile;
  profile.name = "imported";
  Errors errors;
  std::vector<TakenResult> taken;
  std::vector<std::string> files = args.import_files;
  files.insert(files.end(), args.words.begin(), args.words.end());
  for (const std::string& file : files) {
    const Result<std::string> text = yaml::read_text(file);
    if (!keep_errors(errors, text)) continue;
    const Result<std::string> done = import_measurements(*text, file, profile, options.hints);
    if (keep_errors(errors, done)) taken.push_back({std::string(base_name(file)), *done});
  }
  if (profile.gpu.model.empty() && options.expected) profile.gpu.preset = options.expected->gpu.name;
  if (errors.empty() && profile.gpu.model.empty() && profile.gpu.preset.empty())
    errors.push_back({"missing_flag", "the results do not say which GPU they are of", {}, {"add `--gpu h100-sxm`"}});
  if (!errors.empty()) return report_errors(errors, streams);
  return finish(args, options, std::move(profile), streams, taken);
}

/// The other side of --diff: a profile, or a preset in the shape of `now`.
Result<HardwareProfile> diff_side(const std::string& word, const HardwareProfile& now) {
  if (const Result<std::string> text = yaml::read_text(word); text && is_hardware_profile(*text))
    return read_hardware(*text, word);
  const StoreOptions store = StoreOptions::from_environment();
  Result<Found<Cluster>> cluster = load_cluster(word, store);
  if (!cluster) cluster = load_cluster_of_gpu(word, store);
  if (!cluster) return tl::unexpected(cluster.error());
  return expected_profile(now, cluster->value);
}

int compare_files(const Args& args, Streams& streams) {
  const Result<HardwareProfile> now = read_profile_file(args.words[0]);
  if (!now) return report_errors(now.error(), streams);
  const Result<HardwareProfile> before = diff_side(*args.diff, *now);
  if (!before) return report_errors(before.error(), streams);
  streams.out =
      wants_json(args) ? profile_diff_json(*before, *now) : profile_diff_text(*before, *now, streams.out_terminal);
  return kYes;
}

int dry_run(const Args& args, const ProbeOptions& options, const Machine& machine, Streams& streams) {
  const bool here = !machine.gpus.empty() && !options.expected;
  if (!here && !options.expected)
    return report_errors({{"missing_flag",
                           "no GPU here to plan a probe for: " + machine.no_gpu,
                           {},
                           {"name one: `plan probe --dry-run --gpu h100-sxm --gpus 8`"}}},
                         streams);
  const Result<Cluster> expected =
      expected_cluster(options, here ? machine.gpus[0].name : "", here ? machine.gpus[0].total_gib : 0,
                       StoreOptions::from_environment());
  if (!expected) return report_errors(expected.error(), streams);
  const int gpus = options.gpus > 0 ? options.gpus
                   : here           ? static_cast<int>(machine.gpus.size())
                                    : expected->gpus_per_node;
  const SweepRequest request = sweep_request(options, *expected, gpus, std::min(gpus, expected->gpus_per_node));
  const Sweep sweep = plan_sweep(request);
  streams.out = wants_json(args) ? sweep_json(sweep, request) : sweep_text(sweep, request, streams.out_terminal);
  return kYes;
}

/// One message: what is missing, and what works without it.
Errors nothing_to_measure(const Machine& machine, bool plugin) {
  Error error{"no_gpu",
              "nothing to measure here: " + machine.no_gpu,
              {machine_text(machine)},
              {"`plan probe --import FILE...` makes a profile of results of nccl-tests, nvbandwidth or perftest",
               "`plan probe --dry-run --gpu h100-sxm --gpus 8` prints what a probe would measure, and for how long",
               "on a cluster: `srun --nodes 2 --ntasks-per-node 8 --gpus-per-node 8 plan probe -o cluster.yaml`"}};
  if (!machine.gpus.empty()) {
    error.message =
        fmt::format("there are GPUs, but not the plugin that measures them: {}", plugin_name(machine.maker));
    error.help[2] = how_to_build(machine.maker);
  } else if (!plugin) {
    error.facts.emplace_back("the plugin that measures, libplan_probe_cuda.so, was not built either: no CUDA toolkit");
  }
  return {error};
}

/// Nothing is measured: every rank says what it would meet.
int look(const Args& args, const ProbeOptions& options, const Machine& machine, const Identity& identity,
         const std::string& plugin, Streams& streams) {
  SessionOptions session = session_options(args, options, identity, machine, plugin);
  session.look = true;
  session.hello.look = own_look(args, session, machine);
  if (identity.rank > 0) return run_member(session, streams);
  return run_check(std::move(session), wants_json(args), streams);
}

int measure(const Args& args, const ProbeOptions& options, const Machine& machine, Streams& streams) {
  Result<Identity> identity = detect_launcher(process_variables());
  if (!identity) return report_errors(identity.error(), streams);
  const std::vector<std::string> plugins = plugin_candidates(machine.maker);
  const bool able = !machine.gpus.empty() && !plugins.empty();
  if (identity->launcher == Launcher::None) {
    identity->world = args.transport_check ? (options.gpus > 0 ? options.gpus : 2)
                                           : std::max<int>(1, static_cast<int>(machine.gpus.size()));
    identity->local_world = identity->world;
  }
  if (args.look) return look(args, options, machine, *identity, plugins.empty() ? "" : plugins[0], streams);
  if (!able && !args.transport_check) {
    if (identity->rank == 0) report_errors(nothing_to_measure(machine, !plugins.empty()), streams);
    return kNotMeasured;
  }
  SessionOptions session = session_options(args, options, *identity, machine, plugins.empty() ? "" : plugins[0]);
  if (identity->rank > 0) return run_member(session, streams);
  if (!identity->note.empty() && !args.quiet)
    streams.err += "note: " + wrap(identity->note, streams.err_terminal.width, 6) + "\n";
  if (args.transport_check) return run_transport_check(args, std::move(session), streams);
  Result<ProbeOutcome> outcome = run_measurement(args, options, session, machine, streams);
  if (!outcome && outcome.error()[0].code == "interrupted") {
    report_errors(outcome.error(), streams);
    return kInterrupted;
  }
  if (!outcome) return not_measured(outcome.error(), streams);
  const int status = finish(args, options, std::move(outcome->profile), streams);
  if (status != kYes || (outcome->failure.empty() && !outcome->interrupted)) return status;
  if (args.output && !outcome->failure.empty())
    outcome->failure[0].help.push_back(fmt::format("the rest: `plan probe --resume {0} -o {0}`", *args.output));
  if (!outcome->failure.empty()) report_errors(outcome->failure, streams);
  return outcome->interrupted ? static_cast<int>(kInterrupted) : static_cast<int>(kNotMeasured);
}

}  // namespace

int run_probe(const Args& args, Streams& streams) {
  const Result<ProbeOptions> options = read_probe_options(args);
  if (!options) return report_errors(options.error(), streams);
  if (args.output)  // before minutes are spent on what could not be written
    if (const Errors errors = judge_output(args, *args.output, write_hardware(HardwareProfile{})); !errors.empty())
      return report_errors(errors, streams);
  if (!args.import_files.empty()) return import_results(args, *options, streams);
  if (!args.words.empty() && args.diff) return compare_files(args, streams);
  if (!args.words.empty())
    return report_errors(
        {{"unexpected_word",
          fmt::format("unexpected word `{}` after `plan probe`", yaml::printable(args.words[0])),
          {},
          {"to compare two profiles write `plan probe NEW --diff OLD`, to take results `plan probe --import FILE`"}}},
        streams);
  Machine machine = discover();
  keep_visible(machine, process_variables());
  if (machine.maker == Maker::Amd && args.cudnn_lib)
    return report_errors({{"no_such_library",
                           "--cudnn-lib: the GPUs here are AMD's, and attention on them is not measured",
                           {},
                           {"leave it out; --cublas-lib names a libhipblaslt and --nccl-lib a librccl"}}},
                         streams);
  if (args.dry_run) return dry_run(args, *options, machine, streams);
  return measure(args, *options, machine, streams);
}

}  // namespace plan
