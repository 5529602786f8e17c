// Screens for people: parts are one empty line apart, however many parts there are and whichever comes first.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "check_files.hpp"

using namespace plan;
using checks::Ran;

TEST_CASE("no screen begins with an empty line, ends with one, or has two of them") {
  const checks::Folder folder;
  folder.write("b.yaml", "budget: 1\nmodel: 8b\ngpus: 16\nlayout: tp2\nlimits:\n  step_time: at most 1 s\n");
  const std::vector<std::string> job{"--model", "8b", "--gpus", "16", "--layout", "tp2,pp2,zero1"};
  const std::vector<std::string> commands[] = {
      {"estimate"}, {"explain", "--all"}, {"explain", "bubble"}, {"explain", "step_time"}, {"explain", "memory.peak"}};
  std::vector<std::vector<std::string>> all{{"check", "--budget", "b.yaml"},  {"list", "gpus"}, {"list", "rules"},
                                            {"show", "formula", "gemm"},      {"--help"},       {"explain", "--help"},
                                            {"--model", "8b", "--gpus", "16"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.end(), job.begin(), job.end());
    all.push_back(words);
  }
  int shown = 0;
  for (const std::vector<std::string>& words : all) {
    const Ran ran = checks::run(words);
    CAPTURE(words.front());
    CAPTURE(words.back());
    CAPTURE(ran.err);
    CHECK((ran.status <= 1 || !ran.err.empty()));
    shown += ran.out.empty() ? 0 : 1;
    CHECK_FALSE(ran.out.starts_with("\n"));
    CHECK_FALSE(ran.out.ends_with("\n\n"));
    CHECK(ran.out.find("\n\n\n") == std::string::npos);
  }
  CHECK(shown >= 10);
}

TEST_CASE("what was captured is counted in words that fit, and shown by its first words") {
  const checks::Folder folder;
  folder.write("one.sh", "python train.py --a 1 --b 2\n");
  folder.write("two.sh", "python train.py --a 1\npython other.py --b 2 --c 3 --d 4 --e 5\n");
  const Ran one = checks::run({"capture", "-o", "one.json", "--", "bash", "one.sh"});
  CHECK(one.status == 0);
  CHECK(one.out ==
        "wrote one.json: 1 program would have been started\n   python train.py --a 1 --b 2\n"
        "read it with `plan estimate --from one.json`\n");
  const Ran two = checks::run({"capture", "-o", "two.json", "--", "bash", "two.sh"});
  CHECK(two.out ==
        "wrote two.json: 2 programs would have been started\n   python train.py --a 1\n"
        "   python other.py --b 2 --c 3 ...\nread it with `plan estimate --from two.json`\n");
  CHECK(checks::run({"capture", "-o", "x.json"}).err.find("needs the command that starts") != std::string::npos);
  CHECK(checks::run({"capture", "--", "bash", "one.sh"}).err.find("`--output` is missing") != std::string::npos);
}
