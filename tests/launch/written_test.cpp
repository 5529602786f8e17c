// What is written for plans that differ in one choice each, in every format and for every launcher: the first plan's
// files whole, of each other one the lines that differ from those most like it. Kept in tests/launch/recorded, to be
// read when it changes. That the files say what the plan says is tested where they are read back; this also sees what
// no reader looks at.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <functional>
#include <map>

#include "cli/launch/launch.hpp"
#include "cli/request/words/layout_flag.hpp"
#include "launch/random_plans.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"
#include "record.hpp"

namespace plan {

using namespace launching;

namespace {

struct Choice {
  const char* layout;
  void (*change)(Problem&) = nullptr;
  const char* model = "llama3-70b";
  int gpus = 512;
  Precision precision = Precision::Bf16;
  const char* cluster = "dgx-h100";
};

void finetunes(Problem& problem) { problem.training.task = Task::FullFinetune; }
void adapts(Problem& problem) {
  problem.training.task = Task::Lora;
  problem.training.lora = {.rank = 24, .attention = true, .ffn = false};
}

const Choice kChoices[] = {
    // Every degree is another number, so that no two can be taken for each other.
    {"tp2,cp4,pp8,dp8,vp2,mb1,zero1,recompute=none"},
    {"tp8,cp2,pp4,vp1,mb2,zero1,recompute=full"},
    {"tp4,cp1,pp2,vp4,mb4,zero0,recompute=full-3"},
    {"tp4,cp1,pp2,vp1,mb1,zero2,schedule=gpipe,recompute=uniform-2"},
    {"tp8,cp2,pp1,mb1,zero3,recompute=none"},
    {"tp8,cp2,pp1,mb2,zero3,shard4,recompute=full"},
    {"tp1,cp1,pp1,mb1,zero3,recompute=none"},
    {"tp1,cp1,pp1,mb4,zero2,recompute=full"},
    {"tp1,cp8,pp1,cp-kind=ulysses,mb1,zero3,recompute=full"},
    {"tp1,cp8,pp1,cp-kind=all-gather,mb1,zero3,recompute=full"},
    {"tp8,cp1,pp4,vp5,mb1,zero1,recompute=core_attn"},
    {"tp8,cp1,pp4,vp1,mb1,zero1,recompute=core_attn+mlp,order=tp-cp-ep-pp-dp"},
    {"tp8,cp1,pp4,vp1,mb1,zero1,sp=false,recompute=none"},
    {"tp8,cp1,pp4,mb1,zero1,layers=19+20x2+21,recompute=none"},
    {"tp8,cp1,pp4,mb1,zero1,recompute=none", [](Problem& p) { p.training.offload.optimizer = 1; }},
    {"tp8,cp1,pp4,mb1,zero1,recompute=none", [](Problem& p) { p.training.offload.optimizer = 0.5; }},
    {"tp8,cp1,pp4,mb1,zero1,recompute=none",
     [](Problem& p) { p.training.offload.modules = kOffloadCoreAttention | kOffloadMlpNorm; }},
    {"tp8,cp1,pp4,mb1,zero1,recompute=none", [](Problem& p) { p.training.offload.layers = 3; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full",
     [](Problem& p) { p.training.offload = {.optimizer = 1, .parameters = true}; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.offload.optimizer = 1; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.offload.optimizer = 0.5; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.offload.parameters = true; }},
    {"tp1,cp1,pp1,mb1,zero2,recompute=full", [](Problem& p) { p.training.offload.optimizer = 1; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.optimizer = Optimizer::Adam8bit; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.optimizer = Optimizer::Adafactor; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.optimizer = Optimizer::SgdMomentum; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.local = {.steps = 30, .copies = 4}; }},
    {"tp1,cp1,pp1,mb1,zero3,recompute=full", [](Problem& p) { p.training.global_batch = 513; }},
    {"tp8,cp1,pp4,mb1,zero1,recompute=none",
     [](Problem& p) {
       p.training.master_bytes = 2, p.training.moment1_bytes = 2, p.training.moment2_bytes = 1;
       p.training.precision_aware = true, p.training.grad_bytes = 2;
     }},
    {"tp8,cp1,pp4,mb1,zero1,recompute=none", [](Problem& p) { p.training.bf16_layers = {.first = 1, .last = 2}; },
     "llama3-70b", 512, Precision::Fp8Blockwise},
    {"tp8,cp1,pp4,mb1,zero1,recompute=none",
     [](Problem& p) {
       Stack& stack = p.training.stack;
       stack.tp_overlap = !stack.tp_overlap, stack.overlap_grad_reduce = !stack.overlap_grad_reduce;
       stack.overlap_param_gather = !stack.overlap_param_gather, stack.cuda_graphs = !stack.cuda_graphs;
       stack.expandable_segments = !stack.expandable_segments, stack.deterministic = !stack.deterministic;
     }},
    {"tp2,cp1,pp1,mb1,zero2,recompute=none", finetunes},
    {"tp1,cp1,pp1,mb2,zero3,recompute=full", finetunes, "llama3-8b", 16},
    {"tp1,cp1,pp1,mb1,zero3,recompute=none", adapts, "llama3-8b", 16},
    {"tp2,cp1,pp2,mb1,zero1,recompute=none", adapts, "llama3-8b", 16},
    {"tp1,cp1,pp1,mb1,zero0,recompute=none", nullptr, "llama3-8b", 1},
    {"tp1,cp1,pp1,mb1,zero1,recompute=none", nullptr, "llama3-8b", 12},
    {"tp8,cp1,pp1,mb1,zero1,recompute=none", nullptr, "llama3-8b", 16, Precision::Fp8Delayed},
    {"tp8,cp1,pp1,mb1,zero3,recompute=none", nullptr, "llama3-8b", 16, Precision::Fp8Tensorwise},
    {"tp8,cp1,pp1,mb1,zero3,recompute=none", nullptr, "llama3-8b", 16, Precision::Mxfp8, "dgx-b200"},
    {"tp8,cp1,pp1,mb1,zero1,recompute=none", nullptr, "llama3-8b", 16, Precision::Nvfp4, "dgx-b200"},
    {"tp1,cp1,pp1,mb1,zero3,recompute=none", nullptr, "llama3-8b", 16, Precision::Fp16},
    {"tp1,cp1,pp1,mb1,zero3,recompute=none", nullptr, "llama3-8b", 16, Precision::Fp32},
    {"tp2,cp1,pp4,ep8,etp1,mb1,zero1,recompute=none", nullptr, "mixtral-8x7b", 128},
    {"tp4,cp2,pp2,ep4,etp4,vp2,mb1,zero1,recompute=moe_act", nullptr, "mixtral-8x7b", 128},
    {"tp1,cp1,pp1,ep8,etp1,mb1,zero3,recompute=full", nullptr, "mixtral-8x7b", 128},
    {"tp1,cp1,pp8,ep32,etp1,mb1,zero1,recompute=none", nullptr, "deepseek-v3", 1024, Precision::Fp8Blockwise},
    {"tp2,cp1,pp4,ep16,etp1,mb1,zero1,recompute=none", nullptr, "qwen3-30b-a3b", 128},
    {"tp2,cp1,pp4,mb1,zero1,recompute=none", nullptr, "nemotron-h-8b", 64},
    {"tp2,cp1,pp2,ep8,etp1,mb1,zero1,recompute=none", nullptr, "qwen3-next-80b-a3b", 128},
    {"tp8,cp1,pp8,mb1,zero1,recompute=none", nullptr, "gpt3-175b", 512, Precision::Bf16, "dgx-a100"},
    {"tp4,cp1,pp4,ep4,etp1,vp2,mb1,zero1,recompute=none",
     [](Problem& p) {
       Stack& stack = p.training.stack;
       stack.ep_overlap = true, stack.dedup_dispatch = !stack.dedup_dispatch, stack.p2p_overlap = !stack.p2p_overlap;
       stack.fused_router = true;
     },
     "mixtral-8x7b", 128},
};

/// The plan of a choice under a framework, whether or not it fits; empty where its rules refuse it.
std::optional<Plan> plan_of(const Choice& choice, Framework framework) {
  Problem problem = problem_of(choice.model, choice.gpus, choice.precision, framework, choice.cluster);
  if (choice.change != nullptr) choice.change(problem);
  const Result<Fixed> fixed = read_layout(choice.layout);
  REQUIRE_MESSAGE(fixed, choice.layout << ": " << fixed.error().front().message);
  problem.fixed = *fixed;
  Result<Plan> plan = plan_layout(problem, complete_layout(problem));
  if (!plan) return std::nullopt;
  return std::move(*plan);
}

using Lines = std::vector<std::string>;

/// Lines of all files, with their names, or the mistakes in the way.
Lines written(const std::string& format, const Plan& plan, const EmitOptions& options) {
  Lines lines;
  const Result<std::vector<LaunchFile>> files = write_launch(format, plan, options);
  if (!files) {
    for (const Error& error : files.error()) {
      lines.push_back("refused, " + error.code + ": " + error.message);
      for (const std::string& help : error.help) lines.push_back("  help: " + help);
    }
    return lines;
  }
  for (const LaunchFile& file : *files) {
    lines.push_back("-- " + file.name + (file.executable ? ", executable" : ""));
    std::istringstream text(file.text);
    for (std::string line; std::getline(text, line);) lines.push_back(line);
  }
  return lines;
}

/// Lines that only one of them has, as often as it has them more.
Lines differences(const Lines& before, const Lines& after) {
  std::map<std::string, int> count;
  for (const std::string& line : before) ++count[line];
  Lines out;
  for (const std::string& line : after)
    if (--count[line] < 0) out.push_back("+" + line);
  count.clear();
  for (const std::string& line : after) ++count[line];
  for (const std::string& line : before)
    if (--count[line] < 0) out.push_back("-" + line);
  return out;
}

bool refused(const Lines& lines) { return lines.empty() || lines.front().starts_with("refused"); }

/// Sets of files one after the other, each as what it has otherwise than the one before it that is most like it.
struct Record {
  std::string text{};
  std::vector<std::pair<std::string, Lines>> before{};

  void add(const std::string& name, const std::string& what, const Lines& lines) {
    const std::pair<std::string, Lines>* nearest = nullptr;
    Lines fewest;
    for (const auto& one : before) {
      Lines other = differences(one.second, lines);
      if (nearest != nullptr && other.size() >= fewest.size()) continue;
      nearest = &one;
      fewest = std::move(other);
    }
    const bool whole = nearest == nullptr || refused(lines) || fewest.size() >= lines.size();
    text += fmt::format("== {}: {}{}\n", name, what, whole ? "" : ", beside " + nearest->first);
    for (const std::string& line : whole ? lines : fewest) text += line + "\n";
    if (!refused(lines)) before.emplace_back(name, lines);
  }
};

/// Every word of a site's file.
Site site() {
  Site site;
  site.file = "site.yaml";
  site.work_dir = "/work/jobs";
  site.checkpoints = "/checkpoints", site.logs = "/logs";
  site.setup = {"module load cuda", ". env/bin/activate"};
  site.environment = {{"NCCL_IB_HCA", "mlx5"}, {"HF_HOME", "/scratch/hf home"}};
  site.sbatch = {{"partition", "long"}, {"account", "us"}};
  site.time_limit_s = 26 * 3600 + 61;
  site.requeue = 3;
  site.image = "registry/site:2";
  site.mounts = {"/checkpoints:/checkpoints", "/scratch:/scratch:ro", "/logs:/logs"};
  site.cpus_per_gpu = 12;
  site.numa = true;
  return site;
}

std::string record_of(const std::string& format) {
  const Framework framework = *framework_of_format(format);
  Record record;
  std::optional<Plan> tried;
  for (const Choice& choice : kChoices) {
    const std::optional<Plan> plan = plan_of(choice, framework);
    if (!plan) continue;
    const Lines lines = written(format, *plan, {});
    if (!refused(lines) && !tried) tried = plan;
    record.add(fmt::format("{}", &choice - kChoices + 1),
               fmt::format("{} on {}, {}, {}", choice.model, choice.gpus, name(choice.precision), choice.layout),
               lines);
  }
  REQUIRE(tried);
  for (const std::string& launcher : launcher_words()) {
    EmitOptions options;
    options.launcher = launcher;
    record.add(launcher, "started so", written(format, *tried, options));
    options.name = "a name", options.data_path = "/data/of mine", options.tokenizer = "org/words";
    options.checkpoint_dir = "/checkpoints/x", options.image = "registry/image:1";
    record.add(launcher + " with", "a name, data, a tokenizer, checkpoints and an image",
               written(format, *tried, options));
    options.site = site();
    record.add(launcher + " at a site", "likewise", written(format, *tried, options));
    options.checkpoint_dir = "/elsewhere/x", options.data_path = "/scratch/data", options.site->requeue = 0;
    record.add(launcher + " elsewhere", "checkpoints that no container mounts, no requeue",
               written(format, *tried, options));
    options.checkpoint_dir.clear(), options.image.clear(), options.site->checkpoints.clear();
    options.site->logs.clear(), options.site->preflight.clear(), options.site->cpus_per_gpu = 0;
    options.site->numa = false, options.site->requeue = 1;
    record.add(launcher + " with less", "a site that states little", written(format, *tried, options));
  }
  return record.text;
}

}  // namespace

TEST_CASE("what is written for plans that differ in one choice is as recorded") {
  for (const std::string& format : emit_words()) {
    CAPTURE(format);
    compare_with_record("written-" + format, record_of(format));
  }
}

}  // namespace plan
