// Launch files that passed their framework's own validator (tests/published/launch) read as what their names say.
#include <doctest/doctest.h>

#include "cli/launch/launch.hpp"
#include "cli/request/resolve.hpp"
#include "cli/settings/settings.hpp"
#include "contents.hpp"
#include "launch/random_plans.hpp"
#include "launch/temporary.hpp"
#include "planner/planner.hpp"
#include "planner/rules/complete_layout.hpp"
#include "presets/yaml.hpp"

namespace plan {
namespace {

const std::string kFiles = PLAN_SOURCE_DIR "/tests/published/launch/";

const Input* find(const LaunchJob& job, std::string_view key) {
  for (const Input& input : job.inputs)
    if (input.key == key) return &input;
  return nullptr;
}

}  // namespace

TEST_CASE("the 405B batch script reads as Meta's layout, every value with its line") {
  const Result<LaunchJob> job = read_launch_files({kFiles + "llama31-405b.sbatch"});
  REQUIRE(job);
  CHECK(job->format == "megatron-lm");
  CHECK(job->framework == Framework::Megatron);
  REQUIRE(job->model);
  CHECK(job->model->name == "llama3-405b");
  CHECK(job->gpus == 16384);
  CHECK(job->fixed.tp == 8);
  CHECK(job->fixed.cp == 1);
  CHECK(job->fixed.pp == 16);
  CHECK(job->fixed.vp == 8);
  CHECK(job->fixed.zero == 1);
  CHECK(job->fixed.micro_batch == 1);
  CHECK(job->fixed.sequence_parallel == true);
  CHECK(job->training->seq == 8192);
  CHECK(job->training->global_batch == 2048);
  CHECK(job->training->precision == Precision::Bf16);
  CHECK(job->training->stack.tp_overlap);
  REQUIRE(job->fixed.chunk_layers);
  CHECK(job->fixed.chunk_layers->size() == 128);
  CHECK(job->fixed.chunk_layers->front() == 0);
  CHECK(job->fixed.chunk_layers->back() == 0);
  REQUIRE(find(*job, "pp") != nullptr);
  CHECK(find(*job, "pp")->where == kFiles + "llama31-405b.sbatch:29");
  CHECK(find(*job, "gpus")->where == kFiles + "llama31-405b.sbatch:3");
  REQUIRE(find(*job, "recompute") != nullptr);
  CHECK(find(*job, "recompute")->origin == Origin::Default);
}

TEST_CASE("the Bridge overrides read as the 405B on 1024 GPUs") {
  Args args;
  args.from = {kFiles + "megatron_bridge_405b_1024.yaml"};
  args.model = "405b";
  args.gpus = "1024";
  const Result<Problem> problem = resolve_problem(args);
  REQUIRE(problem);
  const Layout layout = complete_layout(*problem);
  CHECK(layout.tp == 8);
  CHECK(layout.cp == 2);
  CHECK(layout.pp == 8);
  CHECK(layout.vp == 8);
  CHECK(layout.dp == 8);
  CHECK(problem->training.global_batch == 1536);
  CHECK(broken_rule(*problem, layout) < 0);
}

TEST_CASE("a TrainJob states nodes and arguments") {
  const Result<LaunchJob> job = read_launch_files({kFiles + "trainjob.yaml"});
  REQUIRE_FALSE(job);  // its arguments name no model
  CHECK(job.error().front().message.find("num-layers") != std::string::npos);
}

TEST_CASE("a file that is none, and files that are missing, are one error each") {
  const Temporary other("x.txt", "hello\n");
  const Result<LaunchJob> job = read_launch_files({other.path(), "/no/such/file.sh"});
  REQUIRE_FALSE(job);
  const Result<LaunchJob> unknown = read_launch_files({other.path()});
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().size() == 1);
  CHECK(unknown.error().front().code == "unknown_format");
}

TEST_CASE("a TOML key of any length is refused, and no string is taken for one") {
  const auto read = [](std::string_view end) {
    const std::string path = kFiles + "torchtitan_v022_405b_512.toml";
    std::string text = yaml::read_text(path).value();
    return settings_of_toml({"a.toml", text + std::string(end)});
  };
  for (const std::size_t parts : {65, 1000, 15000, 200000}) {
    std::string key = "\n'x' . ";
    for (std::size_t i = 1; i < parts; ++i) key += i % 7 == 0 ? "\"a.b\" ." : "a.";
    const Result<Settings> job = read(key + "z = 1\n");
    REQUIRE(!job);
    CHECK(job.error().front().message == "a key has more than 64 parts");
    CHECK(job.error().front().place.line > 40);
  }
  const std::string dots(5000, '.');
  for (const char* quote : {"\"", "'", "\"\"\"", "'''"})
    CHECK(read("\n[comm]\ntrace = " + std::string(quote) + dots + quote + " # " + dots + "\n").has_value());
}

TEST_CASE("an unknown flag of a fork is a note, a slip is a mistake with the flag that was meant") {
  const std::string start =
      "#!/bin/bash\ntorchrun --nnodes 1 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
      "--eval-interval 100 --vocab-size 50257 ";
  const Temporary fork("a.sh", start + "--qqq-zzz 3 --bf16\n");
  const Result<LaunchJob> job = read_launch_files({fork.path()});
  REQUIRE(job);
  CHECK(std::any_of(job->notes.begin(), job->notes.end(), [](const Note& note) {
    return note.code == "unknown_flag" && note.text.find("--qqq-zzz") != std::string::npos;
  }));
  const Temporary slip("b.sh", start + "--bf16 --contxt-parallel-size 2\n");
  const Result<LaunchJob> wrong = read_launch_files({slip.path()});
  REQUIRE_FALSE(wrong);
  CHECK(wrong.error().front().help.front().find("--context-parallel-size") != std::string::npos);
}

TEST_CASE("Megatron's flag for the order of the axes is read, and refused where its grids do not agree") {
  const std::string start =
      "#!/bin/bash\ntorchrun --nnodes 4 --nproc-per-node 8 pretrain_gpt.py --num-layers 32 --hidden-size 4096 "
      "--num-attention-heads 32 --seq-length 2048 --max-position-embeddings 2048 --micro-batch-size 1 "
      "--eval-interval 100 --vocab-size 50257 --bf16 ";
  const auto read = [&](const std::string& more) {
    const Temporary file("a.sh", start + more + "\n");
    return read_launch_files({file.path()});
  };
  CHECK(read("--pipeline-model-parallel-size 4")->fixed.order == AxisOrder::PipelineOutermost);
  const Result<LaunchJob> other = read("--pipeline-model-parallel-size 4 --use-tp-pp-dp-mapping");
  REQUIRE(other);
  CHECK(other->fixed.order == AxisOrder::DataOutermost);
  REQUIRE(find(*other, "order") != nullptr);
  CHECK(find(*other, "order")->where.ends_with(".sh:2"));
  // Nothing to order without stages.
  CHECK(read("--context-parallel-size 2 --use-tp-pp-dp-mapping")->fixed.order == AxisOrder::PipelineOutermost);
  const Result<LaunchJob> wide =
      read("--pipeline-model-parallel-size 4 --context-parallel-size 2 --use-tp-pp-dp-mapping");
  REQUIRE_FALSE(wide);
  CHECK(wide.error().front().message.find("tp x cp must equal etp x ep") != std::string::npos);
}

TEST_CASE("the optimizer's formats are counted in the bytes that their words say") {
  struct Row {
    const char* word;
    double bytes;
  };
  const std::string script = contents_of(kFiles + "llama31-405b.sbatch");
  for (const Row& row : {Row{"fp32", 4}, Row{"fp16", 2}, Row{"bf16", 2}, Row{"fp8", 1}}) {
    CAPTURE(row.word);
    std::string text = script;
    const std::string mark = "--use-distributed-optimizer";
    text.replace(text.find(mark), mark.size(),
                 mark + " --use-precision-aware-optimizer --exp-avg-sq-dtype fp32 --exp-avg-dtype " + row.word);
    const Temporary file("run.sbatch", text);
    const Result<LaunchJob> job = read_launch_files({file.path()});
    REQUIRE_MESSAGE(job, job.error().front().message);
    REQUIRE(job->training);
    CHECK(job->training->moment1_bytes == row.bytes);
    CHECK(job->training->moment2_bytes == 4);
  }
}

TEST_CASE("every launcher's files state the same job") {
  Problem problem = problem_of("llama3-70b", 256, Precision::Bf16, Framework::Megatron, "dgx-h100");
  Layout layout;
  layout.tp = 8, layout.pp = 4, layout.dp = 8, layout.vp = 5, layout.schedule = Schedule::Interleaved;
  layout.sequence_parallel = true;
  REQUIRE(broken_rule(problem, layout) < 0);
  const Result<Plan> plan = plan_layout(problem, layout);
  REQUIRE(plan);
  for (const std::string& launcher : launcher_words()) {
    CAPTURE(launcher);
    EmitOptions options;
    options.launcher = launcher;
    const Result<std::vector<LaunchFile>> files = write_launch("megatron-lm", *plan, options);
    REQUIRE(files);
    std::vector<std::unique_ptr<Temporary>> kept;
    std::vector<std::string> paths;
    for (const LaunchFile& file : *files) {
      kept.push_back(std::make_unique<Temporary>(file.name, file.text));
      paths.push_back(kept.back()->path());
    }
    const Result<LaunchJob> job = read_launch_files(paths);
    if (!job) MESSAGE(job.error().front().message);
    REQUIRE(job);
    CHECK(job->gpus == 256);
    CHECK(job->fixed.tp == 8);
    CHECK(job->fixed.vp == 5);
    CHECK(job->training->stack.expandable_segments);
  }
}

}  // namespace plan
