// What Galvatron's strategy files cannot say of a layout, each thing by itself, and that nothing else is refused.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "planner/rules/frameworks.hpp"
#include "planner/rules/galvatron.hpp"
#include "planner/small_job.hpp"

using namespace plan;
using namespace plan::small;

TEST_CASE("Galvatron runs what its files can say, and lacks each other thing by its name") {
  Problem problem = small_job();
  problem.training.precision = Precision::Bf16;
  Layout plain;
  plain.tp = 2, plain.pp = 2, plain.dp = 2, plain.zero = 2;
  CHECK(galvatron_lacks(problem, plain).text.empty());
  const auto lacks = [&](auto change) {
    Layout layout = plain;
    change(layout);
    return galvatron_lacks(problem, layout).text;
  };
  CHECK(lacks([](Layout& l) { l.zero = 0; }).empty());
  CHECK(lacks([](Layout& l) { l.zero = 3; }).empty());
  CHECK(lacks([](Layout& l) { l.recompute.kind = RecomputeKind::Full; }).empty());
  CHECK(lacks([](Layout& l) { l.schedule = Schedule::GPipe; }).empty());
  CHECK(lacks([](Layout& l) { l.cp = 2, l.dp = 1; }).empty());
  CHECK(lacks([](Layout& l) { l.shard = l.dense_group(); }).empty());
  CHECK(lacks([](Layout& l) { l.zero = 1; }).find("no key for zero 1") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.shard = 1; }).find("all of dp * cp") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.vp = 2; }).find("one chunk a stage") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.schedule = Schedule::ZbV; }).find("1f1b or gpipe") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.ep = 2; }).find("without expert parallelism") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.etp = 2; }).find("without expert parallelism") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.order = AxisOrder::DataOutermost; }).find("pipeline outermost") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.recompute.kind = RecomputeKind::Selective; }).find("whole layers") !=
        std::string::npos);
  for (const CpKind kind : {CpKind::AllGather, CpKind::Ulysses, CpKind::Hybrid})
    CHECK(lacks([&](Layout& l) { l.cp = 2, l.dp = 1, l.cp_kind = kind; }).find("context ring") != std::string::npos);
  CHECK(lacks([](Layout& l) { l.tp = 1, l.cp = 2, l.cp_kind = CpKind::Ulysses; }).empty());
  for (const Precision precision : {Precision::Fp16, Precision::Fp32, Precision::Fp8Delayed}) {
    problem.training.precision = precision;
    CHECK(galvatron_lacks(problem, plain).text.find("has no key for") != std::string::npos);
  }
}

TEST_CASE("a framework is found by each of its names, and by no part of one") {
  int aliases = 0;
  for (const FrameworkRow& row : frameworks()) {
    CHECK(find_framework(row.name) == row.framework);
    std::istringstream words{std::string(row.aliases)};
    for (std::string word; words >> word; ++aliases) {
      CAPTURE(word);
      CHECK(framework_called(word) == row.framework);
      CHECK_FALSE(framework_called(word + "x").has_value());
      if (word.size() > 3) CHECK(framework_called(word.substr(1)) != row.framework);
    }
  }
  CHECK(aliases > 5);
  CHECK_FALSE(framework_called("").has_value());
}
