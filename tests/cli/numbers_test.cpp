#include "cli/terminal/numbers.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "presets/quantity.hpp"

using namespace plan;

TEST_CASE("counts") {
  CHECK(read_count("--gpus", "16384", 1, 1 << 24).value() == 16384);
  CHECK(read_count("--gpus", "16k", 1, 1 << 24).value() == 16384);
  CHECK(read_count("--seq", "128K", 1, 1 << 24).value() == 131072);
  CHECK(read_count("--seq", "128Ki", 1, 1 << 24).value() == 131072);
  CHECK(read_count("--seq", "1Mi", 1, 1 << 24).value() == 1 << 20);
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

TEST_CASE("a number with separators of thousands is refused with the number to write, whatever it counts") {
  std::mt19937 random(11);
  const auto any = [&](int least, int most) { return std::uniform_int_distribution<int>(least, most)(random); };
  for (int round = 0; round < 400; ++round) {
    const int groups = any(1, 3);
    std::string plain = std::to_string(any(1, 999)), typed = plain;
    const char separator = ",_' "[any(0, 3)];
    for (int i = 0; i < groups; ++i) {
      const std::string group = fmt::format("{:03}", any(0, 999));
      plain += group, typed += separator + group;
    }
    CAPTURE(typed);
    // What is refused for its size without separators, too, has that said of it.
    const auto helps = [&](const auto& read, const auto& meant, const std::string& word) {
      REQUIRE_FALSE(read.has_value());
      if (!meant) {
        CHECK(read.error() == meant.error());
        return;
      }
      REQUIRE(read.error().front().help.size() == 1);
      CHECK_MESSAGE(read.error().front().help[0].find(word) != std::string::npos, read.error().front().help[0]);
    };
    const auto count = [](const char* flag, const std::string& text) { return read_count(flag, text, 1, 1 << 24); };
    helps(count("--seq", typed), count("--seq", plain), fmt::format("`--seq {}`", plain));
    helps(count("layers=", typed), count("layers=", plain), fmt::format("write `{}`", plain));
    helps(read_amount("--tokens", typed + "B"), read_amount("--tokens", plain + "B"),
          fmt::format("`--tokens {}B`", plain));
    for (const auto& [unit, quote] : {std::pair{"", ""}, {" tokens", "'"}})
      helps(read_global_batch(typed + unit, 64), read_global_batch(plain + unit, 64),
            fmt::format("`--global-batch {1}{0}{2}{1}`", plain, quote, unit));
    CHECK(without_separators(typed + " MiB") == plain + " MiB");
    CHECK_FALSE(without_separators(plain).has_value());
  }
  for (const char* other :
       {"", "8", "8192", "1,2", "12,34", "1234,567", "tp8,pp4", "64,", "2.5", "-1,000", "8 GiB", "1e3"})
    CHECK_FALSE(without_separators(other).has_value());
}

TEST_CASE("a power of two in thousands is asked about, and never another number in silence") {
  for (std::int64_t power = 1 << 10; power <= 1 << 26; power *= 2)
    for (const double thousands :
         {std::floor(static_cast<double>(power) / 1000), std::round(static_cast<double>(power) / 1000)}) {
      const std::string typed = fmt::format("{:.0f}k", thousands);
      CAPTURE(typed);
      const Result<std::int64_t> read = read_count("--seq", typed, 1, 1 << 27);
      if (read) {
        CHECK(*read == power);
        continue;
      }
      CHECK(read.error().front().help.front() == fmt::format("write `--seq {}k`", power / 1024));
      CHECK(read_count("--seq", fmt::format("{}k", power / 1024), 1, 1 << 27) == power);
    }
  for (const auto& [typed, count] : {std::pair{"100k", 102400}, {"24k", 24576}, {"131Ki", 134144}})
    CHECK(read_count("--gpus", typed, 1, 1 << 27) == count);
}

TEST_CASE("millions alone are asked about, with what they come to as tokens") {
  for (const auto& [text, seq, sequences] : {std::tuple{"4M", 8192, 512}, {"4Mi", 4096, 1024}, {"1G", 8192, 131072}}) {
    const Result<std::int64_t> read = read_global_batch(text, seq);
    REQUIRE_FALSE(read.has_value());
    const std::string help = read.error().front().help.front();
    CHECK_MESSAGE(
        help.find(fmt::format("'{} tokens'`, which are {} sequences of {}", text, sequences, seq)) != std::string::npos,
        help);
    CHECK(read_global_batch(std::string(text) + " tokens", seq) == sequences);
  }
  CHECK(read_global_batch("5M", 8192).error().front().help.front().find("--global-batch 610") == 0);
}

TEST_CASE("amounts") {
  CHECK(read_amount("--tokens", "15.6T").value() == doctest::Approx(15.6e12));
  CHECK(read_amount("--price", "2.5").value() == doctest::Approx(2.5));
  CHECK_FALSE(read_amount("--tokens", "many").has_value());
  CHECK_FALSE(read_amount("--tokens", "-1T").has_value());
}

TEST_CASE("a number in other people's writing is refused with one that is taken and means the same") {
  struct Case {
    const char *flag, *text, *help;
  };
  for (const Case& one : {Case{"--tokens", "15 trillion tokens", "write `--tokens 15T`"},
                          {"--tokens", "300 bn", "write `--tokens 300B`"},
                          {"--price", "$2.50/h", "write `--price 2.50`"},
                          {"--price", "2,5", "write `--price 2.5`"},
                          {"--price", "3 USD/hour", "write `--price 3`"}}) {
    CAPTURE(one.text);
    const Result<double> read = read_amount(one.flag, one.text);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().front().help == std::vector<std::string>{one.help});
  }
  for (const Case& one : {Case{"--gpus", "64 GPUs", "write `--gpus 64`"},
                          {"--seq", "8k tokens", "write `--seq 8k`"},
                          {"--seq", "8 thousand", "write `--seq 8000`"}}) {
    CAPTURE(one.text);
    const Result<std::int64_t> read = read_count(one.flag, one.text, 1, 1 << 24);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().front().help == std::vector<std::string>{one.help});
  }
  for (const char* text : {"16 million tokens", "16,000,000 tokens"}) {
    const Result<std::int64_t> read = read_global_batch(text, 8000);
    REQUIRE_FALSE(read.has_value());
    CHECK(read.error().front().help == std::vector<std::string>{"write `--global-batch '16000000 tokens'`"});
  }
  CHECK(read_global_batch("16 million tokens", 8192).error() == read_global_batch("16000000 tokens", 8192).error());
  CHECK(read_amount("--tokens", "15TB").error().front().help.front().starts_with("bytes of text are no tokens"));
  const auto headroom = [](const char* text) { return read_headroom(text).error().front().help; };
  CHECK(headroom("80G") == std::vector<std::string>{"write `--headroom 80GiB`", "write `--headroom 80GB`"});
  CHECK(headroom("4") == std::vector<std::string>{"write `--headroom 4GiB`", "write `--headroom 4%`"});
  for (const char* text : {"5 percent", "0.05", "5 pct"})
    CHECK(headroom(text) == std::vector<std::string>{"write `--headroom 5%`"});
  CHECK(read_global_batch("16M Tokens", 8192).value() == 2048);
  CHECK(read_global_batch("2048 sequences", 8192).value() == 2048);
}

TEST_CASE("memory of a node is read as a cluster's file states it, and a bare number counts GiB") {
  for (const double gib : {1.0, 512.0, 960.0, 2048.0, 4096.0}) {
    const Bytes bytes(std::llround(gib * kGiB));
    CHECK(read_host_memory(fmt::format("{:.0f}", gib)).value() == bytes);
    CHECK(read_host_memory(fmt::format("{:.0f}GiB", gib)).value() == bytes);
    CHECK(read_host_memory(fmt::format("{} TiB", gib / 1024)).value() == bytes);
    CHECK(read_host_memory(format_quantity(static_cast<double>(bytes.value), Dimension::Bytes)).value() == bytes);
  }
  CHECK(read_host_memory("960 GB").value() == Bytes(960'000'000'000));
  for (const char* none : {"", "much", "0", "-5", "1e30", "0.5x", "5%", "2,048", "512G", "inf", "nan"}) {
    CAPTURE(std::string(none));
    const Result<Bytes> read = read_host_memory(none);
    REQUIRE_FALSE(read);
    CHECK_FALSE(read.error().front().help.empty());
  }
  CHECK(read_host_memory("512G").error().front().help ==
        std::vector<std::string>{"write `--host-memory 512GiB`", "write `--host-memory 512GB`"});
  CHECK(read_host_memory("0.5x").error().front().help.front().find("plan sweep --host-memory") != std::string::npos);
}
