// A sweep is many plans: each point is what a search of its own finds.
#include "cli/commands/sweep_points.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "check_files.hpp"
#include "cli/report/plan/csv.hpp"
#include "cli/report/sweep/sweep.hpp"
#include "cli/request/resolve.hpp"
#include "cli/request/sources/plan_json_read.hpp"
#include "cli/request/unstated.hpp"
#include "cli/terminal/format.hpp"
#include "page_tags.hpp"
#include "planner/planner.hpp"

namespace plan {
namespace {

using nlohmann::json;

Args args_of(const char* gpus) {
  Args args;
  args.verb = "sweep", args.model = "8b", args.gpus = gpus, args.global_batch = "256";
  return args;
}

PlanSweep sweep_of(const Args& args) {
  Result<PlanSweep> sweep = run_sweep_points(args, [](int, int) {});
  REQUIRE_MESSAGE(sweep.has_value(), sweep.error()[0].message);
  return std::move(*sweep);
}

std::vector<std::string> texts(const std::vector<SweepValue>& values) {
  std::vector<std::string> out;
  for (const SweepValue& value : values) out.push_back(value.text);
  return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("what nobody stated and is another at every model is said with the model") {
  const checks::Ran ran = checks::run({"sweep", "--model", "qwen3-0.6b,llama3.2-1b", "--gpus", "8,16"});
  REQUIRE(ran.status == 0);
  std::string text = ran.out;
  std::replace(text.begin(), text.end(), '\n', ' ');
  CHECK(text.find("seq 4096 at qwen3-0.6b, 8192 at   llama3.2-1b") != std::string::npos);
}

TEST_CASE("points whose figures are of several frameworks say whose each is") {
  Args args;
  args.verb = "sweep", args.model = "llama4-scout", args.gpu = "h100-sxm", args.gpus = "32,64";
  args.global_batch = "64";
  const PlanSweep several = sweep_of(args);
  const json points = json::parse(sweep_json(several))["points"];
  REQUIRE(points.size() == 2);
  const std::string first = points[0]["framework"], second = points[1]["framework"];
  REQUIRE(first != second);
  const std::string said = fmt::format("the figures are of several frameworks: {} at 32, {} at 64", first, second);
  Terminal wide;
  wide.width = 200;
  CHECK(sweep_text(several, wide).find(said) != std::string::npos);
  CHECK(sweep_markdown(several).find(said) != std::string::npos);
  CHECK(sweep_csv(several).find(",framework,") != std::string::npos);
  args.framework = "megatron", args.gpus = "64,128";
  const PlanSweep one = sweep_of(args);
  CHECK(json::parse(sweep_json(one))["points"][0]["framework"] == "megatron");
  CHECK(sweep_text(one, wide).find("several frameworks") == std::string::npos);
}

TEST_CASE("ranges double to their end, lists are sorted, factors keep their x") {
  CHECK(texts(read_sweep_values("--gpus", "256..65536", false).value()).size() == 9);
  CHECK(texts(read_sweep_values("--gpus", "8..48", false).value()) == Words{"8", "16", "32", "48"});
  CHECK(texts(read_sweep_values("--gpus", "1k,256,256..512", false).value()) == Words{"256", "512", "1024"});
  CHECK(texts(read_sweep_values("--memory", "0.5x..4x", true).value()) == Words{"0.5x", "1x", "2x", "4x"});
  for (const char* wrong : {"64..8", "a..8", "8..", "1..2..4", "0..8", ""})
    CHECK_FALSE(read_sweep_values("--gpus", wrong, false).has_value());
  CHECK(read_sweep_values("--memory", "0x..2x", true).error()[0].message.find("factors") != std::string::npos);
}

TEST_CASE("a sweep without a range, or with too many points, is an error") {
  CHECK(run_sweep_points(args_of("64"), [](int, int) {}).error()[0].code == "nothing_to_sweep");
  Args many = args_of("1..16777216");
  many.seq = "1..65536";
  CHECK(run_sweep_points(many, [](int, int) {}).error()[0].code == "too_many_points");
  Args late = args_of("8..64");
  late.deadline = "10d";
  CHECK(run_sweep_points(late, [](int, int) {}).error()[0].code == "missing_flag");
}

TEST_CASE("every point is the plan of a run of its own") {
  const PlanSweep sweep = sweep_of(args_of("8..128"));
  REQUIRE(sweep.points.size() == 5);
  for (const SweptPlan& point : sweep.points) {
    const Args alone = args_of(sweep.axes[0].values[point.at[0]].text.c_str());
    const Plan expected = search(resolve_problem(alone).value()).value();
    REQUIRE(point.plan.has_value());
    CHECK(point.plan->best.layout == expected.best.layout);
    CHECK(point.plan->best.step_time == expected.best.step_time);
    CHECK(point.plan->best.peak == expected.best.peak);
  }
}

TEST_CASE("405b from 256 to 65,536 GPUs is nine searches, point by point") {
  Args args;
  args.verb = "sweep", args.model = "405b", args.gpus = "256..65536";
  const PlanSweep sweep = sweep_of(args);
  REQUIRE(sweep.points.size() == 9);
  for (const SweptPlan& point : sweep.points) {
    Args alone = args;
    alone.verb = "plan", alone.gpus = sweep.axes[0].values[point.at[0]].text;
    const Result<Plan> expected = search(resolve_problem(alone).value());
    CAPTURE(*alone.gpus);
    REQUIRE(point.plan.has_value() == expected.has_value());
    if (!expected) continue;
    CHECK(point.plan->best.layout == expected->best.layout);
    CHECK(point.plan->best.step_time == expected->best.step_time);
    CHECK(point.plan->best.terms == expected->best.terms);
    CHECK(point.plan->best.stages == expected->best.stages);
  }
}

/// The fastest that a framework runs: the recommended one may be plainer and a little slower.
double fastest(const SweptPlan& point) {
  const Plan& plan = *point.plan;
  return (plan.fastest ? *plan.fastest : plan.best).step_time.value;
}

TEST_CASE("more of one resource never makes the fastest layout slower") {
  Args args = args_of("64");
  for (const auto flag : {&Args::inter_bandwidth, &Args::intra_bandwidth, &Args::memory}) {
    args.inter_bandwidth.reset(), args.intra_bandwidth.reset(), args.memory.reset();
    args.*flag = "0.5x..2x";
    const PlanSweep sweep = sweep_of(args);
    for (std::size_t i = 1; i < sweep.points.size(); ++i)
      if (sweep.points[i - 1].plan) {
        CHECK(fastest(sweep.points[i]) <= fastest(sweep.points[i - 1]) * (1 + 1e-9));
        CHECK(sweep.points[i].plan->best.step_time.value <= fastest(sweep.points[i - 1]) * (1.03 + 1e-9));
      }
  }
}

TEST_CASE("memory of hosts is swept by factors of the cluster's and by amounts, which are the same points") {
  Args args = args_of("8");
  args.model = "70b", args.task = "finetune", args.cluster = "dgx-h100";  // 2048 GiB a node
  args.host_memory = "0.25x..1x";
  const PlanSweep factors = sweep_of(args);
  args.host_memory = "512..2TiB";
  const PlanSweep amounts = sweep_of(args);
  REQUIRE(factors.points.size() == 3);
  REQUIRE(amounts.points.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CAPTURE(i);
    const Input* one = find_input(factors.points[i].inputs, "host_memory");
    const Input* other = find_input(amounts.points[i].inputs, "host_memory");
    REQUIRE(one != nullptr);
    REQUIRE(other != nullptr);
    CHECK(one->value == other->value);
    REQUIRE(factors.points[i].plan.has_value() == amounts.points[i].plan.has_value());
    if (factors.points[i].plan) CHECK(factors.points[i].plan->best.layout == amounts.points[i].plan->best.layout);
  }
  CHECK_FALSE(factors.points.front().plan);  // its states take a TiB
  CHECK(factors.points.back().plan);
  // A single amount or factor holds for all points.
  args.gpus = "8,16";
  for (const char* word : {"0.5x", "1TiB", "1024"}) {
    args.host_memory = word;
    for (const SweptPlan& point : sweep_of(args).points)
      CHECK(find_input(point.inputs, "host_memory")->value == "1 TiB");
  }
  // Of a GPU whose nodes state nothing there is nothing to take times.
  args.cluster.reset(), args.gpu = "rtx-4090", args.host_memory = "0.5x..2x";
  const Result<PlanSweep> none = run_sweep_points(args, [](int, int) {});
  REQUIRE_FALSE(none);
  CHECK(none.error().front().message.find("does not state the memory of its nodes") != std::string::npos);
}

TEST_CASE("a factor of one changes no cluster") {
  const Problem problem = resolve_problem(args_of("64")).value();
  Cluster same = problem.cluster;
  scale_hardware(same, {});
  CHECK(same.gpu.memory == problem.cluster.gpu.memory);
  for (std::size_t i = 0; i < same.tiers.size(); ++i)
    CHECK(same.tiers[i].bandwidth == problem.cluster.tiers[i].bandwidth);
}

TEST_CASE("what nobody stated is said of every point, also where it is not the same at all of them") {
  Args args = args_of("8");
  args.global_batch.reset();
  std::size_t apart = 0;
  for (const auto& [swept_flag, swept_words] :
       {std::pair{&Args::task, "pretrain,finetune,lora"}, std::pair{&Args::model, "llama3.2-1b,gpt2,mixtral-8x7b"},
        std::pair{&Args::gpu, "h100-sxm,v100-sxm2-32gb"}, std::pair{&Args::framework, "megatron,deepspeed"},
        std::pair{&Args::optimizer, "adam,muon"}, std::pair{&Args::precision, "bf16,fp8"}}) {
    const auto flag = swept_flag;
    const std::string words = swept_words;
    Args swept = args;
    swept.*flag = words;
    CAPTURE(words);
    const PlanSweep sweep = sweep_of(swept);
    const json all = json::parse(sweep_json(sweep));
    const std::string text = sweep_text(sweep, Terminal{}), table = sweep_csv(sweep);
    for (std::size_t i = 0; i < sweep.points.size(); ++i) {
      Args alone = args;
      alone.*flag = sweep.axes[0].values[i].text;
      for (const Unstated& fact : unstated(resolve_problem(alone).value())) {
        CAPTURE(fact.field);
        const auto said = [&](const json& facts) {
          return std::any_of(facts.begin(), facts.end(),
                             [&](const json& one) { return one["field"] == fact.field && one["value"] == fact.value; });
        };
        const bool own = said(all["points"][i]["unstated"]);
        CHECK((own || said(all["unstated"])));
        CHECK(text.find(fact.field) != std::string::npos);
        if (!own) continue;
        ++apart;
        CHECK(text.find("not the same at every point") != std::string::npos);
        CHECK(table.find("default_" + fact.field) != std::string::npos);
      }
    }
  }
  CHECK(apart >= 8);
}

TEST_CASE("words are swept as numbers are, and a wrong one among them is named") {
  using plan::checks::run;
  using plan::checks::run_json;
  const auto sweep = run_json(
      {"sweep", "--model", "8b", "--gpus", "64", "--precision", "BF16,fp8", "--framework", "megatron,torchtitan"});
  REQUIRE(sweep["points"].size() == 4);
  std::size_t at = 0;
  for (const char* precision : {"bf16", "fp8"})
    for (const char* framework : {"megatron", "torchtitan"}) {
      const auto alone =
          run_json({"--model", "8b", "--gpus", "64", "--precision", precision, "--framework", framework});
      CHECK(sweep["points"][at++]["best"]["step_time_s"] == alone["best"]["step_time_s"]);
    }
  CHECK(run({"sweep", "--model", "8b", "--gpus", "64", "--precision", "bf16,fp9"}).err.find("`fp9`") !=
        std::string::npos);
  CHECK(run({"--model", "8b", "--gpus", "64", "--precision", "bf16,fp8"}).status == 2);
}

TEST_CASE("a deadline is met by the number of GPUs found and missed by the next fewer tried") {
  Args args = args_of("8..256");
  args.tokens = "100B", args.deadline = "12d";
  const PlanSweep sweep = sweep_of(args);
  REQUIRE(sweep.deadline->fewest.has_value());
  CHECK(sweep.deadline->fewest->run->time.value <= 12 * 86400);
  REQUIRE(sweep.deadline->next_fewer.has_value());
  CHECK(sweep.deadline->next_fewer->run->time.value > 12 * 86400);
  CHECK(sweep.deadline->next_fewer->plan->problem.gpus < sweep.deadline->fewest->plan->problem.gpus);
  const int fewest = sweep.deadline->fewest->plan->problem.gpus;
  for (const char* same : {"12", "288h", "288 h", "17280min"}) {
    args.deadline = same;
    CHECK(sweep_of(args).deadline->fewest->plan->problem.gpus == fewest);
  }
  args.deadline = "0.001d";
  CHECK_FALSE(sweep_of(args).deadline->fewest.has_value());
}

TEST_CASE("only points that another beats in everything are off the front") {
  Args args = args_of("64");
  args.gpu = "h100-sxm,b200-sxm";
  const PlanSweep sweep = sweep_of(args);
  REQUIRE(sweep.points.size() == 2);
  CHECK(std::any_of(sweep.points.begin(), sweep.points.end(), [](const SweptPlan& p) { return p.pareto; }));
}

TEST_CASE("all formats have the same points, and the screen fits 80 columns") {
  Args args = args_of("1..64");
  args.gpu = "a100-sxm-40gb";   // one holds no 8 B parameters, with the optimizer on the host or not
  args.framework = "megatron";  // which leaves no weights there
  const PlanSweep sweep = sweep_of(args);
  const json report = json::parse(sweep_json(sweep));
  CHECK(report["schema"] == "plan-sweep/1");
  REQUIRE(report["points"].size() == sweep.points.size());
  CHECK(report["points"][0]["error"]["code"] == "no_layout");
  const std::string text = sweep_text(sweep, Terminal{}), page = sweep_html(sweep), markdown = sweep_markdown(sweep);
  std::istringstream csv(sweep_csv(sweep));
  std::string head, line;
  std::getline(csv, head);
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    REQUIRE(std::getline(csv, line));
    if (!sweep.points[i].plan) {
      CHECK(std::count(line.begin(), line.end(), ',') == std::count(head.begin(), head.end(), ','));
      continue;
    }
    const Plan& plan = *sweep.points[i].plan;
    CHECK(report["points"][i]["best"]["step_time_s"] == plan.best.step_time.value);
    CHECK(line.ends_with(csv_layout(plan.problem, plan.best, price_of(sweep, plan))));
    for (const std::string& where : {text, page, markdown}) {
      CHECK(where.find(seconds_text(plan.best.step_time)) != std::string::npos);
      CHECK(where.find(percent(plan.best.mfu.model_causal)) != std::string::npos);
      CHECK(where.find(count_text(plan.best.tokens_per_s)) != std::string::npos);
    }
  }
  std::istringstream lines(text);
  while (std::getline(lines, line)) CHECK(display_width(line) <= 80);
}

TEST_CASE("every format of a sweep over two axes has the same figures in the same rows") {
  Args args = args_of("16,64");
  args.gpu = "h100-sxm,a100-sxm-80gb", args.tokens = "1T", args.price = "2";
  const PlanSweep sweep = sweep_of(args);
  const json report = json::parse(sweep_json(sweep));
  REQUIRE(report["points"].size() == 4);
  const auto markdown = pages::markdown_tables(sweep_markdown(sweep)), html = pages::tables_of(sweep_html(sweep));
  REQUIRE(markdown.size() == 1);
  REQUIRE(html.size() == 1);
  std::istringstream csv(sweep_csv(sweep)), text(sweep_text(sweep, Terminal{}));
  std::string head, line;
  REQUIRE(std::getline(csv, head));
  CHECK(head.starts_with("swept_"));
  while (std::getline(text, line) && line.find("MFU") == std::string::npos) continue;
  CHECK(line.find("days") != std::string::npos);
  const auto cells = [](const std::string& row) {
    std::vector<std::string> out(1);
    for (const char c : row)
      if (c == ',')
        out.emplace_back();
      else
        out.back() += c;
    return out;
  };
  const std::vector<std::string> names = cells(head);
  for (std::size_t i = 0; i < 4; ++i) {
    const json &point = report["points"][i], &best = point["best"];
    std::string label;
    for (const auto& axis : point["at"].items()) label += (label.empty() ? "" : " ") + axis.value().get<std::string>();
    CAPTURE(label);
    const bool pareto = point["pareto"];
    const std::string step = seconds_text(Seconds(best["step_time_s"].get<double>())),
                      rate = count_text(best["tokens_per_s"]), mfu = percent(best["mfu_ratio"]["model_causal"]),
                      memory = gib(Bytes(best["memory"]["peak_bytes"].get<std::int64_t>())),
                      usd = count_text(point["usd_per_T_tokens"]),
                      days = fmt::format("{:.1f}", point["days"].get<double>());
    const double seconds = 1e12 / best["tokens_per_s"].get<double>();
    CHECK(point["days"].get<double>() == doctest::Approx(seconds / 86400).epsilon(0.001));  // whole steps
    CHECK(point["gpu_hours_per_T_tokens"].get<double>() == doctest::Approx(seconds / 3600 * point["gpus"].get<int>()));
    CHECK(point["usd_per_T_tokens"].get<double>() ==
          doctest::Approx(2 * point["gpu_hours_per_T_tokens"].get<double>()));
    REQUIRE(markdown[0].size() == 5);
    const std::vector<std::string>& m = markdown[0][i + 1];
    CHECK(m[0] == label + (pareto ? " *" : ""));
    CHECK(std::vector<std::string>(m.begin() + 1, m.begin() + 7) ==
          std::vector<std::string>{step, rate, mfu, memory, usd, days});
    const std::vector<std::string>& h = html[0][i + 1];
    CHECK(h == std::vector<std::string>{m[0], m[7], step, rate, mfu, memory, usd});
    REQUIRE(std::getline(text, line));
    CHECK((line[0] == '*') == pareto);
    for (const std::string& shown : {label, step, mfu, memory, usd, days}) CHECK(line.find(shown) != std::string::npos);
    REQUIRE(std::getline(csv, line));
    const std::vector<std::string> row = cells(line);
    const auto column = [&](const std::string& name) {
      return row[static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin())];
    };
    for (const auto& axis : point["at"].items())
      CHECK(column("swept_" + axis.key()) == axis.value().get<std::string>());
    CHECK(column("pareto") == (pareto ? "1" : "0"));
    CHECK(std::stod(column("days")) == point["days"].get<double>());
    CHECK(std::stod(column("step_time_s")) == best["step_time_s"].get<double>());
    CHECK(std::stoi(column("gpus")) == point["gpus"].get<int>());
  }
}

TEST_CASE("the bars of a sweep's chart are as long as the rates beside them") {
  const PlanSweep sweep = sweep_of(args_of("8..512"));
  Terminal terminal;
  terminal.unicode = false;
  const std::string text = sweep_text(sweep, terminal);
  std::istringstream lines(text.substr(text.find("Tokens/s a GPU")));
  std::string line;
  std::getline(lines, line);
  double most = 0, longest = 0;
  std::vector<std::pair<double, double>> drawn;
  for (const SweptPlan& point : sweep.points) {
    if (!point.plan) continue;
    REQUIRE(std::getline(lines, line));
    std::istringstream words(line);
    std::string gpus, bar;
    double rate = 0;
    words >> gpus >> rate >> bar;
    CHECK(gpus == fmt::format("{}", point.plan->problem.gpus));
    CHECK(rate == doctest::Approx(point.plan->best.tokens_per_s_per_gpu).epsilon(0.001));
    drawn.emplace_back(rate, static_cast<double>(bar.size()));
    most = std::max(most, rate), longest = std::max(longest, static_cast<double>(bar.size()));
  }
  CHECK(drawn.size() >= 5);
  CHECK(longest > 40);
  for (const auto& [rate, length] : drawn) CHECK(std::abs(length / longest - rate / most) * longest <= 1);
}

}  // namespace plan
