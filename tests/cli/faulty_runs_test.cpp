// Logs and traces of jobs with one or two things wrong, or none, in every framework's format, as a user hands them to
// `plan diagnose`. The runs are made event by event in tests/oracle/faulty_run.cpp; of the planner they take nothing
// but how long a healthy step was planned to be, and what it consists of.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.hpp"
#include "oracle/faulty_run.hpp"
#include "oracle/random_problem.hpp"
#include "oracle/run_files.hpp"
#include "tests/temporary_folder.hpp"

using namespace plan;
using oracle::Trouble;
using PlainJson = nlohmann::json;

namespace {

PlainJson must_run(std::vector<std::string> words) {
  Streams streams;
  words.emplace_back("--json");
  const int status = run_command_line(words, streams);
  CAPTURE(streams.err);
  REQUIRE(status <= 1);  // a job that does not fit ran nevertheless: it is no part of this
  return PlainJson::parse(streams.out);
}

/// A job, by the words that name it.
struct Job {
  std::vector<std::string> words{};
  oracle::LoggedJob logged{};
  oracle::PlannedStep step{};
  PlainJson planned{};
};

struct Row {
  const char* model;
  int gpus, batch, seq;
  const char* layout;
};
const Row kRows[] = {
    {"8b", 64, 512, 8192, "tp2,pp2,dp16,zero1,mb1"},
    {"8b", 32, 256, 8192, "tp4,dp8,zero1,mb1"},
    {"8b", 64, 256, 8192, "dp64,zero2,mb1"},
    {"70b", 256, 512, 8192, "tp8,pp4,dp8,zero1,mb1"},
    {"70b", 128, 256, 4096, "tp4,pp8,dp4,zero1,mb1"},
    {"8b", 64, 128, 16384, "tp2,cp2,pp2,dp8,zero1,mb1"},
    {"llama2-13b", 64, 256, 4096, "dp64,zero2,mb1,recompute=full"},
    {"mixtral-8x7b", 128, 512, 4096, "tp2,pp4,ep8,dp16,zero1,mb1"},
    {"qwen3-30b-a3b", 64, 512, 4096, "ep8,pp2,dp32,zero1,mb1"},
    {"deepseek-v2-lite", 32, 256, 4096, "ep8,dp32,zero1,mb1"},
    {"dbrx", 256, 512, 4096, "tp4,pp4,ep4,dp16,zero1,mb1"},
    {"gpt-oss-20b", 64, 256, 8192, "tp2,ep8,dp32,zero1,mb1"},
    {"8b", 128, 128, 4096, "pp8,dp16,zero1,mb1"},
    {"70b", 256, 128, 4096, "tp2,pp8,dp16,zero1,mb1,layers=9+4x10+2x11+9"},
};

oracle::PlannedStep::Wire wire_of(const PlainJson& best, const char* axis) {
  oracle::PlannedStep::Wire wire;
  for (const PlainJson& row : best["communication"]) {
    if (row["axis"] != axis) continue;
    (row["tier"] == "nvlink" ? wire.inside : wire.between) += row["time_s"].get<double>();
  }
  wire.exposed = best["terms_s"][axis].get<double>();
  if (wire.exposed > wire.all()) (wire.inside > 0 ? wire.inside : wire.between) += wire.exposed - wire.all();
  return wire;
}

Job job_of(const Row& row) {
  Job job;
  job.words = {"--model",        row.model,
               "--gpus",         std::to_string(row.gpus),
               "--global-batch", std::to_string(row.batch),
               "--seq",          std::to_string(row.seq),
               "--framework",    "megatron",
               "--layout",       row.layout};
  job.logged = {row.batch, row.seq, row.gpus};
  std::vector<std::string> words{"estimate"};
  words.insert(words.end(), job.words.begin(), job.words.end());
  job.planned = must_run(words)["best"];
  const PlainJson &terms = job.planned["terms_s"], &layout = job.planned["layout"];
  oracle::PlannedStep& step = job.step;
  step.compute = terms["compute"].get<double>() + terms["recompute"].get<double>();
  step.hop = terms["pp"], step.bubble = terms["bubble"], step.optimizer = terms["optimizer"];
  step.straggler = terms["straggler"];
  step.tp = wire_of(job.planned, "tp"), step.cp = wire_of(job.planned, "cp");
  step.ep = wire_of(job.planned, "ep"), step.dp = wire_of(job.planned, "dp");
  step.tp_ranks = layout["tp"], step.cp_ranks = layout["cp"], step.ep_ranks = layout["ep"];
  step.pp_ranks = layout["pp"], step.dp_ranks = layout["dp"];
  step.micro_batches = layout["micro_batches"];
  step.planned_step = job.planned["step_time_s"];
  step.moe = layout["ep"] > 1, step.recomputed = layout["recompute"] == "full";
  return job;
}

/// How much of a fault is put in, from what is worth a word to what one sees in the wild.
double size_of(Trouble trouble, std::mt19937& random) {
  const auto between = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  switch (trouble) {
    case Trouble::SlowNetwork: return between(2, 10);
    case Trouble::SlowLinks: return between(2.5, 8);
    case Trouble::LowClocks: return between(1.4, 2.5);
    case Trouble::SlowRank: return between(1.15, 1.8);
    case Trouble::Imbalance: return between(1.8, 3.5);
    case Trouble::EagerKernels: return between(2, 3);
    case Trouble::DataLoading: return between(1.12, 1.8);
    case Trouble::Fragmentation: return between(1.12, 1.6);
    default: return 1;
  }
}

std::string compressed(const std::string& path, const std::string& text) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  return path;
}

/// Writes a run's files and diagnoses them.
PlainJson diagnosed(const Job& job, const oracle::MadeRun& run, const std::vector<std::pair<Trouble, double>>& troubles,
                    const TemporaryFolder& folder, std::mt19937& random) {
  std::vector<std::string> words{"diagnose"};
  words.insert(words.end(), job.words.begin(), job.words.end());
  double step = 0;
  for (const double length : run.lengths) step += length / static_cast<double>(run.lengths.size());
  words.insert(words.end(),
               {"--log", folder.write("out.log", oracle::write_log(static_cast<int>(random() % oracle::kLogFormats),
                                                                   job.logged, step, random))});
  oracle::Standing standing;
  for (const auto& [trouble, size] : troubles) {
    if (trouble == Trouble::SpreadGroups) standing.tensor_stride = 8;
    if (trouble == Trouble::WrongOrder) standing.stages_inside = true;
  }
  const auto names = static_cast<oracle::GroupNames>(random() % 3);
  switch (random() % 3) {
    case 0:
      words.insert(words.end(),
                   {"--trace", folder.write("t.json", oracle::write_kineto(run, job.step, names, standing))});
      break;
    case 1:
      words.insert(words.end(), {"--trace", compressed(folder.at("t.json.gz"),
                                                       oracle::write_kineto(run, job.step, names, standing))});
      break;
    default:
      std::filesystem::remove(folder.at("r.sqlite"));
      oracle::write_nsys(run, folder.at("r.sqlite"));
      words.insert(words.end(), {"--trace", folder.at("r.sqlite")});
  }
  return must_run(words);
}

double planned_part(const Job& job, const std::string& part) {
  const PlainJson& terms = job.planned["terms_s"];
  if (part == "pipeline") return terms["pp"].get<double>() + terms["bubble"].get<double>();
  if (part == "compute") return job.step.compute;
  if (part == "dp") return terms["dp"].get<double>() + job.step.straggler;
  return terms.contains(part) ? terms[part].get<double>() : 0;
}

const std::vector<Job>& jobs() {
  static const std::vector<Job> all = [] {
    std::vector<Job> out;
    for (const Row& row : kRows) out.push_back(job_of(row));
    return out;
  }();
  return all;
}

}  // namespace

TEST_CASE("healthy runs in every format are not blamed") {
  std::mt19937 random(7);
  const TemporaryFolder folder;
  const int runs = oracle::rounds(200);
  int blamed = 0;
  std::string told;
  for (int i = 0; i < runs; ++i) {
    const Job& job = jobs()[random() % jobs().size()];
    const oracle::MadeRun run = oracle::make_run(job.step, {}, 3, random);
    const PlainJson found = diagnosed(job, run, {}, folder, random);
    if (found["stands_out"].is_null()) continue;
    ++blamed;
    told += fmt::format("\n{} {}: {} in {}", job.words[1], job.words.back(), found["suspects"].dump(),
                        found["stands_out"].dump());
  }
  CAPTURE(told);
  CHECK(blamed <= std::max(1, runs * 3 / 100));
}

TEST_CASE("one or two faults are found by their part and by their name, in every format") {
  std::mt19937 random(11);
  const TemporaryFolder folder;
  const int wanted = oracle::rounds(300);
  int runs = 0, right_part = 0, right_cause = 0;
  std::map<std::string, std::pair<int, int>> of;  // runs and misses
  std::string told;
  while (runs < wanted) {
    const Job& job = jobs()[random() % jobs().size()];
    std::vector<std::pair<Trouble, double>> troubles;
    const std::size_t faults = random() % 4 == 0 ? 2 : 1;
    while (troubles.size() < faults) {
      const auto trouble = static_cast<Trouble>(random() % oracle::kTroubles);
      if (!oracle::can_have(job.step, trouble) || (!troubles.empty() && troubles[0].first == trouble)) continue;
      troubles.emplace_back(trouble, size_of(trouble, random));
    }
    const oracle::MadeRun run = oracle::make_run(job.step, troubles, 3, random);
    double step = 0;
    for (const double length : run.lengths) step += length / 3;
    if (step < 1.1 * job.step.planned_step) continue;  // nobody looks for the cause of less
    ++runs;
    const PlainJson found = diagnosed(job, run, troubles, folder, random);
    std::string name;
    for (const auto& [trouble, size] : troubles)
      name += fmt::format("{}{} {:.2f}", name.empty() ? "" : " + ", oracle::code_of(trouble), size);
    const std::string part = found["stands_out"].is_null() ? "" : found["stands_out"].get<std::string>();
    const bool part_found =
        part == "step" || (!part.empty() && run.part(part) > planned_part(job, part) + 0.02 * job.step.planned_step);
    bool cause_found = false;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, found["suspects"].size()); ++i)
      for (const auto& [trouble, size] : troubles)
        cause_found = cause_found || found["suspects"][i]["code"] == oracle::code_of(trouble);
    right_part += part_found ? 1 : 0, right_cause += cause_found ? 1 : 0;
    const std::string kind = faults == 2 ? "two" : oracle::code_of(troubles[0].first);
    ++of[kind].first, of[kind].second += part_found && cause_found ? 0 : 1;
    if (part_found && cause_found) continue;
    told += fmt::format("\n{} {} ({:.2f} times as long): {}; found in {}:", job.words[1], job.words.back(),
                        step / job.step.planned_step, name, part.empty() ? "no part" : part);
    for (const PlainJson& one : found["suspects"])
      told += fmt::format(" {} ({:.1f})", one["code"].get<std::string>(), one["misfit"].get<double>());
  }
  for (const auto& [kind, counts] : of) told += fmt::format("\n{}: {} of {} missed", kind, counts.second, counts.first);
  CAPTURE(told);
  MESSAGE("right part ", right_part, ", right cause ", right_cause, " of ", runs);
  CHECK(right_part >= 0.95 * runs);
  CHECK(right_cause >= 0.85 * runs);
}

TEST_CASE(
    "stages that stand nearer than replicas, where the plan has it the other way round, are found in every format") {
  std::mt19937 random(13);
  const TemporaryFolder folder;
  int runs = 0, found = 0;
  std::string told;
  for (const Job& job : jobs()) {
    if (!oracle::can_have(job.step, Trouble::WrongOrder)) continue;
    for (int i = 0; i < 60; ++i) {
      const std::vector<std::pair<Trouble, double>> troubles{{Trouble::WrongOrder, 1}};
      const oracle::MadeRun run = oracle::make_run(job.step, troubles, 3, random);
      if (run.part("dp") < planned_part(job, "dp") + 0.05 * job.step.planned_step) continue;  // shows in no time
      ++runs;
      const PlainJson said = diagnosed(job, run, troubles, folder, random);
      bool named = false;
      for (std::size_t k = 0; k < std::min<std::size_t>(2, said["suspects"].size()); ++k)
        named = named || said["suspects"][k]["code"] == "wrong_order";
      found += named ? 1 : 0;
      if (!named) told += fmt::format("\n{} {}: {}", job.words[1], job.words.back(), said["suspects"].dump());
    }
  }
  CAPTURE(told);
  MESSAGE("the order named in ", found, " of ", runs);
  CHECK(runs >= 90);
  CHECK(found >= 0.85 * runs);
}
