// One mistake of who types a command is one error that says what works; and what an answer hangs on is told where the
// answer looks right.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/commands/commands.hpp"
#include "formulas/textbook/catalog.hpp"
#include "temporary_folder.hpp"

using namespace plan;

namespace {

using Json = nlohmann::ordered_json;

struct Typed {
  int status = 0;
  std::string out{}, err{};
};

/// Words of a text, whatever lines it is broken into.
std::string unwrapped(const std::string& text) {
  std::istringstream words(text);
  std::string out;
  for (std::string word; words >> word;) out += (out.empty() ? "" : " ") + word;
  return out;
}

Typed typed(const std::vector<std::string>& words) {
  Streams streams;
  const int status = run_command_line(words, streams);
  return {status, unwrapped(streams.out), unwrapped(streams.err)};
}

int errors_told(const std::string& err) {
  int count = 0;
  for (std::size_t at = err.find("error: "); at != std::string::npos; at = err.find("error: ", at + 1)) ++count;
  return count;
}

bool tells_of(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::vector<std::string> kSmallJob = {"--model",        "llama3-8b", "--gpus",   "8",
                                            "--gpu",          "h100-sxm",  "--seq",    "4096",
                                            "--global-batch", "64",        "--layout", "zero3,recompute=full"};

std::vector<std::string> with_small_job(std::vector<std::string> words) {
  words.insert(words.end(), kSmallJob.begin(), kSmallJob.end());
  return words;
}

}  // namespace

TEST_CASE("a symbol that a formula lacks is one mistake, and one in another case is proposed") {
  for (const CatalogEntry& entry : catalog()) {
    const std::string name(entry.formula.name);
    const Typed strange = typed({"formula", name, "--set", "no_such_symbol=1"});
    CAPTURE(strange.err);
    CHECK(strange.status == 2);
    CHECK(errors_told(strange.err) == 1);
  }
  CHECK(tells_of(typed({"formula", "mfu", "--set", "f=1e15,T=1"}).err, "write `F`"));
}

TEST_CASE("a number given to --gpu is the number of GPUs, and nothing else is amiss") {
  for (const std::string number : {"1000", "16384", "96"}) {
    const Typed refused = typed({"--model", "8b", "--gpu", number});
    CAPTURE(refused.err);
    CHECK(refused.status == 2);
    CHECK(errors_told(refused.err) == 1);
    CHECK(tells_of(refused.err, "`--gpus " + number + "`"));
  }
}

TEST_CASE("a fraction of a token lacks the letter of its size, and what is proposed is taken") {
  for (const std::string number : {"15.6", "0.5", "1.4e0"}) {
    std::vector<std::string> words = with_small_job({"estimate", "--tokens", number});
    const Typed refused = typed(words);
    CAPTURE(refused.err);
    CHECK(refused.status == 2);
    CHECK(errors_told(refused.err) == 1);
  }
  CHECK(typed(with_small_job({"estimate", "--tokens", "15.6T"})).status == 0);
}

TEST_CASE("a network that ends before the job does is refused, and one that holds it is not") {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& outer) {
    return folder.write("c.yaml",
                        "preset: cluster/1\nname: c\ngpu: h100-sxm\ngpus_per_node: 8\ntiers:\n"
                        "  - {name: nvlink, size: 8, bandwidth: 450 GB/s}\n" +
                            outer);
  };
  const auto asked = [&](const std::string& cluster, const std::string& gpus) {
    return typed({"estimate", "--model", "llama3-8b", "--cluster", cluster, "--gpus", gpus, "--global-batch", "64",
                  "--layout", "zero3,recompute=full"});
  };
  const std::string inside = file("");
  CHECK(asked(inside, "8").status == 0);
  CHECK(tells_of(asked(inside, "16").err, "its outermost tier `nvlink` holds 8"));
  const std::string bounded = file("  - {name: ib, size: 32, bandwidth: 50 GB/s}\n");
  CHECK(asked(bounded, "32").status == 0);
  CHECK(errors_told(asked(bounded, "64").err) == 1);
  const std::string fast = file("  - {name: ib, size: all, bandwidth: 400 GB/s}\n");
  CHECK(tells_of(asked(fast, "64").out, "are they Gb/s, 50 GB/s?"));
  const std::string usual = file("  - {name: ib, size: all, bandwidth: 400 Gb/s}\n");
  CHECK_FALSE(tells_of(asked(usual, "64").out, "are they Gb/s"));
}

TEST_CASE("an explanation in JSON says whose figures it explains") {
  Streams streams;
  run_command_line(with_small_job({"explain", "mfu", "--json", "--framework", "torchtitan"}), streams);
  CHECK(Json::parse(streams.out)["framework"] == "torchtitan");
}

TEST_CASE("limits since a baseline of another job are told to be of one, where all of them hold") {
  const TemporaryFolder folder;
  const std::string budget = folder.write("b.yaml",
                                          "budget: 1\nmodel: llama3-8b\ngpus: 8 x h100-sxm\nseq: 4096\n"
                                          "global_batch: 64\nlayout: zero3,recompute=full\nsince_baseline:\n"
                                          "  memory.peak: at most +2 %\n");
  const auto checked = [&](std::vector<std::string> job) {
    job.insert(job.begin(), "estimate");
    job.insert(job.end(), {"--json"});
    Streams streams;
    run_command_line(job, streams);
    const std::string baseline = folder.write("base.json", streams.out);
    return typed({"check", "--budget", budget, "--baseline", baseline});
  };
  CHECK_FALSE(tells_of(checked(kSmallJob).out, "other inputs"));
  const Typed other = checked({"--model", "llama3-70b", "--gpus", "64", "--gpu", "h100-sxm", "--seq", "4096",
                               "--global-batch", "64", "--layout", "tp8"});
  CHECK(other.status == 0);
  CHECK(tells_of(other.out, "model llama3-70b -> llama3-8b, gpus 64 -> 8"));
}

TEST_CASE("a row of runs whose step is far beyond what is predicted is scored with a remark") {
  const TemporaryFolder folder;
  const std::string head =
      "id,model,gpu,gpus,seq,global_batch,micro_batch,tp,pp,zero,recompute,precision,framework,status,";
  const std::string row = "\nr,llama3-8b,h100-sxm,8,8192,128,1,1,1,3,full,bf16,FSDP2,";
  const auto validated = [&](const std::string& column, const std::string& rest) {
    return typed({"validate", folder.write("r.csv", head + column + row + rest + "\n")});
  };
  for (const std::string seconds : {"18.2", "30"})
    CHECK_FALSE(tells_of(validated("step_time_s", "ok," + seconds).out, "are they seconds"));
  for (const std::string seconds : {"7000", "18200"}) {
    const Typed slow = validated("step_time_s", "ok," + seconds);
    CHECK(tells_of(slow.out, "are they seconds"));
    CHECK(tells_of(slow.out, "1 scored"));
  }
  CHECK(tells_of(validated("step_time_s", ",18.2").out, "no status: write `ok`"));
  CHECK(tells_of(validated("mfu", "ok,0.38").out, "without a `flops_convention`"));
  const Typed whole = validated("tokens_per_s", "ok,58000");
  CHECK(errors_told(whole.err) == 1);
  CHECK(tells_of(whole.err, "of the whole job"));
  CHECK(errors_told(typed({"validate", folder.write("n.csv", row.substr(1) + "ok,18.2\n")}).err) == 1);
}

TEST_CASE("a flag without its dashes is proposed with them, and what is proposed is taken") {
  for (const std::string word : {"model=8b", "gpus=16", "seq=4096", "precision=bf16"}) {
    const Typed refused = typed({"estimate", word});
    const std::size_t equals = word.find('=');
    CAPTURE(refused.err);
    CHECK(tells_of(refused.err, "write `--" + word.substr(0, equals) + " " + word.substr(equals + 1) + "`"));
  }
}

TEST_CASE("a utilisation above 1 is told to be none, and a price in other money to be in dollars") {
  CHECK(tells_of(typed({"formula", "mfu", "--set", "F=1e16,T=1"}).out, "above 1"));
  CHECK_FALSE(tells_of(typed({"formula", "mfu", "--set", "F=1e14,T=1"}).out, "above 1"));
  CHECK(tells_of(typed(with_small_job({"estimate", "--tokens", "1T", "--price", "2 EUR"})).err, "US dollars"));
  CHECK(
      tells_of(typed(with_small_job({"estimate", "--tokens", "1T", "--gpu-mtbf", "50700"})).err, "--gpu-mtbf 50700h"));
}

TEST_CASE("layers multiplied by a star are proposed with an x, and what is proposed is taken") {
  for (const std::string layers : {"4*8", "2*4+3*8", "8+2*8+8"}) {
    std::string meant = layers;
    std::replace(meant.begin(), meant.end(), '*', 'x');
    std::vector<std::string> words = with_small_job({"estimate"});
    words.back() = "pp4,layers=" + layers;
    CHECK(tells_of(typed(words).err, "`layers=" + meant + "`"));
    words.back() = "pp4,layers=" + meant;
    const Typed right = typed(words);
    CHECK_FALSE(tells_of(right.err, "needs a whole number"));
  }
}
