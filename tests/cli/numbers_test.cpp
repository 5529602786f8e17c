#include "cli/terminal/numbers.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace plan;

TEST_CASE("counts") {
  CHECK(read_count("--gpus", "16384", 1, 1 << 24).value() == 16384);
  CHECK(read_count("--gpus", "16k", 1, 1 << 24).value() == 16384);
  CHECK(read_count("--seq", "128K", 1, 1 << 24).value() == 131072);
  for (const char* bad : {"", "x", "1.5", "-5", "0", "1e30", "99999999999999999999", "nan", "inf", "1 2", "0x10"}) {
    CAPTURE(bad);
    CHECK_FALSE(read_count("--gpus", bad, 1, 1 << 24).has_value());
  }
  CHECK(read_count("--gpus", "-5", 1, 9).error()[0].message == "`--gpus` must be at least 1, got `-5`");
}

TEST_CASE("a batch in sequences or tokens") {
  struct Row {
    const char* text;
    std::int64_t seq;
    std::int64_t sequences;  ///< 0: refused
  };
  // 16M tokens of 8192 are Llama 3's 2048 sequences; 63M does not divide.
  for (const Row& row : {Row{"2048", 8192, 2048},
                         {"16M tokens", 8192, 2048},
                         {"16Mtokens", 8192, 2048},
                         {"4M tokens", 4096, 1024},
                         {"16777216 tokens", 8192, 2048},
                         {"3M tokens", 1000, 3000},
                         {"3Mi tokens", 4096, 768},
                         {"63M tokens", 4096, 0},
                         {"tokens", 4096, 0},
                         {"x tokens", 1, 0},
                         {"1 tokens", 4096, 0},
                         {"0", 4096, 0},
                         {"-1M tokens", 4096, 0},
                         {"1e40 tokens", 1, 0}}) {
    CAPTURE(row.text);
    const Result<std::int64_t> batch = read_global_batch(row.text, row.seq);
    CHECK(batch.value_or(0) == row.sequences);
  }
  const Errors errors = read_global_batch("63M tokens", 4096).error();
  REQUIRE(errors[0].help.size() == 2);
  CHECK(errors[0].help[0].find("--global-batch 15360") == 0);
}

TEST_CASE("amounts") {
  CHECK(read_amount("--tokens", "15.6T").value() == doctest::Approx(15.6e12));
  CHECK(read_amount("--price", "2.5").value() == doctest::Approx(2.5));
  CHECK_FALSE(read_amount("--tokens", "many").has_value());
  CHECK_FALSE(read_amount("--tokens", "-1T").has_value());
}
