#include "oracle/run_files.hpp"

#include <fmt/format.h>
#include <sqlite3.h>

#include <cmath>
#include <map>

namespace plan::oracle {
namespace {

std::string log_line(int format, const LoggedJob& job, int i, double s) {
  const double tokens = static_cast<double>(job.global_batch * job.seq),
               per_gpu = tokens / static_cast<double>(job.gpus);
  const double samples = static_cast<double>(job.global_batch) / s;
  switch (format) {
    case 0:
      return fmt::format(
          " [2026-03-01 10:00:00.123456] iteration {:8}/  500000 | consumed samples: {:12} | elapsed time per "
          "iteration "
          "(ms): {:.1f} | throughput per GPU (TFLOP/s/GPU): 401.5 | learning rate: 1.5E-04 | global batch size: {:5} | "
          "lm loss: 2.3E+00 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan "
          "iterations:   0 |\n",
          i, i * job.global_batch, s * 1e3, job.global_batch);
    case 1:
      return fmt::format(
          " iteration {:8}/  115311 | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | learning "
          "rate: 6E-05 | global batch size: {:5} | lm loss: 2.1 | samples per second: {:.3f} | TFLOPs: 149.77 |\n",
          i, i, s * 1e3, job.global_batch, samples);
    case 2: return fmt::format("Step Time : {:.4f}s GPU utilization: 812.3MODEL_TFLOP/s/GPU\n", s);
    case 3:
      return fmt::format(
          "\x1b[32m[titan] 2026-02-01 12:00:00,123 - root - INFO - \x1b[31mstep: {:2}  \x1b[32mloss:  8.1234  "
          "\x1b[34mtps: "
          "{:.0f}  \x1b[36mtflops: 400.12  \x1b[35mmfu: 40.46%\x1b[39m\n",
          i, per_gpu / s);
    case 4:
      return fmt::format(
          "[2026-02-01 12:00:00,123] [INFO] [timer.py:264:stop] epoch=0/micro_step={}/global_step={}, "
          "RunningAvgSamplesPerSec=9.1, CurrSamplesPerSec={:.6f}\n",
          i * 4, i, samples);
    case 5: return fmt::format("steps: {} loss: 2.3456 iter time (s): {:.3f} samples/sec: {:.3f}\n", i, s, samples);
    case 6:
      return fmt::format(
          "completed step: {}, seconds: {:.3f}, TFLOP/s/device: 201.312, Tokens/s/device: {:.3f}, total_weights: "
          "65536, "
          "loss: 9.123\n",
          i, s, per_gpu / s);
    case 7:
      return fmt::format(
          "Training epoch 0, iteration {}/99 | lr: 0.0003 | global_batch_size: {} | global_step: {} | "
          "train_step_timing "
          "in s: {:.3f} | consumed_samples: 1280\n",
          i, job.global_batch, i, s);
    case 8:
      return fmt::format("(TaskRunner pid=1) step:{} - timing_s/gen:45.1 - timing_s/update_actor:{:.3f} - perf/x:1\n",
                         i, s);
    case 9:
      return fmt::format(
          "02/01/2026 12:00:00 [INFO|DP=0|PP=0|TP=0|node]: iteration: {} / 100 | elapsed_time_per_iteration_ms: "
          "{:.4f}K "
          "| tokens_per_sec_per_gpu: {:.4f}K | global_batch_size: {} | lm_loss: 10.2\n",
          i, s, per_gpu / s * 1e-3, job.global_batch);
    case 10:
      return fmt::format("Step {} | loss:2.5 lr:2e-05 tokens_per_second_per_gpu:{} peak_memory_active:1.0\n", i,
                         per_gpu / s);
    case 11: return fmt::format("\r {:3}%|#         | {}/100 [00:50<07:30,  {:.2f}s/it]", i, i, s);
    case 12: return fmt::format("{{'loss': 1.5, 'grad_norm': 0.2, 'epoch': 0.1, 'throughput': {:.2f}}}\n", tokens / s);
    default: return fmt::format("12: node7: Step Time : {:.3f}s GPU utilization: 1.0MODEL_TFLOP/s/GPU\n", s);
  }
}

std::string group_of(const std::string& axis, const PlannedStep& step, GroupNames names, Standing standing) {
  struct Row {
    const char *axis, *megatron, *torchtitan;
    int ranks, stride;
  };
  const int block = step.tp_ranks * step.cp_ranks;
  const Row rows[] = {{"tp", "TENSOR_MODEL_PARALLEL_GROUP", "mesh_tp", step.tp_ranks, standing.tensor_stride},
                      {"cp", "CONTEXT_PARALLEL_GROUP", "mesh_cp", step.cp_ranks, step.tp_ranks},
                      {"ep", "EXPERT_MODEL_PARALLEL_GROUP", "mesh_ep", step.ep_ranks, 1},
                      {"pp", "PIPELINE_MODEL_PARALLEL_GROUP", "mesh_pp", step.pp_ranks,
                       standing.stages_inside ? block : block * step.dp_ranks},
                      {"dp", "DATA_PARALLEL_GROUP_WITH_CP", "mesh_dp_shard_cp", step.dp_ranks * step.cp_ranks,
                       standing.stages_inside ? block * step.pp_ranks : block}};
  for (const Row& row : rows) {
    if (row.axis != axis) continue;
    std::string out = fmt::format(R"("Group size":{},"stream":{})", row.ranks, 20 + 4 * (&row - rows));
    if (names != GroupNames::SizesOnly)
      out += fmt::format(R"(,"Process Group Description":"{}","Process Group Ranks":"[0, {}]")",
                         names == GroupNames::Megatron ? row.megatron : row.torchtitan, row.stride);
    return out;
  }
  return {};
}

}  // namespace

std::string write_log(int format, const LoggedJob& job, double seconds, std::mt19937& random) {
  std::normal_distribution<double> noise(0, 0.03);
  std::string out = "some words that no framework prints about steps\n";
  for (int i = 1; i <= 40; ++i) {
    const double s = seconds * std::exp(noise(random)) * (i < 3 && format != 12 ? 4 : 1);
    out += log_line(format, job, i, s);
  }
  return out;
}

std::string write_kineto(const MadeRun& run, const PlannedStep& step, GroupNames names, Standing standing) {
  std::string out = "{\"schemaVersion\": 1, \"traceEvents\": [\n";
  double begin = 1000;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    out += fmt::format(
        R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}","pid":1,"tid":1,"ts":{:.3f},"dur":{:.3f}}},)"
        "\n",
        i, begin * 1e6, run.lengths[i] * 1e6);
    for (const Event& event : run.steps[i]) {
      const char* const kind = !event.host ? "kernel" : event.name.starts_with("cuda") ? "cuda_runtime" : "cpu_op";
      out +=
          fmt::format(R"({{"ph":"X","cat":"{}","name":"{}","pid":0,"tid":7,"ts":{:.3f},"dur":{:.3f},"args":{{{}}}}},)"
                      "\n",
                      kind, event.name, (begin + event.start) * 1e6, event.length * 1e6,
                      event.axis.empty() ? "" : group_of(event.axis, step, names, standing));
    }
    begin += run.lengths[i];
  }
  return out + "{\"ph\":\"M\",\"name\":\"end\"}], \"traceName\": \"t\"}";
}

void write_nsys(const MadeRun& run, const std::string& path) {
  sqlite3* database = nullptr;
  if (sqlite3_open(path.c_str(), &database) != SQLITE_OK) return;
  const std::map<std::string, int> streams{{"", 7}, {"tp", 20}, {"cp", 24}, {"ep", 28}, {"pp", 32}, {"dp", 36}};
  std::map<std::string, int> names;
  std::string sql =
      "BEGIN; CREATE TABLE StringIds(id INTEGER, value TEXT); CREATE TABLE NVTX_EVENTS(start INTEGER, end INTEGER, "
      "text "
      "TEXT, textId INTEGER, globalTid INTEGER); CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start INTEGER, end INTEGER, "
      "nameId INTEGER, globalTid INTEGER); CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start INTEGER, end INTEGER, "
      "shortName "
      "INTEGER, demangledName INTEGER, deviceId INTEGER, streamId INTEGER, globalPid INTEGER);";
  constexpr long kProcess = 5L << 24, kThread = kProcess + 77;
  double begin = 10;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES({:.0f},{:.0f},'iteration {}',NULL,{});", begin * 1e9,
                       (begin + run.lengths[i]) * 1e9, i, kThread);
    for (const Event& event : run.steps[i]) {
      const std::string name = event.name.starts_with("cuda") ? event.name + "_v3020" : event.name;
      const int id = names.emplace(name, static_cast<int>(names.size())).first->second;
      const double start = (begin + event.start) * 1e9, end = start + event.length * 1e9;
      if (!event.host)
        sql += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES({:.0f},{:.0f},{},{},0,{},{});", start, end,
                           id, id, streams.at(event.axis), kProcess);
      else if (event.name.starts_with("cuda"))
        sql += fmt::format("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES({:.0f},{:.0f},{},{});", start, end, id,
                           kThread);
      else
        sql += fmt::format("INSERT INTO NVTX_EVENTS VALUES({:.0f},{:.0f},'batch-generator',NULL,{});", start, end,
                           kThread);
    }
    begin += run.lengths[i];
  }
  for (const auto& [name, id] : names) sql += fmt::format("INSERT INTO StringIds VALUES({},'{}');", id, name);
  sqlite3_exec(database, (sql + "COMMIT;").c_str(), nullptr, nullptr, nullptr);
  sqlite3_close(database);
}

}  // namespace plan::oracle
