// `plan diagnose` as a user calls it: logs and traces written here for a job that `plan estimate` prices, healthy or
// with one thing wrong.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "check_files.hpp"
#include "cli/commands/commands.hpp"
#include "tests/temporary_folder.hpp"

using namespace plan;
using PlainJson = nlohmann::json;

namespace {

const std::vector<std::string> kDiagnosed{"--model", "8b",          "--gpus",   "64",       "--global-batch",
                                          "512",     "--framework", "megatron", "--layout", "tp2,pp2,dp16,zero1,mb1"};

std::vector<std::string> with_job(std::vector<std::string> words) {
  words.insert(words.end(), kDiagnosed.begin(), kDiagnosed.end());
  return words;
}

PlainJson estimate() { return PlainJson::parse(checks::run(with_job({"estimate", "--json"})).out)["best"]; }

std::string megatron_log(double seconds, int batch = 512) {
  std::string out;
  for (int i = 1; i <= 30; ++i)
    out += fmt::format(
        " iteration {:8}/ 100 | elapsed time per iteration (ms): {:.1f} | throughput per GPU (TFLOP/s/GPU): 400.0 | "
        "global batch size: {:5} | number of skipped iterations:   0 | number of nan iterations:   0 |\n",
        i, (i == 1 ? 3 : 1) * seconds * 1e3, batch);
  return out;
}

PlainJson diagnosed(std::vector<std::string> words) {
  words.insert(words.begin(), {"diagnose", "--json"});
  const checks::Ran answer = checks::run(with_job(words));
  INFO(answer.err);
  REQUIRE(answer.status == 0);
  return PlainJson::parse(answer.out);
}

}  // namespace

TEST_CASE("diagnose: a run as predicted is healthy, a slow one is not") {
  const TemporaryFolder folder;
  const double step = estimate()["step_time_s"];
  const PlainJson healthy = diagnosed({"--log", folder.write("a.log", megatron_log(step))});
  CHECK(healthy["schema"] == "plan-diagnose/1");
  CHECK(healthy["stands_out"].is_null());
  CHECK(healthy["suspects"].empty());
  CHECK(healthy["steps"]["warm_up"] == 1);
  CHECK(healthy["parts"][0]["measured_s"].get<double>() == doctest::Approx(step).epsilon(1e-3));
  const PlainJson slow = diagnosed({"--log", folder.write("b.log", megatron_log(2 * step))});
  CHECK(slow["stands_out"] == "step");
  CHECK(!slow["suspects"].empty());
}

TEST_CASE("diagnose: what the log shows beside times decides") {
  const TemporaryFolder folder;
  const double step = estimate()["step_time_s"];
  const std::string sockets = "n:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via NET/Socket/0\n";
  const PlainJson json = diagnosed({"--log", folder.write("a.log", sockets + megatron_log(1.4 * step))});
  CHECK(json["suspects"][0]["code"] == "network_slow");
  CHECK(json["suspects"][0]["evidence"].size() == 1);
}

TEST_CASE("diagnose: ranks that differ name the slow one") {
  const TemporaryFolder folder;
  const double step = estimate()["step_time_s"];
  std::vector<std::string> words;
  for (int rank = 0; rank < 4; ++rank)
    words.insert(words.end(),
                 {"--log", folder.write(fmt::format("{}.log", rank), megatron_log((rank == 2 ? 1.9 : 1.6) * step))});
  const PlainJson json = diagnosed(words);
  CHECK(json["suspects"][0]["code"] == "slow_rank");
  CHECK(json["suspects"][0]["evidence"][0]["text"].get<std::string>().find("2.log") != std::string::npos);
}

TEST_CASE("diagnose: a trace splits the step") {
  const TemporaryFolder folder;
  const PlainJson terms = estimate()["terms_s"];
  const double compute = terms["compute"].get<double>() + terms["recompute"].get<double>();
  double at = 0;
  std::string events;
  const auto kernel = [&](const char* name, const char* group, double seconds) {
    events += fmt::format(
        R"(,{{"ph":"X","cat":"kernel","name":"{}","ts":{},"dur":{},"args":{{"Process Group Description":"{}"}}}})",
        name, at * 1e6, seconds * 1e6, group);
    at += seconds;
  };
  kernel("nvjet_gemm", "", compute);
  kernel("ncclDevKernel_AllGather", "TENSOR_MODEL_PARALLEL_GROUP", terms["tp"]);
  kernel("ncclDevKernel_SendRecv", "PIPELINE_MODEL_PARALLEL_GROUP",
         terms["pp"].get<double>() + terms["bubble"].get<double>());
  kernel("ncclDevKernel_ReduceScatter", "DATA_PARALLEL_GROUP", terms["dp"].get<double>() + 0.5 * compute);
  const std::string text = fmt::format(
      R"({{"traceEvents":[{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":{}}}{}]}})", at * 1e6,
      events);
  const PlainJson json = diagnosed({"--trace", folder.write("t.json", text)});
  CHECK(json["stands_out"] == "dp");
  const std::string page = checks::run(with_job({"diagnose", "--trace", folder.at("t.json"), "--format", "html"})).out;
  // The timeline of the measured step, and below it that of the predicted one, on one scale: the longer fills it.
  const auto row = [&](const char* caption) {
    const std::size_t from = page.find(caption);
    REQUIRE(from != std::string::npos);
    return page.substr(from, page.find("</svg>", from) - from);
  };
  const std::string measured = row("as it went"), predicted = row("as a rank of the first stage goes");
  CHECK(page.find("as it went") < page.find("as a rank of the first stage goes"));
  const auto times_in = [](const std::string& text, const std::string& word) {
    int found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  };
  // One kernel of compute was written above; in the predicted step passes alternate with hand-overs.
  CHECK(times_in(measured, "compute</title>") == 1);
  CHECK(times_in(predicted, "compute</title>") > 1);
  CHECK(times_in(predicted, "pipeline</title>") > 1);
  const std::string first = json["suspects"][0]["code"], second = json["suspects"][1]["code"];
  CHECK((first == "slow_rank" || second == "slow_rank" || first == "network_slow"));
}

TEST_CASE("diagnose: a trace without its end counts where whole steps are known, and says so") {
  const TemporaryFolder folder;
  const double step = estimate()["step_time_s"];
  const std::string kernel =
      fmt::format(R"({{"ph":"X","cat":"kernel","name":"nvjet_gemm","ts":1,"dur":{}}},)", step * 9e5);
  const std::string mark =
      fmt::format(R"({{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","ts":0,"dur":{}}},)", step * 1e6);
  const std::string bare = folder.write("bare.json", "{\"traceEvents\":[" + kernel + kernel.substr(0, 20));
  const std::string marked = folder.write("marked.json", "{\"traceEvents\":[" + mark + kernel + kernel.substr(0, 20));
  const checks::Ran refused = checks::run(with_job({"diagnose", "--trace", bare}));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("bare.json") != std::string::npos);
  CHECK(refused.err.find("--log") != std::string::npos);
  const auto said = [](const PlainJson& json) {
    for (const PlainJson& note : json["notes"])
      if (note["code"] == "cut_trace") return true;
    return false;
  };
  CHECK(said(diagnosed({"--trace", marked})));
  CHECK(said(diagnosed({"--trace", bare, "--log", folder.write("a.log", megatron_log(step))})));
}

TEST_CASE("diagnose: memory that ran out, and what would explain it") {
  const TemporaryFolder folder;
  const checks::Ran answer = checks::run(with_job(
      {"diagnose", "--log",
       folder.write(
           "a.log",
           "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of "
           "79.11 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 77.80 GiB memory "
           "in use. Of the allocated memory 60.50 GiB is allocated by PyTorch, and 15.25 GiB is reserved by "
           "PyTorch but unallocated.\n")}));
  CHECK(answer.status == 0);
  CHECK(answer.out.find("expandable_segments") != std::string::npos);
}

// Without what PyTorch allocated, all that is not free would look like another program's.
TEST_CASE("diagnose: memory of others is told only where this process's own is known") {
  const TemporaryFolder folder;
  const auto others = [&](const std::string& own) {
    const checks::Ran answer = checks::run(with_job(
        {"diagnose", "--log",
         folder.write("a.log",
                      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total "
                      "capacity of 79.11 GiB of which 1.25 GiB is free. " +
                          own + "\n")}));
    CHECK(answer.status == 0);
    return answer.out.find("taken by something else") != std::string::npos;
  };
  CHECK(
      others("Of the allocated memory 30.50 GiB is allocated by PyTorch, and 5.25 GiB is reserved by PyTorch but "
             "unallocated."));
  CHECK_FALSE(
      others("Of the allocated memory 70.50 GiB is allocated by PyTorch, and 5.25 GiB is reserved by PyTorch "
             "but unallocated."));
  CHECK_FALSE(others(""));
}

TEST_CASE("diagnose: what cannot be compared is refused") {
  const TemporaryFolder folder;
  const auto refused = [](const std::vector<std::string>& words, const char* why) {
    const checks::Ran answer = checks::run(words);
    CHECK(answer.status == 2);
    CHECK(answer.out.empty());
    CHECK_MESSAGE(answer.err.find(why) != std::string::npos, answer.err);
  };
  refused({"diagnose"}, "needs what was measured");
  refused({"diagnose", "--log", "x.log", "--model", "8b", "--gpus", "8"}, "which layout ran");
  refused(with_job({"diagnose", "--log", folder.at("absent")}), "absent");
  refused(with_job({"diagnose", "--log", folder.write("a.log", "nothing here\n")}), "no line of a training step");
  refused(with_job({"diagnose", "--log", folder.write("b.log", megatron_log(5, 256))}), "is of steps of 256 sequences");
  refused(with_job({"diagnose", "--trace", folder.write("t.json", "{}")}), "no kernel");
  refused(with_job({"diagnose", "--log", folder.write("c.log", megatron_log(0.01))}), "at the peak of 64 x");
  const std::string memory =
      "[Rank 0] memory (MB) | allocated: 1.0 | max allocated: 200000.0 | max reserved: 210000.0\n";
  refused(with_job({"diagnose", "--log", folder.write("m.log", megatron_log(10) + memory)}), "205.1 GiB of a GPU");
  std::string rate = megatron_log(10);
  for (std::size_t at = 0; (at = rate.find(": 400.0", at)) != std::string::npos;) rate.replace(at, 7, ": 4e5  ");
  refused(with_job({"diagnose", "--log", folder.write("r.log", rate)}), "prints 4e+05 TFLOP/s");
  refused(with_job({"diagnose", "--log", folder.at("r.log")}), "--precision, --gpu and --gpus of the run");
  // nanotron counts a batch in tokens, rounded to three digits; its early releases in sequences.
  const auto nanotron = [&](const char* batch) {
    std::string text;
    for (int i = 0; i < 20; ++i)
      text += fmt::format("iteration: {} / 100 | time_per_iteration_ms: {}K | global_batch_size: {} | lm_loss: 2\n", i,
                          estimate()["step_time_s"].get<double>(), batch);
    return folder.write("n.log", text);
  };
  for (const char* same : {"4.19M", "512"})
    CHECK(checks::run(with_job({"diagnose", "--log", nanotron(same)})).status == 0);
  refused(with_job({"diagnose", "--log", nanotron("2.1M")}), "sequences or tokens");
}

TEST_CASE("diagnose: a rate that counts all of attention may lie above the peak where sequences are long") {
  const TemporaryFolder folder;
  const auto status = [&](const char* seq, const char* rate) {
    std::string log = megatron_log(500, 64);
    for (std::size_t at = 0; (at = log.find(": 400.0", at)) != std::string::npos;)
      log.replace(at, 7, fmt::format(": {}", rate));
    return checks::run({"diagnose", "--log", folder.write("long.log", log), "--model", "8b", "--gpus", "64",
                        "--global-batch", "64", "--seq", seq, "--framework", "megatron", "--layout",
                        "tp8,cp4,dp2,zero1,mb1,recompute=full"})
        .status;
  };
  CHECK(status("131072", "1010.0") == 0);
  CHECK(status("131072", "1010.0e3") == 2);
  CHECK(status("4096", "1010.0e3") == 2);
}

TEST_CASE("a diagnosed run is appended as a row that validates") {
  const TemporaryFolder folder;
  const double step = estimate()["step_time_s"].get<double>();
  const std::string csv = (folder.path() / "own.csv").string();
  for (const char* name : {"one.log", "two.log", "two.log"}) {
    const std::string log = folder.write(name, megatron_log(1.1 * step));
    const checks::Ran answer = checks::run(with_job({"diagnose", "--log", log, "--append", csv}));
    CAPTURE(answer.err);
    REQUIRE(answer.status == 0);
  }
  const checks::Ran validated = checks::run({"validate", csv, "--json"});
  CAPTURE(validated.err);
  REQUIRE(validated.status == 0);
  const PlainJson report = PlainJson::parse(validated.out);
  CHECK(report["rows"] == 3);  // one of them twice, which counts once
  CHECK(report["scored"] == 2);
  CHECK(report["overall"]["step_time"]["median_ape"].get<double>() == doctest::Approx(0.1 / 1.1).epsilon(0.3));
}

TEST_CASE("every format of a diagnosis says what nobody stated, in its first lines") {
  const TemporaryFolder folder;
  const std::string log = folder.write("a.log", megatron_log(estimate()["step_time_s"].get<double>()));
  for (const char* format : {"human", "markdown", "github", "html"}) {
    CAPTURE(format);
    const checks::Ran answer = checks::run(with_job({"diagnose", "--log", log, "--format", format}));
    REQUIRE(answer.status == 0);
    const std::size_t said = answer.out.find("not stated");
    REQUIRE(said != std::string::npos);
    CHECK(said < answer.out.find("predicted  "));
  }
  const PlainJson json = diagnosed({"--log", log});
  CHECK_FALSE(json["unstated"].empty());
  CHECK(json.contains("unused"));
  const std::string page = checks::run(with_job({"diagnose", "--log", log, "--format", "html"})).out;
  CHECK(page.find("<svg") != std::string::npos);
  CHECK(page.find("<script") == std::string::npos);
}

TEST_CASE("every format of a diagnosis says what is suspected, that nothing is, and where memory ran out") {
  const TemporaryFolder folder;
  const double step = estimate()["step_time_s"];
  const std::string oom =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of "
      "79.11 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 77.80 GiB memory "
      "in use. Of the allocated memory 60.50 GiB is allocated by PyTorch, and 15.25 GiB is reserved by "
      "PyTorch but unallocated.\n";
  const std::string ran_out = folder.write("oom.log", oom);
  const auto flat = [](const std::string& text) {  // lines are as long as each format likes
    std::string out;
    for (const char c : text)
      if (c != '\n' || out.empty() || out.back() != ' ') out += c == '\n' ? ' ' : c;
    for (std::size_t at = out.find("  "); at != std::string::npos; at = out.find("  ")) out.erase(at, 1);
    return out;
  };
  for (const double slower : {1.0, 0.6, 2.0, 400.0}) {
    const std::string log = folder.write("a.log", megatron_log(slower * step));
    const PlainJson json = diagnosed({"--log", log});
    for (const char* format : {"human", "markdown", "html"}) {
      CAPTURE(format);
      CAPTURE(slower);
      const std::string text = flat(checks::run(with_job({"diagnose", "--log", log, "--format", format})).out);
      for (std::size_t i = 0; i < std::min<std::size_t>(4, json["suspects"].size()); ++i)
        CHECK(text.find(json["suspects"][i]["what"].get<std::string>().substr(0, 30)) != std::string::npos);
      const bool none = text.find("no fault that plan knows explains it") != std::string::npos;
      CHECK(none == (!json["stands_out"].is_null() && json["suspects"].empty()));
      CHECK((text.find("Nothing stands out") != std::string::npos) == json["stands_out"].is_null());
    }
  }
  for (const char* format : {"human", "markdown", "html"})
    CHECK(checks::run(with_job({"diagnose", "--log", ran_out, "--format", format})).out.find("Out of memory at") !=
          std::string::npos);
}
